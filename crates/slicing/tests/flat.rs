//! Answers for a container runtime that reads no CDI files: everything of the devices asked for, nothing of others.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_slicing::cdi::{DriverFile, DriverFiles, DriverNode, HookPath, Library, Link, cdi_spec};
use carve_slicing::{
    Answer, AnswerContext, AnswerError, ClassFiles, DeviceIds, FlatEdits, NodeGpus, Settings, answer,
    class_specs, flat_edits, offer,
};
use recorded::machine;
use std::collections::BTreeSet;
use std::sync::Arc;

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const CONTROL: [&str; 2] = ["/dev/nvidia-uvm", "/dev/nvidiactl"];

fn settings(more: &str) -> Settings {
    let text = format!(
        "version: v1
flags:
  migStrategy: mixed
  nvidiaDriverRoot: /run/nvidia/driver
  plugin: {{deviceListStrategy: [cdi-cri, cdi-annotations]}}
{more}"
    );
    let parsed = DevicePluginConfig::parse(&text);
    Settings::new(&parsed.value.expect("a config"), true).expect("settings")
}

fn on_host(path: &str) -> String {
    format!("/run/nvidia/driver{path}")
}

fn file(path: &str) -> DriverFile {
    DriverFile { host_path: on_host(path), container_path: path.to_owned() }
}

fn device_node(path: &str) -> DriverNode {
    DriverNode { path: path.to_owned(), host_path: on_host(path), major: 195, minor: 0, mode: 0o666 }
}

fn library(name: &str, links: &[(&str, &str)]) -> Library {
    let link = |(target, path): &(&str, &str)| Link {
        target: (*target).to_owned(),
        path: format!("{LIBRARIES}/{path}"),
    };
    Library {
        file: file(&format!("{LIBRARIES}/{name}.so.580.65.06")),
        soname: Some(format!("{name}.so.1")),
        links: links.iter().map(link).collect(),
    }
}

/// A driver of which a container needs something of each sort.
fn files(node: &NodeGpus) -> DriverFiles {
    DriverFiles {
        version: "580.65.06".to_owned(),
        libraries: vec![
            library("libcuda", &[("libcuda.so.580.65.06", "libcuda.so.1"), ("libcuda.so.1", "libcuda.so")]),
            library("libnvidia-allocator", &[("../libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so")]),
        ],
        programs: vec![file("/usr/bin/nvidia-smi")],
        firmware: vec![file("/lib/firmware/nvidia/580.65.06/gsp_ga10x.bin")],
        sockets: vec![file("/run/nvidia-persistenced/socket")],
        control_nodes: CONTROL.iter().map(|path| device_node(path)).collect(),
        gpu_nodes: node
            .gpus
            .iter()
            .map(|gpu| gpu.gpu.minor)
            .map(|minor| {
                let paths = [format!("/dev/nvidia{minor}"), format!("/dev/dri/card{minor}")];
                (minor, paths.iter().map(|path| device_node(path)).collect())
            })
            .collect(),
        capability_nodes: node
            .gpus
            .iter()
            .flat_map(|gpu| &gpu.migs)
            .flat_map(|mig| [mig.guards.0, mig.guards.1])
            .map(|minor| (minor, device_node(&format!("/dev/nvidia-caps/nvidia-cap{minor}"))))
            .collect(),
    }
}

fn flat(node: &NodeGpus, settings: &Settings) -> FlatEdits {
    let hook = HookPath::new("/opt/carve/bin/carve").expect("an absolute path");
    let files = files(node);
    flat_edits(&cdi_spec(node, &files, settings, &hook), &files)
}

fn try_asking(
    node: &NodeGpus,
    settings: &Settings,
    flat: FlatEdits,
    resource: &str,
    ids: &[String],
) -> Result<Answer, AnswerError> {
    let offer = offer(node, settings).expect("an offer");
    let resource = &offer.resources[&resource.parse().expect("a name")];
    let context = AnswerContext { flat: Some(Arc::new(flat)), ..AnswerContext::default() };
    answer(resource, ids, settings, &context)
}

fn ask(node: &NodeGpus, settings: &Settings, resource: &str, ids: &[String]) -> Answer {
    try_asking(node, settings, flat(node, settings), resource, ids).expect("an answer")
}

