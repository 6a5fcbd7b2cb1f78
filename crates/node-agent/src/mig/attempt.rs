//! One try to make the GPUs what a config says.

use super::goal::Goal;
use super::{MigManager, MigReport, MigState, clients, reboot};
use crate::holders::holders;
use crate::machine::Machine;
use carve_formats::MigHooks;
use carve_gpu_host::GpuHost;
use carve_gpu_model::{GpuIndex, GpuUuid};
use carve_mig_manager::{
    ApplyOptions, BootId, GpuState, HookRunner, Outcome, Plan, PlanError, Record, RecordRead, Recovered,
    Silent, StateDir, Touched, apply_plan, inventory, lost_since, recover, restore,
};
use carve_slicing::{Held, PartId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What came of a try.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) report: MigReport,
    pub(super) retry: bool,
    /// Whether the report was told already, because there may be no time for it later.
    pub(super) told: bool,
}

impl Tried {
    pub(super) fn new(report: MigReport, retry: bool) -> Self {
        Tried { report, retry, told: false }
    }
}

/// How long evicted pods may take to go.
const EVICTION: Duration = Duration::from_secs(300);
/// How long kubelet gets to act on a list without the devices that will go.
const SETTLING: Duration = Duration::from_millis(500);
/// A plan that others keep overtaking is given up for now.
const MOST_PLANS: usize = 4;

/// GPUs and what can be done about each, in the light of who holds what.
struct Prospect {
    states: Vec<GpuState>,
    plan: Plan,
    touched: Touched,
    /// GPUs for which there is no way now, and why.
    blocked: BTreeMap<GpuIndex, String>,
    /// Pods that hold something the drained plan would destroy.
    in_the_way: BTreeSet<PodName>,
}

impl Prospect {
    /// How many GPUs the plan changes.
    fn changed(&self) -> usize {
        self.plan.gpus.iter().filter(|gpu| !gpu.is_empty()).count()
    }
}

impl MigManager {
    /// Makes the GPUs what a config or an order says.
    pub(super) async fn attempt(&self, goal: &Goal) -> Tried {
        let report = |state: MigState, message: String| goal.report(state, message);
        let failed = |message: String, retry: bool| Tried::new(report(MigState::Failed, message), retry);
        let evict = self.options.evict && goal.may_evict();
        let mut evicting_since: Option<Instant> = None;
        for _ in 0..MOST_PLANS {
            let held = self.held().await;
            let prospect = match self.prospect(goal, &held, evict).await {
                Ok(prospect) => prospect,
                Err(Refused { why, retry }) => return failed(why, retry),
            };
            if prospect.plan.is_empty() && prospect.blocked.is_empty() {
                self.record(goal).await;
                reboot::forget(&self.state_dir);
                let message = "every GPU is as it should be".to_owned();
                return Tried::new(report(MigState::Success, message), false);
            }
            if !prospect.plan.is_empty() {
                let parts = parts_to_hold(&prospect);
                let (gpus, count) = (prospect.changed(), parts.len());
                let message =
                    format!("changing {gpus} GPU(s); {count} device(s) are not given away meanwhile");
                self.tell(super::MigNews::Report(report(MigState::Pending, message))).await;
                self.hold(parts.clone()).await;
                tokio::time::sleep(SETTLING).await;
                // Kubelet may have given one away while it was being told.
                let now = self.held().await;
                let expected = |held: &Held| prospect.in_the_way.contains(&pod(held));
                if now.iter().any(|held| parts.contains(&held.part()) && !expected(held)) && !evict {
                    self.over(BTreeSet::new()).await;
                    continue;
                }
                if !prospect.in_the_way.is_empty() {
                    let since = *evicting_since.get_or_insert_with(Instant::now);
                    if let Err(why) = self.evict(&prospect.in_the_way, since).await {
                        self.over(BTreeSet::new()).await;
                        return failed(why, true);
                    }
                }
                let resets = !prospect.touched.reset_needed.is_empty();
                let paused = match (&self.api, resets) {
                    (Some(api), true) => clients::pause(api).await,
                    _ => Vec::new(),
                };
                let outcome = self.change(&goal.name(), &prospect).await;
                if let Some(api) = &self.api {
                    clients::resume(api, &paused).await;
                }
                let reset: BTreeSet<GpuUuid> = uuids(&prospect.states, &prospect.touched.reset_needed);
                self.over(reset).await;
                match outcome {
                    Err(why) => return self.failed_change(goal, why, &prospect).await,
                    Ok(stale) if stale => continue,
                    Ok(_) => {}
                }
            }
            if prospect.blocked.is_empty() {
                self.record(goal).await;
                reboot::forget(&self.state_dir);
                let message = format!("{} GPU(s) changed", prospect.changed());
                return Tried::new(report(MigState::Success, message), false);
            }
            let why: Vec<String> =
                prospect.blocked.iter().map(|(gpu, why)| format!("GPU {gpu}: {why}")).collect();
            let done = prospect.changed();
            let done = if done == 0 { String::new() } else { format!("; {done} other GPU(s) were changed") };
            return failed(format!("{}{done}; it is tried again", why.join("; ")), true);
        }
        failed("pods keep taking what should go; it is tried again".to_owned(), true)
    }

