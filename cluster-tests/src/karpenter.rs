//! Karpenter's own controllers on the lab, with a cloud that makes Node objects and no machines; what kubelets and agents would do there
//! is done here.

use crate::{Background, Cluster, PATIENCE};
use carve_conformance::Karpenter;
use carve_economics::{CATALOGUE, InstanceType, Provider};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Label of what Karpenter makes for a pool.
const POOL: &str = "karpenter.sh/nodepool";
/// The class that its machines are made from.
const CLASS: &str = "default";
/// What tests leave behind, in the order in which it goes.
const KINDS: [&str; 4] = ["nodepools", "nodeoverlays", "nodeclaims", "kwoknodeclasses"];

/// What a node advertises, by pool and type of machine.
pub type Advertised = BTreeMap<(String, String), BTreeMap<String, u64>>;

/// What nodes report, by name.
pub type Reported = BTreeMap<String, BTreeMap<String, u64>>;

/// Karpenter, until this is dropped.
#[derive(Debug)]
pub struct KarpenterRun {
    cluster: Cluster,
    program: Option<Background>,
    folder: PathBuf,
}

/// A machine that Karpenter asked the cloud for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// Its type.
    pub machine: String,
    /// GPUs it has, as the cloud lists them.
    pub gpus: u64,
    /// What the pods for which it came ask for in sum.
    pub asked: Value,
}

impl KarpenterRun {
    /// Starts it with the definitions of its objects. `None` (said aloud) where it was not built.
    pub fn start(cluster: &Cluster, definitions: &[String]) -> Option<Self> {
        KarpenterRun::start_with(cluster, definitions, "NodeOverlay=true")
    }

