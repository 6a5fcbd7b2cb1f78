//! What the GPUs should become: what a config says, which a person asks for by name, or what the controller orders, place by place.

use super::attempt::Refused;
use super::{MigManager, MigReport, MigState, Wish};
use carve_formats::MigPartedConfig;
use carve_formats::mig_parted::ConfigEntry;
use carve_gpu_model::{GpuIndex, GpuUuid};
use carve_mig_manager::{
    GpuState, InstanceLayout, Layout, Plan, PlanError, Target, builtin_config, plan, plan_drained,
    plan_layouts, resolve,
};
use carve_repartition::{Instance, Order};
use std::collections::BTreeMap;

/// What the GPUs should become.
#[derive(Debug, Clone)]
pub(super) enum Goal {
    /// What a config says.
    Config { name: String, entries: Vec<ConfigEntry> },
    /// What the controller orders.
    Order(Order),
}

/// What each GPU should become.
pub(super) struct Wanted {
    pub(super) gpus: Vec<(GpuIndex, WantedOfOne)>,
    /// GPUs passed over because they have no MIG.
    pub(super) skipped: Vec<GpuIndex>,
}

/// What one GPU should become.
pub(super) enum WantedOfOne {
    /// So many instances of each profile, wherever they fit.
    Counts(Target),
    /// Instances at their places.
    Places(BTreeMap<GpuUuid, Layout>),
}

impl WantedOfOne {
    /// The way there that touches nothing in use.
    pub(super) fn plan(&self, states: &[GpuState]) -> Result<Plan, Vec<PlanError>> {
        match self {
            WantedOfOne::Counts(target) => plan(target, states, false),
            WantedOfOne::Places(layouts) => plan_layouts(layouts, states, false),
        }
    }

    /// The way there once some programs have ended.
    pub(super) fn plan_drained(&self, states: &[GpuState]) -> Option<Plan> {
        match self {
            WantedOfOne::Counts(target) => plan_drained(target, states, false).ok(),
            WantedOfOne::Places(_) => None,
        }
    }
}

impl Goal {
    /// What it is called, for people and for the journal.
    pub(super) fn name(&self) -> String {
        match self {
            Goal::Config { name, .. } => name.clone(),
            Goal::Order(order) => format!("plan {}", order.generation),
        }
    }

    /// What a config says; an order has nothing of the kind.
    pub(super) fn entries(&self) -> &[ConfigEntry] {
        match self {
            Goal::Config { entries, .. } => entries,
            Goal::Order(_) => &[],
        }
    }

    /// Whether whoever is in its way may be asked to go. Orders name whom they mean.
    pub(super) fn may_evict(&self) -> bool {
        matches!(self, Goal::Config { .. })
    }

    /// Whether it names a pod to be asked to go.
    pub(super) fn names(&self, namespace: &str, pod: &str) -> bool {
        match self {
            Goal::Config { .. } => false,
            Goal::Order(order) => order.evict.iter().any(|name| *name == format!("{namespace}/{pod}")),
        }
    }

    /// What is told of it.
    pub(super) fn report(&self, state: MigState, message: String) -> MigReport {
        let order = match self {
            Goal::Config { .. } => None,
            Goal::Order(order) => Some(order.generation),
        };
        MigReport { config: self.name(), order, state, message }
    }

    /// What each GPU should become.
    pub(super) fn wanted(&self, states: &[GpuState]) -> Result<Wanted, Refused> {
        match self {
            Goal::Config { name, entries } => {
                let target = resolve(name, entries, states).map_err(|refusals| {
                    let why: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                    Refused { why: why.join("; "), retry: false }
                })?;
                let one = |(gpu, wanted): (GpuIndex, _)| {
                    let only = Target { gpus: BTreeMap::from([(gpu, wanted)]), skipped: Vec::new() };
                    (gpu, WantedOfOne::Counts(only))
                };
                let gpus = target.gpus.into_iter().map(one).collect();
                Ok(Wanted { gpus, skipped: target.skipped })
            }
            Goal::Order(order) => {
                let gpus = order.gpus.iter().map(|(uuid, instances)| places(uuid, instances, states));
                Ok(Wanted { gpus: gpus.collect::<Result<_, _>>()?, skipped: Vec::new() })
            }
        }
    }
}

/// What an order says about one GPU, in terms of what its driver offers.
fn places(
    uuid: &GpuUuid,
    instances: &[Instance],
    states: &[GpuState],
) -> Result<(GpuIndex, WantedOfOne), Refused> {
    let refused = |why: String| Refused { why, retry: false };
    let state = states.iter().find(|state| state.gpu.uuid == *uuid);
    let state = state.ok_or_else(|| refused(format!("{uuid} is not on this node")))?;
    let table =
        state.table.as_ref().ok_or_else(|| refused(format!("{uuid} has no MIG, or does not answer")))?;
    let place = |instance: &Instance| {
        let (_, profile) =
            table.by_name(&instance.profile).map_err(|unknown| refused(unknown.to_string()))?;
        let at = profile.placements.iter().find(|placement| placement.start == instance.start);
        let placement = *at.ok_or_else(|| {
            refused(format!("{} can not start at slot {} of {uuid}", profile.name, instance.start))
        })?;
        Ok(InstanceLayout { profile: profile.index, placement, compute: instance.compute.clone() })
    };
    let mut layout: Vec<InstanceLayout> = instances.iter().map(place).collect::<Result<_, _>>()?;
    layout.sort();
    let layout = Layout { mig_enabled: true, instances: layout };
    Ok((state.gpu.index, WantedOfOne::Places(BTreeMap::from([(uuid.clone(), layout)]))))
}

