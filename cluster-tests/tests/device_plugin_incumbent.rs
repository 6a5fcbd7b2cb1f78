//! NVIDIA's own device plugin on the lab's kubelet and a simulated machine: the opponent of every later suite.

use carve_cluster_tests::{Background, Cluster, PATIENCE, Pod};
use carve_gpu_host::{GpuHost, Machine};
use carve_sim_store::SharedMachine;
use std::path::{Path, PathBuf};

/// What `cargo xtask test` tells: where NVIDIA's programs and the simulated driver library are.
fn programs() -> Option<(PathBuf, PathBuf)> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    match (named("CARVE_INCUMBENTS"), named("CARVE_SIMULATED_DRIVER")) {
        (Some(incumbents), Some(driver)) => Some((incumbents, driver)),
        _ => {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "NVIDIA's programs are not named, and CI must not skip"
            );
            eprintln!(
                "SKIPPED: CARVE_INCUMBENTS and CARVE_SIMULATED_DRIVER do not name NVIDIA's programs and the driver"
            );
            None
        }
    }
}

struct Plugin {
    running: Background,
    machine: SharedMachine,
    _folder: PathBuf,
}

/// Starts the plugin on a machine with eight GPUs and waits until kubelet offers them.
fn start(cluster: &Cluster, incumbents: &Path, driver: &Path) -> Plugin {
    let folder = cluster.scratch(&format!("carve-plugin-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(driver, folder.join("libnvidia-ml.so.1")).expect("the simulated driver");
    let state = folder.join("machine.json");
    let machine =
        SharedMachine::open(&state, Machine::named("p4d.24xlarge").expect("a preset")).expect("a machine");
    let plugin = incumbents.join("nvidia-device-plugin");
    let (plugin, folder_text) = (plugin.display().to_string(), folder.display().to_string());
    let state = state.display().to_string();
    let running = cluster.background(
        &[&plugin],
        &[("LD_LIBRARY_PATH", &folder_text), ("CARVE_SIM_STATE", &state), ("NODE_NAME", "node0")],
    );
    cluster.until("kubelet offers eight GPUs", PATIENCE, || cluster.allocatable("nvidia.com/gpu") == Some(8));
    Plugin { running, machine, _folder: folder }
}

#[test]
fn a_pod_gets_a_gpu_and_a_kubelet_restart_brings_them_back() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some((incumbents, driver)) = programs() else { return };
    let mut plugin = start(&cluster, &incumbents, &driver);
    let namespace = cluster.namespace("incumbent-plugin");
    let pod = |name: &str| Pod::sleeping(&cluster, name).limit("nvidia.com/gpu", "1").manifest();
    namespace.apply(&pod("first"));
    namespace.wait_for_phase("first", "Running");
    let visible = namespace.env("first", "NVIDIA_VISIBLE_DEVICES").expect("the plugin sets it");
    let known: Vec<String> =
        plugin.machine.gpus().expect("GPUs").iter().map(|gpu| gpu.uuid.to_string()).collect();
    assert!(known.contains(&visible), "{visible} is none of {known:?}");

    cluster.restart("kubelet-node0");
    cluster.until("the plugin has registered again and a pod can be placed", PATIENCE, || {
        // Until then the API server shows what was, and a pod that comes too early is refused for good.
        if namespace.phase("second") == "Failed" {
            cluster.kubectl(&["delete", "pod", "second", "-n", namespace.name()]);
        }
        namespace.try_apply(&pod("second")).is_ok() && namespace.phase("second") == "Running"
    });
    assert_eq!(namespace.phase("first"), "Running", "the pod that was running is not disturbed");
    let other = namespace.env("second", "NVIDIA_VISIBLE_DEVICES").expect("the plugin sets it");
    assert_ne!(visible, other, "a GPU is not handed out twice");

    plugin.running.kill();
    cluster.until("kubelet offers no GPU of a dead plugin", PATIENCE, || {
        cluster.allocatable("nvidia.com/gpu") == Some(0)
    });
    assert_eq!(namespace.phase("first"), "Running", "the pod that was running is not disturbed");
}
