//! One MPS control daemon for each shared GPU or MIG device: started, limited, checked, kept alive.
//!
//! [`Mps`] holds one owner task per part; [`Mps::ensure`] says which parts are wanted with which limits, and
//! [`Mps::status`] tells what has become of them. A part is [`PartState::Ready`] only after its limits were set on a
//! daemon without clients and read back: a limit given later does nothing for the clients of a server that runs, and a
//! client that finds no daemon runs without any limit.
//!
//! Daemons outlive the process that started them, and its container where they have a cgroup of their own
//! ([`CgroupHome`]). They hold the GPU state of every connected pod, so a later owner takes them over as they are, and none
//! is ended while a client is connected.

mod answers;
mod cgroup;
mod compute_mode;
mod control;
mod daemon;
mod directories;
mod error;
mod manager;
mod owner;
mod probe;
mod settings;
mod status;
mod users;

pub use answers::{AnswerError, MemoryTold, ProcessId};
pub use cgroup::CgroupHome;
pub use control::{Control, ControlError};
pub use directories::{DirectoryError, PartDirectories};
pub use error::DaemonError;
pub use manager::{IdleDaemons, Mps};
pub use probe::{ClientProbe, LimitNotHeld, ProbeError, Seen, verdict};
pub use settings::{MpsSettings, UserMode};
pub use status::{Failure, PartState, PartStatus};
pub use users::{UserId, Users};
