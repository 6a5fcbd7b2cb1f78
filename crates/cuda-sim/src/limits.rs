//! Limits of an MPS client, as the stand-in for the MPS daemon leaves them in its pipe directory.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The file in the pipe directory: lines `pinned_mib=N` and `percentage=P`, each of which may be missing.
const FILE: &str = "carve-sim-limits";

/// Multiprocessors come in pairs (texture processing clusters), and a client gets whole ones.
const PAIR: u32 = 2;

/// No client gets fewer multiprocessors than this, however small its share.
const FEWEST: u32 = 8;

/// What a client is limited to; nothing said, nothing limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limits {
    /// Memory of each device that the client may hold, its context included.
    pub(crate) pinned_mib: Option<u64>,
    /// Share of the multiprocessors, 1 to 100.
    percentage: Option<u32>,
}

/// The file does not say what limits there are.
#[derive(Debug, Error)]
pub(crate) enum LimitsError {
    #[error("can not read {path}: {error}", path = path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{path}: '{line}' is neither pinned_mib=N nor percentage=P with P from 1 to 100", path = path.display())]
    Line { path: PathBuf, line: String },
}

impl Limits {
    /// The limits in a pipe directory. Without the file there are none; nor does the real driver mind a pipe directory
    /// without a daemon behind it.
    pub(crate) fn read(pipe_directory: &Path) -> Result<Self, LimitsError> {
        let path = pipe_directory.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Limits::default()),
            Err(error) => return Err(LimitsError::Unreadable { path, error }),
        };
        Limits::parse(&text).map_err(|line| LimitsError::Line { path, line })
    }

    /// Refuses with the line that makes no sense.
    fn parse(text: &str) -> Result<Self, String> {
        let mut limits = Limits::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let refused = || line.to_owned();
            match line.split_once('=').ok_or_else(refused)? {
                ("pinned_mib", value) => limits.pinned_mib = Some(value.parse().map_err(|_| refused())?),
                ("percentage", value) => {
                    let share = value.parse().ok().filter(|share| (1..=100).contains(share));
                    limits.percentage = Some(share.ok_or_else(refused)?);
                }
                _ => return Err(refused()),
            }
        }
        Ok(limits)
    }

    /// The same, lowered by what a client's own variables say: `0=20480M` or `GPU-…=3G` of memory, of which the first device's counts
    /// here, and a percentage. What makes no sense is passed over, as the real client does.
    pub(crate) fn lowered(mut self, memory: Option<&str>, percentage: Option<&str>) -> Self {
        let mebibytes = |text: &str| {
            let (_, amount) = text.split(',').next()?.split_once('=')?;
            let (digits, unit) = amount.split_at_checked(amount.len().checked_sub(1)?)?;
            let number: u64 = digits.parse().ok()?;
            match unit {
                "M" => Some(number),
                "G" => number.checked_mul(1024),
                _ => None,
            }
        };
        if let Some(own) = memory.and_then(mebibytes) {
            self.pinned_mib = Some(self.pinned_mib.map_or(own, |told| told.min(own)));
        }
        let own = percentage.and_then(|text| text.trim().parse().ok()).filter(|own| (1..=100).contains(own));
        if let Some(own) = own {
            self.percentage = Some(self.percentage.map_or(own, |told: u32| told.min(own)));
        }
        self
    }

    /// How many multiprocessors of a device the client may use: its share, rounded down to whole pairs.
    pub(crate) fn multiprocessors(&self, all: u32) -> u32 {
        match self.percentage {
            Some(100) | None => all,
            Some(percentage) => (all * percentage / 100 / PAIR * PAIR).max(FEWEST).min(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn lines_mean_what_they_say() {
        assert_eq!(Limits::parse(""), Ok(Limits::default()));
        let both = Limits::parse("pinned_mib=4096\npercentage=25\n").unwrap();
        assert_eq!((both.pinned_mib, both.percentage), (Some(4096), Some(25)));
        for wrong in ["percentage=0", "percentage=101", "pinned_mib=-1", "pinned_mib", "memory=1"] {
            assert_eq!(Limits::parse(&format!("pinned_mib=1\n{wrong}")), Err(wrong.to_owned()));
        }
    }

    #[test]
    fn a_client_lowers_its_own_limits_and_never_raises_them() {
        let daemon = Limits { pinned_mib: Some(4096), percentage: Some(50) };
        let lowered = |memory, percentage| {
            let limits = daemon.lowered(memory, percentage);
            (limits.pinned_mib, limits.percentage)
        };
        assert_eq!(lowered(Some("0=3G"), Some("25")), (Some(3072), Some(25)));
        assert_eq!(lowered(Some("GPU-1=100M,GPU-2=1M"), None), (Some(100), Some(50)));
        assert_eq!(lowered(Some("0=8G"), Some("80")), (Some(4096), Some(50)));
        for nonsense in ["", "0", "0=", "0=M", "0=5", "0=é"] {
            assert_eq!(lowered(Some(nonsense), Some("0")), (Some(4096), Some(50)), "{nonsense}");
        }
        assert_eq!(Limits::default().lowered(Some("0=3G"), None).pinned_mib, Some(3072));
    }

    #[test]
    fn shares_are_whole_pairs() {
        let share = |percentage| Limits { pinned_mib: None, percentage: Some(percentage) };
        // What a client of a real H200 with 132 multiprocessors was told (driver 580.159.04).
        for (percentage, told) in [
            (1, 8),
            (5, 8),
            (10, 12),
            (20, 26),
            (25, 32),
            (30, 38),
            (33, 42),
            (50, 66),
            (75, 98),
            (90, 118),
            (99, 130),
            (100, 132),
        ] {
            assert_eq!(share(percentage).multiprocessors(132), told, "{percentage} %");
        }
        assert_eq!(share(50).multiprocessors(1), 1);
        assert_eq!(Limits::default().multiprocessors(132), 132);
    }
}