fn node_paths(answer: &Answer) -> BTreeSet<&str> {
    let paths: BTreeSet<&str> = answer.devices.iter().map(|node| node.container_path.as_str()).collect();
    assert_eq!(paths.len(), answer.devices.len(), "no node twice: {answer:?}");
    paths
}

fn with_control<'a>(own: &[&'a str]) -> BTreeSet<&'a str> {
    own.iter().copied().chain(CONTROL).collect()
}

#[test]
fn the_nodes_of_the_gpu_and_of_no_other() {
    let node = machine("H200*3", "");
    let answer = ask(&node, &settings(""), "nvidia.com/gpu", &[node.gpus[1].part().to_string()]);
    assert_eq!(node_paths(&answer), with_control(&["/dev/nvidia1", "/dev/dri/card1"]));
    assert!(answer.devices.iter().all(|node| node.host_path == on_host(&node.container_path)), "{answer:?}");
    assert_eq!(answer.envs.iter().collect::<Vec<_>>(), [(&"NVIDIA_VISIBLE_DEVICES".into(), &"void".into())]);
    assert!(answer.cdi_devices.is_empty() && answer.annotations.is_empty(), "nobody would look them up");
}

#[test]
fn two_gpus_have_both_and_the_rest_once() {
    let node = machine("H200*3", "");
    let ids = [2, 0].map(|gpu: usize| node.gpus[gpu].part().to_string());
    let two = ask(&node, &settings(""), "nvidia.com/gpu", &ids);
    let own = ["/dev/nvidia0", "/dev/dri/card0", "/dev/nvidia2", "/dev/dri/card2"];
    assert_eq!(node_paths(&two), with_control(&own));
    let one = ask(&node, &settings(""), "nvidia.com/gpu", &ids[..1]);
    assert_eq!(two.mounts, one.mounts, "the driver is mounted once");
}

#[test]
fn a_mig_device_has_its_guards_and_no_others() {
    let node = machine("H200*2", "1=1g.18gb,1g.18gb,2g.35gb");
    let migs = &node.gpus[1].migs;
    let guards = |mig: usize| {
        let (instance, compute) = migs[mig].guards;
        [instance, compute].map(|minor| format!("/dev/nvidia-caps/nvidia-cap{minor}"))
    };
    let [first, second] = guards(1);
    let answer = ask(&node, &settings(""), "nvidia.com/mig-1g.18gb", &[migs[1].part().to_string()]);
    assert_eq!(node_paths(&answer), with_control(&["/dev/nvidia1", &first, &second]), "no graphics either");
    for other in guards(0).iter().chain(&guards(2)) {
        assert!(!node_paths(&answer).contains(other.as_str()), "{other} guards another device");
    }
    let ids: Vec<String> = migs[..2].iter().map(|mig| mig.part().to_string()).collect();
    let both = ask(&node, &settings(""), "nvidia.com/mig-1g.18gb", &ids);
    assert_eq!(node_paths(&both).len(), 2 * 2 + 1 + CONTROL.len(), "the GPU's node once: {both:?}");
}

#[test]
fn libraries_stand_under_the_names_of_their_links_too() {
    let node = machine("H200*1", "");
    let answer = ask(&node, &settings(""), "nvidia.com/gpu", &[node.gpus[0].part().to_string()]);
    let mounts: Vec<(&str, &str)> =
        answer.mounts.iter().map(|mount| (mount.container_path.as_str(), mount.host_path.as_str())).collect();
    let at = |name: &str| format!("{LIBRARIES}/{name}");
    let (cuda, allocator) = (at("libcuda.so.580.65.06"), at("libnvidia-allocator.so.580.65.06"));
    let expected = [
        ("/lib/firmware/nvidia/580.65.06/gsp_ga10x.bin".to_owned(), None),
        ("/run/nvidia-persistenced/socket".to_owned(), None),
        ("/usr/bin/nvidia-smi".to_owned(), None),
        (at("gbm/nvidia-drm_gbm.so"), Some(&allocator)),
        (at("libcuda.so"), Some(&cuda)),
        (at("libcuda.so.1"), Some(&cuda)),
        (cuda.clone(), None),
        (allocator.clone(), None),
    ];
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(path, leads_to)| (path.clone(), on_host(leads_to.map_or(path, |path| path))))
        .collect();
    assert_eq!(mounts, expected.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect::<Vec<_>>());
    assert!(answer.mounts.iter().all(|mount| mount.read_only), "a container changes no driver");
}

