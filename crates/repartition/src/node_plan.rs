//! What should become of one node for the pods that may go there: the planner's answer, checked, and only for pods that get everything.

use crate::room::{GpuRoom, NodeRoom, Part};
use crate::{Amounts, Instance, Rules, WaitingPod};
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, GpuUuid, Placed, ProfileName};
use carve_planner::{
    ClaimName, Demand, Effort, FleetGpu, Generation, GpuAt, HostName, MigMode, PendingClaim, Plan, PoolName,
    PresentCompute, PresentInstance, RunningClaim, Substitution, Wants, check_plan, plan,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to become of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlan {
    /// The node.
    pub node: String,
    /// The policy that allows it.
    pub policy: String,
    /// Number of the plan.
    pub generation: u64,
    /// Whether it is only shown.
    pub dry_run: bool,
    /// GPUs that change.
    pub gpus: Vec<GpuChange>,
    /// Pods that it is made for.
    pub serves: Vec<String>,
    /// Pods that are asked to go first. There is room for them afterwards.
    pub evicts: Vec<String>,
}

impl NodePlan {
    /// How many instances go.
    pub fn destroys(&self) -> usize {
        self.gpus.iter().map(|gpu| gpu.destroys.len()).sum()
    }
}

/// What is to become of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuChange {
    /// The GPU.
    pub uuid: GpuUuid,
    /// Its position on the node.
    pub index: u32,
    /// Everything it holds afterwards.
    pub layout: Vec<Instance>,
    /// What stays.
    pub keeps: Vec<Instance>,
    /// What is made.
    pub creates: Vec<Instance>,
    /// What goes.
    pub destroys: Vec<Instance>,
    /// Whether MIG mode is switched on first.
    pub switches_mode_on: bool,
}

/// The changes of a node, and which of the pods it serves, by position.
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    pub(crate) gpus: Vec<GpuChange>,
    pub(crate) serves: BTreeSet<usize>,
}

impl Proposal {
    fn destroys(&self) -> usize {
        self.gpus.iter().map(|gpu| gpu.destroys.len()).sum()
    }

    /// The larger the better: pods served, then instances that stay, then modes that stay.
    pub(crate) fn worth(&self) -> (usize, std::cmp::Reverse<(usize, usize)>) {
        let switched = self.gpus.iter().filter(|gpu| gpu.switches_mode_on).count();
        (self.serves.len(), std::cmp::Reverse((self.destroys(), switched)))
    }
}

/// So many instances fit on no GPU; more than this for each GPU need not be looked at together.
const MOST_PARTS: usize = 8;

/// What to do with a node, which has this left besides GPUs, for these pods, or nothing. `untouched` are GPUs of which nothing may go now.
pub(crate) fn propose(
    (room, left): (&NodeRoom, &Option<Amounts>),
    rules: &Rules,
    waiting: &[(usize, &WaitingPod)],
    untouched: &BTreeSet<GpuUuid>,
) -> Result<Option<Proposal>, String> {
    let gpus: Vec<&GpuRoom> =
        room.gpus.iter().filter(|gpu| gpu.mig || rules.switch_mode_on && !gpu.held).collect();
    let (fleet, running) = present(&gpus, untouched);
    if fleet.is_empty() {
        return Ok(None);
    }
    let mut pods: Vec<(usize, Vec<ProfileName>)> =
        waiting.iter().filter_map(|(number, pod)| Some((*number, profiles(&gpus, rules, pod)?))).collect();
    let besides: BTreeMap<usize, &Amounts> =
        waiting.iter().map(|(number, pod)| (*number, &pod.besides)).collect();
    let most = MOST_PARTS * fleet.len();
    while !pods.is_empty() {
        let mut claims = 0;
        let looked_at = pods.iter().take_while(|(_, wants)| {
            claims += wants.len();
            claims <= most
        });
        // A pod that wants more than all GPUs could hold is left out by itself.
        let looked_at = looked_at.count().max(1);
        let pending = pods[..looked_at].iter().flat_map(|(number, wants)| {
            let each = wants.iter().enumerate();
            each.map(|(place, profile)| PendingClaim {
                name: claim(*number, place),
                wants: Wants::Profile(profile.clone()),
            })
        });
        let demand = Demand {
            pending: pending.collect(),
            running: running.clone(),
            substitution: Substitution::Never,
        };
        let made = plan(&fleet, &demand, Generation(0), Effort::for_gpus(fleet.len()))
            .map_err(|error| error.to_string())?;
        check_plan(&fleet, &demand, &made)
            .map_err(|flaw| format!("a plan was made that is wrong: {flaw}"))?;
        let given = |number: usize, wants: &[ProfileName]| {
            (0..wants.len()).filter(|place| made.served.contains_key(&claim(number, *place))).count()
        };
        // A pod that gets only some of what it wants can not start: the last of those goes on waiting, and the rest is planned anew.
        let partly = pods[..looked_at].iter().rposition(|(number, wants)| {
            let given = given(*number, wants);
            given > 0 && given < wants.len()
        });
        if let Some(position) = partly {
            pods.remove(position);
            continue;
        }
        let serves = pods[..looked_at].iter().filter(|(number, wants)| given(*number, wants) == wants.len());
        let serves: Vec<usize> = serves.map(|(number, _)| *number).collect();
        // Nor one for which nothing else is left beside those before it.
        if let Some(without) = first_without(&serves, &besides, left) {
            pods.retain(|(number, _)| *number != without);
            continue;
        }
        let serves: BTreeSet<usize> = serves.into_iter().collect();
        let changes: Vec<GpuChange> =
            gpus.iter().zip(&fleet).filter_map(|(gpu, at)| change(gpu, at, &made)).collect();
        if serves.is_empty() || changes.is_empty() {
            // Nothing for these; those behind them may be luckier.
            pods.drain(..looked_at);
            continue;
        }
        return Ok(Some(Proposal { gpus: changes, serves }));
    }
    Ok(None)
}

