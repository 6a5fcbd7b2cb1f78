//! What `carve cost` takes.

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
    /// Ask this agent and not a cluster's, such as http://localhost:9411; several times for several
    #[arg(long, value_name = "URL", conflicts_with = "ledger")]
    pub(crate) agent: Vec<String>,
    /// Read what agents have answered under /api/v1/ledger; - reads standard input
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub(crate) ledger: Vec<PathBuf>,
    /// How to reach the API server
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Labels of the agents' pods
    #[arg(long, value_name = "LABELS", default_value = "app=carve-agent")]
    pub(crate) selector: String,
    /// Port of the agents
    #[arg(long, value_name = "PORT", default_value_t = 9411)]
    pub(crate) port: u16,
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
