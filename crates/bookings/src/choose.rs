//! Which GPUs of a node serve a pod, or why none do.
//!
//! Parts that stay are placed first, together, the largest first and each where it leaves least; a way that turns out to lead nowhere is taken
//! back. Init containers then find their place beside the sidecars that run by then. What is found fits; where the search gives up, which
//! takes more parts than pods have, it says so.

use crate::offer::Gpu;
use crate::room::{Held, Room};
use crate::slices::{ContainerSlices, Slice, Slices};
use crate::want::{Compute, ContainerWant, Part, Stage, Want};
use carve_gpu_model::Mebibytes;
use std::collections::BTreeSet;
use std::fmt;

/// Steps after which the search gives up.
const PATIENCE: u32 = 20_000;

/// Why a pod does not fit on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// The node gives out no parts of GPUs.
    NoGpus,
    /// No GPU is one of those that a container names.
    Names {
        /// The container.
        container: String,
    },
    /// All GPUs that would do are withheld.
    Withheld {
        /// Why the first of them is.
        why: String,
    },
    /// Too few GPUs have enough left.
    Left {
        /// The container.
        container: String,
        /// Parts that it wants.
        wanted: u32,
        /// GPUs that have enough left.
        serving: u32,
        /// What a part takes, of the GPU that has most left.
        part: Held,
        /// What that GPU has left.
        most: Held,
    },
    /// Every part fits by itself, but not all of them together.
    Together,
    /// Nobody knows: the pod has too many parts to try all ways.
    TooMany,
}

/// Percent, with a tenth where there is one.
struct Percent(Compute);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 % 10 {
            0 => write!(f, "{} %", self.0.0 / 10),
            tenth => write!(f, "{}.{tenth} %", self.0.0 / 10),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NoGpus => f.write_str("no GPUs that are given out in parts"),
            Misfit::Names { container } => {
                write!(f, "no GPU of the model or id that container {container} names")
            }
            Misfit::Withheld { why } => write!(f, "GPUs are withheld: {why}"),
            Misfit::Left { container, wanted, serving, part, most } => {
                write!(
                    f,
                    "container {container} wants {wanted} × {} and {}",
                    part.memory,
                    Percent(part.compute)
                )?;
                let left = format!("most left is {} and {}", most.memory, Percent(most.compute));
                if *wanted == 1 {
                    write!(f, "; {left}")
                } else {
                    write!(f, "; {serving} GPUs have that, {left}")
                }
            }
            Misfit::Together => f.write_str("its containers fit one by one but not together"),
            Misfit::TooMany => f.write_str("its parts are too many to try all ways"),
        }
    }
}

/// One part of one GPU that is to be found.
struct Unit<'a> {
    container: usize,
    part: &'a Part,
    /// Those of one group go to different GPUs.
    group: usize,
}

struct Search<'a> {
    gpus: &'a [(Gpu, Held)],
    units: Vec<Unit<'a>>,
    /// What is left, with what was chosen so far taken away.
    left: Vec<Held>,
    /// What the pod holds anyway, at another time.
    anyway: Vec<Held>,
    chosen: Vec<usize>,
    steps: u32,
    /// Whether somebody names GPUs by their ids, so that none is like another.
    by_id: bool,
}

impl Search<'_> {
    /// Of which groups a GPU has parts so far.
    fn groups(&self, gpu: usize) -> Vec<usize> {
        let chosen = self.units.iter().zip(&self.chosen);
        chosen.filter(|(_, at)| **at == gpu).map(|(unit, _)| unit.group).collect()
    }

    fn place(&mut self, number: usize) -> bool {
        let Some(unit) = self.units.get(number) else { return true };
        self.steps += 1;
        if self.steps > PATIENCE {
            return false;
        }
        let group = unit.group;
        let mut ways: Vec<(bool, u64, usize, Held)> = Vec::new();
        for (at, (gpu, _)) in self.gpus.iter().enumerate() {
            let need = need(unit.part, gpu);
            if need.is_within(self.left[at]) && serves(unit.part, gpu) && !self.groups(at).contains(&group) {
                let more = !need.is_within(self.anyway[at]);
                ways.push((more, spare(gpu, self.left[at].less(need)), at, need));
            }
        }
        // What the pod has anyway first, then the tightest.
        ways.sort_by_key(|way| (way.0, way.1, way.2));
        let mut tried = Vec::new();
        for (more, _, at, need) in ways {
            let gpu = &self.gpus[at].0;
            // GPUs that are alike in every respect lead to the same end, so one of them is enough.
            let alike = (more, self.left[at], gpu.memory, gpu.product.as_str(), self.groups(at));
            if !self.by_id && tried.contains(&alike) {
                continue;
            }
            tried.push(alike);
            let before = self.left[at];
            self.left[at] = before.less(need);
            self.chosen.push(at);
            if self.place(number + 1) {
                return true;
            }
            self.chosen.pop();
            self.left[at] = before;
        }
        false
    }
}

