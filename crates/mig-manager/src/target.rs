//! What each GPU should become, from the entries of a config; everything that can not be is refused here.

use crate::GpuState;
use carve_formats::diagnostic::At;
use carve_formats::mig_parted::{ConfigEntry, Devices};
use carve_gpu_model::{Geometry, GpuIndex, PciId, ProfileName};
use carve_planner::{Infeasible, WantedError, WantedInstance, feasible, wanted};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// What one GPU should become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuTarget {
    /// MIG off.
    Disabled,
    /// MIG on, with these instances.
    Enabled {
        /// The instances.
        instances: Vec<WantedInstance>,
        /// The same as MIG devices by name, for people and for comparing.
        devices: BTreeMap<ProfileName, u64>,
    },
}

/// What the GPUs that a config names should become. GPUs it does not name are left alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// By GPU.
    pub gpus: BTreeMap<GpuIndex, GpuTarget>,
    /// GPUs that an entry for all devices skips because they have no MIG.
    pub skipped: Vec<GpuIndex>,
}

/// Why a config can not be applied to this machine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing in the config applies to any GPU here.
    #[error("{config}: no entry applies to any GPU of this machine, so nothing would change{}", Tried(.filters, .gpus))]
    MatchesNothing {
        /// Name of the config.
        config: String,
        /// Filters of its entries.
        filters: Vec<String>,
        /// What is here instead.
        gpus: Vec<(GpuIndex, String, PciId)>,
    },
    /// A device index that does not exist.
    #[error("{place}: there is no GPU {index}; this machine has {here}")]
    NoSuchGpu {
        /// Where it was asked for.
        place: Place,
        /// The index.
        index: i64,
        /// Which there are.
        here: String,
    },
    /// MIG on a GPU that has none.
    #[error("{place}: GPU {gpu} ({name}) has no MIG")]
    NotCapable {
        /// Where it was asked for.
        place: Place,
        /// The GPU.
        gpu: GpuIndex,
        /// What it is called.
        name: String,
    },
    /// MIG for all GPUs of a machine where none has it.
    #[error("{place}: none of the GPUs it names has MIG ({gpus})")]
    NoneCapable {
        /// Where it was asked for.
        place: Place,
        /// What is here.
        gpus: String,
    },
    /// A GPU that does not answer.
    #[error("{place}: GPU {gpu} does not answer: {reason}")]
    Unreachable {
        /// Where it was asked for.
        place: Place,
        /// The GPU.
        gpu: GpuIndex,
        /// What the driver said.
        reason: String,
    },
    /// A profile the GPU does not have, or can not hold so often or so divided.
    #[error("{place}: {gpus} ({name}): {reason}{}", Nearest(.reason))]
    Profile {
        /// Where it was asked for.
        place: Place,
        /// The GPUs, all of one kind.
        gpus: GpuList,
        /// What it is called.
        name: String,
        /// What is wrong.
        reason: WantedError,
    },
    /// Instances that do not fit together.
    #[error("{place}: {gpus} ({name}): {reason}; the largest part that fits is {}", .reason.nearest)]
    Infeasible {
        /// Where it was asked for.
        place: Place,
        /// The GPUs, all of one kind.
        gpus: GpuList,
        /// What it is called.
        name: String,
        /// What is wrong.
        reason: Infeasible,
    },
    /// Two entries that want different things of one GPU.
    #[error(
        "{first} and {second} both name GPU {gpu} and want different things; entries do not override each other"
    )]
    Contradiction {
        /// One entry.
        first: Place,
        /// The other.
        second: Place,
        /// The GPU.
        gpu: GpuIndex,
    },
}

/// An entry of a config, for pointing at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    config: String,
    entry: usize,
    at: At,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.config, self.entry)?;
        match self.at.0 {
            Some(at) => write!(f, " (line {})", at.line),
            None => Ok(()),
        }
    }
}

/// GPUs of one kind, for naming them together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuList(pub Vec<GpuIndex>);

impl fmt::Display for GpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indices: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "GPU {}", indices.join(", "))
    }
}

struct Nearest<'a>(&'a WantedError);

impl fmt::Display for Nearest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WantedError::Unknown(unknown) => match &unknown.nearest {
                Some(nearest) => write!(f, "; the nearest it has is {nearest}"),
                None => Ok(()),
            },
            WantedError::Division { .. } | WantedError::TooMany { .. } => Ok(()),
        }
    }
}

