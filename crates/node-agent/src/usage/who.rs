//! Which container a process on a GPU is in: the kernel knows its cgroup, and the cluster knows whose that is.

use crate::dra::oversight::Processes;
use carve_cluster_api::{NodeApi, PodView};
use carve_slicing::Holder;
use carve_usage::container_of;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Whose a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A container's.
    Container(Holder),
    /// The agent's, or a server of MPS: it works for others.
    Ours,
    /// Nobody's who has a part, as far as is known.
    Stranger,
    /// It can not be known here: the agent does not see other processes, or has no cluster to ask.
    Unknown,
}

/// How often pods are listed at most, for containers that nobody knows.
const LIST_AGAIN: Duration = Duration::from_secs(2);
/// How often that is done for one container. The cluster hears of it a moment after it has begun; one that it does not know by then is in no pod,
/// and a fleet of agents that asked for it for ever would be a burden.
const TRIES: u32 = 10;
/// How long the API server may take. What GPUs did is told without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Knows containers by their ids.
#[derive(Debug)]
pub(crate) struct Who {
    api: Option<NodeApi>,
    processes: Processes,
    /// Whether the agent sees none but its own processes.
    alone: bool,
    containers: BTreeMap<String, Holder>,
    /// What made each pod and since when it is here, by namespace and name.
    workloads: BTreeMap<(String, String), (String, Option<i64>)>,
    /// Pods that no list had, and how many did not.
    strange: BTreeMap<(String, String), u32>,
    /// Containers that no list had, and how many did not.
    missing: BTreeMap<String, u32>,
    /// When pods were last asked for.
    listed: Option<Instant>,
    /// Whether they were ever told.
    told: bool,
}

impl Who {
    pub(crate) fn new(api: Option<NodeApi>, processes: Processes) -> Self {
        let alone = std::process::id() == 1;
        Who {
            api,
            processes,
            alone,
            containers: BTreeMap::new(),
            workloads: BTreeMap::new(),
            strange: BTreeMap::new(),
            missing: BTreeMap::new(),
            listed: None,
            told: false,
        }
    }

    /// Whose these processes are, in their order.
    pub(crate) async fn of(&mut self, pids: &[u32]) -> Vec<Whose> {
        if self.alone || self.api.is_none() {
            return vec![Whose::Unknown; pids.len()];
        }
        let found: Vec<Result<Whose, String>> = pids.iter().map(|pid| self.look_up(*pid)).collect();
        let unknown: Vec<&String> = found.iter().filter_map(|one| one.as_ref().err()).collect();
        if unknown.iter().any(|id| self.missing.get(*id).is_none_or(|tries| *tries < TRIES)) {
            self.list(&unknown).await;
        }
        // Whoever was never told of pods can not tell a stranger from a tenant.
        let nobody = if self.told { Whose::Stranger } else { Whose::Unknown };
        let known = |found: Result<Whose, String>| match found {
            Ok(whose) => whose,
            Err(id) => self.containers.get(&id).cloned().map_or(nobody.clone(), Whose::Container),
        };
        found.into_iter().map(known).collect()
    }

    /// Makes sure that it is known what made these pods, as far as the cluster tells.
    pub(crate) async fn learn_workloads(&mut self, holders: impl Iterator<Item = &Holder>) {
        let pods = holders.map(|holder| (holder.namespace.clone(), holder.pod.clone()));
        let unknown: BTreeSet<(String, String)> =
            pods.filter(|pod| !self.workloads.contains_key(pod)).collect();
        self.strange.retain(|pod, _| unknown.contains(pod));
        if unknown.iter().all(|pod| self.strange.get(pod).is_some_and(|tries| *tries >= TRIES)) {
            return;
        }
        self.list(&[]).await;
        for pod in unknown.into_iter().filter(|pod| !self.workloads.contains_key(pod)) {
            *self.strange.entry(pod).or_default() += 1;
        }
    }

    /// What made a container's pod: `Deployment/web`; the pod itself where nothing did or nobody knows.
    pub(crate) fn workload(&self, holder: &Holder) -> String {
        self.made(holder).map_or_else(|| format!("Pod/{}", holder.pod), |(workload, _)| workload.clone())
    }

