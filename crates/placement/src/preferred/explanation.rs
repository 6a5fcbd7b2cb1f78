//! Why these devices and no others: as data, and as one sentence for a person.

use super::pool::Asked;
use super::{Policy, Request};
use carve_gpu_host::PciPath;
use carve_gpu_model::GpuIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why these devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// How many devices were taken of each GPU.
    pub taken: BTreeMap<GpuIndex, usize>,
    /// How many of them had to be included.
    pub required: usize,
    /// What decided about the others.
    pub reason: Reason,
    /// Lost GPUs among those taken.
    pub lost_taken: BTreeSet<GpuIndex>,
    /// Lost GPUs that had free devices and were left alone.
    pub lost_avoided: BTreeSet<GpuIndex>,
    /// How many names of free devices this resource does not have.
    pub unknown: usize,
}

/// What decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Every device had to be included.
    AllRequired,
    /// Exactly as many devices were free as were wanted.
    NothingElse,
    /// One GPU was wanted, and the others are connected best without it.
    SparesOthers,
    /// These GPUs are connected best.
    Connection {
        /// NVLinks of the two that have the fewest between them.
        fewest_nvlinks: u32,
        /// NVLinks of the two that have the most between them.
        most_nvlinks: u32,
        /// The farthest way over PCI between any two; none where a way is not known.
        farthest: Option<PciPath>,
        /// Which sets were looked at.
        search: Search,
    },
    /// How much of each part was taken.
    Policy(Policy),
}

/// How thoroughly sets of GPUs were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Every set was looked at: there is no better one.
    All,
    /// There are too many; no exchange of one GPU makes the set better.
    Nearby,
}

/// What a choice went by, before it is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Basis {
    AllRequired,
    NothingElse,
    Connection(Search),
    Policy(Policy),
}

/// Tells a choice.
pub(super) fn explain(request: &Request<'_>, asked: &Asked, picks: &[usize], basis: Basis) -> Explanation {
    let gpu = |place: &usize| request.pool.device(*place).gpu;
    let mut taken: BTreeMap<GpuIndex, usize> = BTreeMap::new();
    for place in asked.required.iter().chain(picks) {
        *taken.entry(gpu(place)).or_default() += 1;
    }
    let is_lost = |gpu: &GpuIndex| request.topology.is_lost(*gpu);
    let lost_taken: BTreeSet<GpuIndex> = taken.keys().copied().filter(is_lost).collect();
    let lost_avoided = asked.free.iter().map(gpu).filter(|gpu| is_lost(gpu) && !taken.contains_key(gpu));
    let lost_avoided = lost_avoided.collect();
    let reason = match basis {
        Basis::AllRequired => Reason::AllRequired,
        Basis::NothingElse => Reason::NothingElse,
        Basis::Policy(policy) => Reason::Policy(policy),
        Basis::Connection(search) => connection(request, &taken, search),
    };
    let required = asked.required.len();
    Explanation { taken, required, reason, lost_taken, lost_avoided, unknown: asked.unknown }
}

