//! `carve mig`: the MIG partition editor.

mod apply;
mod assert;
mod config;
mod list;
mod progress;
mod save;
mod show;

use crate::args::{MachineArgs, MigVerb};
use crate::failure::Outcome;
use crate::machine;

/// Answers a verb of `carve mig`. Files are read before the machine is opened, so that a typo costs nothing.
pub(crate) fn mig(machine: &MachineArgs, verb: &MigVerb) -> Outcome {
    match verb {
        MigVerb::Apply(args) => apply::apply(machine, args),
        MigVerb::Plan(args) => apply::plan_only(machine, &args.config, args.mode_only),
        MigVerb::Assert(args) => assert::assert(machine, args),
        MigVerb::Restore(args) => apply::restore(machine, args),
        MigVerb::Checkpoint(args) => save::checkpoint(&machine::open(machine)?, args),
        MigVerb::Export(args) => save::export(&machine::open(machine)?, args),
        MigVerb::Profiles(args) => list::profiles(&machine::open(machine)?, args),
        MigVerb::Placements(args) => list::placements(&machine::open(machine)?, args),
    }
}