    /// Since when a container's pod is here, as far as the cluster tells.
    pub(crate) fn since(&self, holder: &Holder) -> Option<i64> {
        self.made(holder)?.1
    }

    fn made(&self, holder: &Holder) -> Option<&(String, Option<i64>)> {
        self.workloads.get(&(holder.namespace.clone(), holder.pod.clone()))
    }

    /// Whose a process is, or the id of a container that is not known yet.
    fn look_up(&self, pid: u32) -> Result<Whose, String> {
        if self.processes.is_ours(pid) {
            return Ok(Whose::Ours);
        }
        let Some(container) = self.processes.cgroups(pid).as_deref().and_then(container_of) else {
            return Ok(Whose::Stranger);
        };
        self.containers.get(&container.id).cloned().map(Whose::Container).ok_or(container.id)
    }

    /// Lists the node's pods, unless that was done a moment ago.
    async fn list(&mut self, wanted: &[&String]) {
        let again = self.listed.is_none_or(|listed| listed.elapsed() >= LIST_AGAIN);
        let Some(api) = self.api.as_ref().filter(|_| again) else { return };
        self.listed = Some(Instant::now());
        let why = match tokio::time::timeout(PATIENCE, api.pods()).await {
            Ok(Ok(pods)) => return self.learn(&pods, wanted),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("nothing came in {} s", PATIENCE.as_secs()),
        };
        tracing::debug!(why, "whose processes are on GPUs is not known for all of them");
    }

    /// These are the node's pods, and these containers were looked for.
    fn learn(&mut self, pods: &[PodView], wanted: &[&String]) {
        self.told = true;
        self.containers = pods.iter().flat_map(containers).collect();
        let made =
            |pod: &PodView| ((pod.namespace.clone(), pod.name.clone()), (pod.workload.clone(), pod.since));
        self.workloads = pods.iter().map(made).collect();
        let before = std::mem::take(&mut self.missing);
        // Only what is still looked for is remembered.
        let missing = wanted.iter().filter(|id| !self.containers.contains_key(**id));
        self.missing =
            missing.map(|id| ((*id).clone(), before.get(*id).map_or(1, |tries| tries + 1))).collect();
    }
}

fn containers(pod: &PodView) -> impl Iterator<Item = (String, Holder)> {
    pod.containers.iter().map(|(id, container)| {
        let holder =
            Holder { namespace: pod.namespace.clone(), pod: pod.name.clone(), container: container.clone() };
        (id.clone(), holder)
    })
}

#[cfg(test)]
mod tests {
    use super::{TRIES, Who, Whose};
    use crate::dra::oversight::Processes;
    use carve_cluster_api::PodView;
    use std::path::PathBuf;

    fn pod(id: &str) -> PodView {
        PodView {
            namespace: "team".to_owned(),
            name: "one".to_owned(),
            uid: "u".to_owned(),
            workload: "Deployment/web".to_owned(),
            since: Some(7),
            node: None,
            labels: Default::default(),
            annotations: Default::default(),
            programs: Vec::new(),
            containers: [(id.to_owned(), "main".to_owned())].into(),
            init: Default::default(),
            ending: false,
            ended: false,
        }
    }

    #[test]
    fn a_container_that_no_pod_has_is_looked_for_only_so_often() {
        let mut who = Who::new(None, Processes::new(PathBuf::from("/proc"), None));
        let (known, other) = ("aa".to_owned(), "bb".to_owned());
        for tries in 1..=TRIES {
            who.learn(&[pod("aa")], &[&known, &other]);
            assert_eq!(who.missing.get("bb"), Some(&tries));
        }
        assert_eq!(who.containers["aa"].container, "main");
        assert_eq!(who.workload(&who.containers["aa"]), "Deployment/web");
        assert_eq!(who.since(&who.containers["aa"]), Some(7));
        assert!(!who.missing.contains_key("aa"), "it was found");
        who.learn(&[pod("aa")], &[]);
        assert!(who.missing.is_empty(), "nobody looks for it any more");
    }

    #[tokio::test]
    async fn without_a_cluster_nothing_is_known_of_anybody() {
        let mut who = Who::new(None, Processes::new(PathBuf::from("/proc"), None));
        assert_eq!(who.of(&[1, 2]).await, [Whose::Unknown, Whose::Unknown]);
    }
}