#[test]
fn names_by_index_lead_to_the_same_nodes() {
    let node = machine("H200*2", "1=1g.18gb");
    let mut settings = settings("");
    settings.device_ids = DeviceIds::Index;
    let mig = &node.gpus[1].migs[0];
    let answer = ask(&node, &settings, "nvidia.com/mig-1g.18gb", &[mig.part().to_string()]);
    let (instance, compute) = mig.guards;
    let guards = [instance, compute].map(|minor| format!("/dev/nvidia-caps/nvidia-cap{minor}"));
    assert_eq!(node_paths(&answer), with_control(&["/dev/nvidia1", &guards[0], &guards[1]]));
}

#[test]
fn shares_by_mps_keep_their_daemon() {
    let sharing = "sharing:\n  mps:\n    resources: [{name: nvidia.com/gpu, replicas: 2}]\n";
    let (node, settings) = (machine("H200*2", ""), settings(sharing));
    let part = node.gpus[1].part();
    let answer = ask(&node, &settings, "nvidia.com/gpu", &[format!("{part}::1")]);
    assert_eq!(node_paths(&answer), with_control(&["/dev/nvidia1", "/dev/dri/card1"]));
    assert_eq!(answer.envs["CUDA_MPS_PIPE_DIRECTORY"], format!("/mps/{part}/pipe"));
    assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], "void");
    let own: Vec<&str> =
        answer.mounts.iter().filter(|m| !m.read_only).map(|m| m.container_path.as_str()).collect();
    assert_eq!(
        own,
        [format!("/mps/{part}/pipe").as_str(), "/dev/shm"],
        "what is written to, and nothing else"
    );
}

#[test]
fn what_is_asked_for_beside_gpus_comes_along() {
    let (node, settings) = (machine("H200*1", ""), settings("  gdsEnabled: true\nimex: {channelIDs: [0]}\n"));
    let channel = "/dev/nvidia-caps-imex-channels/channel0";
    let found = ClassFiles {
        gds_nodes: vec![device_node("/dev/nvidia-fs0")],
        gds_files: vec![file("/etc/cufile.json")],
        imex_channels: [(0, device_node(channel)), (1, device_node("/dev/other"))].into(),
        gdrcopy_nodes: vec![device_node("/dev/gdrdrv")],
        ..ClassFiles::default()
    };
    let classes = class_specs(&settings, &found);
    assert!(classes.absent.is_empty());
    let flat = flat(&node, &settings).with_classes(&classes);
    let ids = [node.gpus[0].part().to_string()];
    let answer = try_asking(&node, &settings, flat, "nvidia.com/gpu", &ids).expect("an answer");
    let own = ["/dev/nvidia0", "/dev/dri/card0", "/dev/nvidia-fs0", channel];
    assert_eq!(node_paths(&answer), with_control(&own), "GDRCopy is there, but nobody asked for it");
    let cufile = answer.mounts.iter().find(|mount| mount.container_path == "/etc/cufile.json");
    assert_eq!(cufile.map(|mount| mount.host_path.clone()), Some(on_host("/etc/cufile.json")));
    assert_eq!(answer.envs["NVIDIA_GDS"], "enabled");
}

/// A MIG device that was made after the files were looked at: no container without its GPU.
#[test]
fn a_device_whose_nodes_are_not_known_is_refused() {
    let settings = settings("");
    let before = flat(&machine("H200*1", ""), &settings);
    let node = machine("H200*2", "");
    let ids = [0, 1].map(|gpu: usize| node.gpus[gpu].part().to_string());
    match try_asking(&node, &settings, before, "nvidia.com/gpu", &ids) {
        Err(error @ AnswerError::UnknownNodes { .. }) => {
            assert!(error.to_string().contains(&ids[1]), "{error}")
        }
        other => panic!("{other:?}"),
    }
}