    /// The same with these gates.
    pub fn start_with(cluster: &Cluster, definitions: &[String], gates: &str) -> Option<Self> {
        let karpenter = Karpenter::locate()?;
        let own = std::fs::read_to_string(&karpenter.node_classes);
        let own = own.unwrap_or_else(|error| panic!("{}: {error}", karpenter.node_classes.display()));
        define(cluster, definitions.iter().map(String::as_str).chain([own.as_str()]));
        let folder = cluster.scratch("carve-karpenter");
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join("types.json"), instance_types().to_string()))
            .and_then(|()| std::fs::write(folder.join("labels.json"), labels().to_string()));
        written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut run = KarpenterRun { cluster: cluster.clone(), program: None, folder };
        run.withdraw();
        let class = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": CLASS},
            "spec": {"nodeRegistrationDelay": "0s"},
        });
        run.apply(&class);
        let environment = [
            ("KUBECONFIG", cluster.kubeconfig()),
            ("FEATURE_GATES", gates.to_owned()),
            ("INSTANCE_TYPES_FILE_PATH", run.folder.join("types.json").display().to_string()),
            ("CARVE_TYPE_LABELS", run.folder.join("labels.json").display().to_string()),
            ("DISABLE_LEADER_ELECTION", "true".to_owned()),
            // It answers only what came in one batch, and pods come slowly on a busy machine.
            ("BATCH_IDLE_DURATION", "10s".to_owned()),
            ("BATCH_MAX_DURATION", "300s".to_owned()),
            ("METRICS_PORT", "18080".to_owned()),
            ("HEALTH_PROBE_PORT", "18081".to_owned()),
        ];
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        run.program = Some(cluster.background(&[&karpenter.program.display().to_string()], &environment));
        Some(run)
    }

    /// The class that pools name: group, kind, name.
    pub fn class() -> [String; 3] {
        ["karpenter.kwok.sh", "KWOKNodeClass", CLASS].map(str::to_owned)
    }

    /// Applies an object; a refusal is the test's failure.
    pub fn apply(&self, document: &Value) {
        let applied = self.cluster.try_kubectl(&["apply", "-f", "-"], Some(&document.to_string()));
        applied.unwrap_or_else(|error| panic!("{error}\n{document:#}"));
    }

    /// Waits until Karpenter holds every pool and every overlay for good.
    pub fn wait_until_ready(&self) {
        let ready = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let all = |kind: &str| {
            let list = self.cluster.get(&[kind]);
            list["items"].as_array().is_some_and(|items| items.iter().all(ready))
        };
        let what = "Karpenter takes pools and overlays";
        self.cluster.until_or(what, PATIENCE, || all("nodepools") && all("nodeoverlays"), || self.said());
    }

    /// Machines that it asked for on behalf of a pool.
    pub fn brought(&self, pool: &str) -> Vec<Brought> {
        let claims = self.cluster.get(&["nodeclaims", "-l", &format!("{POOL}={pool}")]);
        let claim = |claim: &Value| {
            let label = &claim["metadata"]["labels"]["node.kubernetes.io/instance-type"];
            let machine = label.as_str().unwrap_or_default().to_owned();
            let gpus = InstanceType::named(&machine).map_or(0, |machine| u64::from(machine.gpus));
            Brought { machine, gpus, asked: claim["spec"]["resources"]["requests"].clone() }
        };
        claims["items"].as_array().map(|items| items.iter().map(claim).collect()).unwrap_or_default()
    }

    /// Does for new nodes what kubelets and agents do: they are ready, advertise what their GPUs were cut into, and only then let
    /// pods in.
    pub fn tend(&self, advertised: &Advertised) {
        let advertised = advertised.clone();
        let tended = self.cluster.within(move |client| async move { tend(client, &advertised).await });
        tended.unwrap_or_else(|error| panic!("nodes can not be changed: {error}"));
    }

    /// Names of the nodes of a pool.
    pub fn nodes(&self, pool: &str) -> Vec<String> {
        let nodes = self.cluster.get(&["nodes", "-l", &format!("{POOL}={pool}")]);
        let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter_map(|node| Some(node["metadata"]["name"].as_str()?.to_owned())).collect()
    }

    /// Does for nodes of a pool what kubelets do, and nothing that agents or controllers do: they are alive, ready, and report devices, some
    /// nodes others than the rest.
    pub fn report(&self, pool: &str, usual: &BTreeMap<String, u64>, others: &Reported) {
        let (pool, usual, others) = (pool.to_owned(), usual.clone(), others.clone());
        let reported = self.cluster.within(move |client| async move {
            let api: Api<Node> = Api::all(client);
            for node in api.list(&ListParams::default().labels(&format!("{POOL}={pool}"))).await? {
                let name = node.metadata.name.clone().unwrap_or_default();
                let mut status = status(&node, others.get(&name).unwrap_or(&usual));
                // Without a heartbeat the node would count as unreachable within a minute.
                let now = k8s_openapi::jiff::Timestamp::now().as_second();
                let now = k8s_openapi::jiff::Timestamp::from_second(now).unwrap_or_default().to_string();
                status["conditions"][0]["lastHeartbeatTime"] = now.into();
                let patch = Patch::Strategic(json!({"status": status}));
                match api.patch_status(&name, &PatchParams::default(), &patch).await {
                    // Karpenter may take one away meanwhile.
                    Err(kube::Error::Api(refusal)) if refusal.code == 404 => {}
                    patched => drop(patched?),
                }
            }
            Ok::<(), kube::Error>(())
        });
        reported.unwrap_or_else(|error| panic!("nodes can not be changed: {error}"));
    }

    /// What it has said, but for what it says of every pod that waits at each look.
    pub fn said(&self) -> String {
        let said = self.program.as_ref().map(|program| format!("{}\n{}", program.printed(), program.heard()));
        let said = said.unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.contains("could not schedule pod")).collect();
        format!("── karpenter\n{}", lines[lines.len().saturating_sub(600)..].join("\n"))
    }

    /// Takes away everything it made or was given. Without it nobody ends what waits for it, so that is ended first.
    fn withdraw(&mut self) {
        self.program = None;
        for kind in KINDS {
            let _ = self.cluster.try_kubectl(&["delete", kind, "--all", "--wait=false"], None);
            let list = self.cluster.get(&[kind]);
            self.release(kind, &list);
        }
        let _ = self.cluster.try_kubectl(&["delete", "nodes", "-l", POOL, "--wait=false"], None);
        let nodes = self.cluster.get(&["nodes", "-l", POOL]);
        self.release("nodes", &nodes);
    }

    /// Lets objects go that wait for somebody who is gone.
    fn release(&self, kind: &str, list: &Value) {
        let names = list["items"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.filter_map(|item| item["metadata"]["name"].as_str()).collect();
        if !names.is_empty() {
            let patch = [r#"--patch={"metadata":{"finalizers":null}}"#, "--type=merge"];
            let _ = self.cluster.try_kubectl(&[&["patch", kind], names.as_slice(), &patch].concat(), None);
        }
    }
}

impl Drop for KarpenterRun {
    fn drop(&mut self) {
        self.withdraw();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Makes kinds known, and waits until they are.
pub fn define<'a>(cluster: &Cluster, definitions: impl Iterator<Item = &'a str>) {
    for definition in definitions {
        let applied = cluster.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(definition));
        applied.unwrap_or_else(|error| panic!("a definition is refused: {error}"));
    }
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
}

/// Machines of AWS with GPUs that carve knows.
fn machines() -> impl Iterator<Item = &'static InstanceType> {
    let aws = CATALOGUE.iter().filter(|machine| machine.provider == Provider::Aws && machine.gpus > 0);
    aws.filter(|machine| machine.product.is_some())
}

