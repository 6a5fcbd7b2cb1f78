//! What a node has for claims, held against the claims themselves: records, files for containers, MIG instances, daemons.

use crate::{AgentOnNode, Cluster, GpuNode, Namespace};
use carve_dra::{DeviceName, excludes};
use carve_dra_driver::{ClaimRecord, Stage, UsageRecord};
use carve_gpu_host::GpuHost;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a node may take to be clean: what nobody asks to take back is swept within this.
const SWEPT: Duration = Duration::from_secs(60);

/// Everything that a node has for claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holdings {
    /// Records, by uid.
    pub records: BTreeMap<String, ClaimRecord>,
    /// Uids in the names of files for the container runtime.
    pub cdi: BTreeSet<String>,
    /// Uids that have limits.
    pub limits: BTreeSet<String>,
    /// Marks of instances.
    pub marks: BTreeSet<String>,
    /// MIG devices, by their UUIDs.
    pub migs: BTreeSet<String>,
    /// Parts that have MPS daemons, and their processes.
    pub daemons: BTreeMap<String, u32>,
    /// What does not read.
    pub unread: Vec<String>,
}

impl Holdings {
    /// What the node has now.
    pub fn of(cluster: &Cluster, node: &GpuNode) -> Self {
        let state = node.files("state");
        let dra = state.join("dra").display().to_string();
        let list = |command: &str| -> BTreeSet<String> {
            cluster.on(node.name(), &["sh", "-c", command]).lines().map(str::to_owned).collect()
        };
        let mut holdings = Holdings::default();
        for line in list(&format!(
            "cd {dra}/claims 2>/dev/null && for f in *.json; do [ -f $f ] && cat $f && echo; done"
        )) {
            match serde_json::from_str::<ClaimRecord>(&line) {
                Ok(record) => drop(holdings.records.insert(record.uid.clone(), record)),
                Err(_) if line.is_empty() => {}
                Err(error) => holdings.unread.push(format!("{line}: {error}")),
            }
        }
        let uid = |name: &String| Some(name.split_once("claim_")?.1.strip_suffix(".json")?.to_owned());
        holdings.cdi = list("ls /var/run/cdi").iter().filter_map(uid).collect();
        let is_uid = |name: &String| name.len() == 36;
        holdings.limits = list("ls /run/carve/limits 2>/dev/null").into_iter().filter(is_uid).collect();
        holdings.marks = list(&format!("ls {dra}/instances 2>/dev/null"));
        // A daemon tells its part by its folder.
        let daemons = "for p in $(pgrep -f '[n]vidia-cuda-mps-control -f'); do \
                       echo $p $(tr '\\0' '\\n' < /proc/$p/environ | grep ^CUDA_MPS_PIPE_DIRECTORY=); done";
        for line in list(daemons) {
            let Some((process, pipe)) = line.split_once(' ') else { continue };
            let part = pipe.trim_end_matches("/pipe").rsplit('/').next().unwrap_or_default().to_owned();
            let twice = holdings.daemons.insert(part.clone(), process.parse().unwrap_or_default());
            if twice.is_some() {
                holdings.unread.push(format!("{part} has two daemons"));
            }
        }
        let machine = node.machine();
        for gpu in machine.gpus().unwrap_or_default() {
            let devices = machine.mig_devices(gpu.index).unwrap_or_default();
            holdings.migs.extend(devices.into_iter().map(|device| device.uuid.0));
        }
        holdings
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        *self == Holdings::default()
    }

