//! A lab node with simulated GPUs: a driver installation of stand-ins, a machine, and the agent as a DaemonSet.

use crate::{Background, Cluster, Namespace, PATIENCE, Pod, alone};
use carve_gpu_host::Machine;
use carve_gpu_model::GpuIndex;
use carve_lab::SimulatedGpus;
use carve_sim_store::SharedMachine;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

/// A node with GPUs. Its files go when it is dropped.
#[derive(Debug)]
pub struct GpuNode {
    /// What Kubernetes calls it.
    name: String,
    folder: PathBuf,
    cluster: Cluster,
    /// Held for the first node of a test, and with it for all.
    _alone: Option<MutexGuard<'static, ()>>,
}

/// Built stand-ins, next to the test programs; `None` (said aloud) where they were not built.
pub fn stand_ins() -> Option<PathBuf> {
    let named = std::env::var_os("CARVE_SIMULATED_DRIVER").map(PathBuf::from);
    match named.and_then(|library| Some(library.parent()?.to_owned())) {
        Some(folder) => Some(folder),
        None => {
            if std::env::var("CI").as_deref() == Ok("true") {
                panic!("CARVE_SIMULATED_DRIVER names no driver, and CI must not skip");
            }
            eprintln!("SKIPPED: CARVE_SIMULATED_DRIVER does not name the simulated driver library");
            None
        }
    }
}

impl GpuNode {
    /// Installs the simulated driver and a machine on the first node.
    pub fn new(cluster: &Cluster, test: &str, machine: &str) -> Option<Self> {
        let built = stand_ins()?;
        let alone = alone();
        let name = "node0".to_owned();
        let folder = cluster.scratch(&format!("carve-gpu-node-{test}"));
        Some(GpuNode { name, folder, cluster: cluster.clone(), _alone: Some(alone) }.set_up(&built, machine))
    }

    /// The same on another node, for a test that has the first one already.
    pub fn beside(&self, node: &str, machine: &str) -> Option<Self> {
        let built = stand_ins()?;
        let folder = PathBuf::from(format!("{}-{node}", self.folder.display()));
        let (name, cluster) = (node.to_owned(), self.cluster.clone());
        Some(GpuNode { name, folder, cluster, _alone: None }.set_up(&built, machine))
    }

    /// GPUs on every node of the cluster. `None` (said aloud) where the stand-ins were not built.
    pub fn everywhere(cluster: &Cluster, test: &str, machine: &str) -> Option<Vec<Self>> {
        let first = GpuNode::new(cluster, test, machine)?;
        let others = cluster.nodes().into_iter().skip(1).map(|name| first.beside(&name, machine));
        let others = others.collect::<Option<Vec<GpuNode>>>()?;
        Some(std::iter::once(first).chain(others).collect())
    }

    fn set_up(self, built: &Path, machine: &str) -> Self {
        self.forget_wishes();
        self.forget_limits();
        // Also in place of what an interrupted run left behind.
        SimulatedGpus::install(&self.folder, built, machine).unwrap_or_else(|error| panic!("{error:#}"));
        self
    }

    /// What Kubernetes calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes away what claims had that nobody gave back: the agent that served them is gone.
    fn forget_limits(&self) {
        let folders = "find /run/carve/limits -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +";
        self.cluster.on(&self.name, &["sh", "-c", folders]);
    }

    /// Takes away what a test that failed halfway asked of the node.
    fn forget_wishes(&self) {
        for label in ["nvidia.com/mig.config", "nvidia.com/device-plugin.config", "nvidia.com/gpu.product"] {
            let _ = self.cluster.try_kubectl(&["label", "node", &self.name, &format!("{label}-")], None);
        }
    }

