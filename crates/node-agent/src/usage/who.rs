//! Which container a process on a GPU is in: the kernel knows its cgroup, and the cluster knows whose that is.

use crate::dra::oversight::Processes;
use carve_cluster_api::{NodeApi, PodView};
use carve_slicing::Holder;
use carve_usage::container_of;
use std::collections::BTreeMap;
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

/// How often pods are listed at most, for a container that nobody knows.
const LIST_AGAIN: Duration = Duration::from_secs(2);

/// Knows containers by their ids.
#[derive(Debug)]
pub(crate) struct Who {
    api: Option<NodeApi>,
    processes: Processes,
    /// Whether the agent sees none but its own processes.
    alone: bool,
    containers: BTreeMap<String, Holder>,
    listed: Option<Instant>,
}

impl Who {
    pub(crate) fn new(api: Option<NodeApi>, processes: Processes) -> Self {
        let alone = std::process::id() == 1;
        Who { api, processes, alone, containers: BTreeMap::new(), listed: None }
    }

    /// Whose these processes are, in their order.
    pub(crate) async fn of(&mut self, pids: &[u32]) -> Vec<Whose> {
        if self.alone || self.api.is_none() {
            return vec![Whose::Unknown; pids.len()];
        }
        let found: Vec<Result<Whose, String>> = pids.iter().map(|pid| self.look_up(*pid)).collect();
        if found.iter().any(Result::is_err) {
            self.list().await;
        }
        let known = |found: Result<Whose, String>| match found {
            Ok(whose) => whose,
            Err(id) => self.containers.get(&id).cloned().map_or(Whose::Stranger, Whose::Container),
        };
        found.into_iter().map(known).collect()
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
    async fn list(&mut self) {
        let again = self.listed.is_none_or(|listed| listed.elapsed() >= LIST_AGAIN);
        let Some(api) = self.api.as_ref().filter(|_| again) else { return };
        self.listed = Some(Instant::now());
        match api.pods().await {
            Ok(pods) => self.containers = pods.iter().flat_map(containers).collect(),
            Err(error) => tracing::debug!(%error, "whose processes are on GPUs is not known for all of them"),
        }
    }
}

fn containers(pod: &PodView) -> impl Iterator<Item = (String, Holder)> {
    pod.containers.iter().map(|(id, container)| {
        let holder =
            Holder { namespace: pod.namespace.clone(), pod: pod.name.clone(), container: container.clone() };
        (id.clone(), holder)
    })
}
