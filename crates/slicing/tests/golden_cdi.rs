//! The CDI files that NVIDIA's plugin wrote, held against the ones this crate builds from the same driver files.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_formats::cdi::{ContainerEdits, DeviceNode, Spec};
use carve_gpu_model::CapabilityMinor;
use carve_slicing::cdi::{DriverFile, DriverFiles, DriverNode, HookPath, Library, Link, cdi_spec};
use carve_slicing::{NodeGpus, Settings};
use carve_test_support::fixture_text;
use recorded::machine;
use std::collections::BTreeSet;

/// What NVIDIA's file has and ours means not to have, or to have otherwise, and why.
const INTENDED: &[(&str, &str)] = &[
    ("env NVIDIA_CTK_LIBCUDA_DIR", "read by NVIDIA's own hooks alone"),
    ("hook create-symlinks", "the same links are made by carve cdi-hook --link"),
    ("hook update-ldcache", "carve cdi-hook --library writes the cache itself and runs no ldconfig"),
    (
        "hook enable-cuda-compat",
        "it chooses libcuda by files that the container brings, so it trusts the container",
    ),
    (
        "hook disable-device-node-modification",
        "the device cgroup refuses nodes that a container makes for itself",
    ),
    ("hook update-application-profile", "for OpenGL programs alone"),
];

fn golden(folder: &str) -> Option<Spec> {
    let path = format!("device-plugin/golden-cdi/{folder}k8s.device-plugin.nvidia.com-gpu.json");
    Some(Spec::parse(&fixture_text(&path)?).expect("a recorded file is read"))
}

fn settings(more: &str) -> Settings {
    let text =
        format!("version: v1\nflags:\n  migStrategy: mixed\n  nvidiaDriverRoot: /run/nvidia/driver\n{more}");
    let config = DevicePluginConfig::parse(&text).value.expect("a config");
    Settings::new(&config, false).expect("settings")
}

fn hook() -> HookPath {
    HookPath::new("/opt/carve/bin/carve").expect("an absolute path")
}

fn node(node: &DeviceNode) -> DriverNode {
    DriverNode {
        path: node.path.clone(),
        host_path: node.host_path.clone(),
        major: node.major,
        minor: node.minor,
        mode: node.file_mode,
    }
}

/// Every `--link` of a file, as target and path.
fn links(edits: &ContainerEdits) -> BTreeSet<(String, String)> {
    let args: Vec<&String> = edits.hooks.iter().flat_map(|hook| &hook.args).collect();
    let values = args.windows(2).filter(|pair| pair[0] == "--link").map(|pair| pair[1]);
    values
        .map(|value| value.split_once("::").expect("TARGET::PATH"))
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect()
}

/// The driver's files as the recorded file names them.
fn driver_files(spec: &Spec) -> DriverFiles {
    let edits = &spec.container_edits;
    let mut files = DriverFiles { version: "580.65.06".to_owned(), ..DriverFiles::default() };
    for mount in &edits.mounts {
        let file =
            DriverFile { host_path: mount.host_path.clone(), container_path: mount.container_path.clone() };
        let (_, name) = mount.container_path.rsplit_once('/').expect("a path");
        match name.split_once(".so.") {
            None => files.programs.push(file),
            Some((stem, _)) => {
                // Links to the library itself, and links to such a link.
                let mut reached = vec![name.to_owned()];
                let mut own = Vec::new();
                for _ in 0..2 {
                    for (target, path) in links(edits) {
                        let (_, target_name) = target.rsplit_once('/').unwrap_or(("", &target));
                        let link = Link { target: target.clone(), path: path.clone() };
                        if reached.iter().any(|name| name == target_name) && !own.contains(&link) {
                            reached.push(path.rsplit_once('/').expect("a path").1.to_owned());
                            own.push(link);
                        }
                    }
                }
                files.libraries.push(Library { file, soname: Some(format!("{stem}.so.1")), links: own });
            }
        }
    }
    files.control_nodes = edits.device_nodes.iter().map(node).collect();
    for found in spec.devices.iter().flat_map(|device| &device.container_edits.device_nodes) {
        if found.path.contains("nvidia-cap") {
            files.capability_nodes.insert(CapabilityMinor(found.minor), node(found));
        } else {
            files.gpu_nodes.insert(found.minor, vec![node(found)]);
        }
    }
    files
}

fn mig_machine() -> NodeGpus {
    let mut node = machine("H200*1", "0=1g.18gb,1g.18gb,1g.18gb,2g.35gb");
    // The recorded machine numbered its guards from 3 on.
    for (mig, first) in node.gpus[0].migs.iter_mut().zip([3, 5, 7, 9]) {
        mig.guards = (CapabilityMinor(first), CapabilityMinor(first + 1));
    }
    node
}