    pub(super) async fn read(&self) -> Result<Vec<GpuState>, String> {
        let read = self.machine.ask(|host| inventory(host).map_err(|error| error.to_string())).await;
        read.map_err(|error| error.to_string())?
    }

    pub(super) async fn held(&self) -> Vec<Held> {
        match holders(&self.pod_resources).await {
            Ok(held) => held.devices,
            Err(why) => {
                tracing::warn!(
                    why,
                    "kubelet does not say which pods hold devices; only running programs are seen"
                );
                Vec::new()
            }
        }
    }

    /// Says what can be done about each GPU.
    async fn prospect(&self, goal: &Goal, held: &[Held], evict: bool) -> Result<Prospect, Refused> {
        let (goal, held) = (goal.clone(), held.to_vec());
        let state_dir = self.state_dir.clone();
        let job = move |host: &mut dyn GpuHost| {
            if state_dir.has_journal() {
                recover(host, &state_dir, &mut Silent)
                    .map_err(|error| Refused { why: error.to_string(), retry: true })?;
            }
            prospect(host, &goal, &held, evict)
        };
        self.machine.ask(job).await.map_err(|error| Refused { why: error.to_string(), retry: true })?
    }

    /// Carries the plan out. True means that it was overtaken and has to be made anew.
    async fn change(&self, name: &str, prospect: &Prospect) -> Result<bool, String> {
        let (name, plan, state_dir) = (name.to_owned(), prospect.plan.clone(), self.state_dir.clone());
        let job = move |host: &mut dyn GpuHost| {
            let applied = apply_plan(host, &state_dir, (&name, &plan), ApplyOptions::default(), &mut Silent);
            let said = host.last_words().map(|words| format!(" ({words})")).unwrap_or_default();
            applied.map_err(|error| format!("{error}{said}")).map(|applied| (applied.gpus, said))
        };
        let (outcomes, said) = self.machine.ask(job).await.map_err(|error| error.to_string())??;
        let mut stale = false;
        let mut wrong = Vec::new();
        for (gpu, outcome) in outcomes {
            match outcome {
                Outcome::Unchanged | Outcome::Done => {}
                Outcome::Stale => stale = true,
                other => wrong.push(format!("GPU {gpu}: {other}")),
            }
        }
        if wrong.is_empty() { Ok(stale) } else { Err(format!("{}{said}", wrong.join("; "))) }
    }

