//! The errors a driver reports by number (XIDs): what each means and what it says about the GPU.
//!
//! The classes follow the immediate action that NVIDIA's XID catalogue (Ampere and newer) names for each number:
//! restart the application, ignore, reset the GPU, restart the machine. Names are carve's own. Where the catalogue
//! names no action, or one that depends on details an event does not carry, the class is carve's choice, on the
//! careful side, and marked [`Evidence::Assumed`].
//!
//! A number that is not listed counts as [`XidClass::Recoverable`]: the GPU is not offered until it proves well.

use crate::Evidence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Xid(pub u64);

/// What an error says about the GPU, from harmless to grave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XidClass {
    /// Worth a line in the log. Nothing needs to be done now.
    Informational,
    /// The process is at fault, or it alone dies of it. The GPU is well.
    Application,
    /// The GPU is sick until something is done about it, mostly a reset, or until it proves well.
    Recoverable,
    /// Only a reset, a driver reload or new hardware helps. That the GPU answers questions proves nothing.
    Fatal,
}

/// One line of the catalogue: an error, or neighbouring numbers of the same error in several engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XidEntry {
    /// First number.
    pub first: Xid,
    /// Last number; the same as the first for a single error.
    pub last: Xid,
    /// What happened, in a few words.
    pub name: &'static str,
    /// What it says about the GPU.
    pub class: XidClass,
    /// How the class is known: from NVIDIA's catalogue, or chosen by carve where that leaves it open.
    pub evidence: Evidence,
}

impl XidClass {
    /// Whether the GPU, or the instance the error is confined to, should not be offered.
    pub const fn is_sick(self) -> bool {
        matches!(self, XidClass::Recoverable | XidClass::Fatal)
    }
}

impl fmt::Display for XidClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            XidClass::Informational => "informational",
            XidClass::Application => "application",
            XidClass::Recoverable => "recoverable",
            XidClass::Fatal => "fatal",
        })
    }
}

impl Xid {
    /// Its line in the catalogue.
    pub fn entry(self) -> Option<&'static XidEntry> {
        let after = CATALOGUE.partition_point(|entry| entry.first <= self);
        CATALOGUE[..after].last().filter(|entry| self <= entry.last)
    }

    /// What it says about the GPU; of an unknown number that it is sick until it proves well.
    pub fn class(self) -> XidClass {
        self.entry().map_or(XidClass::Recoverable, |entry| entry.class)
    }

    /// What happened, in a few words.
    pub fn name(self) -> &'static str {
        self.entry().map_or("not in carve's catalogue", |entry| entry.name)
    }
}

/// The number and what it means: `XID 79 (the GPU has fallen off the bus)`.
impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "XID {} ({})", self.0, self.name())
    }
}

/// What NVIDIA's device plugin leaves out of its health checks; everything else takes a GPU out of use for good.
///
/// Wrong about two by NVIDIA's own catalogue: 109 (context switch timeout) is on the list and needs a reset, and 94
/// (contained memory error) is not and needs the application restarted, nothing more.
pub const NVIDIA_IGNORES: [Xid; 6] = [Xid(13), Xid(31), Xid(43), Xid(45), Xid(68), Xid(109)];

const fn one(number: u64, name: &'static str, class: XidClass, evidence: Evidence) -> XidEntry {
    several(number, number, name, class, evidence)
}

const fn several(first: u64, last: u64, name: &'static str, class: XidClass, evidence: Evidence) -> XidEntry {
    XidEntry { first: Xid(first), last: Xid(last), name, class, evidence }
}

use Evidence::{Assumed, Documented};
use XidClass::{Application, Fatal, Informational, Recoverable};

