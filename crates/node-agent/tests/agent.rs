//! The agent on a simulated machine and a kubelet of the tests: it offers, re-registers, reloads, withholds and recovers.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_formats::device_plugin::Flags;
use carve_gpu_host::{GpuEvent, GpuHost, Machine};
use carve_gpu_model::GpuIndex;
use carve_kubelet_api::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, Empty,
    PreferredAllocationRequest,
};
use carve_node_agent::{
    AgentOptions, ConfigSource, DraOptions, Job, LabelTarget, MigOptions, OpenHost, PriceOptions, run,
};
use carve_sim_store::SharedMachine;
use carve_test_support::{FakeKubelet, PATIENCE};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const GPU: &str = "nvidia.com/gpu";

/// A node: a folder, a machine, a kubelet, and the agent when it runs.
struct Node {
    folder: tempfile::TempDir,
    kubelet: FakeKubelet,
    agent: Option<JoinHandle<()>>,
}

fn at(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

impl Node {
    async fn new(machine: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        SharedMachine::open(&at(folder.path(), "machine.json"), Machine::named(machine).expect("a machine"))
            .expect("a machine");
        let kubelet = FakeKubelet::start(folder.path()).await;
        Node { folder, kubelet, agent: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        at(self.folder.path(), name)
    }

    fn options(&self) -> AgentOptions {
        AgentOptions {
            jobs: BTreeSet::from([Job::DevicePlugin, Job::Labels, Job::Mig]),
            node_name: None,
            namespace: "default".to_owned(),
            kubeconfig: None,
            kubelet_socket: self.kubelet.socket(),
            pod_resources_socket: self.kubelet.pod_resources(),
            config: ConfigSource::File(self.path("config.yaml")),
            default_config: None,
            config_label: "nvidia.com/device-plugin.config".to_owned(),
            flags: Flags::default(),
            imex_channels: None,
            honour_choices: false,
            take_over: false,
            label_target: LabelTarget::File(self.path("features")),
            label_aliases: false,
            mig: MigOptions {
                config_file: None,
                default_config: None,
                evict: false,
                reboot: false,
                reboot_program: None,
            },
            container_driver_root: self.path("driver-root"),
            cdi_folder: self.path("cdi"),
            hook_program: self.path("hook"),
            hook_program_here: self.path("hook"),
            containerd_config: self.path("containerd.toml"),
            cgroup_root: None,
            mps_cgroup: "carve-mps".to_owned(),
            validations: self.path("validations"),
            state_dir: self.path("state"),
            listen: None,
            probe: Duration::from_millis(300),
            disable_health: None,
            enable_health: None,
            // Not served here: claims are no job of this agent.
            dra: DraOptions {
                driver_name: "gpu.carve.dev".to_owned(),
                mode: "all".parse().expect("a mode"),
                plugins: self.path("plugins"),
                registry: self.path("registry"),
                instance: None,
                limiter: None,
                limiter_context: None,
                shipped_limiter: None,
                limits: self.path("limits"),
            },
            prices: PriceOptions::default(),
        }
    }

    fn configure(&self, text: &str) {
        let new = self.path("config.new");
        std::fs::write(&new, text).expect("a config");
        std::fs::rename(new, self.path("config.yaml")).expect("a config");
    }

    fn start(&mut self, options: AgentOptions) {
        let state = self.path("machine.json");
        let open: OpenHost = Arc::new(move || {
            let machine = SharedMachine::attach(&state).map_err(|error| error.to_string())?;
            Ok(Box::new(machine) as Box<dyn GpuHost>)
        });
        self.agent = Some(tokio::spawn(async move {
            if let Err(error) = run(options, open).await {
                panic!("the agent ended: {error}");
            }
        }));
    }

    /// Ends the agent as SIGKILL does: nothing is put away.
    async fn kill(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.abort();
            let _ = agent.await;
        }
    }

    fn world(&self) -> SharedMachine {
        SharedMachine::attach(&self.path("machine.json")).expect("the machine")
    }

    async fn count(&self, resource: &str, wanted: usize) -> Vec<(String, String)> {
        let healthy =
            |devices: &[(String, String)]| devices.iter().filter(|(_, health)| health == "Healthy").count();
        let what = format!("{wanted} healthy devices are offered");
        self.kubelet.devices_when(resource, &what, |devices| healthy(devices) == wanted).await
    }
}

const SHARED: &str = "version: v1
sharing:
  timeSlicing:
    resources: [{name: nvidia.com/gpu, replicas: 4}]
";

#[tokio::test(flavor = "multi_thread")]
async fn whole_gpus_are_offered_chosen_and_allocated() {
    let mut node = Node::new("p4d.24xlarge").await;
    node.configure("version: v1\n");
    node.start(node.options());
    let devices = node.count(GPU, 8).await;
    let mut plugin = node.kubelet.plugin(GPU).await;
    let options = plugin.get_device_plugin_options(Empty {}).await.expect("options").into_inner();
    assert!(options.get_preferred_allocation_available && !options.pre_start_required);
    let ids: Vec<String> = devices.iter().map(|(id, _)| id.clone()).collect();
    let request = ContainerPreferredAllocationRequest {
        available_device_ids: ids.clone(),
        must_include_device_ids: vec![ids[3].clone()],
        allocation_size: 2,
    };
    let request = PreferredAllocationRequest { container_requests: vec![request] };
    let chosen = plugin.get_preferred_allocation(request).await.expect("a choice").into_inner();
    let chosen = &chosen.container_responses[0].device_ids;
    assert_eq!(chosen.len(), 2);
    assert!(chosen.contains(&ids[3]));
    let request = AllocateRequest {
        container_requests: vec![ContainerAllocateRequest { devices_ids: chosen.clone() }],
    };
    let answer = plugin.allocate(request).await.expect("an answer").into_inner();
    assert_eq!(answer.container_responses[0].envs["NVIDIA_VISIBLE_DEVICES"], chosen.join(","));
    let labels = std::fs::read_to_string(node.path("features")).expect("labels");
    assert!(labels.contains("nvidia.com/gpu.count=8\n"), "{labels}");
    assert!(labels.contains("nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB\n"), "{labels}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_config_holds_at_once_and_a_bad_one_never() {
    let mut node = Node::new("h200-141gb:2").await;
    node.configure(SHARED);
    node.start(node.options());
    node.count(GPU, 8).await;
    node.configure(&SHARED.replace("replicas: 4", "replicas: one"));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    node.count(GPU, 8).await;
    node.configure(&SHARED.replace("replicas: 4", "replicas: 2"));
    node.count(GPU, 4).await;
    node.configure(&SHARED.replace("timeSlicing:", "timeSlicing:\n    renameByDefault: true"));
    node.count("nvidia.com/gpu.shared", 8).await;
    node.count(GPU, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_kubelet_is_registered_with_again() {
    let mut node = Node::new("h200-141gb:2").await;
    node.configure(SHARED);
    node.start(node.options());
    node.count(GPU, 8).await;
    for _ in 0..5 {
        node.kubelet.restart().await;
        let start = std::time::Instant::now();
        while !node.kubelet.registered().contains_key(GPU) {
            assert!(start.elapsed() < PATIENCE, "not registered again");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!("registered again after {} ms", start.elapsed().as_millis());
        node.count(GPU, 8).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_comes_back_and_sick_gpus_stay_sick() {
    let mut node = Node::new("h200-141gb:2").await;
    node.configure(SHARED);
    node.start(node.options());
    node.count(GPU, 8).await;
    let xid = GpuEvent { gpu: GpuIndex(1), xid: 79, gpu_instance: None, compute_instance: None };
    node.world().change_world(|host| host.raise(xid)).expect("an XID");
    let devices = node.count(GPU, 4).await;
    let sick: BTreeSet<&str> =
        devices.iter().filter(|(_, health)| health == "Unhealthy").map(|(id, _)| &id[..40]).collect();
    assert_eq!(sick.len(), 1, "all shares of one GPU: {devices:?}");
    node.kill().await;
    node.start(node.options());
    node.count(GPU, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_gpu_is_sick_and_a_found_one_well() {
    let mut node = Node::new("h200-141gb:4").await;
    node.configure("version: v1\n");
    node.start(node.options());
    node.count(GPU, 4).await;
    node.world().change_world(|host| host.lose(GpuIndex(2))).expect("lost");
    let devices = node.count(GPU, 3).await;
    assert_eq!(devices.len(), 4, "a lost GPU is not forgotten");
    let mut plugin = node.kubelet.plugin(GPU).await;
    let available: Vec<String> =
        devices.iter().filter(|(_, health)| health == "Healthy").map(|(id, _)| id.clone()).collect();
    let request = ContainerPreferredAllocationRequest {
        available_device_ids: available,
        must_include_device_ids: Vec::new(),
        allocation_size: 2,
    };
    let request = PreferredAllocationRequest { container_requests: vec![request] };
    let chosen = plugin.get_preferred_allocation(request).await.expect("a lost GPU fails nothing");
    assert_eq!(chosen.into_inner().container_responses[0].device_ids.len(), 2);
    node.world().change_world(|host| host.find_again(GpuIndex(2))).expect("found");
    node.count(GPU, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_held_whole_is_not_given_in_shares() {
    let mut node = Node::new("h200-141gb:2").await;
    node.configure("version: v1\n");
    node.start(node.options());
    let devices = node.count(GPU, 2).await;
    node.kubelet.hold(GPU, &devices[0].0, "train");
    node.configure(SHARED);
    let shares = node.count(GPU, 4).await;
    assert_eq!(shares.len(), 8);
    node.kubelet.release("train");
    node.count(GPU, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mig_is_cut_without_a_restart_and_held_devices_stay() {
    let mut node = Node::new("p4d.24xlarge").await;
    node.configure("version: v1\nflags: {migStrategy: mixed}\n");
    std::fs::write(
        node.path("mig.yaml"),
        "version: v1\nmig-configs:\n  custom:\n  - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}\n",
    )
    .expect("MIG configs");
    let mut options = node.options();
    options.mig.default_config = Some("custom".to_owned());
    options.mig.config_file = Some(node.path("mig.yaml"));
    node.start(options);
    let small = node.count("nvidia.com/mig-1g.5gb", 7).await;
    node.count(GPU, 7).await;
    // One of the seven is held by a pod; the next config must keep it although nothing runs there.
    node.kubelet.hold("nvidia.com/mig-1g.5gb", &small[2].0, "notebook");
    std::fs::write(
        node.path("mig.yaml"),
        "version: v1\nmig-configs:\n  custom:\n  - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 2}}\n",
    )
    .expect("MIG configs");
    node.count("nvidia.com/mig-2g.10gb", 2).await;
    let small_now = node.count("nvidia.com/mig-1g.5gb", 2).await;
    assert!(small_now.iter().any(|(id, _)| *id == small[2].0), "{small_now:?} lacks {}", small[2].0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_plugin_is_left_in_peace_until_it_goes() {
    let mut node = Node::new("h200-141gb:2").await;
    node.configure("version: v1\n");
    node.start(node.options());
    node.count(GPU, 2).await;
    let registrations = node.kubelet.registrations();
    // A second agent under another socket name: the same devices under a renamed resource.
    let mut second = node.options();
    node.configure(&SHARED.replace("timeSlicing:", "timeSlicing:\n    renameByDefault: true"));
    second.config = ConfigSource::Flags;
    second.state_dir = node.path("other-state");
    second.label_target = LabelTarget::File(node.path("other-features"));
    let first = node.agent.take();
    node.count("nvidia.com/gpu.shared", 8).await;
    let before = node.kubelet.registrations();
    assert!(before > registrations);
    node.start(second);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(node.kubelet.registrations(), before, "the second stands aside");
    if let Some(first) = first {
        first.abort();
        let _ = first.await;
    }
    // The sockets of the aborted one end with its tasks only at the end of the process, so that is all that can be seen
    // in one process; the suites on a real kubelet go further.
}
