//! What machines with GPUs cost: a catalogue with dates and sources, ledgers of who pays for what, and sums that are exact to the cent.
#![warn(clippy::disallowed_methods)]

mod catalogue;
mod fleet;
mod ledger;
mod money;

pub use catalogue::{CATALOGUE, Host, InstanceType, PriceList, Provider};
pub use fleet::{Hours, fleet_cost};
pub use ledger::{
    Account, Bill, By, Cost, GpuTime, Ledger, Millis, NodeTime, Parts, SliceTime, dominant, in_cents,
    replica, stranded,
};
pub use money::{Money, Rate};
