//! Which ways of using GPUs an operator chose, and which of them a version of Kubernetes keeps apart.
//!
//! Schedulers before 1.36.2 forget shares that are already held when they count what is left of a GPU: they give away a GPU whole that
//! is shared, or cut it. There a GPU may be used in one way only, so that nothing needs to be counted.

use crate::{ServerVersion, Sharing, Ways};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The first version that has the API which is written here.
const FIRST: ServerVersion = ServerVersion::new(1, 34, 0);
/// The first that has counters in slices of their own.
const COUNTERS_APART: ServerVersion = ServerVersion::new(1, 35, 0);
/// The first whose gates are on without being asked.
const GATES_ON: ServerVersion = ServerVersion::new(1, 36, 0);
/// The first whose scheduler counts shares that are already held.
const COUNTS_SHARES: ServerVersion = ServerVersion::new(1, 36, 2);

/// How the GPUs of a node are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// In every way, chosen by claims.
    All,
    /// Whole, by one claim.
    Exclusive,
    /// By fractions, held to by the limiter.
    Fraction,
    /// By fractions over MPS.
    Mps,
    /// By turns.
    TimeSlicing,
    /// Cut by MIG; GPUs that can not be cut are not offered.
    Mig,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 6] =
        [Mode::All, Mode::Exclusive, Mode::Fraction, Mode::Mps, Mode::TimeSlicing, Mode::Mig];

    /// The ways it stands for.
    pub fn ways(self) -> Ways {
        let all = Ways::default();
        let none = Ways {
            exclusive: false,
            shared: BTreeSet::new(),
            mig: false,
            shared_mig: BTreeSet::new(),
            turns: all.turns,
        };
        let by = |sharing| BTreeSet::from([sharing]);
        match self {
            Mode::All => all,
            Mode::Exclusive => Ways { exclusive: true, ..none },
            Mode::Fraction => Ways { shared: by(Sharing::Limiter), ..none },
            Mode::Mps => Ways { shared: by(Sharing::Mps), ..none },
            Mode::TimeSlicing => Ways { shared: by(Sharing::TimeSlicing), ..none },
            Mode::Mig => Ways { mig: true, ..none },
        }
    }

    fn word(self) -> &'static str {
        match self {
            Mode::All => "all",
            Mode::Exclusive => "exclusive",
            Mode::Fraction => "fraction",
            Mode::Mps => "mps",
            Mode::TimeSlicing => "timeslicing",
            Mode::Mig => "mig",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a text is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a mode; modes are all, exclusive, fraction, mps, timeslicing and mig")]
pub struct ModeNameError(pub String);

impl FromStr for Mode {
    type Err = ModeNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mode = Mode::ALL.into_iter().find(|mode| mode.word() == text);
        mode.ok_or_else(|| ModeNameError(text.to_owned()))
    }
}

/// What is published on a version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The mode in force.
    pub mode: Mode,
    /// Its ways.
    pub ways: Ways,
    /// What the operator is to know: that the mode is not the one asked for, or what it needs.
    pub remark: Option<String>,
}

/// Why nothing can be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ModeError {
    /// The API that is written here does not exist there.
    #[error(
        "Kubernetes {server} does not serve resource.k8s.io/v1; dynamic resource allocation needs 1.34 or later: upgrade the cluster, or offer GPUs through the device plugin alone"
    )]
    TooOld {
        /// What the server is.
        server: ServerVersion,
    },
    /// MIG devices can not be published there.
    #[error(
        "mode mig does not go with Kubernetes {server}: it wants counters and devices in one ResourceSlice, which every later version refuses; upgrade to 1.35 with the feature gate DRAPartitionableDevices or to 1.36, or choose --dra-mode exclusive, fraction, mps or timeslicing"
    )]
    MigTooOld {
        /// What the server is.
        server: ServerVersion,
    },
}