fn need(part: &Part, gpu: &Gpu) -> Held {
    let (memory, compute) = part.of(gpu);
    Held { memory, compute }
}

fn serves(part: &Part, gpu: &Gpu) -> bool {
    gpu.withheld.is_none() && part.names(gpu)
}

/// How much of a GPU would be left, in thousandths of whichever of memory and compute there is more of.
fn spare(gpu: &Gpu, left: Held) -> u64 {
    let memory = left.memory.0.saturating_mul(1000) / gpu.memory.0.max(1);
    memory.max(u64::from(left.compute.0))
}

/// Units of some containers, the largest first.
fn units<'a>(
    containers: impl Iterator<Item = (usize, &'a ContainerWant)>,
    largest: Mebibytes,
) -> Vec<Unit<'a>> {
    let mut all = Vec::new();
    let mut group = 0;
    for (container, want) in containers {
        for part in &want.parts {
            group += 1;
            all.extend((0..part.count).map(|_| Unit { container, part, group }));
        }
    }
    let reference = Gpu {
        uuid: carve_gpu_model::GpuUuid(String::new()),
        product: String::new(),
        memory: largest,
        withheld: None,
    };
    let size = |unit: &Unit<'_>| {
        let (memory, compute) = unit.part.of(&reference);
        (memory.0.saturating_mul(1000) / largest.0.max(1)).max(u64::from(compute.0))
    };
    all.sort_by_key(|unit| std::cmp::Reverse(size(unit)));
    all
}

/// Finds parts of a node's GPUs for a pod.
pub fn choose(room: &Room, want: &Want) -> Result<Slices, Misfit> {
    if room.gpus.is_empty() {
        return Err(Misfit::NoGpus);
    }
    for container in &want.containers {
        for part in &container.parts {
            alone(room, &container.name, part)?;
        }
    }
    let largest = room.gpus.iter().map(|(gpu, _)| gpu.memory).max().unwrap_or_default();
    let mut slices: Vec<Vec<Slice>> = want.containers.iter().map(|_| Vec::new()).collect();
    let all: Vec<Held> = room.gpus.iter().map(|(_, left)| *left).collect();
    let stay = want.containers.iter().enumerate().filter(|(_, one)| one.stage != Stage::Init);
    let none = vec![Held::default(); all.len()];
    search(room, units(stay, largest), all.clone(), none.clone(), &mut slices)?;
    // What stays on each GPU, and what of it is there already when the next init container runs.
    let mut stays = none.clone();
    slices.iter().flatten().for_each(|slice| note(room, &mut stays, slice));
    let mut sidecars = none;
    for (number, container) in want.containers.iter().enumerate() {
        match container.stage {
            Stage::Init => {
                let less = |all: &[Held]| all.iter().zip(&sidecars).map(|(one, by)| one.less(*by)).collect();
                // kubelet gives its tokens to a later container and does not say which of them starts, so it has the same parts if it can.
                let later = want
                    .containers
                    .iter()
                    .zip(&slices)
                    .find(|(one, slices)| one.stage == Stage::Main && covers(room, slices, container));
                if let Some((_, same)) = later {
                    slices[number] = same.clone();
                    continue;
                }
                let units = units(std::iter::once((number, container)), largest);
                search(room, units, less(&all), less(&stays), &mut slices)?;
            }
            Stage::Sidecar => slices[number].iter().for_each(|slice| note(room, &mut sidecars, slice)),
            Stage::Main => {}
        }
    }
    let containers = want.containers.iter().zip(slices).map(|(want, slices)| ContainerSlices {
        name: want.name.clone(),
        stage: want.stage,
        slices,
    });
    Ok(Slices { containers: containers.collect() })
}