/// Compares everything but what [`INTENDED`] lists; every line of the list must really occur.
fn compare(theirs: &Spec, ours: &Spec) {
    assert_eq!(ours.cdi_version, theirs.cdi_version);
    assert_eq!(ours.kind, theirs.kind);
    let (all, devices) = ours.devices.split_last().expect("devices");
    assert_eq!(devices, theirs.devices, "names and device nodes");
    assert_eq!(all.name, "all");
    let (ours, theirs) = (&ours.container_edits, &theirs.container_edits);
    assert_eq!(ours.device_nodes, theirs.device_nodes);
    assert_eq!(ours.mounts, theirs.mounts);
    assert_eq!(links(ours), links(theirs), "the same links, by one hook");

    let mut missing = BTreeSet::new();
    for variable in theirs.env.iter().filter(|variable| !ours.env.contains(variable)) {
        missing.insert(format!("env {}", variable.split_once('=').expect("NAME=value").0));
    }
    missing.extend(theirs.hooks.iter().map(|hook| format!("hook {}", hook.args[2])));
    assert_eq!(missing, INTENDED.iter().map(|(what, _)| (*what).to_owned()).collect());
    assert!(ours.env.iter().all(|variable| theirs.env.contains(variable)), "nothing new in the environment");
}

#[test]
fn whole_gpus_as_nvidia_writes_them() {
    let Some(theirs) = golden("") else { return };
    let ours = cdi_spec(&machine("H200*2", ""), &driver_files(&theirs), &settings(""), &hook());
    compare(&theirs, &ours);
    assert_eq!(Spec::parse(&ours.to_json()).expect("our own file is read"), ours);
}

#[test]
fn mig_devices_as_nvidia_writes_them() {
    let Some(theirs) = golden("mig/") else { return };
    let ours = cdi_spec(&mig_machine(), &driver_files(&theirs), &settings(""), &hook());
    compare(&theirs, &ours);
    let all = &ours.devices.last().expect("all").container_edits.device_nodes;
    assert_eq!(all.len(), 9, "the GPU's node once and every guard: {all:?}");
}

#[test]
fn one_hook_with_links_names_and_folders() {
    let Some(theirs) = golden("") else { return };
    let ours = cdi_spec(&machine("H200*2", ""), &driver_files(&theirs), &settings(""), &hook());
    let [hook] = ours.container_edits.hooks.as_slice() else { panic!("one hook") };
    assert_eq!((hook.hook_name.as_str(), hook.path.as_str()), ("createContainer", "/opt/carve/bin/carve"));
    assert_eq!(hook.args[..2], ["carve", "cdi-hook"]);
    assert!(hook.env.is_empty());
    let count = |option: &str| hook.args.iter().filter(|arg| *arg == option).count();
    assert_eq!((count("--link"), count("--library"), count("--folder")), (12, 10, 1));
    assert!(hook.args.contains(&"libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so.1".to_owned()));
}

#[test]
fn names_by_index_when_asked() {
    let by_index = settings("  plugin:\n    deviceIDStrategy: index\n");
    let names = |node: &NodeGpus| -> Vec<String> {
        cdi_spec(node, &DriverFiles::default(), &by_index, &hook())
            .devices
            .into_iter()
            .map(|d| d.name)
            .collect()
    };
    assert_eq!(names(&machine("H200*2", "")), ["0", "1", "all"]);
    assert_eq!(names(&mig_machine()), ["0:0", "0:1", "0:2", "0:3", "all"]);
}

#[test]
fn a_gpu_in_mig_mode_is_whole_under_strategy_none() {
    let mut none = settings("");
    none.mig_strategy = carve_slicing::MigStrategy::None;
    let spec = cdi_spec(&mig_machine(), &DriverFiles::default(), &none, &hook());
    assert_eq!(spec.devices[0].name, "GPU-10000000-aaaa-bbbb-cccc-000000000001");
}

#[test]
fn nodes_nobody_saw_are_left_to_the_runtime_and_lost_gpus_are_not_in_all() {
    let mut gpus = machine("H200*2", "");
    gpus.gpus[1].lost = true;
    let spec = cdi_spec(&gpus, &DriverFiles::default(), &settings(""), &hook());
    let node = &spec.devices[1].container_edits.device_nodes[0];
    assert_eq!((node.path.as_str(), node.major), ("/dev/nvidia1", 0));
    assert_eq!(node.host_path, "/run/nvidia/driver/dev/nvidia1");
    assert_eq!(spec.devices[2].container_edits.device_nodes.len(), 1);
    assert!(spec.container_edits.hooks.is_empty(), "nothing to do, so nothing is run");
}

#[test]
fn graphics_nodes_are_for_whole_gpus_alone() {
    let dri = |path: &str| DriverNode {
        path: path.to_owned(),
        host_path: path.to_owned(),
        major: 226,
        minor: 0,
        mode: 0o666,
    };
    let mut files = DriverFiles::default();
    files.gpu_nodes.insert(0, vec![dri("/dev/nvidia0"), dri("/dev/dri/card0")]);
    let paths = |node: &NodeGpus| -> Vec<String> {
        let spec = cdi_spec(node, &files, &settings(""), &hook());
        spec.devices[0].container_edits.device_nodes.iter().map(|node| node.path.clone()).collect()
    };
    assert_eq!(paths(&machine("H200*1", "")), ["/dev/nvidia0", "/dev/dri/card0"]);
    assert_eq!(
        paths(&mig_machine()),
        ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"]
    );
}
