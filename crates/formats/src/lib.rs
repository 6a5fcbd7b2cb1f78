//! Foreign documents, mirrored exactly and checked: what NVIDIA's programs read, with the errors they give and the
//! warnings they do not.
//!
//! Every format has a type with `parse`, which answers with a [`Parsed`]: the value if the document is acceptable, and
//! [`Diagnostic`]s with place, message and hint either way. [`lint`](fn@lint) recognises which format a text is.
//! Nothing here reads a file, the environment or a clock.
#![warn(clippy::disallowed_methods)]

pub mod cdi;
pub mod device_plugin;
pub mod diagnostic;
pub mod dra_config;
mod go_json;
pub mod kubernetes_yaml;
mod lint;
pub mod mig_checkpoint;
pub mod mig_hooks;
pub mod mig_parted;
pub mod prometheus;
mod suggestion;
pub mod workloads;
mod yaml_print;

pub use device_plugin::DevicePluginConfig;
pub use diagnostic::{At, Diagnostic, Parsed, Severity};
pub use kubernetes_yaml::Position;
pub use lint::{Format, LintReport, LintedDocument, lint};
pub use mig_checkpoint::MigCheckpoint;
pub use mig_hooks::MigHooks;
pub use mig_parted::MigPartedConfig;
