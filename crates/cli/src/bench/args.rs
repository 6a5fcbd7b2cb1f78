//! What was typed after `carve bench`.

use carve_study::{Cell, Scope, Strategy, Workload};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<BenchVerb>,
    #[command(flatten)]
    pub(crate) run: RunStudyArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Say what two studies agree on, and what they do not
    Compare(CompareArgs),
    /// Write the pages of a study that was measured before
    Render(RenderArgs),
    /// List the cells of a scope, and change nothing
    Cells(CellsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunStudyArgs {
    /// A first look, in less than 90 seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Everything, which takes longer than an hour; --for and --resume do it in parts
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,
    /// Folder for the study and its pages
    #[arg(long, value_name = "DIR", default_value = "carve-study")]
    pub(crate) dir: PathBuf,
    /// Go on with the study in the folder: cells that were measured or failed are left as they are, skipped ones are tried again
    #[arg(long)]
    pub(crate) resume: bool,
    /// Stop in time before this has gone by, such as 9m
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) time: Option<Duration>,
    /// Which GPU: its index or UUID; the first where it is not given
    #[arg(long, value_name = "INDEX|UUID")]
    pub(crate) gpu: Option<String>,
    /// Only these ways to share
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) strategies: Vec<Strategy>,
    /// Only these workloads
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) workloads: Vec<Workload>,
    /// Only these cells, such as light/mps/4, light+burn/mps or fault/mps
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) cells: Vec<Cell>,
    /// Also what changes settings of the card: MIG and the length of turns. They are put back at the end
    #[arg(long)]
    pub(crate) change_settings: bool,
    /// The limiter's library, where it is not beside carve
    #[arg(long, env = "CARVE_LIMITER", value_name = "FILE")]
    pub(crate) limiter: Option<PathBuf>,
    /// The Python in which PyTorch and CuPy are looked for
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: PathBuf,
    /// What chance begins with where the card is simulated
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl RunStudyArgs {
    /// How much is measured.
    pub(crate) fn scope(&self) -> Scope {
        match (self.quick, self.full) {
            (true, _) => Scope::Quick,
            (false, true) => Scope::Full,
            (false, false) => Scope::Default,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The first study
    #[arg(value_name = "A.json")]
    pub(crate) first: PathBuf,
    /// The second
    #[arg(value_name = "B.json")]
    pub(crate) second: PathBuf,
    /// Print every figure, not only those that differ
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// The study
    #[arg(value_name = "STUDY.json")]
    pub(crate) study: PathBuf,
    /// Folder for its pages
    #[arg(long, value_name = "DIR", default_value = "carve-study")]
    pub(crate) dir: PathBuf,
    /// What the pages are called; their pictures are in a folder of that name
    #[arg(long, value_name = "NAME", default_value = super::pages::NAME)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct CellsArgs {
    /// Those of a first look
    #[arg(long)]
    pub(crate) quick: bool,
    /// All there are
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,
}

/// A time such as `90s`, `9m` or `7m30s`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 90s, 9m, 7m30s or 2h".to_owned();
    let parts: Vec<u64> = text
        .split_inclusive(['h', 'm', 's'])
        .map(|part| seconds(part).ok_or_else(wrong))
        .collect::<Result<_, _>>()?;
    let sum = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part)).ok_or_else(wrong)?;
    match sum {
        _ if parts.is_empty() => Err(wrong()),
        1..=604_800 => Ok(Duration::from_secs(sum)),
        _ => Err("expected a time from 1s to 168h".to_owned()),
    }
}

/// Seconds in a number with its unit.
fn seconds(part: &str) -> Option<u64> {
    let (number, unit) = part.split_at_checked(part.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    // A sign is no digit.
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<u64>().ok()?.checked_mul(unit))?
}

#[cfg(test)]
mod tests {
    use super::time;
    use std::time::Duration;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(time("9m"), Ok(Duration::from_secs(540)));
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1h7m30s"), Ok(Duration::from_secs(4050)));
        for wrong in ["", "9", "m", "0s", "9d", "-1m", "é", "7m30", "7m s", "99999999999999999999h", "+1m"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
