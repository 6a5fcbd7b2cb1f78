//! What is done about decisions: objects are written and deleted, nodes are let in, people are told.

use super::conditions::{self, Known};
use super::decide::{judged, wanted};
use super::objects::{Objects, PolicySeen, Seen};
use super::store::{About, ProvisionStore};
use crate::metrics::{Metrics, Policy};
use crate::repartition::written;
use crate::store::StoreError;
use carve_karpenter::{BROKEN, Judgement, KEPT, Kind, PolicySteps, Steps, There, keep};
use carve_repartition::Seconds;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// After so many seconds what was refused is tried again.
pub(super) const AGAIN: u64 = 30;

/// Something that could not be written.
#[derive(Debug, Clone)]
struct Failed {
    why: String,
    at: Seconds,
    /// What it was about; something else is tried at once.
    steps: PolicySteps,
}

/// Provisioning over a store.
pub(super) struct Provisioning<S> {
    pub(super) store: S,
    objects: Arc<Mutex<Objects>>,
    /// Since when nodes are something else than was promised.
    broken_since: BTreeMap<String, Seconds>,
    failed: BTreeMap<String, Failed>,
    /// What was told already, so that the API server is not asked again and again.
    told: BTreeSet<(String, String)>,
    /// Since when stand-ins of a policy can not be kept, and why.
    pub(super) stuck: BTreeMap<String, (Seconds, String)>,
    metrics: Metrics,
}

impl<S: ProvisionStore> Provisioning<S> {
    pub(super) fn new(store: S, objects: Arc<Mutex<Objects>>, metrics: Metrics) -> Self {
        let (broken_since, failed, told, stuck) = Default::default();
        Provisioning { store, objects, broken_since, failed, told, stuck, metrics }
    }

    pub(super) fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at everything that is known and does what is to be done.
    pub(super) async fn look(&mut self, now: Seconds) {
        if !self.objects().is_known() {
            return;
        }
        let wanted = wanted(&self.objects());
        let steps = {
            let objects = self.objects();
            let nothing = BTreeMap::new();
            // Where there are no NodePools nothing can be written, and nothing is left.
            let missing = matches!(objects.pools, Seen::Absent(_));
            let there = There {
                pools: objects.pools.all().unwrap_or(&nothing),
                overlays: objects.overlays.all().unwrap_or(&nothing),
            };
            if missing { Steps::default() } else { keep(&wanted.wants, &wanted.held, there) }
        };
        self.failed.retain(|policy, failed| {
            now.0 < failed.at.0 + AGAIN
                && steps.policies.iter().any(|one| &one.policy == policy && *one == failed.steps)
        });
        for of_one in &steps.policies {
            if self.failed.contains_key(&of_one.policy) || self.lacks_overlays(of_one) {
                continue;
            }
            if let Err(error) = self.carry_out(of_one).await {
                tracing::warn!(policy = of_one.policy, %error, "its NodePool can not be kept; trying again");
                let failed = Failed { why: error.to_string(), at: now, steps: of_one.clone() };
                self.failed.insert(of_one.policy.clone(), failed);
            }
        }
        self.tell_of_left(&steps, now).await;
        let found = self.look_at_nodes(now).await;
        let unserved = self.bring(&wanted.held, now).await;
        let stuck = self.stuck.iter().map(|(policy, (_, why))| (policy.clone(), why.clone()));
        let failed = self.failed.iter().map(|(policy, failed)| (policy.clone(), failed.why.clone()));
        let failures: BTreeMap<String, String> = stuck.chain(failed).collect();
        let conditions = {
            let objects = self.objects();
            let known = Known {
                objects: &objects,
                wanted: &wanted,
                steps: &steps,
                failures: &failures,
                judged: &found,
                unserved: &unserved,
                now,
            };
            conditions::changed(&known)
        };
        for (policy, conditions) in conditions {
            match self.store.put_conditions(&policy, &conditions).await {
                Ok(()) => {
                    if let Some(seen) = self.objects().policies.get_mut(&policy) {
                        seen.conditions.retain(|one| {
                            ![conditions::PROVISIONED, conditions::PROMISE_KEPT].contains(&one.kind.as_str())
                        });
                        seen.conditions.extend(conditions);
                    }
                }
                Err(error) => tracing::warn!(policy, %error, "its conditions can not be written"),
            }
        }
        self.metrics.policies(self.known_of_policies(&found));
    }

    /// What is known of every policy that wants machines.
    fn known_of_policies(&self, found: &BTreeMap<String, Judgement>) -> BTreeMap<String, Policy> {
        let objects = self.objects();
        let wanting = objects.policies.iter().filter(|(_, policy)| policy.spec.provision.is_some());
        let known = wanting.map(|(name, policy)| {
            let said = policy.conditions.iter().find(|one| one.kind == conditions::PROVISIONED);
            let of_it = |(node, one): &(&String, &Judgement)| {
                one.trouble && objects.nodes.get(*node).is_some_and(|seen| &seen.pool == name)
            };
            let broken = u64::try_from(found.iter().filter(of_it).count()).unwrap_or(u64::MAX);
            (name.clone(), Policy { provisioned: said.map(|one| one.status == "True"), broken })
        });
        known.collect()
    }

