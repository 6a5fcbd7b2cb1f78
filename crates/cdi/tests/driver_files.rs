//! Drivers in made-up roots: what is found, what is missed, and what leads nowhere it should not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod container;

use carve_cdi::{FindError, Found, HostRoot, find_driver_files};
use carve_gpu_model::CapabilityMinor;
use carve_slicing::cdi::Link;
use container::{compile, skip};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const VERSION: &str = "580.65.06";

struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        Root(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A library with a name of its own; `None`, visibly, without a compiler.
    fn library(&self, path: &str, soname: &str) -> Option<()> {
        compile("int x;", &self.0.path().join(path), &["-shared", "-fPIC", &format!("-Wl,-soname,{soname}")])
    }

    fn node(&self, path: &str, major: u32, minor: u32) -> bool {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mode = Mode::from_raw_mode(0o644);
        mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(major, minor)).is_ok()
    }

    fn find(&self) -> Result<Found, FindError> {
        let root = HostRoot { on_host: "/run/nvidia/driver".to_owned(), here: self.0.path().to_owned() };
        find_driver_files(&root, &root, VERSION)
    }
}

fn core(root: &Root, folder: &str) -> Option<()> {
    root.library(&format!("{folder}/libcuda.so.{VERSION}"), "libcuda.so.1")?;
    root.library(&format!("{folder}/libnvidia-ml.so.{VERSION}"), "libnvidia-ml.so.1")
}

#[test]
fn libraries_with_their_names_and_links() {
    let root = Root::new();
    let folder = "usr/lib/x86_64-linux-gnu";
    let Some(()) = core(&root, folder) else { return };
    root.library(&format!("{folder}/libnvidia-nvvm.so.{VERSION}"), "libnvidia-nvvm.so.4").unwrap();
    root.library(
        &format!("{folder}/libnvidia-gpucomp.so.{VERSION}"),
        &format!("libnvidia-gpucomp.so.{VERSION}"),
    )
    .unwrap();
    root.library(&format!("{folder}/libnvidia-allocator.so.{VERSION}"), "libnvidia-allocator.so.1").unwrap();
    root.link("../libnvidia-allocator.so.1", &format!("{folder}/gbm/nvidia-drm_gbm.so"));
    root.link("libnvidia-ml.so.1", &format!("{folder}/libnvidia-ml.so"));
    // Others that must stay out: another version, another package, a 32-bit one, a text.
    root.library(&format!("{folder}/libnvidia-fbc.so.570.1.1"), "libnvidia-fbc.so.1").unwrap();
    root.library(&format!("{folder}/libz.so.1.2"), "libz.so.1").unwrap();
    root.write(&format!("usr/lib/libnvcuvid.so.{VERSION}"), b"\x7fELF\x01\x01\x01 thirty-two bits");
    root.write(&format!("{folder}/libnvidia-cfg.so.{VERSION}"), "a text");

    let found = root.find().unwrap();
    let names: Vec<(&str, Option<&str>)> = found
        .files
        .libraries
        .iter()
        .map(|library| (library.file.container_path.as_str(), library.soname.as_deref()))
        .collect();
    let at = |name: &str| format!("/{folder}/{name}.so.{VERSION}");
    assert_eq!(
        names,
        [
            (at("libcuda").as_str(), Some("libcuda.so.1")),
            (&at("libnvidia-allocator"), Some("libnvidia-allocator.so.1")),
            (&at("libnvidia-gpucomp"), Some(&format!("libnvidia-gpucomp.so.{VERSION}"))),
            (&at("libnvidia-ml"), Some("libnvidia-ml.so.1")),
            (&at("libnvidia-nvvm"), Some("libnvidia-nvvm.so.4")),
        ]
    );
    assert!(
        found
            .files
            .libraries
            .iter()
            .all(|l| l.file.host_path == format!("/run/nvidia/driver{}", l.file.container_path))
    );
    let link =
        |target: &str, path: &str| Link { target: target.to_owned(), path: format!("/{folder}/{path}") };
    let links: Vec<Link> = found.files.libraries.into_iter().flat_map(|library| library.links).collect();
    assert_eq!(
        links,
        [
            link(&format!("libcuda.so.{VERSION}"), "libcuda.so.1"),
            link("libcuda.so.1", "libcuda.so"),
            link(&format!("libnvidia-allocator.so.{VERSION}"), "libnvidia-allocator.so.1"),
            link("../libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so"),
            link(&format!("libnvidia-ml.so.{VERSION}"), "libnvidia-ml.so.1"),
            link("libnvidia-ml.so.1", "libnvidia-ml.so"),
            link(&format!("libnvidia-nvvm.so.{VERSION}"), "libnvidia-nvvm.so.4"),
        ]
    );
    assert!(
        found.remarks.iter().any(|r| r.contains("libnvidia-cfg.so") && r.contains("no ELF library")),
        "{:?}",
        found.remarks
    );
    assert!(
        found.remarks.iter().any(|r| r.contains("libnvidia-ptxjitcompiler") && r.contains("PTX")),
        "{:?}",
        found.remarks
    );
}