    /// What is wrong when exactly these claims, each with its allocation, are ready on the node.
    pub fn faults(&self, claims: &[Value]) -> Vec<String> {
        let mut faults = self.unread.clone();
        let mut must = |holds: bool, what: String| {
            if !holds {
                faults.push(what);
            }
        };
        let uids: BTreeSet<String> = claims.iter().filter_map(uid_of).collect();
        let recorded: BTreeSet<String> = self.records.keys().cloned().collect();
        must(recorded == uids, format!("records of {recorded:?}, claims {uids:?}"));
        must(self.cdi == uids, format!("files of {:?}, claims {uids:?}", self.cdi));
        for claim in claims {
            let Some(record) = uid_of(claim).and_then(|uid| self.records.get(&uid)) else { continue };
            let results = claim["status"]["allocation"]["devices"]["results"].as_array();
            let given: Vec<_> = results
                .into_iter()
                .flatten()
                .map(|result| (result["device"].as_str(), result["shareID"].as_str()))
                .collect();
            let noted: Vec<_> = record
                .devices
                .iter()
                .map(|device| (Some(device.device.as_str()), device.share.as_deref()))
                .collect();
            must(given == noted, format!("{}: given {given:?}, recorded {noted:?}", record.title()));
            must(record.stage == Stage::Ready, format!("{} is {:?}", record.title(), record.stage));
        }
        let devices: Vec<_> = self
            .records
            .values()
            .flat_map(|record| record.devices.iter().map(move |device| (record, device)))
            .collect();
        for (place, (one, held)) in devices.iter().enumerate() {
            for (other, also) in devices.iter().skip(place + 1) {
                let names = (held.device.parse::<DeviceName>(), also.device.parse::<DeviceName>());
                let (Ok(first), Ok(second)) = names else { continue };
                let twice = excludes((&first, held.share.as_deref()), (&second, also.share.as_deref()));
                must(!twice, format!("{} and {}: {first} and {second}", one.title(), other.title()));
            }
        }
        let parts = |of: &dyn Fn(&UsageRecord, &str) -> bool| -> BTreeSet<String> {
            let of = devices.iter().filter(|(_, device)| of(&device.usage, &device.device));
            of.filter_map(|(_, device)| device.part.clone()).collect()
        };
        let migs = parts(&|_, name| name.contains("-mig-"));
        must(self.migs == migs, format!("MIG devices {:?}, recorded {migs:?}", self.migs));
        must(self.marks.len() == migs.len(), format!("marks {:?} of {migs:?}", self.marks));
        let over_mps = parts(&|usage, _| matches!(usage, UsageRecord::Mps { .. }));
        let daemons: BTreeSet<String> = self.daemons.keys().cloned().collect();
        must(daemons == over_mps, format!("daemons {daemons:?}, recorded {over_mps:?}"));
        let limited: BTreeSet<String> = devices
            .iter()
            .filter(|(_, device)| device.usage.has_share())
            .map(|(record, _)| record.uid.clone())
            .collect();
        must(self.limits == limited, format!("limits of {:?}, recorded {limited:?}", self.limits));
        faults
    }
}

fn uid_of(claim: &Value) -> Option<String> {
    Some(claim["metadata"]["uid"].as_str()?.to_owned())
}

/// Starts pods, ends them, and holds the node against them.
#[derive(Debug)]
pub struct Audit<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The node.
    pub node: &'a GpuNode,
    /// Where the pods are.
    pub namespace: &'a Namespace,
    /// The agent that serves them.
    pub agent: &'a AgentOnNode<'a>,
}

impl Audit<'_> {
    /// What the node has now.
    pub fn holdings(&self) -> Holdings {
        Holdings::of(self.cluster, self.node)
    }

    /// Waits until all of these pods run.
    pub fn run(&self, names: &[&str]) {
        for name in names {
            self.agent.until(&format!("{name} runs"), || self.namespace.phase(name) == "Running");
        }
    }

    /// The container of a pod, by its id and how often it was started.
    pub fn container(&self, pod: &str) -> (Value, Value) {
        let status = self.namespace.get(&["pod", pod])["status"]["containerStatuses"][0].clone();
        (status["containerID"].clone(), status["restartCount"].clone())
    }

    /// Tells the API server to delete pods, and does not wait.
    pub fn delete(&self, names: &[&str]) {
        for kind in ["pod", "resourceclaim"] {
            let words = [&["delete", kind, "-n", self.namespace.name(), "--wait=false"], names].concat();
            self.cluster.kubectl(&words);
        }
    }

    /// Waits until pods and their claims are gone.
    pub fn gone(&self, names: &[&str]) {
        let is_gone = |name: &&str| {
            self.namespace.get(&["pod", name]).is_null()
                && self.namespace.get(&["resourceclaim", name]).is_null()
        };
        self.agent.until(&format!("{names:?} are gone"), || names.iter().all(is_gone));
    }

    /// Waits until the node has exactly what these claims were given.
    pub fn settled(&self, names: &[&str]) {
        let faults = || {
            let claims: Vec<Value> =
                names.iter().map(|name| self.namespace.get(&["resourceclaim", name])).collect();
            self.holdings().faults(&claims)
        };
        let log = || format!("{:#?}\n{}", faults(), self.agent.log());
        self.cluster.until_or("the node has what claims were given", SWEPT, || faults().is_empty(), log);
    }

    /// Waits until nothing at all is left.
    pub fn clean(&self) {
        let left = || format!("{:#?}\n{}", self.holdings(), self.agent.log());
        self.cluster.until_or("nothing is left", SWEPT, || self.holdings().is_empty(), left);
    }

    /// The path of a claim's record on the node.
    pub fn record_path(&self, claim: &str) -> String {
        let uid = uid_of(&self.namespace.get(&["resourceclaim", claim])).unwrap_or_default();
        self.node.files("state").join(format!("dra/claims/{uid}.json")).display().to_string()
    }
}
