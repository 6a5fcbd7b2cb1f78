//! The three roads to a slice, each with a node and an agent of its own, and pods that come and go on them.

use carve_cluster_tests::soak::{Books, Footprint, Rest, Tally};
use carve_cluster_tests::{
    Ask, Background, Chance, Churn, Cluster, ControlPlane, FOLDERS, GpuNode, Holdings, Namespace, PATIENCE,
    PartsAsk, PartsWatch, Pod, apply_classes, limiter_library, why_waiting,
};
use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Names of the roads, in the order of their nodes.
const ROADS: [&str; 3] = ["plugin", "claims", "parts"];
const MACHINES: [&str; 3] = ["a100-40gb:4", "h200-141gb:2", "a100-80gb:2"];
/// Pods at a time: more than fit, so that some wait.
const PODS: [usize; 3] = [8, 8, 14];
/// Time between two changes of the layout, on average.
const LAYOUTS: Duration = Duration::from_secs(40);
const CONFIGS: [&str; 5] = ["all-disabled", "all-1g.5gb", "all-2g.10gb", "all-3g.20gb", "all-balanced"];

/// All of them.
pub(crate) struct Roads<'a> {
    pub(crate) cluster: &'a Cluster,
    agents: Vec<Background>,
    plane: ControlPlane,
    own: Namespace,
    tenants: Vec<Namespace>,
    nodes: Vec<GpuNode>,
    limiter: String,
    watch: PartsWatch,
    churn: Option<Churn>,
    names: [Vec<String>; 2],
    number: usize,
    next_layout: Instant,
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// What claims ask for.
fn asks() -> [Ask; 6] {
    [
        Ask::of("fraction").share("20Gi", "25"),
        Ask::profile("mig", "1g.18gb"),
        Ask::of("mps").share("10Gi", "30"),
        Ask::of("fraction").share("30Gi", "50"),
        Ask::profile("mig", "2g.35gb"),
        Ask::of("mps").share("20Gi", "40"),
    ]
}