/// The first of these pods, in their order, for which a node has not enough left besides GPUs.
fn first_without(
    pods: &[usize],
    besides: &BTreeMap<usize, &Amounts>,
    left: &Option<Amounts>,
) -> Option<usize> {
    let mut left = left.clone()?;
    pods.iter().copied().find(|number| {
        let Some(asked) = besides.get(number) else { return false };
        let enough = left.cover(asked);
        left.take(asked);
        !enough
    })
}

/// The profiles that a pod wants, one for each instance; none where they may not, or can not, be made here.
fn profiles(gpus: &[&GpuRoom], rules: &Rules, pod: &WaitingPod) -> Option<Vec<ProfileName>> {
    let mut wants = Vec::new();
    for (form, count) in &pod.wants {
        let all = gpus.iter().flat_map(|gpu| gpu.table.profiles());
        let profile = all.into_iter().find(|profile| profile.name.resource_form() == *form)?;
        if !rules.allows(form) {
            return None;
        }
        wants.extend(std::iter::repeat_n(profile.name.clone(), *count as usize));
    }
    Some(wants)
}

/// Names sort as pods do, so that among equals the first pods are served.
fn claim(pod: usize, place: usize) -> ClaimName {
    ClaimName(format!("{pod:06}/{place:03}"))
}

/// GPUs as the planner knows them, and what of them must stay.
fn present(gpus: &[&GpuRoom], untouched: &BTreeSet<GpuUuid>) -> (Vec<FleetGpu>, Vec<RunningClaim>) {
    let mut fleet = Vec::new();
    let mut running = Vec::new();
    for gpu in gpus {
        let at = GpuAt { host: HostName(String::new()), gpu: GpuIndex(gpu.index) };
        let one =
            |(number, part): (usize, &Part)| {
                let (slot, _) = gpu.table.by_name(&part.instance.profile).ok()?;
                let compute = part.instance.compute.iter().enumerate().map(|(place, slices)| {
                    PresentCompute { id: ComputeInstanceId(place as u32), slices: *slices, in_use: false }
                });
                Some(PresentInstance {
                    id: GpuInstanceId(number as u32),
                    placed: Placed { profile: slot, start: part.instance.start },
                    compute: compute.collect(),
                })
            };
        let instances: Vec<PresentInstance> = gpu.parts.iter().enumerate().filter_map(one).collect();
        // The planner gives what is free and stays to nobody; a pod that it would serve is served already.
        for (number, part) in gpu.parts.iter().enumerate() {
            if part.taken || part.stays || untouched.contains(&gpu.uuid) {
                running.push(RunningClaim {
                    name: ClaimName(format!("held/{}/{number}", gpu.index)),
                    on: at.clone(),
                    instance: GpuInstanceId(number as u32),
                });
            }
        }
        let mode = if gpu.mig { MigMode::On } else { MigMode::Off };
        fleet.push(FleetGpu {
            at,
            pool: PoolName::default(),
            table: Arc::clone(&gpu.table),
            mode,
            instances,
        });
    }
    (fleet, running)
}

/// What becomes of a GPU, where anything does.
fn change(gpu: &GpuRoom, fleet: &FleetGpu, made: &Plan) -> Option<GpuChange> {
    let steps = made.gpus.get(&fleet.at).filter(|steps| !steps.recut.is_empty())?;
    let named = |placed: Placed, mut compute: Vec<u8>| {
        compute.sort_unstable_by(|one, other| other.cmp(one));
        Some(Instance { profile: gpu.table.get(placed.profile)?.name.clone(), start: placed.start, compute })
    };
    let before: BTreeMap<GpuInstanceId, &PresentInstance> =
        fleet.instances.iter().map(|instance| (instance.id, instance)).collect();
    let keeps = steps.recut.keep.iter().filter_map(|kept| {
        let stays = before.get(&kept.id)?.compute.iter().filter(|part| !kept.destroy.contains(&part.id));
        named(kept.placed, stays.map(|part| part.slices).chain(kept.create.iter().copied()).collect())
    });
    let keeps: Vec<Instance> = keeps.collect();
    let creates: Vec<Instance> = steps
        .recut
        .create
        .iter()
        .filter_map(|created| named(created.placed, created.compute.clone()))
        .collect();
    let gone = steps.recut.destroy.iter();
    let destroys = gone.filter_map(|gone| named(gone.placed, gone.division())).collect();
    let mut layout: Vec<Instance> = keeps.iter().chain(&creates).cloned().collect();
    layout.sort_by_key(|instance| instance.start);
    Some(GpuChange {
        uuid: gpu.uuid.clone(),
        index: gpu.index,
        layout,
        keeps,
        creates,
        destroys,
        switches_mode_on: steps.switch_mode_on,
    })
}
