//! What the agent can be told on the command line and by NVIDIA's variables, and what it refuses.

use crate::GPU;
use crate::node::{Node, allocated, devices};
use carve_gpu_host::GpuHost;

/// The agent refuses these variables at once, with this message.
fn refused(variables: &[(&str, &str)], message: &str) {
    let node = Node::new();
    let output = node.command().envs(variables.iter().copied()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{variables:?}: {said}");
    assert!(said.contains(message), "{variables:?}: {said}");
}

#[test]
fn two_places_of_configuration_are_one_too_many() {
    let (file, folder, map) =
        (("CONFIG_FILE", "a"), ("CONFIG_FILE_SRCDIR", "b"), ("CARVE_CONFIG_MAP", "c/d"));
    let message = "give one of --config-file, --config-file-srcdir and --config-map, not several";
    for two in [[file, folder], [file, map], [folder, map]] {
        refused(&two, message);
    }
    for bad in ["name", "/name", "namespace/"] {
        refused(&[("CARVE_CONFIG_MAP", bad)], &format!("--config-map '{bad}': write NAMESPACE/NAME"));
    }
}

#[test]
fn an_address_that_is_none_is_refused() {
    for bad in ["9411", "localhost:9411", "0.0.0.0", "0.0.0.0:99999", ":http"] {
        let node = Node::new();
        let program = node.command().get_program().to_owned();
        let output = std::process::Command::new(program)
            .env_clear()
            .args(["agent", "--machine", "h200", "--listen", bad, "--state-dir"])
            .arg(node.path("state"))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{bad}: {said}");
        assert!(said.contains(&format!("--listen '{bad}' is no address")), "{bad}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_variables_of_nvidias_plugin_hold() {
    let mut node = Node::new();
    node.install_driver();
    node.configure(crate::SHARED);
    let kubelet = node.kubelet().await;
    let mut command = node.command();
    let variables = [
        ("MIG_STRATEGY", "none"),
        ("FAIL_ON_INIT_ERROR", "false"),
        ("PASS_DEVICE_SPECS", "true"),
        ("DEVICE_LIST_STRATEGY", "volume-mounts"),
        ("DEVICE_ID_STRATEGY", "index"),
        ("NVIDIA_DRIVER_ROOT", "/"),
        ("NVIDIA_DEV_ROOT", "/"),
        ("GDRCOPY_ENABLED", "false"),
        ("GDS_ENABLED", "true"),
        ("MOFED_ENABLED", "false"),
        ("MPS_ROOT", "/run/nvidia/mps"),
        ("CDI_ANNOTATION_PREFIX", "cdi.k8s.io/"),
        ("DEVICE_DISCOVERY_STRATEGY", "auto"),
        ("IMEX_CHANNEL_IDS", "0"),
        ("NODE_NAME", ""),
        ("NVIDIA_VISIBLE_DEVICES", "all"),
        ("NVIDIA_MIG_MONITOR_DEVICES", "all"),
    ];
    command.envs(variables).env("CONFIG_FILE", node.path("config.yaml"));
    node.start_as(&mut command);
    let ids = devices(&kubelet, GPU, 8).await;
    let answer = allocated(&kubelet, GPU, &ids[..1]).await;
    let gpus = node.machine().gpus().expect("GPUs");
    let gpu = gpus.iter().find(|gpu| ids[0].starts_with(&gpu.uuid.0)).expect("the GPU of the share").index.0;
    let mounts: Vec<&str> = answer.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
    let volumes = "/var/run/nvidia-container-devices";
    // The channel is asked for, but this machine has none.
    assert_eq!(mounts, [format!("{volumes}/{gpu}")], "{answer:?}");
    assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], volumes, "{answer:?}");
    let nodes: Vec<&str> = answer.devices.iter().map(|node| node.host_path.as_str()).collect();
    assert!(nodes.contains(&format!("/dev/nvidia{gpu}").as_str()), "PASS_DEVICE_SPECS: {answer:?}");
    assert_eq!(answer.envs.get("NVIDIA_GDS").map(String::as_str), Some("enabled"), "{answer:?}");
    assert_eq!(answer.envs.get("NVIDIA_MOFED"), None, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_wins_over_the_file() {
    let mut node = Node::new();
    node.install_driver();
    node.configure("version: v1\nflags: {plugin: {deviceListStrategy: volume-mounts}}\n");
    let kubelet = node.kubelet().await;
    let mut command = node.command();
    command.arg("--config-file").arg(node.path("config.yaml")).args(["--device-list-strategy", "envvar"]);
    node.start_as(&mut command);
    let ids = devices(&kubelet, GPU, 2).await;
    let answer = allocated(&kubelet, GPU, &ids).await;
    assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], ids.join(","), "{answer:?}");
    assert!(answer.mounts.is_empty(), "{answer:?}");
}