    /// A change failed: the old layout is back. Where a reset was needed and refused, a reboot may do.
    async fn failed_change(&self, goal: &Goal, why: String, prospect: &Prospect) -> Tried {
        let report = |state: MigState, message: String| goal.report(state, message);
        let name = goal.name();
        let boot = BootId::current();
        let (true, true, Ok(boot)) = (self.options.reboot, !prospect.touched.reset_needed.is_empty(), boot)
        else {
            return Tried::new(report(MigState::Failed, format!("{why}; it is tried again")), true);
        };
        if reboot::was_in_vain(&self.state_dir, &name, &boot) {
            let message = format!("{why}; the machine was rebooted for this already, and that did not help");
            return Tried::new(report(MigState::Failed, message), false);
        }
        let message = format!("{why}; the machine is rebooted for it");
        self.tell(super::MigNews::Report(report(MigState::Rebooting, message.clone()))).await;
        let (state_dir, config) = (self.state_dir.clone(), name);
        let program = self.options.reboot_program.clone();
        let asked = move || reboot::reboot(&state_dir, &config, &boot, program.as_deref());
        let asked = tokio::task::spawn_blocking(asked).await;
        match asked.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(()) => Tried { told: true, ..Tried::new(report(MigState::Rebooting, message), false) },
            Err(refused) => {
                let message = format!("{why}; the machine should be rebooted for it, but {refused}");
                Tried::new(report(MigState::Failed, message), true)
            }
        }
    }

    /// Asks pods to go and waits until they hold nothing any more.
    async fn evict(&self, pods: &BTreeSet<PodName>, since: Instant) -> Result<(), String> {
        let Some(api) = &self.api else {
            return Err(
                "pods hold what must go, and without the cluster's API they can not be evicted".to_owned()
            );
        };
        let mut refused = BTreeMap::new();
        loop {
            for (namespace, name) in pods {
                match api.evict(namespace, name).await {
                    Ok(()) => refused.remove(&(namespace, name)),
                    Err(error) => refused.insert((namespace, name), error.to_string()),
                };
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let held = self.held().await;
            let left: Vec<String> = pods
                .iter()
                .filter(|(namespace, name)| {
                    held.iter().any(|held| held.holder.namespace == *namespace && held.holder.pod == *name)
                })
                .map(|(namespace, name)| format!("{namespace}/{name}"))
                .collect();
            if left.is_empty() {
                return Ok(());
            }
            if since.elapsed() > EVICTION {
                let why: Vec<String> = refused.values().cloned().collect();
                let pods = left.join(", ");
                return Err(format!("pods {pods} were asked to go and are still there {}", why.join("; ")));
            }
        }
    }

    /// Writes down what holds now, so that it is made again after a reboot.
    async fn record(&self, goal: &Goal) {
        let Ok(boot) = BootId::current() else { return };
        let (goal, state_dir) = (goal.clone(), self.state_dir.clone());
        let job = move |host: &mut dyn GpuHost| {
            let states = inventory(host).map_err(|error| error.to_string())?;
            let record = Record::new(&goal.name(), goal.entries(), boot, &states);
            state_dir.write_record(&record).map_err(|error| error.to_string())
        };
        if let Ok(Err(why)) = self.machine.ask(job).await {
            tracing::warn!(
                why,
                "the layout can not be recorded; after a reboot it is made again from the label"
            );
        }
    }
}

/// Why nothing can be planned.
pub(super) struct Refused {
    pub(super) why: String,
    /// Whether time may help.
    pub(super) retry: bool,
}

