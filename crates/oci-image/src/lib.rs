//! Container images without a registry or a container engine: files in, an OCI layout in a tar file out, the same bytes every time.
//!
//! ```text
//!  Image (linux/amd64) ─┐
//!                       ├─▶ layout ─▶ index.json ─▶ an index of platforms ─▶ manifest ─▶ config, one layer each
//!  Image (linux/arm64) ─┘
//! ```
//! Nothing here reads a file or a clock: what goes into an image is given, and what comes out is bytes.
#![warn(clippy::disallowed_methods)]

mod archive;
mod image;
mod layout;

pub use archive::{Archive, ArchiveError, gzip};
pub use image::{Architecture, Image};
pub use layout::{layout, sha256};
