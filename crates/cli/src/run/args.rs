//! What was typed after `carve run`.

use carve_formats::workloads::Quantity;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Memory of the GPU, such as 8Gi or 5120Mi; all that is left where it is not given
    #[arg(long, value_name = "QUANTITY", value_parser = memory)]
    pub(crate) memory: Option<u64>,
    /// Percent of the GPU's time, such as 25 or 12.5; not limited where it is not given
    #[arg(long, value_name = "PERCENT", value_parser = compute)]
    pub(crate) compute: Option<u32>,
    /// Which GPU: its index or UUID, or the UUID of a MIG device; the first with room where it is not given
    #[arg(long, value_name = "INDEX|UUID")]
    pub(crate) gpu: Option<String>,
    /// Also use time that others leave, until they want it
    #[arg(long, requires = "compute")]
    pub(crate) burst: bool,
    /// What holds the command to its share
    #[arg(long, value_enum, default_value_t = Mechanism::Auto)]
    pub(crate) mechanism: Mechanism,
    /// Go ahead although other commands have what is asked for
    #[arg(long)]
    pub(crate) overcommit: bool,
    /// The limiter's library, where it is not beside carve
    #[arg(long, env = "CARVE_LIMITER", value_name = "FILE")]
    pub(crate) limiter: Option<PathBuf>,
    /// Folder in which commands on this machine find each other
    #[arg(long, env = "CARVE_RUN_DIR", value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Wait until there is room, where there is none now; needs a carve up that runs here
    #[arg(long, conflicts_with = "apart")]
    pub(crate) wait: bool,
    /// Take the share without asking the carve up that runs here
    #[arg(long)]
    pub(crate) apart: bool,
    /// Say nothing about the share
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mechanism {
    /// MPS where a daemon answers, otherwise the limiter
    Auto,
    /// An MPS daemon that is there already
    Mps,
    /// A library that the command loads
    Limiter,
}

/// Bytes.
fn memory(text: &str) -> Result<u64, String> {
    let quantity: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    match quantity.whole() {
        Some(bytes) if bytes >= 1 << 20 => Ok(bytes),
        Some(_) => Err("less than 1Mi; write an amount with its unit, such as 8Gi".to_owned()),
        None => Err("not a whole number of bytes; write an amount such as 8Gi".to_owned()),
    }
}

/// Hundredths of a percent.
fn compute(text: &str) -> Result<u32, String> {
    let quantity: Quantity = text.trim_end_matches('%').parse().map_err(|_| "not a percentage".to_owned())?;
    match quantity.thousandths() {
        thousandths @ 10..=100_000 if thousandths % 10 == 0 => Ok((thousandths / 10) as u32),
        _ => Err("a percentage goes from 0.01 to 100, in steps of 0.01".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{compute, memory};

    #[test]
    fn amounts_are_read_as_people_write_them() {
        assert_eq!(memory("8Gi"), Ok(8 << 30));
        assert_eq!(memory("5120Mi"), Ok(5 << 30));
        assert!(memory("8").is_err() && memory("8GB").is_err() && memory("-1Gi").is_err());
        assert_eq!(compute("25"), Ok(2_500));
        assert_eq!(compute("12.5"), Ok(1_250));
        assert_eq!(compute("12.5%"), Ok(1_250));
        assert!(compute("0").is_err() && compute("101").is_err() && compute("0.001").is_err());
        assert!(compute("half").is_err());
    }
}