fn prospect(host: &mut dyn GpuHost, goal: &Goal, held: &[Held], evict: bool) -> Result<Prospect, Refused> {
    let mut states = inventory(host).map_err(|error| Refused { why: error.to_string(), retry: true })?;
    let holding = mark_held(host, &mut states, held);
    let leaving: Vec<Held> =
        held.iter().filter(|held| goal.names(&held.holder.namespace, &held.holder.pod)).cloned().collect();
    mark_leaving(host, &mut states, &leaving);
    let wanted = goal.wanted(&states)?;
    let mut all = Plan { skipped: wanted.skipped.clone(), ..Plan::default() };
    let mut blocked = BTreeMap::new();
    let mut in_the_way = BTreeSet::new();
    for (gpu, one) in &wanted.gpus {
        let planned = one.plan(&states);
        let changes_mode = |plan: &Plan| plan.gpus.iter().any(|gpu| gpu.mode.is_some());
        match planned {
            Ok(plan) => match holding.whole.get(gpu).filter(|_| changes_mode(&plan)) {
                None => all.gpus.extend(plan.gpus.into_iter().filter(|gpu| !gpu.is_empty())),
                Some(pods) if evict => {
                    in_the_way.extend(pods.clone());
                    all.gpus.extend(plan.gpus);
                }
                Some(pods) => {
                    blocked.insert(*gpu, format!("held by {}", listed(pods)));
                }
            },
            Err(errors) => {
                let drained = if evict { one.plan_drained(&states) } else { None };
                let pods =
                    drained.as_ref().map(|plan| pods_of(host, plan, &states, held)).unwrap_or_default();
                match drained {
                    // Programs that no pod owns can not be evicted.
                    Some(plan) if !pods.is_empty() => {
                        in_the_way.extend(pods);
                        all.gpus.extend(plan.gpus);
                    }
                    _ => {
                        blocked.insert(*gpu, reasons(&errors, holding.any.get(gpu)));
                    }
                }
            }
        }
    }
    let touched =
        Touched::of(host, &all, &states).map_err(|error| Refused { why: error.to_string(), retry: true })?;
    in_the_way.extend(pods_of(host, &all, &states, &leaving));
    Ok(Prospect { states, plan: all, touched, blocked, in_the_way })
}

/// What pods hold that were named to go is in nobody's way: nothing is changed before they are gone.
fn mark_leaving(host: &dyn GpuHost, states: &mut [GpuState], leaving: &[Held]) {
    for state in states.iter_mut().filter(|state| state.mig_enabled()) {
        for device in host.mig_devices(state.gpu.index).unwrap_or_default() {
            if !leaving.iter().any(|held| held.part().as_str() == device.uuid.0) {
                continue;
            }
            let instance = state.instances.iter_mut().find(|instance| instance.id == device.gpu_instance);
            for part in instance.into_iter().flat_map(|instance| &mut instance.compute) {
                part.in_use &= part.id != device.compute_instance;
            }
        }
    }
}

/// A pod: namespace and name.
pub(super) type PodName = (String, String);

/// Pods that hold GPUs.
#[derive(Default)]
pub(super) struct Holding {
    /// A whole GPU, or a share of one.
    pub(super) whole: BTreeMap<GpuIndex, BTreeSet<PodName>>,
    /// Anything of a GPU.
    any: BTreeMap<GpuIndex, BTreeSet<PodName>>,
}

/// Marks what pods hold as in use, whether a program runs there now or not.
pub(super) fn mark_held(host: &dyn GpuHost, states: &mut [GpuState], held: &[Held]) -> Holding {
    let mut holding = Holding::default();
    for state in states {
        let gpu = state.gpu.index;
        for held in held.iter().filter(|held| held.part().as_str() == state.gpu.uuid.0) {
            holding.whole.entry(gpu).or_default().insert(pod(held));
            holding.any.entry(gpu).or_default().insert(pod(held));
        }
        if !state.mig_enabled() {
            continue;
        }
        for device in host.mig_devices(gpu).unwrap_or_default() {
            let holders: Vec<&Held> =
                held.iter().filter(|held| held.part().as_str() == device.uuid.0).collect();
            if holders.is_empty() {
                continue;
            }
            holding.any.entry(gpu).or_default().extend(holders.into_iter().map(pod));
            let instance = state.instances.iter_mut().find(|instance| instance.id == device.gpu_instance);
            for part in instance.into_iter().flat_map(|instance| &mut instance.compute) {
                part.in_use |= part.id == device.compute_instance;
            }
        }
    }
    holding
}

fn pod(held: &Held) -> PodName {
    (held.holder.namespace.clone(), held.holder.pod.clone())
}

fn listed(pods: &BTreeSet<PodName>) -> String {
    pods.iter().map(|(namespace, name)| format!("pod {namespace}/{name}")).collect::<Vec<_>>().join(", ")
}