struct Tried<'a>(&'a [String], &'a [(GpuIndex, String, PciId)]);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            write!(f, " (its filters are {})", self.0.join(", "))?;
        }
        for (position, (gpu, name, id)) in self.1.iter().enumerate() {
            write!(f, "{} GPU {gpu} is {name} ({id})", if position == 0 { ";" } else { "," })?;
        }
        Ok(())
    }
}

/// What the entries of a config ask of the GPUs that are here, or everything that is wrong with it.
pub fn resolve(config: &str, entries: &[ConfigEntry], gpus: &[GpuState]) -> Result<Target, Vec<Refusal>> {
    let (target, refusals) = resolve_each(config, entries, gpus);
    if refusals.is_empty() { Ok(target) } else { Err(refusals) }
}

/// What the entries of a config ask of the GPUs for which they make sense, and what is wrong with the rest.
pub(crate) fn resolve_each(
    config: &str,
    entries: &[ConfigEntry],
    gpus: &[GpuState],
) -> (Target, Vec<Refusal>) {
    let mut target = Target::default();
    let mut from: BTreeMap<GpuIndex, Place> = BTreeMap::new();
    let mut refusals = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        let place = Place { config: config.to_owned(), entry: position, at: entry.at };
        let named = select(entry, gpus, &place, &mut refusals);
        let capable = named.iter().any(|state| state.mode.is_some() || state.trouble.is_some());
        if entry.mig_enabled && entry.devices == Devices::All && !named.is_empty() && !capable {
            let gpus = named.iter().map(|state| state.gpu.name.clone()).collect::<Vec<_>>().join(", ");
            refusals.push(Refusal::NoneCapable { place: place.clone(), gpus });
        }
        for state in named {
            match ask(entry, state, &place) {
                Ok(Some(asked)) => {
                    let gpu = state.gpu.index;
                    match (target.gpus.get(&gpu), from.get(&gpu)) {
                        (Some(before), Some(first)) if *before != asked => {
                            refusals.push(Refusal::Contradiction {
                                first: first.clone(),
                                second: place.clone(),
                                gpu,
                            })
                        }
                        _ => {
                            target.gpus.insert(gpu, asked);
                            from.insert(gpu, place.clone());
                        }
                    }
                }
                Ok(None) => target.skipped.push(state.gpu.index),
                Err(refusal) => refuse(&mut refusals, refusal),
            }
        }
    }
    if refusals.is_empty() && target.gpus.is_empty() && target.skipped.is_empty() {
        refusals.push(Refusal::MatchesNothing {
            config: config.to_owned(),
            filters: entries.iter().flat_map(|entry| entry.filter.clone()).collect(),
            gpus: gpus
                .iter()
                .map(|state| (state.gpu.index, state.gpu.name.clone(), state.gpu.pci_id))
                .collect(),
        });
    }
    (target, refusals)
}

/// Adds a refusal; the same one for a GPU of the same kind joins the earlier.
fn refuse(refusals: &mut Vec<Refusal>, new: Refusal) {
    let same = |known: &Refusal| {
        let mut alike = known.clone();
        match (&mut alike, &new) {
            (Refusal::Profile { gpus, .. }, Refusal::Profile { gpus: other, .. })
            | (Refusal::Infeasible { gpus, .. }, Refusal::Infeasible { gpus: other, .. }) => {
                gpus.clone_from(other)
            }
            _ => {}
        }
        alike == new
    };
    let earlier = refusals.iter_mut().find(|known| same(known));
    match (earlier, &new) {
        (Some(Refusal::Profile { gpus, .. }), Refusal::Profile { gpus: more, .. })
        | (Some(Refusal::Infeasible { gpus, .. }), Refusal::Infeasible { gpus: more, .. }) => {
            gpus.0.extend(&more.0)
        }
        _ => refusals.push(new),
    }
}