/// A config of a file by its name; otherwise the names that are there.
fn find(name: &str, text: &str) -> Result<Result<Vec<ConfigEntry>, String>, String> {
    let parsed = MigPartedConfig::parse(text);
    let Some(mut config) = parsed.value else {
        let errors: Vec<String> = parsed.diagnostics.iter().map(ToString::to_string).collect();
        return Err(errors.join("; "));
    };
    let known = config.configs.keys().cloned().collect::<Vec<_>>().join(", ");
    Ok(config.configs.remove(name).ok_or(known))
}

impl MigManager {
    /// What the config says: from the file where it has the name, then from a policy, otherwise made from the hardware.
    pub(super) async fn entries(&self, name: &str, wish: &Wish) -> Result<Vec<ConfigEntry>, String> {
        let mut doubt = String::new();
        match &wish.file {
            None => {}
            Some(Err(why)) => doubt = format!("; the config file can not be read: {why}"),
            Some(Ok(text)) => match find(name, text) {
                Err(why) => return Err(format!("the config file is not usable: {why}")),
                Ok(Ok(entries)) => return Ok(entries),
                Ok(Err(known)) => doubt = format!("; the config file has {known}"),
            },
        }
        if let Some(text) = &wish.policy {
            match find(name, text) {
                Err(why) => return Err(format!("the layout of the node's SlicePolicy is not usable: {why}")),
                Ok(Ok(entries)) => return Ok(entries),
                Ok(Err(known)) => doubt.push_str(&format!("; its SlicePolicy has {known}")),
            }
        }
        let states = self.read().await?;
        match builtin_config(&states, name) {
            Ok(config) => Ok(config.configs.into_values().next().unwrap_or_default()),
            Err(unknown) => Err(format!("{unknown}{doubt}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Goal, MigState, WantedOfOne};
    use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
    use carve_mig_manager::{ApplyOptions, Silent, StateDir, apply_plan, inventory};
    use carve_repartition::Order;

    fn order(uuid: &str, instances: &str) -> Goal {
        let text = format!(r#"{{"generation":7,"gpus":{{"{uuid}":[{instances}]}},"evict":["team/one"]}}"#);
        Goal::Order(Order::parse(&text).expect("an order"))
    }

    const SMALL: &str = r#"{"profile":"1g.5gb","start":6,"compute":[1]}"#;
    const LARGE: &str = r#"{"profile":"3g.20gb","start":0,"compute":[3]}"#;

    #[test]
    fn orders_are_for_these_gpus_or_refused() {
        let host = SimulatedHost::new(Machine::named("a100-40gb:1").expect("a machine"));
        let states = inventory(&host).expect("an inventory");
        let uuid = states[0].gpu.uuid.0.clone();
        for (gpu, instances, why) in [
            ("GPU-other", SMALL, "is not on this node"),
            (&uuid, r#"{"profile":"1g.10gb+x","start":0,"compute":[1]}"#, "no MIG profile"),
            (&uuid, r#"{"profile":"3g.20gb","start":2,"compute":[3]}"#, "can not start at slot 2"),
        ] {
            let refused = order(gpu, instances).wanted(&states).err().expect("it can not be");
            assert!(refused.why.contains(why) && !refused.retry, "{}", refused.why);
        }
        let goal = order(&uuid, SMALL);
        assert!(goal.names("team", "one") && !goal.names("team", "two") && !goal.may_evict());
        let report = goal.report(MigState::Failed, String::new());
        assert_eq!((report.config.as_str(), report.order), ("plan 7", Some(7)));
    }

    #[test]
    fn an_order_names_every_slot_and_destroys_nothing_in_use() {
        let folder = tempfile::tempdir().expect("a folder");
        let state_dir = StateDir::new(folder.path().join("state"));
        let mut host = SimulatedHost::new(Machine::named("a100-40gb:1").expect("a machine"));
        let uuid = inventory(&host).expect("an inventory")[0].gpu.uuid.0.clone();
        let planned = |host: &SimulatedHost, instances: &str, busy: bool| {
            let mut states = inventory(host).expect("an inventory");
            let parts = states[0].instances.iter_mut().flat_map(|instance| &mut instance.compute);
            parts.for_each(|part| part.in_use = busy);
            let wanted =
                order(&uuid, instances).wanted(&states).unwrap_or_else(|refused| panic!("{}", refused.why));
            assert!(matches!(wanted.gpus[0].1, WantedOfOne::Places(_)));
            wanted.gpus[0].1.plan(&states)
        };
        let both = format!("{SMALL},{LARGE}");
        let plan = planned(&host, &both, false).expect("a way");
        let options = ApplyOptions::default();
        apply_plan(&mut host, &state_dir, ("plan 7", &plan), options, &mut Silent).expect("it is done");
        let gpu = host.gpus().expect("GPUs")[0].index;
        let mut starts: Vec<u8> =
            host.gpu_instances(gpu).expect("instances").iter().map(|one| one.placement.start).collect();
        starts.sort_unstable();
        assert_eq!(starts, [0, 6], "where the order says");
        assert!(
            planned(&host, &both, true).expect("a way").is_empty(),
            "and a second time there is nothing to do"
        );
        assert!(planned(&host, LARGE, false).is_ok(), "what nobody uses may go");
        assert!(planned(&host, LARGE, true).is_err(), "what is in use may not");
    }
}
