//! What is done about stand-ins: they are made and deleted, and nodes that came for them go on to be cut.

use super::act::{AGAIN, Provisioning};
use super::decide::understood;
use super::objects::Watched;
use super::stand_ins::{all_changes, pod, steps};
use super::store::ProvisionStore;
use crate::store::StoreError;
use carve_karpenter::{Changes, Stage};
use carve_repartition::Seconds;
use std::collections::{BTreeMap, BTreeSet};

impl<S: ProvisionStore> Provisioning<S> {
    /// Does what is to be done, and says of which pods nobody takes care, by policy.
    pub(super) async fn bring(&mut self, held: &BTreeSet<String>, now: Seconds) -> BTreeMap<String, String> {
        let (wanted, known) = {
            let objects = self.objects();
            (objects.has_stand_ins(), objects.knows_pods())
        };
        if !wanted || !known {
            return BTreeMap::new();
        }
        self.go_on().await;
        let all = all_changes(&self.objects(), held);
        self.stuck.retain(|_, (since, _)| now.0 < since.0 + AGAIN);
        let mut unserved = BTreeMap::new();
        for (policy, changes) in &all {
            if let Some(remark) = remark(changes) {
                unserved.insert(policy.clone(), remark);
            }
            if self.stuck.contains_key(policy) {
                continue;
            }
            if let Err(error) = self.change(policy, changes).await {
                tracing::warn!(policy, %error, "its stand-ins can not be kept; trying again");
                self.stuck.insert(policy.clone(), (now, error.to_string()));
            }
        }
        unserved
    }

    /// Nodes go on to be cut, each as it was seen.
    async fn go_on(&self) {
        let steps = steps(&self.objects());
        for step in steps {
            let Some(version) = self.objects().nodes.get(&step.node).map(|node| node.version.clone()) else {
                continue;
            };
            match self.store.put_stage(&step.node, &version, &step.taints, &step.labels).await {
                Ok(node) => {
                    match step.stage {
                        Stage::Cutting => {
                            tracing::info!(node = step.node, "its agent is told to cut its GPUs")
                        }
                        _ => tracing::info!(node = step.node, "its GPUs are there: stand-ins leave it"),
                    }
                    self.objects().seen(Watched::Nodes, node);
                }
                Err(error) => tracing::debug!(node = step.node, %error, "it has changed; trying again"),
            }
        }
    }

    async fn change(&self, policy: &str, changes: &Changes) -> Result<(), StoreError> {
        for name in &changes.delete {
            let found = {
                let objects = self.objects();
                let mut ours = objects.pods.iter();
                ours.find(|(_, pod)| pod.stands_in_for.is_some() && &pod.name == name)
                    .map(|(key, pod)| (key.clone(), pod.uid.clone()))
            };
            let Some((key, uid)) = found else { continue };
            tracing::info!(policy, name, "this stand-in is not needed any more");
            self.store.delete_stand_in(name, &uid).await?;
            self.objects().gone(Watched::Pods, &key);
        }
        let shape = {
            let objects = self.objects();
            let seen = objects.policies.get(policy).and_then(understood);
            seen.map(|(provision, compiled)| (provision.stand_in_image.clone(), compiled.told_by))
        };
        let Some((image, told_by)) = shape else { return Ok(()) };
        for stand_in in &changes.create {
            tracing::info!(
                policy,
                name = stand_in.name,
                gpus = stand_in.gpus,
                "a stand-in asks for whole GPUs"
            );
            let made = self.store.create_stand_in(&pod(policy, told_by, &image, stand_in)).await?;
            if let Some(made) = made {
                self.objects().seen(Watched::Pods, made);
            }
        }
        Ok(())
    }
}

/// What is said of pods for which no machine is asked.
fn remark(changes: &Changes) -> Option<String> {
    let limit = format!("{} pod(s) wait for more GPUs than mostGpus allows", changes.beyond_limit);
    let large = format!("{} pod(s) want more than the largest machine of counts has", changes.too_large);
    let said: Vec<String> = [(changes.beyond_limit, limit), (changes.too_large, large)]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, text)| text)
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}