/// Whether slices are as many as a container wants, and each of them enough for one of its parts.
fn covers(room: &Room, slices: &[Slice], want: &ContainerWant) -> bool {
    let parts: Vec<&Part> = want.parts.iter().flat_map(|part| (0..part.count).map(move |_| part)).collect();
    let enough = |(part, slice): (&&Part, &Slice)| {
        let gpu = room.gpus.iter().map(|(gpu, _)| gpu).find(|gpu| gpu.uuid == slice.gpu);
        let has = Held { memory: slice.memory, compute: slice.compute };
        // What is not limited is enough for anything.
        let has = if slice.burst { Held { compute: Compute::ALL, ..has } } else { has };
        let lent = slice.burst || !part.burst;
        lent && gpu.is_some_and(|gpu| serves(part, gpu) && need(part, gpu).is_within(has))
    };
    let different = slices.iter().map(|slice| &slice.gpu).collect::<BTreeSet<_>>().len() == slices.len();
    different && parts.len() == slices.len() && parts.iter().zip(slices).all(enough)
}

/// Adds a slice to what is held of each GPU.
fn note(room: &Room, held: &mut [Held], slice: &Slice) {
    let at = room.gpus.iter().position(|(gpu, _)| gpu.uuid == slice.gpu);
    if let Some(held) = at.and_then(|at| held.get_mut(at)) {
        held.add(Held { memory: slice.memory, compute: slice.compute });
    }
}

fn search(
    room: &Room,
    units: Vec<Unit<'_>>,
    left: Vec<Held>,
    anyway: Vec<Held>,
    slices: &mut [Vec<Slice>],
) -> Result<(), Misfit> {
    let by_id = units.iter().any(|unit| unit.part.uuids != Default::default());
    let mut search = Search { gpus: &room.gpus, units, left, anyway, chosen: Vec::new(), steps: 0, by_id };
    if !search.place(0) {
        return Err(if search.steps > PATIENCE { Misfit::TooMany } else { Misfit::Together });
    }
    for (unit, at) in search.units.iter().zip(&search.chosen) {
        let gpu = &room.gpus[*at].0;
        let (memory, compute) = unit.part.of(gpu);
        let burst = unit.part.burst || unit.part.compute.is_none();
        slices[unit.container].push(Slice { gpu: gpu.uuid.clone(), memory, compute, burst });
    }
    Ok(())
}

/// Whether a part would fit if the container were alone, for a reason that people can do something about.
fn alone(room: &Room, container: &str, part: &Part) -> Result<(), Misfit> {
    let named: Vec<_> = room.gpus.iter().filter(|(gpu, _)| part.names(gpu)).collect();
    if named.is_empty() {
        return Err(Misfit::Names { container: container.to_owned() });
    }
    let open: Vec<_> = named.iter().filter(|(gpu, _)| gpu.withheld.is_none()).collect();
    let Some((most, left)) = open.iter().max_by_key(|(gpu, left)| spare_of_both(gpu, *left)) else {
        let why = named.iter().find_map(|(gpu, _)| gpu.withheld.clone()).unwrap_or_default();
        return Err(Misfit::Withheld { why });
    };
    let serving = open.iter().filter(|(gpu, left)| need(part, gpu).is_within(*left)).count();
    if serving < part.count as usize {
        return Err(Misfit::Left {
            container: container.to_owned(),
            wanted: part.count,
            serving: serving as u32,
            part: need(part, most),
            most: *left,
        });
    }
    Ok(())
}

/// The scarcer of what is left, in thousandths.
fn spare_of_both(gpu: &Gpu, left: Held) -> u64 {
    let memory = left.memory.0.saturating_mul(1000) / gpu.memory.0.max(1);
    memory.min(u64::from(left.compute.0))
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
