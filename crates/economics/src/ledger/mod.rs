//! Ledgers: what a machine costs, divided among those who had its GPUs, and what nobody had. Rows always sum up to the price.

mod amount;
mod book;
mod cents;
mod document;
mod interval;

pub use amount::{Cost, Millis, Parts};
pub use book::{Bill, By, Ledger};
pub use cents::in_cents;
pub use document::{
    API_VERSION, AccountDocument, DocumentError, LedgerDocument, PriceDocument, RowDocument, Span,
};
pub use interval::{Account, GpuTime, NodeTime, SliceTime, dominant, replica, stranded};
