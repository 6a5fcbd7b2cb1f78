//! What the driver says must be done before a GPU is as it should be again.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What the driver asks for after a fault. The numbers are NVML's; drivers tell them from release 565 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub enum RecoveryAction {
    /// Nothing; new processes may start.
    #[default]
    NoneNeeded,
    /// The GPU must be reset, after its processes have ended.
    Reset,
    /// The machine must be rebooted; the fault may have reached the operating system.
    Reboot,
    /// Processes that use this GPU together with others must end; the driver then says what else is needed.
    DrainPeers,
    /// The GPU works with a part of what it has: no new work, and a reset once what runs has ended. Since release 570.
    DrainAndReset,
    /// The domain in which GPUs of several machines share memory must be recovered. Since release 595.
    RecoverImexDomain,
    /// The PCI bus of the GPU must be reset. Since release 615.
    ResetBus,
    /// The whole system must be rebooted. Since release 615.
    RebootSystem,
    /// Something that a later driver asks for, by its number.
    Other(u32),
}

impl RecoveryAction {
    const CODES: [(RecoveryAction, u32); 8] = [
        (RecoveryAction::NoneNeeded, 0),
        (RecoveryAction::Reset, 1),
        (RecoveryAction::Reboot, 2),
        (RecoveryAction::DrainPeers, 3),
        (RecoveryAction::DrainAndReset, 4),
        (RecoveryAction::RecoverImexDomain, 5),
        (RecoveryAction::ResetBus, 6),
        (RecoveryAction::RebootSystem, 7),
    ];

    /// NVML's number.
    pub fn code(self) -> u32 {
        if let RecoveryAction::Other(code) = self {
            return code;
        }
        Self::CODES.iter().find(|(action, _)| *action == self).map_or(0, |(_, code)| *code)
    }

    /// The action behind NVML's number.
    pub fn from_code(code: u32) -> Self {
        let known = Self::CODES.iter().find(|(_, known)| *known == code);
        known.map_or(RecoveryAction::Other(code), |(action, _)| *action)
    }

    /// Whether new work must not be sent to the GPU until it is done. A domain over several machines is no matter of one
    /// GPU, which serves workloads of one machine as before; what a later driver asks for is taken seriously.
    pub fn stops_new_work(self) -> bool {
        !matches!(self, RecoveryAction::NoneNeeded | RecoveryAction::RecoverImexDomain)
    }

    /// Whether a reset of the GPU is all that it takes.
    pub fn is_done_by_reset(self) -> bool {
        matches!(self, RecoveryAction::Reset | RecoveryAction::DrainAndReset)
    }
}

impl From<u32> for RecoveryAction {
    fn from(code: u32) -> Self {
        RecoveryAction::from_code(code)
    }
}

impl From<RecoveryAction> for u32 {
    fn from(action: RecoveryAction) -> u32 {
        action.code()
    }
}

impl fmt::Display for RecoveryAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecoveryAction::NoneNeeded => "needs nothing",
            RecoveryAction::Reset => "needs a reset: end its processes, then run nvidia-smi -r",
            RecoveryAction::Reboot => "needs a reboot of the machine",
            RecoveryAction::DrainPeers => {
                "needs an end of all processes that use it together with other GPUs; the driver then says what else"
            }
            RecoveryAction::DrainAndReset => {
                "works in part: send it no new work, and reset it once what runs has ended"
            }
            RecoveryAction::RecoverImexDomain => "needs its IMEX domain recovered, for work over several machines",
            RecoveryAction::ResetBus => "needs a reset of its PCI bus",
            RecoveryAction::RebootSystem => "needs a reboot of the whole system",
            RecoveryAction::Other(code) => {
                return write!(f, "needs recovery action {code}, which only a newer carve knows by name");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::RecoveryAction;

    #[test]
    fn numbers_are_those_of_the_header_and_come_back() {
        for code in 0..20 {
            assert_eq!(RecoveryAction::from_code(code).code(), code);
        }
        let named = |code| RecoveryAction::from_code(code);
        assert_eq!(
            [named(0), named(1), named(2), named(3), named(4), named(8)],
            [
                RecoveryAction::NoneNeeded,
                RecoveryAction::Reset,
                RecoveryAction::Reboot,
                RecoveryAction::DrainPeers,
                RecoveryAction::DrainAndReset,
                RecoveryAction::Other(8)
            ]
        );
    }

    #[test]
    fn only_a_gpu_that_needs_nothing_itself_takes_new_work() {
        let working: Vec<u32> =
            (0..20).filter(|code| !RecoveryAction::from_code(*code).stops_new_work()).collect();
        assert_eq!(working, [0, 5]);
    }
}