/// Labels that AWS' own provider gives them.
fn labels() -> Value {
    let labels = |machine: &InstanceType| {
        let family = machine.name.split('.').next().unwrap_or_default();
        let name = match family {
            "g4dn" => "t4",
            "g6" | "gr6" => "l4",
            "p4d" | "p4de" => "a100",
            "p5" => "h100",
            // No pool of a suite is made of others.
            other => other,
        };
        json!({
            "karpenter.k8s.aws/instance-gpu-name": name,
            "karpenter.k8s.aws/instance-gpu-count": machine.gpus.to_string(),
        })
    };
    machines()
        .map(|machine| (machine.name.to_owned(), labels(machine)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The machines at their prices, as the cloud of Node objects reads them.
fn instance_types() -> Value {
    let machines = machines().filter_map(|machine| {
        let (host, price) = (machine.host?, machine.price?);
        let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let offering = json!({
            "Price": price.for_hours(100).cents() as f64 / 1e4,
            "Available": true,
            "Requirements": [
                requirement("karpenter.sh/capacity-type", "on-demand"),
                requirement("topology.kubernetes.io/zone", "zone-a"),
            ],
        });
        Some(json!({
            "name": machine.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "offerings": [offering],
            "resources": {
                "cpu": host.cpus.to_string(),
                "memory": format!("{}Mi", host.memory.0),
                "ephemeral-storage": "100Gi",
                "nvidia.com/gpu": machine.gpus.to_string(),
            },
        }))
    });
    machines.collect()
}

async fn tend(client: Client, advertised: &Advertised) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(client);
    for node in api.list(&ListParams::default().labels(POOL)).await? {
        let name = node.metadata.name.clone().unwrap_or_default();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let Some(wanted) = advertised.get(&(label(POOL), label("node.kubernetes.io/instance-type"))) else {
            continue;
        };
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True") {
            let patch = Patch::Strategic(json!({"status": status(&node, wanted)}));
            api.patch_status(&name, &PatchParams::default(), &patch).await?;
            continue;
        }
        // Karpenter puts its taints on the node when it registers it, and not again.
        if label("karpenter.sh/registered") == "true" {
            let taints: Vec<Taint> =
                node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).cloned().collect();
            let left: Vec<&Taint> =
                taints.iter().filter(|taint| taint.key != carve_karpenter::NOT_READY).collect();
            if left.len() < taints.len() {
                let version = node.metadata.resource_version.clone();
                let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": left}});
                match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    // Somebody else changed it; the next look will do.
                    Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
                    patched => drop(patched?),
                }
            }
        }
    }
    Ok(())
}

/// What the kubelet of a node that was cut reports: resources of its GPUs and no others of theirs.
fn status(node: &Node, wanted: &BTreeMap<String, u64>) -> Value {
    let mut amounts: BTreeMap<String, Value> =
        wanted.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
    let there = node.status.as_ref().and_then(|status| status.allocatable.clone()).unwrap_or_default();
    for (name, amount) in there {
        if name.contains('/') {
            amounts.entry(name).or_insert(Value::Null);
        } else {
            amounts.insert(name, amount.0.into());
        }
    }
    json!({
        "capacity": amounts, "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test says so"}],
    })
}
