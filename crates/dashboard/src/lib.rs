//! The page that people keep open, and the JSON behind it: a fleet as its slices, live, in the past, and as it could be.
//!
//! ```text
//!   Backend: pictures, objects, books ──▶ live: versions, changes, the last hours ──▶ stream, picture, history
//!                    │                                                                        │
//!                    └──▶ advice, what-if, cost, changes ─────────────────────────────────────┴──▶ the page (page/), carve top
//! ```
//! It serves one machine and a cluster alike. Who may ask, and who may change something, is decided in `guard`.

mod advice;
mod api;
mod asked;
mod backend;
mod changes;
mod failure;
mod guard;
mod live;
mod objects;
mod openapi;
mod page;
mod record;
mod what_if;

pub use backend::{About, Backend, Kind};
pub use guard::Access;
pub use live::Live;

use axum::Router;
use axum::middleware::from_fn_with_state;
use std::sync::Arc;

/// The page, and everything that it asks.
pub fn routes(backend: Arc<dyn Backend>, live: Live, access: Access) -> Router {
    let access = Arc::new(access);
    api::routes(backend, live)
        .layer(from_fn_with_state(Arc::clone(&access), guard::api))
        .merge(page::routes().layer(from_fn_with_state(access, guard::page)))
}