impl<'a> Roads<'a> {
    pub(crate) fn open(cluster: &'a Cluster) -> Self {
        let limiter = limiter_library().expect("the limiter was built").display().to_string();
        let first = GpuNode::new(cluster, "soak", MACHINES[0]).expect("simulated GPUs");
        let second = first.beside("node1", MACHINES[1]).expect("simulated GPUs");
        let third = first.beside("node2", MACHINES[2]).expect("simulated GPUs");
        for (_, definition) in carve_slice_policy::definitions() {
            let text = serde_json::to_string(&definition).expect("a definition");
            cluster.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(&text)).expect("a definition");
        }
        apply_classes(cluster);
        let own = cluster.namespace("soak-control");
        let plane = ControlPlane::start_replicas(cluster, &own, 2).expect("a control plane");
        let tenants = ROADS.map(|road| cluster.namespace(&format!("soak-{road}"))).into();
        let mut roads = Roads {
            cluster,
            agents: Vec::new(),
            plane,
            own,
            tenants,
            nodes: vec![first, second, third],
            limiter,
            watch: PartsWatch::start(cluster),
            churn: None,
            names: Default::default(),
            number: 0,
            next_layout: Instant::now(),
        };
        roads.agents = (0..ROADS.len()).map(|road| roads.agent(road)).collect();
        roads
    }

    /// Everything that comes later comes once, so that what is made at a first time and kept for the next is there before anybody looks.
    pub(crate) fn warm(&mut self) {
        self.every_layout();
        for (number, ask) in asks().iter().enumerate() {
            self.apply(1, &self.nodes[1].claiming_pod(&format!("warm-{number}"), ask));
        }
        self.until("claims of every kind are held", || {
            self.pods(1).iter().filter(|pod| runs(pod)).count() >= 3
        });
        self.clear();
    }

    /// Every layout once: an agent goes on serving a resource that it has offered, with none of it, and one that was started again knows only what is
    /// there.
    pub(crate) fn every_layout(&self) {
        for config in CONFIGS.iter().chain(CONFIGS.first()) {
            self.until("the layout can be asked for", || self.wish(config).is_ok());
            self.until(&format!("{config} is there"), || self.is_laid_out(config));
        }
    }

    fn is_laid_out(&self, config: &str) -> bool {
        let metadata = self.cluster.get(&["node", self.nodes[0].name()])["metadata"].clone();
        metadata["labels"]["nvidia.com/mig.config.state"] == "success"
            && metadata["annotations"]["carve.dev/mig.config.state-of"] == config
    }

    fn agent(&self, road: usize) -> Background {
        let settings: Vec<(&str, &str)> = match ROADS[road] {
            "plugin" => vec![("MIG_STRATEGY", "mixed"), ("CARVE_LIMITER", "")],
            "claims" => vec![("CARVE_DRA", "true"), ("CARVE_LIMITER", &self.limiter)],
            _ => vec![("CARVE_SLICES", "true"), ("CARVE_LIMITER", &self.limiter)],
        };
        let settings = [settings, vec![("CARVE_PROBE_SECONDS", "1")]].concat();
        self.nodes[road].agent_as_process(&self.own, self.plane.binary(), &settings)
    }

    /// What everybody said last.
    fn said(&self) -> String {
        let last = |text: String| text.lines().rev().take(25).collect::<Vec<_>>().join("\n");
        let agents = self.agents.iter().map(|agent| last(agent.heard()));
        agents.chain([last(self.plane.said())]).collect::<Vec<_>>().join("\n──\n")
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        self.cluster.until_or(what, PATIENCE, holds, || self.said());
    }

    fn pods(&self, road: usize) -> Vec<Value> {
        items(&self.tenants[road].get(&["pods"]))
    }

    // What goes wrong.

    pub(crate) fn kill_agent(&mut self, road: usize) {
        self.agents[road].kill();
        self.agents[road] = self.agent(road);
    }

    pub(crate) fn stop(&self, road: usize) {
        self.agents[road].pause();
    }

    pub(crate) fn go_on(&self, road: usize) {
        self.agents[road].resume();
    }

    pub(crate) fn lose(&self, road: usize, gpu: GpuIndex) {
        self.nodes[road].machine().change_world(|host| host.lose(gpu)).expect("a machine");
    }

    /// The GPU is back, without its instances. Whoever had one has nothing to go back to, so that the node is drained, as people do after such a repair.
    pub(crate) fn find(&mut self, road: usize, gpu: GpuIndex) {
        self.nodes[road].machine().change_world(|host| host.find_again(gpu)).expect("a machine");
        if let Some(names) = self.names.get_mut(road) {
            names.clear();
            self.let_go(road);
        }
    }

    /// Deletes everything of a road, and does not wait for it.
    fn let_go(&self, road: usize) {
        let tenants = self.tenants[road].name();
        for kind in ["pods", "resourceclaims"] {
            let words = ["delete", kind, "--all", "-n", tenants, "--wait=false", "--grace-period=0"];
            let _ = self.cluster.try_kubectl(&words, None);
        }
    }

    pub(crate) fn kill_controller(&mut self, replica: usize) {
        self.plane.kill_replica(replica);
        self.plane.start_replica(replica);
    }

    pub(crate) fn restart_scheduler(&mut self) {
        self.plane.stop_scheduler();
        self.plane.start_scheduler();
    }

    // Load.

    /// Parts come and go by themselves from now on.
    pub(crate) fn begin(&mut self) {
        let asleep: Value =
            serde_json::from_str(&Pod::sleeping(self.cluster, "asleep").manifest()).expect("a pod");
        let asleep = asleep["spec"]["containers"][0].clone();
        let dress = move |pod: &mut Value| {
            let limits = pod["spec"]["containers"][0]["resources"].clone();
            pod["spec"]["containers"] = json!([asleep]);
            pod["spec"]["containers"][0]["resources"] = limits;
        };
        self.churn = Some(Churn::start(self.cluster, &self.tenants[2], (PODS[2], 800), dress));
    }

    /// One more pod or one less on one of the other roads, and now and then another layout.
    pub(crate) fn step(&mut self, chance: &mut Chance, tally: &mut Tally) {
        if Instant::now() > self.next_layout {
            let pause = LAYOUTS / 2 + Duration::from_secs(chance.below(LAYOUTS.as_secs()));
            self.next_layout = Instant::now() + pause;
            let config = CONFIGS[chance.below(CONFIGS.len() as u64) as usize];
            if self.wish(config).is_ok() {
                tally.one("MIG changes");
            }
        }
        let road = chance.below(2) as usize;
        let full = self.names[road].len() >= PODS[road];
        if full || (!self.names[road].is_empty() && chance.below(3) == 0) {
            let place = chance.below(self.names[road].len() as u64) as usize;
            let gone = self.names[road].swap_remove(place);
            self.delete(road, &gone, tally);
        } else {
            self.number += 1;
            let new = format!("{}-{}", ROADS[road], self.number);
            let manifest = match road {
                0 => self.plugin_pod(&new, chance),
                _ => self.claiming_pod(&new, chance),
            };
            // Also where no answer came: it may be there.
            match self.tenants[road].try_apply(&manifest) {
                Ok(_) => tally.one(&format!("{}: pods made", ROADS[road])),
                Err(_) => tally
                    .one(&format!("{}: pods refused, the API server or the webhook being away", ROADS[road])),
            }
            self.names[road].push(new);
        }
        self.watch.check();
    }

    fn wish(&self, config: &str) -> Result<String, String> {
        let wish = format!("nvidia.com/mig.config={config}");
        self.cluster.try_kubectl(&["label", "node", self.nodes[0].name(), "--overwrite", &wish], None)
    }

    fn plugin_pod(&self, new: &str, chance: &mut Chance) -> String {
        let node = self.cluster.get(&["node", self.nodes[0].name()]);
        let offered = node["status"]["allocatable"].as_object().cloned().unwrap_or_default();
        let some =
            offered.into_iter().filter(|(name, count)| name.starts_with("nvidia.com/") && count != "0");
        let names: Vec<String> = some.map(|(name, _)| name).collect();
        let usual = "nvidia.com/gpu".to_owned();
        let resource = names.get(chance.below(names.len().max(1) as u64) as usize).unwrap_or(&usual);
        self.whole_plugin_pod(new, resource)
    }

    fn whole_plugin_pod(&self, new: &str, resource: &str) -> String {
        let pod = self.nodes[0].looking_pod(new, resource, 1);
        pod.spec("nodeSelector", json!({"kubernetes.io/hostname": self.nodes[0].name()})).manifest()
    }

    fn claiming_pod(&self, new: &str, chance: &mut Chance) -> String {
        let asks = asks();
        let ask = &asks[chance.below(asks.len() as u64) as usize];
        self.nodes[1].claiming_pod(new, ask)
    }

    fn delete(&self, road: usize, gone: &str, tally: &mut Tally) {
        let namespace = self.tenants[road].name();
        let kinds = if road == 0 { &["pod"][..] } else { &["pod", "resourceclaim"] };
        for kind in kinds {
            let words = [
                "delete",
                kind,
                gone,
                "-n",
                namespace,
                "--wait=false",
                "--grace-period=0",
                "--ignore-not-found",
            ];
            let _ = self.cluster.try_kubectl(&words, None);
        }
        tally.one(&format!("{}: pods deleted", ROADS[road]));
    }

    // What came of it.

    /// Every pod runs or says why not, and has what was given to it and nothing of another's.
    pub(crate) fn settle(&mut self, tally: &mut Tally) {
        if let Some(churn) = self.churn.take() {
            let churned = churn.stop();
            tally.more("parts: pods made", churned.made);
            tally.more("parts: pods deleted", churned.deleted);
            tally
                .more("parts: pods refused, the API server or the webhook being away", churned.refused.len());
        }
        self.until("the API server answers", || !self.cluster.get(&["node", "node0"]).is_null());
        self.plane.wait_until_ready();
        for (road, title) in ROADS.iter().enumerate() {
            let silent = || -> Vec<String> {
                let pods = self.pods(road);
                let knows = |pod: &Value| {
                    // Kubelet refuses a pod for good that comes while no plugin answers.
                    runs(pod) || why_waiting(pod).is_some() || pod["status"]["phase"] == "Failed"
                };
                pods.iter().filter(|pod| !knows(pod)).map(|pod| name(pod).to_owned()).collect()
            };
            self.cluster.until_or(
                &format!("every pod of the road {title} runs or says why not"),
                PATIENCE,
                || silent().is_empty(),
                || format!("{:?}\n{}", silent(), self.said()),
            );
            let pods = self.pods(road);
            let (running, others): (Vec<&Value>, Vec<&Value>) = pods.iter().partition(|pod| runs(pod));
            let (failed, waiting): (Vec<&Value>, Vec<&Value>) =
                others.into_iter().partition(|pod| pod["status"]["phase"] == "Failed");
            tally.more(
                &format!("{title}: pods that ran at a round's end, with what was theirs"),
                running.len(),
            );
            tally.more(&format!("{title}: pods that waited at a round's end, and said why"), waiting.len());
            tally.more(&format!("{title}: pods that kubelet refused while the agent was away"), failed.len());
            match road {
                0 => self.nobody_sees_the_same(&running),
                1 => self.claims_are_held(),
                _ => self.watch.check(),
            }
        }
    }

    /// Pods of the first road each see something of their own.
    fn nobody_sees_the_same(&self, running: &[&Value]) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for pod in running {
            let text = self.tenants[0].exec(name(pod), &["/carve", "gpus", "-o", "json"]);
            let told: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let gpu = &told["gpus"][0];
            let part = match gpu["mig"]["devices"].as_array().map(Vec::as_slice) {
                Some([only]) => &only["uuid"],
                _ => &gpu["uuid"],
            };
            let part =
                part.as_str().unwrap_or_else(|| panic!("{} sees nothing: {told:#}", name(pod))).to_owned();
            if let Some(other) = seen.insert(part.clone(), name(pod).to_owned()) {
                panic!("{other} and {} both have {part}", name(pod));
            }
        }
    }

    /// The second node has exactly what claims were given.
    fn claims_are_held(&self) {
        let faults = || {
            let claims = items(&self.tenants[1].get(&["resourceclaims"]));
            let given: Vec<Value> =
                claims.into_iter().filter(|claim| claim["status"]["allocation"].is_object()).collect();
            Holdings::of(self.cluster, &self.nodes[1]).faults(&given)
        };
        let told = || format!("{:#?}\n{}", faults(), self.said());
        self.cluster.until_or("the node has what claims were given", PATIENCE, || faults().is_empty(), told);
    }

    /// Everything goes.
    pub(crate) fn clear(&mut self) {
        (0..self.tenants.len()).for_each(|road| self.let_go(road));
        self.names = Default::default();
        let empty = |tenants: &Namespace| {
            let list = tenants.get(&["pods,resourceclaims"]);
            !list.is_null() && items(&list).is_empty()
        };
        self.until("pods and claims are gone", || self.tenants.iter().all(empty));
        self.until("the layout can be asked for", || self.wish("all-disabled").is_ok());
        let whole = || {
            let node = self.cluster.get(&["node", self.nodes[0].name()]);
            node["status"]["allocatable"]["nvidia.com/gpu"] == "4" && self.is_laid_out("all-disabled")
        };
        self.until("the first node offers its GPUs as wholes", whole);
        let held = || Holdings::of(self.cluster, &self.nodes[1]);
        self.cluster.until_or(
            "nothing is held for claims",
            PATIENCE,
            || held().is_empty(),
            || format!("{:#?}\n{}", held(), self.said()),
        );
        let parts = || self.cluster.folders_of_pods(self.nodes[2].name()).is_empty();
        self.until("nothing is held for parts", parts);
    }

    /// Every GPU is had as a whole, so none is lost.
    pub(crate) fn fill(&mut self) {
        self.number += 1;
        let new = |place: usize| format!("whole-{}-{place}", self.number);
        for place in 0..4 {
            self.apply(0, &self.whole_plugin_pod(&new(place), "nvidia.com/gpu"));
        }
        for place in 0..2 {
            self.apply(1, &self.nodes[1].claiming_pod(&new(place), &Ask::of("gpu")));
        }
        let whole =
            PartsAsk { annotations: json!({}), limits: json!({"carve.dev/gpu": "1"}), plain: (1, 0, 100) };
        let asleep: Value =
            serde_json::from_str(&Pod::sleeping(self.cluster, "asleep").manifest()).expect("a pod");
        for place in 0..2 {
            let mut pod = whole.pod(&new(place));
            let limits = pod["spec"]["containers"][0]["resources"].clone();
            pod["spec"]["containers"] = asleep["spec"]["containers"].clone();
            pod["spec"]["containers"][0]["resources"] = limits;
            self.apply(2, &pod.to_string());
        }
        for (road, number) in [4, 2, 2].into_iter().enumerate() {
            self.until(&format!("every GPU of the road {} is had as a whole", ROADS[road]), || {
                self.pods(road).iter().filter(|pod| runs(pod)).count() == number
            });
        }
        let pods = self.pods(0);
        self.nobody_sees_the_same(&pods.iter().collect::<Vec<_>>());
        self.claims_are_held();
        self.watch.check();
    }

    fn apply(&self, road: usize, manifest: &str) {
        self.until("a pod is taken", || self.tenants[road].try_apply(manifest).is_ok());
    }

    /// Processes, what nodes have, and how much agents keep on disk.
    pub(crate) fn look(&self, minute: f64) -> Rest {
        let mut processes = BTreeMap::new();
        let agents = ROADS.iter().zip(&self.agents).map(|(road, agent)| (format!("agent, {road}"), agent));
        let controllers = (0..2).map(|number| (format!("controller {number}"), self.plane.replica(number)));
        for (name, process) in agents.chain(controllers) {
            let pid = process.process().unwrap_or_else(|| panic!("{name} has ended\n{}", self.said()));
            processes.insert(name, Footprint::of(pid).expect("it runs"));
        }
        let (mut things, mut kept) = (BTreeSet::new(), 0);
        let (mut hours, mut bytes) = (BTreeSet::new(), 0);
        let number = |text: String| text.trim().parse::<u64>().unwrap_or(0);
        for node in &self.nodes {
            let mut find = vec!["find"];
            find.extend(FOLDERS);
            // Kubelet's own notes on devices are made when there is a first one.
            find.extend(["-not", "-type", "d", "-not", "-name", "kubelet_internal_checkpoint"]);
            let state = node.files("state").display().to_string();
            let scripts = [
                find.join(" "),
                format!("find {state} -not -path '*/ledger/*'"),
                "pgrep -a -f '[n]vidia-cuda-mps' | cut -d' ' -f2-".to_owned(),
                "cut -d' ' -f2 /proc/mounts | grep -e carve/ -e nvidia".to_owned(),
            ];
            for script in scripts {
                let lines = self.cluster.on(node.name(), &["sh", "-c", &script]);
                things.extend(lines.lines().map(|line| format!("{}: {line}", node.name())));
            }
            let ask = |script: String| self.cluster.on(node.name(), &["sh", "-c", &script]);
            kept += number(ask(format!("du -sb --exclude=ledger {state} | cut -f1")));
            bytes += number(ask(format!("du -sb {state}/ledger | cut -f1")));
            hours.extend(ask(format!("ls {state}/ledger")).lines().map(str::to_owned));
            let machine = node.machine();
            for gpu in machine.gpus().unwrap_or_default() {
                let devices = machine.mig_devices(gpu.index).unwrap_or_default();
                things
                    .extend(devices.into_iter().map(|device| format!("{}: {}", node.name(), device.uuid.0)));
            }
        }
        Rest { minute, processes, things, kept, books: Books { hours: hours.len(), bytes } }
    }
}