fn connection(request: &Request<'_>, taken: &BTreeMap<GpuIndex, usize>, search: Search) -> Reason {
    let gpus: Vec<GpuIndex> = taken.keys().copied().collect();
    let mut links = Vec::new();
    for (number, from) in gpus.iter().enumerate() {
        links.extend(gpus[number + 1..].iter().map(|to| request.topology.link(*from, *to)));
    }
    let nvlinks = || links.iter().map(|link| link.map_or(0, |link| link.nvlinks));
    let (Some(fewest_nvlinks), Some(most_nvlinks)) = (nvlinks().min(), nvlinks().max()) else {
        return Reason::SparesOthers;
    };
    let ways: Option<Vec<PciPath>> = links.iter().map(|link| link.map(|link| link.pci)).collect();
    let farthest = ways.and_then(|ways| ways.into_iter().max());
    Reason::Connection { fewest_nvlinks, most_nvlinks, farthest, search }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpus: BTreeSet<GpuIndex> = self.taken.keys().copied().collect();
        match self.reason {
            Reason::Policy(_) => f.write_str(&shares(&self.taken))?,
            _ if gpus.is_empty() => f.write_str("no device")?,
            _ => f.write_str(&named(&gpus))?,
        }
        match self.reason {
            Reason::AllRequired => f.write_str(": all had to be included")?,
            Reason::NothingElse => f.write_str(": nothing else was free")?,
            Reason::SparesOthers => f.write_str(": the other GPUs are connected best without it")?,
            Reason::Policy(Policy::Distributed) => f.write_str(": spread, the least used first")?,
            Reason::Policy(Policy::Packed) => f.write_str(": packed, the most used first")?,
            Reason::Connection { fewest_nvlinks, most_nvlinks, farthest, search } => {
                f.write_str(": ")?;
                let pair = gpus.len() == 2;
                f.write_str(&nvlinks(fewest_nvlinks, most_nvlinks, pair))?;
                if fewest_nvlinks == 0 {
                    write!(f, ", {}{}", if pair { "" } else { "at the farthest " }, way(farthest))?;
                }
                if search == Search::Nearby {
                    f.write_str(" (not every set was looked at)")?;
                }
            }
        }
        if self.required > 0 && self.reason != Reason::AllRequired {
            write!(f, "; {} had to be included", self.required)?;
        }
        if !self.lost_taken.is_empty() {
            write!(f, "; {} {} lost, and taken all the same", named(&self.lost_taken), be(&self.lost_taken))?;
        }
        if !self.lost_avoided.is_empty() {
            write!(f, "; {} {} lost, and left alone", named(&self.lost_avoided), be(&self.lost_avoided))?;
        }
        match self.unknown {
            0 => Ok(()),
            1 => f.write_str("; 1 name of a free device is not known here"),
            count => write!(f, "; {count} names of free devices are not known here"),
        }
    }
}

fn be(gpus: &BTreeSet<GpuIndex>) -> &'static str {
    if gpus.len() == 1 { "is" } else { "are" }
}

/// `GPU 3`, `GPUs 2 and 3`, `GPUs 0, 1 and 4`.
fn named(gpus: &BTreeSet<GpuIndex>) -> String {
    let names: Vec<String> = gpus.iter().map(ToString::to_string).collect();
    format!("GPU{} {}", if names.len() == 1 { "" } else { "s" }, listed(&names))
}

/// `1 device of GPU 0 and 2 of GPU 1`.
fn shares(taken: &BTreeMap<GpuIndex, usize>) -> String {
    let first = |number: usize, count: usize| match (number, count) {
        (0, 1) => " device",
        (0, _) => " devices",
        _ => "",
    };
    let names = taken.iter().enumerate();
    let names: Vec<String> = names
        .map(|(number, (gpu, count))| format!("{count}{} of GPU {gpu}", first(number, *count)))
        .collect();
    listed(&names)
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn nvlinks(fewest: u32, most: u32, pair: bool) -> String {
    let between = if pair { "between them" } else { "between every two" };
    match (fewest, most) {
        (0, 0) => "no NVLink between them".to_owned(),
        (1, 1) => format!("1 NVLink {between}"),
        (fewest, most) if fewest == most => format!("{most} NVLinks {between}"),
        (fewest, most) => format!("{fewest} to {most} NVLinks {between}"),
    }
}

fn way(farthest: Option<PciPath>) -> &'static str {
    match farthest {
        Some(PciPath::SameBoard) => "on one board",
        Some(PciPath::OneSwitch) => "over one PCI switch",
        Some(PciPath::SeveralSwitches) => "over several PCI switches",
        Some(PciPath::HostBridge) => "over the host bridge",
        Some(PciPath::SameNode) => "over the CPU of one NUMA node",
        Some(PciPath::AcrossNodes) => "across NUMA nodes",
        None => "a way that is not known",
    }
}