#[test]
fn links_of_a_root_stay_in_it() {
    let root = Root::new();
    let outside = Root::new();
    let Some(()) = core(&outside, "lib") else { return };
    // An absolute link as installers make them means the same folder under the root.
    core(&root, "opt/driver").unwrap();
    for name in ["libcuda", "libnvidia-ml"] {
        root.link(format!("/opt/driver/{name}.so.{VERSION}"), &format!("usr/lib64/{name}.so.{VERSION}"));
    }
    // And one that points at another folder of the host finds nothing, even if it is there.
    root.link(outside.0.path().join("lib"), "usr/lib/x86_64-linux-gnu");
    let target = outside.0.path().join(format!("lib/libcuda.so.{VERSION}"));
    root.link(target, &format!("usr/lib64/libnvidia-escape.so.{VERSION}"));
    root.link("/opt/driver/nvidia-smi", "usr/bin/nvidia-smi");
    let program = root.0.path().join("opt/driver/nvidia-smi");
    compile("int main(void) { return 0; }", &program, &[]).unwrap();
    root.write("usr/bin/nvidia-debugdump", "#!/bin/sh\necho a wrapper, not the driver's program\n");

    let found = root.find().unwrap();
    let paths: Vec<(String, String)> =
        found.files.libraries.into_iter().map(|l| (l.file.container_path, l.file.host_path)).collect();
    let pair = |name: &str| {
        (
            format!("/usr/lib64/{name}.so.{VERSION}"),
            format!("/run/nvidia/driver/opt/driver/{name}.so.{VERSION}"),
        )
    };
    assert_eq!(paths, [pair("libcuda"), pair("libnvidia-ml")]);
    assert!(found.remarks.iter().any(|remark| remark.contains("libnvidia-escape")), "{:?}", found.remarks);
    assert_eq!(found.files.programs.len(), 1);
    assert_eq!(found.files.programs[0].host_path, "/run/nvidia/driver/opt/driver/nvidia-smi");
    assert_eq!(found.files.programs[0].container_path, "/usr/bin/nvidia-smi");
}

#[test]
fn a_merged_usr_gives_every_library_once() {
    let root = Root::new();
    let Some(()) = core(&root, "usr/lib64") else { return };
    root.link("usr/lib64", "lib64");
    let found = root.find().unwrap();
    assert_eq!(found.files.libraries.len(), 2);
    assert!(found.files.libraries.iter().all(|l| l.file.container_path.starts_with("/usr/lib64/")));
}

#[test]
fn nodes_by_their_numbers_and_only_real_ones() {
    let root = Root::new();
    let Some(()) = core(&root, "usr/lib64") else { return };
    if !root.node("dev/nvidiactl", 195, 255) {
        return skip("device nodes can not be made here");
    }
    for (path, major, minor) in [
        ("dev/nvidia0", 195, 0),
        ("dev/nvidia7", 195, 7),
        ("dev/nvidia-uvm", 510, 0),
        ("dev/nvidia-uvm-tools", 510, 1),
        ("dev/nvidia-caps/nvidia-cap1", 235, 1),
        ("dev/nvidia-caps/nvidia-cap2", 235, 2),
        ("dev/nvidia-caps/nvidia-cap3", 235, 3),
        ("dev/nvidia-caps/nvidia-cap12", 235, 12),
    ] {
        assert!(root.node(path, major, minor));
    }
    root.write("dev/nvidia1", "a file");
    root.write("dev/nvidia-modeset", "a file");
    let found = root.find().unwrap();
    let files = &found.files;
    let paths: Vec<&str> = files.control_nodes.iter().map(|node| node.path.as_str()).collect();
    assert_eq!(paths, ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]);
    assert_eq!(files.gpu_nodes.keys().copied().collect::<Vec<_>>(), [0, 7]);
    let node = &files.gpu_nodes[&7][0];
    assert_eq!((node.major, node.minor, node.mode), (195, 7, 0o644));
    assert_eq!(node.host_path, "/run/nvidia/driver/dev/nvidia7");
    let guards: Vec<_> = files.capability_nodes.keys().copied().collect();
    assert_eq!(guards, [CapabilityMinor(3), CapabilityMinor(12)], "never those for the whole node");
    assert!(!found.remarks.iter().any(|remark| remark.contains("device node")), "{:?}", found.remarks);
}

#[test]
fn missing_nodes_are_told_with_what_to_run() {
    let root = Root::new();
    let Some(()) = core(&root, "usr/lib64") else { return };
    let found = root.find().unwrap();
    for (node, program) in [("/dev/nvidiactl", "nvidia-modprobe"), ("/dev/nvidia-uvm", "nvidia-modprobe -u")]
    {
        let told = found.remarks.iter().any(|remark| remark.contains(node) && remark.contains(program));
        assert!(told, "{node}: {:?}", found.remarks);
    }
}

#[test]
fn no_driver_another_driver_and_no_root_are_three_things() {
    let root = Root::new();
    assert!(matches!(root.find(), Err(FindError::NoDriver { .. })));
    root.write("usr/lib64/libcuda.so.570.86.15", "");
    match root.find() {
        Err(FindError::OtherVersion { running, found, .. }) => {
            assert_eq!((running.as_str(), found.as_str()), (VERSION, "570.86.15"));
        }
        other => panic!("{other:?}"),
    }
    let nowhere = HostRoot::same("/nowhere/at/all");
    assert!(matches!(find_driver_files(&nowhere, &nowhere, VERSION), Err(FindError::Root { .. })));
    for version in ["", "*", "580", "580.*", "../x", "580..1"] {
        assert!(
            matches!(find_driver_files(&nowhere, &nowhere, version), Err(FindError::Version(_))),
            "{version}"
        );
    }
}
