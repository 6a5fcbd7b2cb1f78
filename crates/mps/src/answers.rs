//! What the control program prints, read into numbers.

use carve_gpu_model::{Bytes, Mebibytes};
use std::fmt;
use thiserror::Error;

/// A process, as the MPS daemon numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why an answer makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the MPS daemon answered `{command}` with {found:?}; expected {expected}")]
pub struct AnswerError {
    /// What was asked.
    pub command: String,
    /// What came.
    pub found: String,
    /// What should have come.
    pub expected: &'static str,
}

/// A memory limit as the daemon tells it: cut down to whole gibibytes where there is one, so that `35635M` is told as
/// `34G`. It says between which two amounts the limit is, and not which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryTold {
    /// The limit is this or more.
    pub from: Bytes,
    /// And less than this.
    pub below: Bytes,
}

impl MemoryTold {
    /// Whether this can be what is told of a limit.
    pub fn may_be(&self, limit: Mebibytes) -> bool {
        (self.from..self.below).contains(&limit.bytes())
    }
}

impl fmt::Display for MemoryTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from.whole_mebibytes(), self.below.whole_mebibytes())
    }
}

/// The answer to `get_server_list` and `get_client_list`: one number a line.
pub(crate) fn process_ids(command: &str, text: &str) -> Result<Vec<ProcessId>, AnswerError> {
    let one =
        |line: &str| line.trim().parse().map(ProcessId).map_err(|_| wrong(command, text, "process ids"));
    text.lines().filter(|line| !line.trim().is_empty()).map(one).collect()
}

/// The answer to `get_default_active_thread_percentage`: `25.0`, in tenths of a percent here.
pub(crate) fn percentage_tenths(command: &str, text: &str) -> Result<u32, AnswerError> {
    let read = || {
        let (whole, tenths) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        let tenths: u32 = tenths.get(..1)?.parse().ok()?;
        whole.parse::<u32>().ok()?.checked_mul(10)?.checked_add(tenths).filter(|tenths| *tenths <= 1000)
    };
    read().ok_or_else(|| wrong(command, text, "a percentage such as 25.0"))
}

/// The answer to `get_default_device_pinned_mem_limit`: `34G`, `640M`, or nothing where no limit is set.
pub(crate) fn memory(command: &str, text: &str) -> Result<Option<MemoryTold>, AnswerError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let read = || {
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let unit: u64 = match &text[digits.len()..] {
            "G" => 1 << 30,
            "M" => 1 << 20,
            "K" => 1 << 10,
            "" | "B" => 1,
            _ => return None,
        };
        let from = digits.parse::<u64>().ok()?.checked_mul(unit)?;
        Some(MemoryTold { from: Bytes(from), below: Bytes(from.checked_add(unit)?) })
    };
    read().map(Some).ok_or_else(|| wrong(command, text, "an amount such as 34G or 640M"))
}

fn wrong(command: &str, found: &str, expected: &'static str) -> AnswerError {
    AnswerError { command: command.to_owned(), found: found.trim().to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::{ProcessId, memory, percentage_tenths, process_ids};
    use carve_gpu_model::Mebibytes;

    #[test]
    fn lists_of_processes() {
        assert_eq!(process_ids("get_server_list", "\n"), Ok(vec![]));
        assert_eq!(process_ids("get_client_list 7", "485\n482\n"), Ok(vec![ProcessId(485), ProcessId(482)]));
        let error = process_ids("get_server_list", "Unknown command \"get_server_list\"\n").unwrap_err();
        assert!(error.to_string().contains("`get_server_list`"), "{error}");
    }

    #[test]
    fn percentages_keep_their_tenths() {
        for (text, tenths) in [("25.0\n", 250), ("12.5", 125), ("100.0", 1000), ("33", 330)] {
            assert_eq!(percentage_tenths("get", text), Ok(tenths), "{text}");
        }
        for text in ["", "x", "100.1", "-1.0", "25.", "Unknown command \"get\""] {
            assert!(percentage_tenths("get", text).is_err(), "{text}");
        }
    }

    /// Every pair was seen on an H200: what was set, what was told.
    #[test]
    fn memory_is_told_in_whole_gibibytes() {
        for (set, told) in [(35_635, "34G"), (1_500, "1G"), (4_096, "4G"), (5_120, "5G"), (1_025, "1G")] {
            let told = memory("get", told).unwrap().unwrap();
            assert!(told.may_be(Mebibytes(set)), "{set}: {told}");
            assert!(!told.may_be(Mebibytes(set - 1_024)) && !told.may_be(Mebibytes(set + 1_024)));
        }
        assert_eq!(memory("get", "\n"), Ok(None));
        assert!(memory("get", "640M").unwrap().unwrap().may_be(Mebibytes(640)));
        assert!(!memory("get", "640M").unwrap().unwrap().may_be(Mebibytes(641)));
        assert!(memory("get", "4X").is_err() && memory("get", "99999999999999999999G").is_err());
    }
}