/// Pods that hold something a plan destroys.
fn pods_of(host: &dyn GpuHost, plan: &Plan, states: &[GpuState], held: &[Held]) -> BTreeSet<PodName> {
    let Ok(touched) = Touched::of(host, plan, states) else { return BTreeSet::new() };
    let destroyed: BTreeSet<&str> = touched.destroyed.iter().map(|device| device.uuid.0.as_str()).collect();
    held.iter().filter(|held| destroyed.contains(held.part().as_str())).map(pod).collect()
}

/// Why a GPU can not be changed, with the pods that hold it.
fn reasons(errors: &[PlanError], pods: Option<&BTreeSet<PodName>>) -> String {
    let why: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match pods {
        None => why.join("; "),
        Some(pods) => format!("{}; held by {}", why.join("; "), listed(pods)),
    }
}

/// What kubelet must not give away while the plan is carried out: MIG devices that go, and GPUs whose mode changes.
fn parts_to_hold(prospect: &Prospect) -> BTreeSet<PartId> {
    let destroyed = prospect.touched.destroyed.iter().map(|device| PartId::new(device.uuid.0.clone()));
    let modes = prospect.plan.gpus.iter().filter(|gpu| gpu.mode.is_some());
    destroyed.chain(modes.map(|gpu| PartId::new(gpu.uuid.0.clone()))).collect()
}

fn uuids(states: &[GpuState], gpus: &BTreeSet<GpuIndex>) -> BTreeSet<GpuUuid> {
    states
        .iter()
        .filter(|state| gpus.contains(&state.gpu.index))
        .map(|state| state.gpu.uuid.clone())
        .collect()
}

/// Brings back a layout that a reboot or a driver reload has erased, and finishes or undoes a change that was
/// interrupted. Before anything is offered.
pub(crate) async fn restore_after_reboot(machine: &Machine, state_dir: &StateDir) -> Vec<String> {
    let state_dir = state_dir.clone();
    let job = move |host: &mut dyn GpuHost| restore_now(host, &state_dir);
    machine.ask(job).await.unwrap_or_else(|error| vec![error.to_string()])
}

fn restore_now(host: &mut dyn GpuHost, state_dir: &StateDir) -> Vec<String> {
    let mut said = Vec::new();
    if state_dir.has_journal() {
        match recover(host, state_dir, &mut Silent) {
            Ok(Recovered::Finished) => {
                said.push("an interrupted MIG change was brought to its end".to_owned())
            }
            Ok(Recovered::RolledBack) => said.push("an interrupted MIG change was undone".to_owned()),
            Ok(Recovered::Nothing) => {}
            Err(error) => said.push(format!("an interrupted MIG change can not be dealt with now: {error}")),
        }
    }
    let record = match state_dir.read_record() {
        Ok(RecordRead::Found(record)) => record,
        Ok(RecordRead::Absent) => return said,
        Ok(RecordRead::SetAside { at, reason }) => {
            let at = at.display();
            said.push(format!(
                "the record of the last MIG config does not read ({reason}); put aside as {at}"
            ));
            return said;
        }
        Err(error) => {
            said.push(error.to_string());
            return said;
        }
    };
    let (Ok(states), Ok(boot)) = (inventory(host), BootId::current()) else { return said };
    let lost = lost_since(&states, &record, &boot);
    if lost.is_empty() {
        return said;
    }
    let mut layouts = record.layouts_here(&states);
    layouts.retain(|uuid, _| {
        states.iter().any(|state| state.gpu.uuid == *uuid && lost.contains(&state.gpu.index))
    });
    let restored = restore(
        host,
        state_dir,
        &layouts,
        ApplyOptions::default(),
        &HookRunner::new(MigHooks::default(), BTreeMap::new(), false),
        &mut Silent,
    );
    said.push(match restored {
        Ok(_) => {
            format!("MIG config '{}' was made again on {} GPU(s) that had lost it", record.name, lost.len())
        }
        Err(error) => format!("MIG config '{}' is lost and can not be made again: {error}", record.name),
    });
    said
}
