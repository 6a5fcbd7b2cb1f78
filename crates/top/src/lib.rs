//! A fleet in a terminal: GPUs, their slices, what was promised and what is used.
//!
//! ```text
//!   Picture ──▶ rows: filtered, sorted, in words ──┬──▶ once: lines of text
//!                                                   └──▶ screen: drawn again and again; keys: what is shown and in which order
//! ```
//! [`rows`] and [`keys`] are pure; [`screen`] draws them with whatever terminal it is given, so tests look at what people see.

pub mod keys;
mod once;
mod rows;
mod screen;

pub use keys::{Key, View};
pub use once::once;
pub use rows::{Row, Sort, rows};
pub use screen::draw;