/// Every error carve knows, by number.
pub const CATALOGUE: &[XidEntry] = &[
    one(8, "a channel made no progress", Application, Documented),
    one(11, "a command stream was malformed", Application, Documented),
    one(13, "a compute or graphics exception in a process", Application, Documented),
    one(25, "a command stream was not allowed", Application, Documented),
    one(31, "a process touched memory that is not mapped", Application, Documented),
    one(32, "a command buffer was malformed", Application, Documented),
    one(37, "firmware met a method it does not know", Informational, Documented),
    one(38, "a firmware watchdog ran out", Informational, Documented),
    several(39, 41, "a copy engine fault", Application, Documented),
    one(43, "a process was stopped after an error of its own", Application, Documented),
    one(44, "a fault during a context switch", Informational, Documented),
    // On its own the catalogue asks for the fabric manager, which is no matter of this GPU; beside another XID it is
    // that one's consequence.
    one(45, "a channel was cleaned up after an earlier error", Application, Documented),
    one(46, "the GPU stopped processing", Recoverable, Documented),
    // A reset, after a drain where row remapping (63, 64) comes with it.
    one(48, "a memory error that ECC could not correct", Recoverable, Documented),
    one(54, "the board lacks auxiliary power", Fatal, Documented),
    // 57 to 61 are listed for older GPUs, without an action.
    one(57, "the memory interface could not be set up", Recoverable, Assumed),
    one(58, "the memory interface is unstable", Recoverable, Assumed),
    one(59, "an internal controller failed", Recoverable, Assumed),
    one(60, "a security engine fault in a process", Application, Documented),
    one(61, "an internal controller stopped at a breakpoint", Recoverable, Assumed),
    one(62, "an internal controller halted", Recoverable, Documented),
    one(63, "a memory row or page is marked for retirement", Informational, Documented),
    one(64, "a memory row or page could not be retired", Recoverable, Documented),
    several(66, 67, "the driver made an access that is not allowed", Informational, Documented),
    one(68, "a video decoder fault", Application, Documented),
    one(69, "a compute or graphics class error in a process", Application, Documented),
    several(70, 72, "a copy engine fault", Application, Documented),
    // What to do depends on registers that stand in the kernel log and not in the event.
    one(74, "an NVLink error", Recoverable, Assumed),
    several(75, 77, "a copy engine fault", Application, Documented),
    // The catalogue asks for other software, which no reset brings.
    one(78, "a virtual GPU could not start", Recoverable, Assumed),
    one(79, "the GPU has fallen off the bus", Fatal, Documented),
    one(80, "a command buffer arrived damaged", Application, Documented),
    one(82, "a JPEG engine fault", Application, Documented),
    several(83, 84, "a video decoder fault", Application, Documented),
    one(85, "a copy engine fault", Application, Documented),
    one(86, "an optical flow engine fault", Application, Documented),
    several(88, 89, "a video decoder fault", Application, Documented),
    one(92, "many memory errors that ECC corrected", Informational, Documented),
    one(93, "the board's information memory is worn", Informational, Documented),
    one(94, "a memory error contained in one process", Application, Documented),
    one(95, "a memory error that could not be contained", Recoverable, Documented),
    several(96, 98, "a video decoder fault", Application, Documented),
    several(99, 105, "a JPEG engine fault", Application, Documented),
    several(106, 107, "a test message of the management bus", Informational, Documented),
    one(108, "a remote address could not be translated", Informational, Documented),
    one(109, "a context switch timed out", Recoverable, Documented),
    one(110, "a security fault", Recoverable, Documented),
    one(119, "the GPU's system processor did not answer the driver", Recoverable, Documented),
    one(120, "the GPU's system processor failed", Recoverable, Documented),
    one(121, "an error on the link between CPU and GPU", Informational, Documented),
    several(126, 135, "a copy engine fault", Application, Documented),
    one(136, "an NVLink could not be trained", Recoverable, Documented),
    one(137, "an NVLink access that is not allowed", Informational, Documented),
    one(139, "an optical flow engine fault", Application, Documented),
    one(140, "a memory error from which ECC could not recover", Recoverable, Documented),
    one(141, "an error on CUDA's fast path", Informational, Documented),
    // The catalogue sends the reader to support and names no action.
    one(142, "a video encoder fault", Recoverable, Assumed),
    one(143, "the GPU could not be initialised", Recoverable, Documented),
    // From ignoring to a reset, by registers that stand in the kernel log and not in the event.
    several(144, 146, "an NVLink error", Recoverable, Assumed),
    several(147, 148, "an NVLink error that needs no action", Informational, Documented),
    one(149, "an NVLink is down or errs often", Recoverable, Assumed),
    one(150, "NVLink management firmware failed", Recoverable, Documented),
    // Cured by a restart of the virtual machine, which reloads the driver.
    one(151, "encryption keys could not be changed", Fatal, Documented),
    several(152, 153, "a deep learning accelerator fault", Informational, Documented),
    // Tells that the driver's advice changed because of another XID; whoever probes the GPU reads the advice itself.
    one(154, "the driver's advice for recovery changed", Informational, Documented),
    one(155, "an NVLink error found by software", Recoverable, Documented),
    one(156, "a faulty resource is marked for retirement", Recoverable, Documented),
    one(157, "a faulty resource could not be retired", Informational, Documented),
    one(158, "the GPU did not answer in time", Recoverable, Documented),
    one(159, "an error between CPU and GPU caches", Recoverable, Assumed),
    several(160, 161, "a memory channel was or could not be retired", Informational, Documented),
    // From here on the catalogue names no action.
    several(162, 165, "a message of the power smoothing circuit", Informational, Assumed),
    one(166, "plain traffic on an encrypted NVLink", Recoverable, Assumed),
    one(167, "the PCI bus did not answer in time", Recoverable, Assumed),
    one(168, "errors in protected memory", Recoverable, Assumed),
    one(169, "the security controller halted", Recoverable, Assumed),
    one(170, "an unexpected interrupt in confidential mode", Recoverable, Assumed),
    several(171, 172, "details of a memory error, beside XID 48", Informational, Assumed),
];