/// The GPUs an entry names. Indices that do not exist are refused.
fn select<'a>(
    entry: &ConfigEntry,
    gpus: &'a [GpuState],
    place: &Place,
    refusals: &mut Vec<Refusal>,
) -> Vec<&'a GpuState> {
    if let Devices::Listed(indices) = &entry.devices {
        let exists = |index: &i64| gpus.iter().any(|state| i64::from(state.gpu.index.0) == *index);
        for index in indices.iter().filter(|index| !exists(index)) {
            let here = match gpus.len() {
                0 => "no GPU".to_owned(),
                1 => "only GPU 0".to_owned(),
                more => format!("GPUs 0 to {}", more - 1),
            };
            refusals.push(Refusal::NoSuchGpu { place: place.clone(), index: *index, here });
        }
    }
    let listed = |state: &&GpuState| match &entry.devices {
        Devices::All => true,
        Devices::Listed(indices) => indices.contains(&i64::from(state.gpu.index.0)),
    };
    gpus.iter().filter(listed).filter(|state| passes(&entry.filter, state)).collect()
}

/// Whether a GPU passes an entry's filter: no filter (or an empty one) passes all.
fn passes(filter: &[String], state: &GpuState) -> bool {
    let is = |text: &String| {
        let (device, subsystem) = match text.split_once(':') {
            Some((device, subsystem)) => (device, Some(subsystem)),
            None => (text.as_str(), None),
        };
        device.parse() == Ok(state.gpu.pci_id)
            && subsystem.is_none_or(|text| text.parse::<PciId>().ok() == state.gpu.subsystem)
    };
    let unfiltered = matches!(filter, [only] if only.is_empty());
    filter.is_empty() || unfiltered || filter.iter().any(is)
}

/// What an entry asks of one GPU; `None` where it passes over a GPU without MIG.
fn ask(entry: &ConfigEntry, state: &GpuState, place: &Place) -> Result<Option<GpuTarget>, Refusal> {
    let gpu = state.gpu.index;
    let name = || state.gpu.name.clone();
    if let Some(trouble) = &state.trouble {
        return Err(Refusal::Unreachable { place: place.clone(), gpu, reason: trouble.failure.to_string() });
    }
    let Some(table) = &state.table else {
        return match (entry.mig_enabled, &entry.devices) {
            (true, Devices::Listed(_)) => {
                Err(Refusal::NotCapable { place: place.clone(), gpu, name: name() })
            }
            (true, Devices::All) | (false, _) => Ok(None),
        };
    };
    if !entry.mig_enabled {
        return Ok(Some(GpuTarget::Disabled));
    }
    let asked = || entry.mig_devices.iter().map(|wanted| (&wanted.name, wanted.count));
    let instances = wanted(table, asked()).map_err(|reason| Refusal::Profile {
        place: place.clone(),
        gpus: GpuList(vec![gpu]),
        name: name(),
        reason,
    })?;
    feasible(table, &instances).map_err(|reason| Refusal::Infeasible {
        place: place.clone(),
        gpus: GpuList(vec![gpu]),
        name: name(),
        reason,
    })?;
    let mut devices = BTreeMap::new();
    for (name, count) in asked().filter(|(_, count)| *count > 0) {
        *devices.entry(name.clone()).or_insert(0) += count;
    }
    Ok(Some(GpuTarget::Enabled { instances, devices }))
}

impl Target {
    /// The GPUs that are not as they should be.
    pub fn differing<'a>(&'a self, gpus: &'a [GpuState]) -> impl Iterator<Item = &'a GpuState> {
        gpus.iter().filter(|state| match self.gpus.get(&state.gpu.index) {
            None => false,
            Some(GpuTarget::Disabled) => state.mig_enabled(),
            Some(GpuTarget::Enabled { devices, .. }) => {
                !state.mig_enabled() || crate::layout::devices(state) != *devices
            }
        })
    }

    /// The GPUs whose MIG mode is not as it should be.
    pub fn differing_modes<'a>(&'a self, gpus: &'a [GpuState]) -> impl Iterator<Item = &'a GpuState> {
        gpus.iter().filter(|state| match self.gpus.get(&state.gpu.index) {
            None => false,
            Some(wanted) => state.mig_enabled() != matches!(wanted, GpuTarget::Enabled { .. }),
        })
    }
}

impl GpuTarget {
    /// The instances as a geometry, for printing.
    pub fn geometry(&self) -> Geometry {
        match self {
            GpuTarget::Disabled => Geometry::default(),
            GpuTarget::Enabled { devices, .. } => devices
                .iter()
                .map(|(name, count)| (name.clone(), u32::try_from(*count).unwrap_or(u32::MAX)))
                .collect(),
        }
    }
}
