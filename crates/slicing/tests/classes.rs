//! What containers get beside GPUs: each name in an answer has a file, and what is missing on the node is told.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_formats::cdi::Spec;
use carve_slicing::cdi::{DriverFile, DriverNode};
use carve_slicing::{
    Absent, Answer, AnswerContext, CdiClass, ClassFiles, Settings, answer, class_specs, offer,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

const EVERYTHING: &str = "  gdrcopyEnabled: true
  gdsEnabled: true
  mofedEnabled: true
imex: {channelIDs: [0]}
";

fn settings(lists: &str, more: &str) -> Settings {
    let text = format!(
        "version: v1
flags:
  nvidiaDevRoot: /run/nvidia/driver
  plugin: {{deviceListStrategy: [{lists}], passDeviceSpecs: true}}
{more}"
    );
    let config = DevicePluginConfig::parse(&text).value.expect("a config");
    Settings::new(&config, false).expect("settings")
}

fn node(path: &str, minor: u32) -> DriverNode {
    let host_path = format!("/run/nvidia/driver{path}");
    DriverNode { path: path.to_owned(), host_path, major: 240, minor, mode: 0o666 }
}

fn found() -> ClassFiles {
    let file = |path: &str| DriverFile { host_path: path.to_owned(), container_path: path.to_owned() };
    ClassFiles {
        gdrcopy_nodes: vec![node("/dev/gdrdrv", 0)],
        gds_nodes: vec![node("/dev/nvidia-fs1", 1), node("/dev/nvidia-fs0", 0)],
        gds_files: vec![file("/etc/cufile.json"), file("/run/udev")],
        mofed_nodes: vec![node("/dev/infiniband/uverbs0", 192), node("/dev/infiniband/rdma_cm", 58)],
        imex_channels: [0, 5]
            .map(|n: u32| (u64::from(n), node(&format!("/dev/nvidia-caps-imex-channels/channel{n}"), n)))
            .into(),
    }
}

fn ask(settings: &Settings) -> Answer {
    let gpus = recorded::machine("H200*1", "");
    let offer = offer(&gpus, settings).expect("an offer");
    let resource = offer.resources.values().next().expect("a resource");
    let ids = [resource.devices[0].id.to_string()];
    answer(resource, &ids, settings, &AnswerContext::default()).expect("an answer")
}

fn nodes(spec: &Spec) -> Vec<&str> {
    let edits = spec.devices.iter().map(|device| &device.container_edits);
    edits.flat_map(|edits| &edits.device_nodes).map(|node| node.path.as_str()).collect()
}

#[test]
fn a_file_for_every_class_that_is_asked_for() {
    let built = class_specs(&settings("cdi-cri", EVERYTHING), &found());
    assert_eq!(built.absent, []);
    let told: Vec<(&str, &str, Vec<&str>)> = built
        .specs
        .values()
        .map(|spec| (spec.kind.as_str(), spec.devices[0].name.as_str(), nodes(spec)))
        .collect();
    assert_eq!(
        told,
        [
            (
                "k8s.device-plugin.nvidia.com/imex-channel",
                "0",
                vec!["/dev/nvidia-caps-imex-channels/channel0"]
            ),
            ("k8s.device-plugin.nvidia.com/gdrcopy", "all", vec!["/dev/gdrdrv"]),
            ("k8s.device-plugin.nvidia.com/gds", "all", vec!["/dev/nvidia-fs0", "/dev/nvidia-fs1"]),
            (
                "k8s.device-plugin.nvidia.com/mofed",
                "all",
                vec!["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"]
            ),
        ]
    );
    let gds = &built.specs[&CdiClass::Gds].devices[0].container_edits;
    let mounts: Vec<(&str, String)> =
        gds.mounts.iter().map(|mount| (mount.container_path.as_str(), mount.options.join(","))).collect();
    let options = "ro,nosuid,nodev,rbind,rprivate".to_owned();
    assert_eq!(mounts, [("/etc/cufile.json", options.clone()), ("/run/udev", options)]);
    let first = &gds.device_nodes[0];
    assert_eq!((first.major, first.minor, first.permissions.as_str()), (240, 0, "rwm"));
    assert_eq!(first.host_path, "/run/nvidia/driver/dev/nvidia-fs0");
    for spec in built.specs.values() {
        assert_eq!(Spec::parse(&spec.to_json()).expect("our own file is read"), *spec);
    }
}

#[test]
fn what_is_missing_is_told_with_what_to_do() {
    // Files of GDS without its nodes are of no use, and other channels are not the one asked for.
    let little = ClassFiles {
        gds_files: found().gds_files,
        imex_channels: [(5, node("/dev/nvidia-caps-imex-channels/channel5", 5))].into(),
        ..ClassFiles::default()
    };
    let built = class_specs(&settings("cdi-cri", EVERYTHING), &little);
    assert!(built.specs.is_empty(), "a runtime refuses a file with an empty device: {:?}", built.specs);
    let classes: Vec<CdiClass> = built.absent.iter().map(Absent::class).collect();
    assert_eq!(classes, CdiClass::ALL[1..]);
    let words = [
        (
            "imex.channelIDs",
            "/run/nvidia/driver/dev/nvidia-caps-imex-channels/channel0",
            "NVreg_CreateImexChannel0",
        ),
        ("gdrcopyEnabled", "/run/nvidia/driver/dev/gdrdrv", "kernel module gdrdrv"),
        ("gdsEnabled", "/run/nvidia/driver/dev/nvidia-fs*", "kernel module nvidia-fs"),
        ("mofedEnabled", "/run/nvidia/driver/dev/infiniband/uverbs*", "ib_uverbs"),
    ];
    for (absent, (setting, path, remedy)) in built.absent.iter().zip(words) {
        let text = absent.to_string();
        assert!(text.contains(setting) && text.contains(path) && text.contains(remedy), "{text}");
    }
}

#[test]
fn nothing_asked_for_is_nothing_written_and_nothing_told() {
    let built = class_specs(&settings("cdi-cri", ""), &found());
    assert!(built.specs.is_empty() && built.absent.is_empty());
}

/// NVIDIA's plugin sets the variables before it looks at the way devices come into a container.
#[test]
fn variables_and_channels_as_nvidia_gives_them() {
    for lists in ["cdi-cri", "cdi-annotations", "envvar", "volume-mounts", "envvar, cdi-cri"] {
        let given = ask(&settings(lists, EVERYTHING));
        for name in ["NVIDIA_GDRCOPY", "NVIDIA_GDS", "NVIDIA_MOFED"] {
            assert_eq!(given.envs.get(name).map(String::as_str), Some("enabled"), "{lists}");
        }
        // Device nodes go to kubelet only where NVIDIA's runtime has a part in it.
        let channel = given.devices.iter().find(|node| node.container_path.contains("imex"));
        let legacy = !lists.starts_with("cdi");
        assert_eq!(
            channel.map(|node| (node.container_path.as_str(), node.host_path.as_str())),
            legacy.then_some((
                "/dev/nvidia-caps-imex-channels/channel0",
                "/run/nvidia/driver/dev/nvidia-caps-imex-channels/channel0"
            )),
            "{lists}"
        );
    }
}

proptest! {
    /// Whatever is asked for and whatever is there: an answer's names beside the GPU are those of the files and of what
    /// was told as missing, never more and never fewer.
    #[test]
    fn every_name_has_a_file_or_a_complaint(
        asked in any::<[bool; 3]>(),
        there in any::<[bool; 3]>(),
        channels in proptest::collection::btree_set(0_u64..6, 0..4),
    ) {
        let mut settings = settings("cdi-cri", "");
        [settings.gdrcopy, settings.gds, settings.mofed] = asked;
        settings.imex_channels = channels.into_iter().collect();
        let mut files = found();
        let nodes = [&mut files.gdrcopy_nodes, &mut files.gds_nodes, &mut files.mofed_nodes];
        for (nodes, there) in nodes.into_iter().zip(there) {
            if !there {
                nodes.clear();
            }
        }
        let built = class_specs(&settings, &files);
        let mut known = BTreeSet::new();
        for (class, spec) in &built.specs {
            prop_assert_eq!(&spec.kind, &class.kind());
            prop_assert!(spec.devices.iter().all(|device| !device.container_edits.device_nodes.is_empty()));
            known.extend(spec.devices.iter().map(|device| format!("{}={}", spec.kind, device.name)));
        }
        for absent in &built.absent {
            let name = match absent {
                Absent::ImexChannel { channel, .. } => channel.to_string(),
                _ => "all".to_owned(),
            };
            prop_assert!(known.insert(absent.class().qualified(&name)), "both there and not: {}", absent);
        }
        let named: BTreeSet<String> = ask(&settings).cdi_devices.into_iter().skip(1).collect();
        prop_assert_eq!(named, known);
    }
}
