//! What is done about decisions: plans are written, agents are told, people are told.

use super::objects::{Objects, PlanSeen, PodSeen};
use super::progress::{Next, next};
use super::store::{About, PlanStore, Tone};
use super::{facts, policies, written};
use crate::metrics::Metrics;
use crate::store::StoreError;
use carve_repartition::{Decisions, Instance, NodePlan, Seconds, Why, decide};
use carve_slice_policy::{GpuLayout, Phase, SlicePlanSpec, SlicePlanStatus};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Repartition over a store.
pub(super) struct Repartition<S> {
    store: S,
    objects: Arc<Mutex<Objects>>,
    /// What was said last about each pod that waits.
    told: BTreeMap<String, String>,
    /// When it was looked last who could be moved.
    moved_at: Seconds,
    metrics: Metrics,
}

/// How often it is looked who could be moved, in seconds.
const MOVING: u64 = 30;

impl<S: PlanStore> Repartition<S> {
    pub(super) fn new(store: S, objects: Arc<Mutex<Objects>>, metrics: Metrics) -> Self {
        Repartition { store, objects, told: BTreeMap::new(), moved_at: Seconds::default(), metrics }
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another replica leads: what it tells is not known here.
    pub(super) fn forget_what_was_told(&mut self) {
        self.told.clear();
    }

    /// Looks at everything that is known and does what is to be done.
    pub(super) async fn look(&mut self, now: Seconds) {
        if !self.objects().is_known() {
            return;
        }
        self.go_on(now).await;
        let defragment = now.0 >= self.moved_at.0 + MOVING;
        if defragment {
            self.moved_at = now;
        }
        let facts = facts::facts(&self.objects(), now, defragment);
        // It may take a second where many nodes differ, and others have to answer meanwhile.
        let decisions = match tokio::task::spawn_blocking(move || decide(&facts)).await {
            Ok(decisions) => decisions,
            Err(error) => return tracing::error!(%error, "nothing can be decided about MIG"),
        };
        for flaw in &decisions.flaws {
            tracing::error!("{flaw}; nothing is cut there");
        }
        for plan in &decisions.plans {
            if let Err(error) = self.begin(plan, now).await {
                tracing::warn!(node = plan.node, %error, "a plan can not be written; trying again");
            }
        }
        // What moving could do is shown until it is looked for again.
        self.withdraw(&decisions, defragment).await;
        self.tell_waiting(&decisions).await;
        let configs = policies::configs(&self.objects());
        for (node, told) in configs {
            match self.store.put_config(&node, &told).await {
                Ok(()) => {
                    if let Some(seen) = self.objects().nodes.get_mut(&node) {
                        seen.told = told;
                    }
                }
                Err(error) => tracing::warn!(node, %error, "what its policy says can not be told"),
            }
        }
        let statuses = policies::changed(&self.objects(), now);
        for (name, status) in statuses {
            match self.store.put_policy_status(&name, &status).await {
                Ok(()) => {
                    if let Some(policy) = self.objects().policies.get_mut(&name) {
                        policy.status = status;
                    }
                }
                Err(error) => tracing::warn!(policy = name, %error, "its status can not be written"),
            }
        }
    }

    /// Goes on with plans that are being carried out.
    async fn go_on(&mut self, now: Seconds) {
        let cutting: Vec<(String, PlanSeen, Next)> = {
            let objects = self.objects();
            let plans = objects.plans.iter().filter(|(_, plan)| plan.is_cutting());
            let with_next = |(name, plan): (&String, &PlanSeen)| {
                Some((name.clone(), plan.clone(), next(plan, objects.nodes.get(name)?, now)))
            };
            plans.filter_map(with_next).collect()
        };
        for (node, plan, next) in cutting {
            let went = match next {
                Next::Wait => Ok(()),
                Next::Tell(order) => self.order(&node, order).await,
                Next::Over { status, instead } => self.end(&node, &plan, status, instead).await,
            };
            if let Err(error) = went {
                tracing::warn!(node, %error, "a plan can not be followed; trying again");
            }
        }
    }

    async fn order(&self, node: &str, order: carve_repartition::Order) -> Result<(), StoreError> {
        self.store.put_order(node, &order).await?;
        if let Some(seen) = self.objects().nodes.get_mut(node) {
            seen.order = Some(order);
        }
        Ok(())
    }

    async fn end(
        &self,
        node: &str,
        plan: &PlanSeen,
        status: SlicePlanStatus,
        instead: Option<carve_repartition::Order>,
    ) -> Result<(), StoreError> {
        if let Some(order) = instead {
            self.order(node, order).await?;
        }
        self.status(node, status.clone()).await?;
        self.metrics.cut(status.phase == Phase::Done);
        let generation = plan.spec.generation;
        let (tone, reason, message) = match status.phase {
            Phase::Done => {
                (Tone::Normal, "Cut", format!("plan {generation} is carried out: {}", status.message))
            }
            _ => (Tone::Warning, "CutFailed", format!("plan {generation} failed: {}", status.message)),
        };
        tracing::info!(node, generation, "{message}");
        self.tell(&About::Plan { node: node.to_owned() }, tone, reason, &message).await;
        Ok(())
    }

    async fn status(&self, node: &str, status: SlicePlanStatus) -> Result<(), StoreError> {
        self.store.put_plan_status(node, &status).await?;
        if let Some(plan) = self.objects().plans.get_mut(node) {
            plan.status = status;
        }
        Ok(())
    }

    /// Writes a plan down, and tells its agent unless it is only shown.
    async fn begin(&self, plan: &NodePlan, now: Seconds) -> Result<(), StoreError> {
        let before = self.objects().plans.get(&plan.node).cloned();
        let spec = spec_of(plan);
        if let Some(before) = before.as_ref().filter(|_| plan.dry_run) {
            let same = SlicePlanSpec { generation: spec.generation, ..before.spec.clone() } == spec;
            if same && before.status.phase == Phase::Proposed {
                return Ok(());
            }
        }
        let old = before.map(|before| before.status).unwrap_or_default();
        let phase = if plan.dry_run { Phase::Proposed } else { Phase::Cutting };
        let status = SlicePlanStatus {
            phase,
            observed_generation: plan.generation,
            message: summary(plan),
            started: Some(written(now)),
            finished: None,
            failures: old.failures,
            recuts: old.recuts,
        };
        self.store.put_plan(&spec).await?;
        let seen = PlanSeen { spec: spec.clone(), status: old_generation(&status) };
        self.objects().plans.insert(plan.node.clone(), seen);
        self.status(&plan.node, status).await?;
        if !plan.dry_run {
            self.order(&plan.node, facts::order_of(&spec)).await?;
        }
        let verb = if plan.dry_run { "would be cut" } else { "is cut" };
        tracing::info!(node = plan.node, generation = plan.generation, "{}", summary(plan));
        let about = About::Plan { node: plan.node.clone() };
        let reason = if plan.dry_run { "CutProposed" } else { "Cutting" };
        self.tell(&about, Tone::Normal, reason, &summary(plan)).await;
        let pods: Vec<PodSeen> = self.objects().pods.values().cloned().collect();
        for pod in pods.iter().filter(|pod| plan.serves.contains(&full(pod))) {
            let message = format!("node {} {verb} for it: {}", plan.node, summary(plan));
            self.tell(&about_pod(pod), Tone::Normal, reason, &message).await;
        }
        Ok(())
    }

    /// Plans that were only shown and that nobody needs any more.
    async fn withdraw(&self, decisions: &Decisions, defragment: bool) {
        let stale: Vec<(String, SlicePlanStatus)> = {
            let objects = self.objects();
            let shown = objects.plans.iter().filter(|(node, plan)| {
                plan.spec.dry_run
                    && plan.status.phase == Phase::Proposed
                    && (defragment || plan.spec.evicts.is_empty())
                    && !decisions.plans.iter().any(|new| new.node == **node)
            });
            let status = |plan: &PlanSeen| SlicePlanStatus {
                phase: Phase::Withdrawn,
                message: "nobody waits for it any more".to_owned(),
                ..plan.status.clone()
            };
            shown.map(|(node, plan)| (node.clone(), status(plan))).collect()
        };
        for (node, status) in stale {
            if let Err(error) = self.status(&node, status).await {
                tracing::warn!(node, %error, "a plan can not be withdrawn; trying again");
            }
        }
    }

    /// Tells pods why nothing is cut for them, once for each reason.
    async fn tell_waiting(&mut self, decisions: &Decisions) {
        self.told.retain(|pod, _| decisions.waiting.contains_key(pod));
        let pods: BTreeMap<String, PodSeen> =
            self.objects().pods.values().map(|pod| (full(pod), pod.clone())).collect();
        for (name, why) in &decisions.waiting {
            if matches!(why, Why::Settling | Why::Free { .. }) {
                continue;
            }
            let text = why.to_string();
            let Some(pod) = pods.get(name).filter(|_| self.told.get(name) != Some(&text)) else { continue };
            self.tell(&about_pod(pod), Tone::Warning, "NotCut", &text).await;
            self.told.insert(name.clone(), text);
        }
    }

    /// Nothing depends on it.
    async fn tell(&self, about: &About, tone: Tone, reason: &str, message: &str) {
        if let Err(error) = self.store.tell(about, tone, reason, message).await {
            tracing::debug!(%error, "an event can not be told");
        }
    }
}

/// What is known between writing a plan and saying how far it is: nothing was said about this generation yet.
fn old_generation(status: &SlicePlanStatus) -> SlicePlanStatus {
    SlicePlanStatus { observed_generation: 0, ..status.clone() }
}

fn full(pod: &PodSeen) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn about_pod(pod: &PodSeen) -> About {
    About::Pod { namespace: pod.namespace.clone(), name: pod.name.clone(), uid: pod.uid.clone() }
}

fn named(instance: &Instance) -> String {
    format!("{}@{}", instance.profile, instance.start)
}

/// A plan in one line.
fn summary(plan: &NodePlan) -> String {
    let gpus = plan.gpus.iter().map(|gpu| {
        let list = |instances: &[Instance]| instances.iter().map(named).collect::<Vec<_>>().join(" ");
        let mut words = vec![format!("GPU {}:", gpu.index)];
        if gpu.switches_mode_on {
            words.push("MIG mode on,".to_owned());
        }
        words.push(format!("{} kept,", gpu.keeps.len()));
        if !gpu.destroys.is_empty() {
            words.push(format!("{} destroyed,", list(&gpu.destroys)));
        }
        words.push(format!(
            "{} made",
            if gpu.creates.is_empty() { "nothing".to_owned() } else { list(&gpu.creates) }
        ));
        words.join(" ")
    });
    let mut gain = format!("for {} pod(s)", plan.serves.len());
    if !plan.evicts.is_empty() {
        gain = format!("{gain}, by moving {}", plan.evicts.join(", "));
    }
    format!("{gain}; {}", gpus.collect::<Vec<_>>().join("; "))
}

fn spec_of(plan: &NodePlan) -> SlicePlanSpec {
    let names = |instances: &[Instance]| instances.iter().map(named).collect();
    let gpu = |gpu: &carve_repartition::GpuChange| GpuLayout {
        uuid: gpu.uuid.0.clone(),
        index: gpu.index,
        layout: gpu
            .layout
            .iter()
            .map(|one| carve_slice_policy::Instance {
                profile: one.profile.to_string(),
                start: one.start,
                compute: one.compute.clone(),
            })
            .collect(),
        keeps: names(&gpu.keeps),
        creates: names(&gpu.creates),
        destroys: names(&gpu.destroys),
        switches_mode_on: gpu.switches_mode_on,
    };
    SlicePlanSpec {
        node: plan.node.clone(),
        generation: plan.generation,
        policy: plan.policy.clone(),
        dry_run: plan.dry_run,
        gpus: plan.gpus.iter().map(gpu).collect(),
        serves: plan.serves.clone(),
        serves_count: u32::try_from(plan.serves.len()).unwrap_or(u32::MAX),
        evicts: plan.evicts.clone(),
        evicts_count: u32::try_from(plan.evicts.len()).unwrap_or(u32::MAX),
        destroys_count: u32::try_from(plan.destroys()).unwrap_or(u32::MAX),
    }
}
