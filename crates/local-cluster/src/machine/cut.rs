//! GPUs that are cut anew: as a label asks, or as the controller orders. It takes a moment, as it does on a real one.

use super::Machine;
use carve_formats::MigPartedConfig;
use carve_formats::mig_parted::ConfigEntry;
use carve_gpu_model::GpuUuid;
use carve_mig_manager::{
    ApplyOptions, GpuState, HookRunner, InstanceLayout, Layout, Outcome, Plan, Silent, apply_partial,
    apply_plan, builtin_config, inventory, plan_layouts,
};
use carve_repartition::{Instance, Order, OrderReport, OrderState};
use std::collections::{BTreeMap, BTreeSet};

/// How long cutting takes: switching MIG on resets a GPU.
const TAKES: i64 = 1_400;
/// Why nothing is cut.
const NOT_CUT: &str =
    "these GPUs are real, and their MIG mode is only changed where carve up was started with --manage-mig";
/// How soon what could not be done is tried again.
const AGAIN: i64 = 3_000;

/// How far a config is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Pending,
    Success,
    Failed {
        why: String,
        /// Not tried again before.
        until: i64,
    },
}

/// What is being cut. Times are milliseconds since 1970.
#[derive(Debug)]
pub(crate) struct Cutting {
    pub(crate) gpus: BTreeSet<String>,
    until: i64,
    what: What,
}

#[derive(Debug)]
enum What {
    Config(String),
    Order { generation: u64, plan: Plan },
}

/// What has been done, for whoever tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) worked: bool,
    pub(crate) words: String,
}

impl Machine {
    /// What a policy fixes has changed: the same name may mean something else.
    pub(crate) fn fix(&mut self, layout: Option<&str>) {
        if self.layout.as_deref() != layout {
            self.layout = layout.map(str::to_owned);
            self.asked = None;
        }
    }

    /// What a config says: that of a policy, or one made from the hardware.
    fn entries(&self, states: &[GpuState], name: &str) -> Result<Vec<ConfigEntry>, String> {
        let fixed = self.layout.as_deref().and_then(|text| MigPartedConfig::parse(text).value);
        if let Some(entries) = fixed.and_then(|mut fixed| fixed.configs.remove(name)) {
            return Ok(entries);
        }
        let made = builtin_config(states, name).map_err(|unknown| unknown.to_string())?;
        Ok(made.configs.into_values().next().unwrap_or_default())
    }

    /// A label asks for a config, or for nothing any more.
    pub(crate) fn ask(&mut self, name: Option<&str>, now: i64) {
        let again = match (&self.asked, name) {
            (Some((asked, told)), Some(name)) if asked == name => {
                matches!(told, Told::Failed { until, .. } if now >= *until)
            }
            (None, None) => false,
            _ => true,
        };
        if !again || self.cutting.is_some() {
            return;
        }
        let Some(name) = name else {
            self.asked = None;
            return;
        };
        if !self.may_cut {
            return self.asked_failed(name, NOT_CUT, now);
        }
        let states = match inventory(&*self.host) {
            Ok(states) => states,
            Err(error) => return self.asked_failed(name, &error.to_string(), now),
        };
        if let Err(unknown) = self.entries(&states, name) {
            return self.asked_failed(name, &unknown, now);
        }
        self.asked = Some((name.to_owned(), Told::Pending));
        let capable =
            states.iter().filter(|state| state.mode.is_some()).map(|state| state.gpu.uuid.0.clone());
        self.changed = true;
        self.cutting = Some(Cutting {
            gpus: capable.collect(),
            until: now + self.takes(),
            what: What::Config(name.to_owned()),
        });
    }

    /// How long it looks as if GPUs were being cut; real ones take their time by themselves.
    fn takes(&self) -> i64 {
        if self.programs.is_some() { 0 } else { TAKES }
    }

    /// Why the config that a label asks for can not be, where that was not known before.
    pub(crate) fn newly_failed(&self, before: Option<&(String, Told)>) -> Option<&str> {
        let Some((name, Told::Failed { why, .. })) = &self.asked else { return None };
        let known = before.is_some_and(|(asked, told)| {
            asked == name && matches!(told, Told::Failed { why: said, .. } if said == why)
        });
        (!known).then_some(why.as_str())
    }

    fn asked_failed(&mut self, name: &str, why: &str, now: i64) {
        self.asked = Some((name.to_owned(), Told::Failed { why: why.to_owned(), until: now + AGAIN }));
    }