    /// A pool without its overlays would bring too many machines, so it waits for them.
    fn lacks_overlays(&self, steps: &PolicySteps) -> bool {
        matches!(self.objects().overlays, Seen::Absent(_))
            && steps.apply.iter().any(|document| document["kind"] == "NodeOverlay")
    }

    /// A pool is made when Karpenter uses its overlays. Where the gate for overlays is off, it would bring a machine for every share.
    fn must_wait(&self, policy: &str) -> bool {
        let objects = self.objects();
        let is_new = objects.pools.all().is_none_or(|pools| !pools.contains_key(policy));
        let by_overlays =
            |seen: &PolicySeen| matches!(&seen.compiled, Some(Ok(made)) if !made.told_by.stand_ins());
        let by_overlays = objects.policies.get(policy).is_some_and(by_overlays);
        is_new && by_overlays && !conditions::overlays_in_use(&objects, policy)
    }

    async fn carry_out(&self, steps: &PolicySteps) -> Result<(), StoreError> {
        for document in &steps.apply {
            let (kind, name) = (&document["kind"], &document["metadata"]["name"]);
            if kind == "NodePool" && self.must_wait(&steps.policy) {
                return Ok(());
            }
            tracing::info!(policy = steps.policy, "{kind} {name} is written");
            let now_there = self.store.apply(document).await?;
            let mut objects = self.objects();
            match kind.as_str() {
                Some("NodePool") => objects.pools.put(now_there),
                _ => objects.overlays.put(now_there),
            }
        }
        for named in &steps.delete {
            let seen = {
                let objects = self.objects();
                let all = if named.kind == Kind::NodePool { &objects.pools } else { &objects.overlays };
                all.all().and_then(|all| all.get(&named.name)).cloned()
            };
            let Some(seen) = seen else { continue };
            tracing::info!(policy = steps.policy, kind = ?named.kind, name = named.name, "nobody wants it any more: it is deleted");
            self.store.delete(named, &seen).await?;
        }
        Ok(())
    }

    /// Says of NodePools that nobody wants that they stay.
    async fn tell_of_left(&mut self, steps: &Steps, now: Seconds) {
        for pool in &steps.left {
            let uid = {
                let objects = self.objects();
                let seen = objects.pools.all().and_then(|pools| pools.get(pool));
                seen.map(|seen| super::objects::text(seen, "uid").to_owned()).unwrap_or_default()
            };
            let message = "the SlicePolicy that it was made for wants no machines any more; it stays, because its machines go with it: delete it by hand";
            self.warn(About::NodePool { name: pool.clone(), uid }, "PoolLeft", message, now).await;
        }
    }

    /// Lets pods onto nodes that are what was promised, and tells of the others.
    async fn look_at_nodes(&mut self, now: Seconds) -> BTreeMap<String, Judgement> {
        let found = judged(&self.objects(), &self.broken_since, now);
        self.broken_since.retain(|name, _| found.get(name).is_some_and(|one| one.broken.is_some()));
        for (name, judgement) in &found {
            if judgement.broken.is_some() {
                self.broken_since.entry(name.clone()).or_insert(now);
            }
            if let Err(error) = self.act_on_node(name, judgement, now).await {
                tracing::warn!(node = name, %error, "it can not be changed; trying again");
            }
        }
        found
    }

    async fn act_on_node(
        &mut self,
        name: &str,
        judgement: &Judgement,
        now: Seconds,
    ) -> Result<(), StoreError> {
        let Some(node) = self.objects().nodes.get(name).cloned() else { return Ok(()) };
        if judgement.let_in {
            let taints: Vec<Value> = node.other_taints();
            self.store.put_taints(name, &node.version, &taints).await?;
            tracing::info!(node = name, "it offers what was promised of it: pods are let in");
            if let Some(seen) = self.objects().nodes.get_mut(name) {
                seen.taints = taints;
            }
        }
        if let Some(said) = &judgement.condition {
            self.store.put_hardware_ready(name, said, &written(now)).await?;
            if let Some(seen) = self.objects().nodes.get_mut(name) {
                seen.hardware = Some((if said.ready { KEPT } else { BROKEN }.to_owned(), said.ready));
            }
        }
        if let Some(broken) = judgement.broken.as_ref().filter(|_| judgement.trouble) {
            let message = format!("its GPUs are not what autoscalers were promised: {broken}");
            self.warn(About::Node { name: name.to_owned(), uid: node.uid }, BROKEN, &message, now).await;
        }
        Ok(())
    }

    /// Nothing depends on it.
    async fn warn(&mut self, about: About, reason: &str, message: &str, now: Seconds) {
        let (About::Node { uid, .. } | About::NodePool { uid, .. }) = &about;
        let key = (uid.clone(), message.to_owned());
        if self.told.contains(&key) {
            return;
        }
        match self.store.warn(&about, reason, message, &written(now)).await {
            Ok(()) => drop(self.told.insert(key)),
            Err(error) => tracing::debug!(%error, "an event can not be told"),
        }
    }
}
