//! A plan in words: what each GPU becomes, what was kept, what each claim gets, and what the others wait for.

use super::{GpuPlan, Plan, WaitsFor};
use crate::Kept;
use std::fmt;

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitsFor::AnotherGpu { nearest: Some(nearest) } => {
                write!(
                    f,
                    "waits for another GPU: none has a profile that serves it; the nearest is {nearest}"
                )
            }
            WaitsFor::AnotherGpu { nearest: None } => {
                f.write_str("waits for another GPU: none has a profile that serves it")
            }
            WaitsFor::InstancesInUse { gpus } => write!(
                f,
                "waits for instances in use to end: on none of the {gpus} GPU(s) that could serve it is there room beside them"
            ),
            WaitsFor::OtherClaims { gpus } => write!(
                f,
                "waits for room: {gpus} GPU(s) could serve it, but more claims are served without it, or as many with less change"
            ),
        }
    }
}

impl fmt::Display for GpuPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "becomes {}", self.geometry)?;
        if self.recut.is_empty() {
            return f.write_str(", nothing changes");
        }
        let (kept, made) = (self.recut.keep.len(), self.recut.create.len());
        write!(f, ": {kept} kept, {} destroyed, {made} made", self.recut.destroy.len())?;
        let divided = self.recut.keep.iter().filter(|kept| !Kept::is_untouched(kept)).count();
        if divided > 0 {
            write!(f, ", {divided} divided anew")?;
        }
        if self.switch_mode_on {
            f.write_str(", MIG mode is switched on first")?;
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Plan {}", self.generation.0)?;
        for (at, gpu) in &self.gpus {
            writeln!(f, "  {at} {gpu}")?;
        }
        for (claim, served) in &self.served {
            let how = if served.existing.is_some() { "which exists" } else { "made for it" };
            writeln!(
                f,
                "  {claim}: {} at slot {} of {}, {how}",
                served.profile, served.placed.start, served.on
            )?;
        }
        for (claim, why) in &self.waiting {
            writeln!(f, "  {claim}: {why}")?;
        }
        let (served, all) = (self.served.len(), self.served.len() + self.waiting.len());
        write!(f, "{served} of {all} claims served, {} instance(s) destroyed. ", self.quality.destroyed)?;
        if self.quality.exhaustive {
            f.write_str("No plan is better.")
        } else {
            write!(
                f,
                "No plan serves more than {}; not every plan was looked at.",
                self.quality.serves_at_most
            )
        }
    }
}
