//! What `carve advise` takes.

use crate::agents::AgentsArgs;
use crate::asked_of::AskedOf;
use crate::plan::args::Offered;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// What Prometheus or exporters have recorded: text as DCGM's exporter prints it, or answers to range queries as JSON; - reads standard input
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with = "prometheus")]
    pub(crate) metrics: Vec<PathBuf>,
    /// Ask this Prometheus for what was recorded, such as http://localhost:9090
    #[arg(long, value_name = "URL")]
    pub(crate) prometheus: Option<String>,
    /// Watch the agents for so long, and advise by that; what is advised rests on no more than this and on --window
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with_all = ["prometheus", "metrics"])]
    pub(crate) live: Option<i64>,
    #[command(flatten)]
    pub(crate) agents: AgentsArgs,
    /// How far back to ask it
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = seconds)]
    pub(crate) since: i64,
    /// The cluster as kubectl get nodes,pods -A -o json prints it; without it the cluster of the kubeconfig is asked
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub(crate) cluster: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) asked: AskedOf,
    /// A study that carve bench made on a card of the cluster: what it measured weighs. Alone it says what suits which work
    #[arg(long, value_name = "STUDY.json")]
    pub(crate) study: Option<PathBuf>,
    /// Prices that win over the built-in list: a type and dollars an hour on each line
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Hours for which cost is told; a month of 30 days has 720
    #[arg(long, default_value_t = 720, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) hours: u32,
    /// The least time a workload must have been watched before something is advised for it
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = seconds)]
    pub(crate) window: i64,
    /// Memory beyond the peak that was seen, in percent of it
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub(crate) margin: u64,
    /// Mechanisms that the cluster has beside whole GPUs
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "mig,mps,time-slicing",
        value_name = "LIST"
    )]
    pub(crate) mechanisms: Vec<Offered>,
    /// Who trusts each other enough to share a GPU without MIG
    #[arg(long, value_enum, default_value_t = Trust::Namespace)]
    pub(crate) trust: Trust,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = AdviseOutput::Table)]
    pub(crate) output: AdviseOutput,
    /// Folder to write into what to apply
    #[arg(long, value_name = "DIR")]
    pub(crate) patch: Option<PathBuf>,
    /// Hold an earlier advice, as -o json printed it, against the cluster as it is now
    #[arg(long, value_name = "ADVICE.json", conflicts_with = "patch")]
    pub(crate) score: Option<PathBuf>,
}

/// Who trusts each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trust {
    /// Pods of one namespace, or of one tenant where carve.dev/tenant names it
    Namespace,
    /// All pods of the cluster
    Cluster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdviseOutput {
    /// Tables and sentences
    Table,
    /// JSON, with everything
    Json,
    /// YAML, with everything
    Yaml,
}

/// Seconds of `7d`, `36h`, `90m` or `30s`.
fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || "expected a time such as 7d, 36h or 90m".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit).filter(|seconds| (1..=10 * 365 * 86_400).contains(seconds));
    seconds.ok_or_else(|| "expected a time from 1s to 3650d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_as_prometheus_writes_them() {
        assert_eq!(
            ["7d", "36h", "90m", "30s", "1w"].map(|text| seconds(text).unwrap()),
            [604_800, 129_600, 5400, 30, 604_800]
        );
        for wrong in ["", "7", "d", "0d", "-1d", "7y", "9999999999999999d", "é"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
