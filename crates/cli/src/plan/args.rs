//! What `carve plan` takes.

use carve_gpu_model::Mechanism;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Kubernetes manifests, YAML or JSON; - reads standard input
    #[arg(short = 'f', long = "filename", required = true, num_args = 1.., value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Machines: TYPE=COUNT,…, such as p4d.24xlarge=1,g5.2xlarge=4
    #[arg(long, value_name = "NODES")]
    pub(crate) nodes: String,
    /// Hours for which cost is told; a month of 30 days has 720
    #[arg(long, default_value_t = 720, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) hours: u32,
    /// Shares of a GPU or MIG device where a request names no size, as nvidia.com/gpu.shared
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=48))]
    pub(crate) shares: u32,
    /// Mechanisms that the cluster has beside whole GPUs
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "mig,mps,time-slicing",
        value_name = "LIST"
    )]
    pub(crate) mechanisms: Vec<Offered>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = PlanOutput::Table)]
    pub(crate) output: PlanOutput,
    /// Folder to write the configuration into that the plan needs
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Option<PathBuf>,
}

/// A mechanism that a cluster may have or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Offered {
    /// MIG devices
    Mig,
    /// CUDA's multi-process service, with limits
    Mps,
    /// A library in the container that holds it to its share, such as HAMi's
    Limiter,
    /// Containers take turns
    TimeSlicing,
}

impl Offered {
    /// The same among all mechanisms.
    pub(crate) fn mechanism(self) -> Mechanism {
        match self {
            Offered::Mig => Mechanism::Mig,
            Offered::Mps => Mechanism::Mps,
            Offered::Limiter => Mechanism::Limiter,
            Offered::TimeSlicing => Mechanism::TimeSlicing,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanOutput {
    /// Tables and sentences
    Table,
    /// JSON, with every reason
    Json,
}
