//! The process on every GPU node: offers devices to kubelet, labels the node, cuts GPUs, runs MPS daemons, writes the CDI
//! file, watches health, proves that it all works.
//!
//! [`run`] is the whole of it. The modules beside it are doors (kubelet, API server, files, GPUs); what is decided is
//! decided in `carve-slicing`, `carve-placement` and `carve-mig-manager`, and `agent` puts facts and doors together.

mod agent;
mod capabilities;
mod cdi;
mod checkpoint;
mod choice;
mod configuration;
mod counter;
mod dra;
mod driver_links;
mod easel;
mod holders;
mod http;
mod labels;
mod last_end;
mod leave;
mod ledger;
mod limiter_file;
mod machine;
mod metrics;
mod mig;
mod mps;
mod options;
mod plugin;
mod plugins;
mod rivals;
mod run;
mod slices;
mod tell;
mod usage;
mod validation;

pub use capabilities::give_up_capabilities;
pub use dra::DraOptions;
pub use ledger::PriceOptions;
pub use machine::OpenHost;
pub use options::{AgentOptions, ConfigSource, Job, LabelTarget, MigOptions};
pub use run::{AgentError, Ended, run};
pub use validation::{Report, Step, ValidateError, Verdict, validate};
