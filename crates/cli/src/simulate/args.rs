//! What was typed after `carve simulate`.

use carve_placement::Policy;
use carve_simulator::events::MigTimes;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Let the claims of a trace arrive at a fleet, and compare policies.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The pods: a pod list as CSV or JSON, or `kubectl get nodes,pods -A -o json`; may be packed by gzip; - reads standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// The nodes, where the trace does not hold them; without this, openb_node_list_gpu_node.csv or nodes.csv beside it
    #[arg(long, value_name = "FILE")]
    pub(crate) nodes: Option<PathBuf>,
    /// Policies, separated by commas; the others are compared with the first
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',', default_value = "fgd,bid-price")]
    pub(crate) policy: Vec<Policy>,
    /// Seeds: 42, 42,43 or 42-51; without this, 42-51, or all of --sequence
    #[arg(long, value_name = "SEEDS")]
    pub(crate) seeds: Option<Seeds>,
    /// How much arrives, in percent of all GPUs
    #[arg(long, value_name = "PERCENT", default_value_t = 130, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) percent: u64,
    /// Replay recorded orders of arrival; may be packed by gzip
    #[arg(long, value_name = "FILE")]
    pub(crate) sequence: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = SimulateOutput::Table)]
    pub(crate) output: SimulateOutput,
    /// Also draw the figures, as files in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
    /// As what they are drawn
    #[arg(long, requires = "plot", value_enum, default_value_t = PlotFormat::Both)]
    pub(crate) plot_format: PlotFormat,
    /// Leave out the bounds, which can take longer than the runs
    #[arg(long)]
    pub(crate) no_bounds: bool,
    #[command(flatten)]
    pub(crate) time: TimeArgs,
}

/// How the fleet is run through time.
#[derive(Debug, Args)]
pub(crate) struct TimeArgs {
    /// Let pods come, wait, run and go at the times of the trace, instead of filling the fleet
    #[arg(long, conflicts_with_all = ["percent", "sequence"])]
    pub(crate) events: bool,
    /// How long pods last of which the trace does not say it; without this, for ever
    #[arg(long, requires = "events", value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<u64>,
    /// Turn away whoever does not fit at once
    #[arg(long, requires = "events")]
    pub(crate) no_queue: bool,
    /// Every node fails at random, on average so long after it came: 90s, 15m, 2h, 30d
    #[arg(long, requires = "events", value_name = "TIME", value_parser = time)]
    pub(crate) fail_every: Option<u64>,
    /// How long a failed node is away
    #[arg(long, requires = "fail_every", value_name = "TIME", value_parser = time, default_value = "1h")]
    pub(crate) fail_for: u64,
    /// Add a node for a pod that has waited so long
    #[arg(long, requires = "events", value_name = "TIME", value_parser = time)]
    pub(crate) add_after: Option<u64>,
    /// Which node of the trace added ones are like; without this, the first with the most GPUs
    #[arg(long, requires = "add_after", value_name = "NODE")]
    pub(crate) add_like: Option<String>,
    /// Most nodes that are added at one time
    #[arg(long, requires = "add_after", value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) add_most: u32,
    /// Take an added node away when nothing has run on it for so long
    #[arg(long, requires = "add_after", value_name = "TIME", value_parser = time, default_value = "10m")]
    pub(crate) remove_after: u64,
    /// How long it takes to make a MIG instance, in milliseconds
    #[arg(long, requires = "events", value_name = "MS", default_value_t = MigTimes::USUAL.create_ms, value_parser = longest())]
    pub(crate) mig_create_ms: u64,
    /// How long it takes to destroy one
    #[arg(long, requires = "events", value_name = "MS", default_value_t = MigTimes::USUAL.destroy_ms, value_parser = longest())]
    pub(crate) mig_destroy_ms: u64,
    /// How long it takes to switch a GPU into MIG mode or out of it; without this, 1000, or 10000 where it must be reset
    #[arg(long, requires = "events", value_name = "MS", value_parser = longest())]
    pub(crate) mig_mode_ms: Option<u64>,
}

impl TimeArgs {
    pub(crate) fn mig(&self) -> MigTimes {
        let MigTimes { mode_ms, reset_ms, .. } = MigTimes::USUAL;
        MigTimes {
            create_ms: self.mig_create_ms,
            destroy_ms: self.mig_destroy_ms,
            mode_ms: self.mig_mode_ms.unwrap_or(mode_ms),
            reset_ms: self.mig_mode_ms.unwrap_or(reset_ms),
        }
    }
}

/// A day: no GPU takes longer for anything.
fn longest() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(0..=86_400_000)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlotFormat {
    /// Drawings that stay sharp at any size
    Svg,
    /// Pixels, for what shows no SVG
    Png,
    /// Both of them
    Both,
}

/// Seconds, which may not be none: nothing would come between one event and the next.
fn time(text: &str) -> Result<u64, String> {
    match carve_simulator::readers::seconds("the time", text) {
        Ok(0) => Err("the time is 0; it must be a second at least".to_owned()),
        other => other,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimulateOutput {
    /// A table for people
    Table,
    /// Every figure of every run, as JSON
    Json,
    /// Every figure of every run, one line a run
    Csv,
}

/// Seeds in the order they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

/// More seeds than anybody waits for.
const MOST_SEEDS: u64 = 10_000;

impl std::str::FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let wrong = |_| format!("'{text}' is not a seed; write whole numbers such as 42, 42,43 or 42-51");
            text.trim().parse::<u64>().map_err(wrong)
        };
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(format!("'{part}' runs backwards; write the smaller seed first"));
            }
            if last - first >= MOST_SEEDS || seeds.len() as u64 + (last - first) >= MOST_SEEDS {
                return Err(format!("more than {MOST_SEEDS} seeds; fewer will do"));
            }
            for seed in first..=last {
                if seeds.contains(&seed) {
                    return Err(format!("seed {seed} is named twice"));
                }
                seeds.push(seed);
            }
        }
        Ok(Seeds(seeds))
    }
}

#[cfg(test)]
mod tests {
    use super::Seeds;

    #[test]
    fn seeds_are_numbers_lists_and_ranges() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("42"), Ok(vec![42]));
        assert_eq!(seeds("7,3-5, 9"), Ok(vec![7, 3, 4, 5, 9]));
        for wrong in
            ["", "x", "-1", "3-", "5-3", "1,1", "1-3,2", "0-99999999999", "1.5", "0-18446744073709551615"]
        {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
