//! What machines with GPUs cost: a catalogue with dates and sources, ledgers of who pays for what, and sums that are exact to the cent.
#![warn(clippy::disallowed_methods)]

mod catalogue;
mod fleet;
mod ledger;
mod money;
mod prices;
mod told;

pub use catalogue::{CATALOGUE, Host, InstanceType, PriceList, Provider};
pub use fleet::{Hours, fleet_cost};
pub use ledger::{
    API_VERSION, Account, AccountDocument, Bill, By, Cost, DocumentError, GpuTime, Ledger, LedgerDocument,
    Millis, NodeTime, Parts, PriceDocument, RowDocument, SliceTime, Span, dominant, in_cents, replica,
    stranded,
};
pub use money::{Money, Rate};
pub use prices::{Price, PriceError, Prices};
pub use told::{
    Aggregate, AggregateError, CostReport, CostRow, Covered, NodePrice, Question, Step, Window, WindowError,
    WrongQuestion, moment, opencost,
};