#[cfg(test)]
mod tests {
    use super::{CATALOGUE, NVIDIA_IGNORES, Xid, XidClass};

    #[test]
    fn the_catalogue_is_sorted_and_says_each_number_once() {
        for entry in CATALOGUE {
            assert!(entry.first <= entry.last && entry.first.0 > 0, "{entry:?}");
            assert_eq!(entry.first.entry(), Some(entry));
            assert_eq!(entry.last.entry(), Some(entry));
        }
        for pair in CATALOGUE.windows(2) {
            assert!(pair[0].last < pair[1].first, "{:?} and {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn numbers_beside_a_line_are_unknown_and_keep_a_gpu_back() {
        for number in [0, 1, 12, 14, 42, 55, 65, 73, 81, 111, 125, 138, 173, u64::MAX] {
            assert_eq!(Xid(number).entry(), None, "{number}");
            assert_eq!(Xid(number).class(), XidClass::Recoverable, "{number}");
        }
        assert_eq!(Xid(999).to_string(), "XID 999 (not in carve's catalogue)");
    }

    #[test]
    fn gaps_within_engine_families_are_not_swallowed() {
        assert_eq!(Xid(73).entry(), None);
        assert_eq!(Xid(74).class(), XidClass::Recoverable);
        assert_eq!(Xid(130).class(), XidClass::Application);
        assert_eq!(Xid(147).class(), XidClass::Informational);
    }

    #[test]
    fn nvidias_list_is_wrong_about_109_and_94_and_nothing_else_on_it() {
        let acted_on: Vec<Xid> = NVIDIA_IGNORES.into_iter().filter(|xid| xid.class().is_sick()).collect();
        assert_eq!(acted_on, [Xid(109)]);
        assert!(!NVIDIA_IGNORES.contains(&Xid(94)) && !Xid(94).class().is_sick());
    }

    #[test]
    fn what_needs_hands_or_a_restart_is_fatal() {
        let fatal = CATALOGUE.iter().filter(|entry| entry.class == XidClass::Fatal);
        assert_eq!(fatal.map(|entry| entry.first.0).collect::<Vec<_>>(), [54, 79, 151]);
        assert_eq!(Xid(79).to_string(), "XID 79 (the GPU has fallen off the bus)");
    }
}
