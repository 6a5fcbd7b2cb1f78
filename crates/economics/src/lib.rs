//! What machines with GPUs cost: a catalogue with dates and sources, and sums that are exact to the cent.
#![warn(clippy::disallowed_methods)]

mod catalogue;
mod fleet;
mod money;

pub use catalogue::{CATALOGUE, Host, InstanceType, PriceList, Provider};
pub use fleet::{Hours, fleet_cost};
pub use money::{Money, Rate};