    /// The controller orders something. Pods that it names are asked to go before this.
    pub(crate) fn obey(&mut self, order: &Order, now: i64) {
        let known = self.order.as_ref().map_or(0, |report| report.generation);
        if self.cutting.is_some() || order.generation <= known {
            return;
        }
        let generation = order.generation;
        match self
            .planned(order)
            .and_then(|plan| if self.may_cut { Ok(plan) } else { Err(NOT_CUT.to_owned()) })
        {
            Ok(plan) => {
                let gpus = order.gpus.keys().map(|uuid| uuid.0.clone()).collect();
                self.order =
                    Some(OrderReport { generation, state: OrderState::Pending, message: String::new() });
                self.cutting =
                    Some(Cutting { gpus, until: now + self.takes(), what: What::Order { generation, plan } });
                self.changed = true;
            }
            Err(message) => {
                self.order = Some(OrderReport { generation, state: OrderState::Failed, message });
            }
        }
    }

    fn planned(&self, order: &Order) -> Result<Plan, String> {
        let states = inventory(&*self.host).map_err(|error| error.to_string())?;
        let mut layouts = BTreeMap::new();
        for (uuid, instances) in &order.gpus {
            layouts.insert(uuid.clone(), layout(uuid, instances, &states)?);
        }
        let words = |errors: Vec<carve_mig_manager::PlanError>| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        plan_layouts(&layouts, &states, false).map_err(words)
    }

    /// Brings to an end what is due.
    pub(crate) fn finish_cutting(&mut self, now: i64) -> Option<Done> {
        let cutting = self.cutting.take_if(|cutting| now >= cutting.until)?;
        let done = match cutting.what {
            What::Config(name) => self.finish_config(&name, now),
            What::Order { generation, plan } => {
                let label = format!("plan {generation}");
                let applied = apply_plan(
                    &mut *self.host,
                    &self.journal,
                    (&label, &plan),
                    ApplyOptions::default(),
                    &mut Silent,
                );
                let outcome = match applied {
                    Ok(applied) if applied.is_complete() => Ok(()),
                    Ok(applied) => Err(troubles(&applied.gpus)),
                    Err(error) => Err(error.to_string()),
                };
                let (state, message) = match &outcome {
                    Ok(()) => (OrderState::Done, String::new()),
                    Err(why) => (OrderState::Failed, why.clone()),
                };
                self.order = Some(OrderReport { generation, state, message });
                let words = match outcome {
                    Ok(()) => format!("{} GPU(s) were cut as the controller ordered", plan.gpus.len()),
                    Err(why) => why,
                };
                Done { worked: state == OrderState::Done, words }
            }
        };
        self.look();
        Some(done)
    }

    fn finish_config(&mut self, name: &str, now: i64) -> Done {
        let states = inventory(&*self.host).unwrap_or_default();
        let outcome = match self.entries(&states, name) {
            Err(unknown) => Err(unknown),
            Ok(entries) => {
                let hooks = HookRunner::new(carve_formats::MigHooks::default(), BTreeMap::new(), false);
                let options = ApplyOptions::default();
                let applied = apply_partial(
                    &mut *self.host,
                    &self.journal,
                    (name, &entries),
                    options,
                    &hooks,
                    &mut Silent,
                );
                match applied {
                    Ok(applied) if applied.is_complete() => Ok(()),
                    Ok(applied) => Err(troubles(&applied.gpus)),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        match outcome {
            Ok(()) => {
                self.asked = Some((name.to_owned(), Told::Success));
                Done { worked: true, words: format!("the GPUs are cut as {name} says") }
            }
            Err(why) => {
                self.asked_failed(name, &why, now);
                Done { worked: false, words: format!("{name} is not in force everywhere: {why}") }
            }
        }
    }
}

fn troubles(gpus: &BTreeMap<carve_gpu_model::GpuIndex, Outcome>) -> String {
    let wrong = gpus.iter().filter(|(_, outcome)| !outcome.is_right());
    wrong.map(|(gpu, outcome)| format!("GPU {gpu}: {outcome}")).collect::<Vec<_>>().join("; ")
}

/// What an order says of one GPU, in terms of what its driver offers.
fn layout(uuid: &GpuUuid, instances: &[Instance], states: &[GpuState]) -> Result<Layout, String> {
    let state = states.iter().find(|state| state.gpu.uuid == *uuid);
    let table = state.and_then(|state| state.table.as_ref());
    let table = table.ok_or_else(|| format!("{uuid} is not on this node, or has no MIG"))?;
    let place = |instance: &Instance| {
        let (_, profile) = table.by_name(&instance.profile).map_err(|unknown| unknown.to_string())?;
        let at = profile.placements.iter().find(|placement| placement.start == instance.start);
        let placement =
            *at.ok_or_else(|| format!("{} can not start at slot {}", profile.name, instance.start))?;
        Ok::<_, String>(InstanceLayout {
            profile: profile.index,
            placement,
            compute: instance.compute.clone(),
        })
    };
    let mut placed: Vec<InstanceLayout> = instances.iter().map(place).collect::<Result<_, _>>()?;
    placed.sort();
    Ok(Layout { mig_enabled: true, instances: placed })
}
