//! What `carve cost` takes.

use crate::agents::AgentsArgs;
use crate::asked_of::AskedOf;
use carve_economics::By;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// From when on: how long ago (90m, 24h, 7d), today, yesterday, a day or a moment, or two with a comma between them; whole hours count
    #[arg(long, value_name = "WINDOW", default_value = "24h")]
    pub(crate) since: String,
    /// What rows are about
    #[arg(long, value_enum, default_value_t = Rows::Namespace)]
    pub(crate) by: Rows,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = CostOutput::Table)]
    pub(crate) output: CostOutput,
    /// Read what agents have answered under /api/v1/ledger; - reads standard input
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with = "agent")]
    pub(crate) ledger: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) asked: AskedOf,
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
}

/// What rows are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rows {
    /// Namespaces
    Namespace,
    /// What made the pods: Deployments, Jobs, …
    Workload,
    /// Pods
    Pod,
    /// Machines
    Node,
    /// Ways of sharing
    Mechanism,
}

impl From<Rows> for By {
    fn from(rows: Rows) -> By {
        match rows {
            Rows::Namespace => By::Namespace,
            Rows::Workload => By::Workload,
            Rows::Pod => By::Pod,
            Rows::Node => By::Node,
            Rows::Mechanism => By::Mechanism,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CostOutput {
    /// A table, in cents that add up
    Table,
    /// Comma-separated values, in dollars
    Csv,
    /// JSON, with everything
    Json,
    /// YAML, with everything
    Yaml,
}
