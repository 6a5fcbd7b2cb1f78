//! Refuses claims with configs that could never be prepared, when they are written rather than when their pods wait.
//!
//! ```text
//!   API server ──▶ door: HTTPS, certificates that change ──▶ review: pure, the object and what is wrong with it
//! ```
//! The same decoder reads the configs again when a claim is prepared, so both say the same.

#[cfg(feature = "server")]
mod certificate;
#[cfg(feature = "server")]
mod door;
mod review;

#[cfg(feature = "server")]
pub use certificate::CertificateError;
#[cfg(feature = "server")]
pub use door::{WebhookError, WebhookOptions, run};
pub use review::{is_review, review};
