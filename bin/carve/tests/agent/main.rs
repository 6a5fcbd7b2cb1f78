//! `carve agent` as a process: signals, waiting, reloading, kills, and what it says about itself, against a kubelet of the
//! tests and simulated machines.

#[path = "../../../../crates/nvml-sim/tests/support/built.rs"]
mod built;
mod cdi_files;
mod check;
mod configs;
mod ending;
mod flags;
mod full_disk;
mod kills;
mod ledger;
mod listening;
mod metrics;
mod node;
mod openmetrics;
mod rebooting;
mod usage;
mod waiting;

/// The resource of whole GPUs.
const GPU: &str = "nvidia.com/gpu";

/// Four shares of each GPU.
const SHARED: &str = "version: v1
sharing:
  timeSlicing:
    resources: [{name: nvidia.com/gpu, replicas: 4}]
";