    /// Takes away what agents have said of the node and what was asked of them: one that was killed leaves it, and the next suite would
    /// find GPUs that are shared on a node that it never touched.
    fn forget_words(&self) {
        let metadata = self.cluster.get(&["node", &self.name])["metadata"].clone();
        let ours = |name: &&String| ["nvidia.com/", "carve.dev/"].iter().any(|of| name.starts_with(of));
        let nothing = |kind: &str| -> Value {
            metadata[kind]
                .as_object()
                .map(|words| words.keys().filter(ours).map(|name| (name.clone(), Value::Null)).collect())
                .unwrap_or_default()
        };
        let patch = json!({"metadata": {"labels": nothing("labels"), "annotations": nothing("annotations")}});
        let words = ["patch", "node", &self.name, "--type=merge", "-p", &patch.to_string()];
        // The next suite begins in any case.
        let _ = self.cluster.try_kubectl(&words, None);
    }

    pub(crate) fn machine_gpus(&self) -> u32 {
        use carve_gpu_host::GpuHost;
        let machine = self.machine();
        machine.gpus().map_or(0, |gpus| gpus.len() as u32)
    }

    /// Its driver and its GPUs.
    pub(crate) fn gpus(&self) -> SimulatedGpus {
        SimulatedGpus::at(&self.folder)
    }

    /// The driver's root on the host.
    pub fn root(&self) -> PathBuf {
        self.gpus().root()
    }

    /// The driver's libraries on the host.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.gpus().libraries()
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Puts another state of the machine in place of the one that is there, at once: MIG devices in the order in which
    /// they are cut, as GPU and profile. The same cuts have the same names every time.
    pub fn cut_anew(&self, machine: &str, cuts: &[(u32, &str)]) {
        let next = self.files("next").join("machine.json");
        let _ = std::fs::remove_file(&next);
        let named = Machine::named(machine).unwrap_or_else(|error| panic!("{error}"));
        let mut made = SharedMachine::open(&next, named).unwrap_or_else(|error| panic!("{error}"));
        for (gpu, profile) in cuts {
            carve_conformance::cut(&mut made, GpuIndex(*gpu), profile);
        }
        std::fs::rename(&next, self.state()).unwrap_or_else(|error| panic!("{error}"));
    }

    /// The folder of that file, which whoever uses the driver must have.
    pub fn machine_folder(&self) -> PathBuf {
        self.gpus().machine_folder()
    }

    /// The file that is the machine.
    pub fn state(&self) -> PathBuf {
        self.gpus().state()
    }

    /// A folder of the host for a test's own files.
    pub fn files(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// The machine, to make things happen to it.
    pub fn machine(&self) -> SharedMachine {
        SharedMachine::attach(&self.state()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts the agent as a DaemonSet on the first node, with further environment, and waits until it works.
    pub fn start_agent<'a>(
        &'a self,
        namespace: &'a Namespace,
        environment: &[(&str, &str)],
    ) -> AgentOnNode<'a> {
        let agent = self.start_agent_unready(namespace, environment);
        agent.wait_until_ready();
        agent
    }

    /// Starts the agent and does not wait for it.
    pub fn start_agent_unready<'a>(
        &'a self,
        namespace: &'a Namespace,
        environment: &[(&str, &str)],
    ) -> AgentOnNode<'a> {
        let agent = AgentOnNode { node: self, namespace };
        namespace.apply(&agent.permissions());
        namespace.apply(&agent.daemon_set(environment));
        agent
    }

    /// Starts a build of the agent as a process beside kubelet, as NVIDIA's programs are started here: in a container it would have the
    /// smallest share of the processors.
    pub fn agent_as_process(
        &self,
        namespace: &Namespace,
        binary: &Path,
        environment: &[(&str, &str)],
    ) -> Background {
        let text = |path: PathBuf| path.display().to_string();
        let root = text(self.root());
        let (state, here) = (text(self.state()), text(self.files("state")));
        let containerd = text(self.cluster.containerd_config_of(&self.name));
        let kubeconfig = self.cluster.kubeconfig();
        let mut all = vec![
            ("NODE_NAME", self.name.as_str()),
            ("NAMESPACE", namespace.name()),
            ("KUBECONFIG", &kubeconfig),
            ("NVIDIA_DRIVER_ROOT", &root),
            ("NVIDIA_DEV_ROOT", &root),
            ("DRIVER_ROOT_CTR_PATH", &root),
            ("CONTAINERD_CONFIG", &containerd),
            ("CARVE_SIM_STATE", &state),
            ("CARVE_STATE_DIR", &here),
            ("CARVE_LISTEN", "127.0.0.1:9411"),
        ];
        all.extend(environment);
        self.cluster.background_on(&self.name, &[&binary.display().to_string(), "agent"], &all)
    }

    /// A pod that has a GPU of this node and can look at it with `carve gpus`, as people do with nvidia-smi.
    pub fn looking_pod(&self, name: &str, resource: &str, count: u32) -> Pod {
        self.looker(Pod::sleeping(&self.cluster, name).limit(resource, &count.to_string()))
    }

    /// Puts what is needed to look at GPUs into a pod.
    pub(crate) fn looker(&self, pod: Pod) -> Pod {
        pod.spec("volumes", json!([{"name": "machine", "hostPath": {"path": self.folder.join("machine")}}]))
            .container("image", self.cluster.looker_image().into())
            .container("volumeMounts", json!([{"name": "machine", "mountPath": "/machine"}]))
            .container(
                "env",
                json!([
                    {"name": "CARVE_SIM_STATE", "value": "/machine/machine.json"},
                    {"name": "CARVE_SIM_DEV", "value": "/dev"},
                ]),
            )
    }
}

