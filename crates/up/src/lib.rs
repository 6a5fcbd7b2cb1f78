//! `carve up`: a cluster in one process, its dashboard and its objects behind one address.
//!
//! ```text
//!   ADDRESS/             the page
//!   ADDRESS/api/v1/…     what the page asks
//!   ADDRESS/kubernetes/TOKEN/…  the objects, as an API server has them; a kubeconfig beside them has the token
//! ```

mod demo;
mod place;
mod serve;

pub use place::{Place, Running};
pub use serve::{Up, UpError, UpOptions, Wanted};