/// What a mode comes to on a version of Kubernetes: never more than its scheduler can keep apart.
pub fn ways_for(server: ServerVersion, mode: Mode) -> Result<Choice, ModeError> {
    if server < FIRST {
        return Err(ModeError::TooOld { server });
    }
    let chosen = |mode: Mode, remark: Option<String>| Ok(Choice { mode, ways: mode.ways(), remark });
    let needs = |gate: &str| {
        (server < GATES_ON).then(|| {
            format!(
                "mode {mode} needs the feature gate {gate}, which Kubernetes {server} has switched off unless told otherwise: switch it on in kube-apiserver, kube-scheduler and kubelet, or upgrade to 1.36"
            )
        })
    };
    match mode {
        Mode::All if server < COUNTS_SHARES => chosen(
            Mode::Exclusive,
            Some(format!(
                "GPUs are offered whole only: the scheduler of Kubernetes {server} would give away a GPU that is shared or cut a second time; upgrade to 1.36.2 or later to offer them in every way, or choose one way with --dra-mode fraction, mps, timeslicing or mig"
            )),
        ),
        Mode::Mig if server < COUNTERS_APART => Err(ModeError::MigTooOld { server }),
        Mode::Mig => chosen(mode, needs("DRAPartitionableDevices")),
        Mode::Fraction | Mode::Mps | Mode::TimeSlicing => chosen(mode, needs("DRAConsumableCapacity")),
        Mode::All | Mode::Exclusive => chosen(mode, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, ModeError, ways_for};
    use crate::ServerVersion;

    fn version(text: &str) -> ServerVersion {
        text.parse().expect(text)
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        let error = "time-slicing".parse::<Mode>().expect_err("no mode");
        assert!(error.to_string().contains("timeslicing"), "{error}");
    }

    #[test]
    fn every_way_at_once_needs_a_scheduler_that_counts_shares() {
        for text in ["v1.36.2", "v1.36.4", "v1.37.0", "v1.36.2+k3s1"] {
            let choice = ways_for(version(text), Mode::All).expect(text);
            assert_eq!((choice.mode, &choice.remark), (Mode::All, &None), "{text}");
        }
        for text in ["v1.34.2", "v1.35.8", "v1.36.0", "v1.36.1", "v1.36.2-rc.0"] {
            let choice = ways_for(version(text), Mode::All).expect(text);
            assert_eq!(choice.mode, Mode::Exclusive, "{text}");
            let remark = choice.remark.expect("why, and what to do");
            assert!(remark.contains("1.36.2 or later") && remark.contains("--dra-mode"), "{remark}");
        }
    }

    #[test]
    fn what_is_served_is_one_way_before_1_36_2() {
        for text in ["v1.34.0", "v1.35.4", "v1.36.0", "v1.36.1"] {
            for mode in Mode::ALL {
                let Ok(choice) = ways_for(version(text), mode) else { continue };
                let ways = &choice.ways;
                let number = usize::from(ways.exclusive)
                    + ways.shared.len()
                    + usize::from(ways.mig)
                    + ways.shared_mig.len();
                assert_eq!(number, 1, "{mode} on {text}");
            }
        }
    }

    #[test]
    fn gates_that_are_off_are_told_and_mig_is_refused_where_counters_are_not_apart() {
        let remark = |text: &str, mode: Mode| ways_for(version(text), mode).expect(text).remark;
        for mode in [Mode::Fraction, Mode::Mps, Mode::TimeSlicing] {
            assert!(remark("v1.34.3", mode).expect("a remark").contains("DRAConsumableCapacity"));
            assert!(remark("v1.35.4", mode).expect("a remark").contains("DRAConsumableCapacity"));
            assert_eq!(remark("v1.36.0", mode), None);
        }
        assert!(remark("v1.35.4", Mode::Mig).expect("a remark").contains("DRAPartitionableDevices"));
        assert_eq!(remark("v1.36.1", Mode::Mig), None);
        let old = version("v1.34.5");
        assert_eq!(ways_for(old, Mode::Mig), Err(ModeError::MigTooOld { server: old }));
        let older = version("v1.33.9");
        for mode in Mode::ALL {
            assert_eq!(ways_for(older, mode), Err(ModeError::TooOld { server: older }));
        }
    }
}