impl Drop for GpuNode {
    fn drop(&mut self) {
        self.forget_words();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The agent on a node.
#[derive(Debug)]
pub struct AgentOnNode<'a> {
    node: &'a GpuNode,
    namespace: &'a Namespace,
}

impl AgentOnNode<'_> {
    /// What the agent may do in the cluster.
    fn permissions(&self) -> String {
        let name = format!("carve-agent-{}", self.namespace.name());
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "carve-agent"}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"],
                 "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
                {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["update", "patch"]},
                {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"],
                 "resourceNames": ["gpu.carve.dev", "gpu.nvidia.com"],
                 "verbs": ["associated-node:update", "associated-node:patch"]},
                {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeatures"], "verbs": ["get", "create", "patch"]},
            ]},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": "carve-agent", "namespace": self.namespace.name()}]},
        ]})
        .to_string()
    }

    fn daemon_set(&self, environment: &[(&str, &str)]) -> String {
        let (node, cluster) = (self.node, &self.node.cluster);
        let root = node.root().display().to_string();
        let state = node.files("state").display().to_string();
        let config = cluster.containerd_config();
        let mut env: BTreeMap<&str, Value> = BTreeMap::from([
            ("NVIDIA_DRIVER_ROOT", root.clone().into()),
            ("NVIDIA_DEV_ROOT", root.clone().into()),
            ("CARVE_SIM_STATE", "/machine/machine.json".into()),
            ("CARVE_STATE_DIR", "/state".into()),
            ("CARVE_PROBE_SECONDS", "1".into()),
            ("CONTAINERD_CONFIG", config.display().to_string().into()),
            ("CARVE_CGROUP_ROOT", "/host/sys/fs/cgroup".into()),
            // Only suites about it have the limiter that came with the image, or another.
            ("CARVE_LIMITER", "".into()),
            // Below the cgroup of the lab's node, which goes with the lab.
            ("CARVE_MPS_CGROUP", format!("{}/carve-mps", cluster.cgroup()).into()),
        ]);
        env.extend(environment.iter().map(|(name, value)| (*name, Value::from(*value))));
        let mut env: Vec<Value> =
            env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let field =
            |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        env.push(field("NODE_NAME", "spec.nodeName"));
        env.push(field("NAMESPACE", "metadata.namespace"));
        env.push(field("POD_UID", "metadata.uid"));
        // Host path, path in the agent, and how mounts spread.
        let folders: Vec<(&str, String, &str, Option<&str>)> = vec![
            (
                "plugins",
                "/var/lib/kubelet/device-plugins".to_owned(),
                "/var/lib/kubelet/device-plugins",
                None,
            ),
            (
                "pod-resources",
                "/var/lib/kubelet/pod-resources".to_owned(),
                "/var/lib/kubelet/pod-resources",
                None,
            ),
            ("drivers", "/var/lib/kubelet/plugins".to_owned(), "/var/lib/kubelet/plugins", None),
            (
                "registry",
                "/var/lib/kubelet/plugins_registry".to_owned(),
                "/var/lib/kubelet/plugins_registry",
                None,
            ),
            ("limits", "/run/carve/limits".to_owned(), "/run/carve/limits", None),
            ("driver", root, "/driver-root", None),
            ("machine", node.folder.join("machine").display().to_string(), "/machine", None),
            ("state", state, "/state", None),
            ("cdi", "/var/run/cdi".to_owned(), "/var/run/cdi", None),
            ("bin", "/var/lib/carve/bin".to_owned(), "/var/lib/carve/bin", None),
            ("mps", "/run/nvidia/mps".to_owned(), "/run/nvidia/mps", Some("Bidirectional")),
            ("validations", "/run/nvidia/validations".to_owned(), "/run/nvidia/validations", None),
            ("tests", node.files("tests").display().to_string(), "/tests", None),
            ("cgroup", "/sys/fs/cgroup".to_owned(), "/host/sys/fs/cgroup", None),
            (
                "containerd",
                config.parent().unwrap_or(Path::new("/")).display().to_string(),
                config.parent().and_then(Path::to_str).unwrap_or("/"),
                None,
            ),
        ];
        let volumes: Vec<Value> = folders
            .iter()
            .map(|(name, host, _, _)| json!({"name": name, "hostPath": {"path": host, "type": "DirectoryOrCreate"}}))
            .collect();
        let mounts: Vec<Value> = folders
            .iter()
            .map(|(name, _, path, spread)| json!({"name": name, "mountPath": path, "mountPropagation": spread}))
            .collect();
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "carve-agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "carve-agent"}},
                "template": {
                    "metadata": {"labels": {"app": "carve-agent"}},
                    "spec": {
                        "serviceAccountName": "carve-agent",
                        "nodeSelector": {"kubernetes.io/hostname": "node0"},
                        "hostPID": true,
                        "terminationGracePeriodSeconds": 5,
                        "containers": [{
                            "name": "agent",
                            "image": cluster.carve_image(),
                            "imagePullPolicy": "Never",
                            "args": ["agent"],
                            "env": env,
                            "securityContext": {"privileged": true},
                            "volumeMounts": mounts,
                            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 9411}, "periodSeconds": 1},
                        }],
                        "volumes": volumes,
                    },
                },
            },
        })
        .to_string()
    }

    /// Waits until the agent says that it works.
    pub fn wait_until_ready(&self) {
        self.wait_until_restarted(0);
    }

    /// Waits until the agent's container has been started so often and says that it works. Asks the pod itself: what the
    /// DaemonSet counts is behind, and for a moment counts the container that was killed.
    pub fn wait_until_restarted(&self, restarts: u64) {
        let ready = || {
            let container = self.container();
            container["ready"] == true && container["restartCount"].as_u64() >= Some(restarts)
        };
        self.node.cluster.until_or("the agent is ready", PATIENCE, ready, || self.log());
    }

    /// Waits until the node offers so many of a resource.
    pub fn offers(&self, resource: &str, count: u64) {
        let what = format!("the node offers {count} {resource}");
        let cluster = &self.node.cluster;
        cluster.until_or(&what, PATIENCE, || cluster.allocatable(resource) == Some(count), || self.log());
    }

    /// Waits until something holds, and tells what the agent said where it never does.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        self.node.cluster.until_or(what, PATIENCE, holds, || self.log());
    }

    /// What the agent has said.
    pub fn log(&self) -> String {
        let words =
            ["logs", "-n", self.namespace.name(), "-l", "app=carve-agent", "--tail=60", "--prefix=false"];
        self.node.cluster.try_kubectl(&words, None).unwrap_or_else(|error| error)
    }

    /// What the agent tells Prometheus, asked through the API server.
    pub fn metrics(&self) -> String {
        let pods = self.namespace.get(&["pods", "-l", "app=carve-agent"]);
        let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods/{pod}:9411/proxy/metrics", self.namespace.name());
        self.node.cluster.try_kubectl(&["get", "--raw", &path], None).unwrap_or_else(|error| error)
    }

    /// `carve gpus --watch` in the agent's container, as an operator starts it.
    pub fn watch_gpus(&self) -> Background {
        let namespace = self.namespace.name();
        let words = ["kubectl", "exec", "-n", namespace, "ds/carve-agent", "--", "/carve", "gpus", "--watch"];
        self.node.cluster.background(&[&words[..], &["--interval", "0.2"]].concat(), &[])
    }

    /// A condition of the agent's node.
    pub fn condition(&self, kind: &str) -> Option<Value> {
        let node = self.node.cluster.get(&["node", "node0"]);
        node["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind).cloned()
    }

    fn container(&self) -> Value {
        let pods = self.namespace.get(&["pods", "-l", "app=carve-agent"]);
        pods["items"][0]["status"]["containerStatuses"][0].clone()
    }

    /// How often kubelet has started it again.
    pub fn restarts(&self) -> u64 {
        self.container()["restartCount"].as_u64().unwrap_or(0)
    }

    /// Kills the agent's process with SIGKILL and waits until kubelet has started it again and it works. A pod that asks
    /// for a device in between is refused by kubelet for good, whoever wrote the plugin.
    pub fn kill(&self) {
        let before = self.restarts();
        self.kill_only();
        self.wait_until_restarted(before + 1);
    }

    /// Kills the agent's process with SIGKILL.
    pub fn kill_only(&self) {
        self.signal("KILL");
    }

    /// Sends the agent's process a signal, such as STOP or CONT.
    pub fn signal(&self, name: &str) {
        self.node.cluster.on_node(&["pkill", "--signal", name, "-f", "^/carve agent"]);
    }

    /// Lets an agent that stands still go on for so many seconds, and kills it.
    pub fn breathe_and_die(&self, seconds: &str) {
        let script = format!(
            "agent=$(pgrep -o -f '^/carve agent'); kill -CONT $agent; sleep {seconds}; kill -STOP $agent; \
             sleep 0.2; kill -KILL $agent"
        );
        self.node.cluster.on_node(&["sh", "-c", &script]);
    }

    /// Takes the agent away from the node. Whatever becomes of the test, the next one finds the node without it.
    pub fn remove(self) {
        drop(self);
    }
}

impl Drop for AgentOnNode<'_> {
    fn drop(&mut self) {
        let namespace = self.namespace.name();
        let words =
            ["delete", "daemonset", "carve-agent", "-n", namespace, "--ignore-not-found", "--timeout=60s"];
        let deleted = self.node.cluster.try_kubectl(&words, None);
        let classes = ["delete", "deviceclasses", "-l", crate::dra_node::OUR_CLASSES];
        let _ = self.node.cluster.try_kubectl(&classes, None);
        let gone = || {
            self.namespace.get(&["pods", "-l", "app=carve-agent"])["items"]
                .as_array()
                .is_none_or(Vec::is_empty)
        };
        if std::thread::panicking() {
            return;
        }
        deleted.unwrap_or_else(|error| panic!("the agent does not go: {error}"));
        self.node.cluster.until("the agent is gone", PATIENCE, gone);
    }
}
