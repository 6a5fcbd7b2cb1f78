//! Makes the devices of claims ready on a node, and takes them back.
//!
//! ```text
//!   kubelet ──▶ registration socket ─┐
//!   kubelet ──▶ service socket ──────┤ server: both sockets, bound again when they vanish
//!                                    └─▶ calls: one piece of work for each claim, however often kubelet asks ──▶ Driver
//! ```

mod calls;
mod health;
mod kept;
mod places;
mod server;
mod services;
mod stale;

pub use places::{PlacesError, SocketPlaces};
pub use server::{Driver, Pace, Registered, ServeError, serve, serve_at};
