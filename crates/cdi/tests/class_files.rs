//! What there is beside GPUs, in made-up roots: only what it should be, and only what a container may have.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod container;

use carve_cdi::{FindError, HostRoot, find_class_files};
use carve_slicing::ClassFiles;
use carve_slicing::cdi::DriverNode;
use container::skip;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        Root(tempfile::tempdir().unwrap())
    }

    fn place(&self, path: &str) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn node(&self, path: &str, minor: u32) -> bool {
        let mode = Mode::from_raw_mode(0o644);
        mknodat(CWD, self.place(path), FileType::CharacterDevice, mode, makedev(240, minor)).is_ok()
    }

    fn on_host(&self, on_host: &str) -> HostRoot {
        HostRoot { on_host: on_host.to_owned(), here: self.0.path().to_owned() }
    }
}

fn paths(nodes: &[DriverNode]) -> Vec<&str> {
    nodes.iter().map(|node| node.path.as_str()).collect()
}

#[test]
fn the_nodes_of_each_class_and_no_others() {
    let root = Root::new();
    if !root.node("dev/gdrdrv", 0) {
        return skip("device nodes can not be made here");
    }
    let all = [
        "dev/gdrdrv2",
        "dev/nvidia0",
        "dev/nvidia-fs",
        "dev/nvidia-fs0",
        "dev/nvidia-fs11",
        "dev/infiniband/uverbs0",
        "dev/infiniband/uverbs1",
        "dev/infiniband/rdma_cm",
        "dev/infiniband/umad0",
        "dev/infiniband/issm0",
        "dev/nvidia-caps-imex-channels/channel0",
        "dev/nvidia-caps-imex-channels/channel17",
        "dev/nvidia-caps-imex-channels/channel",
        "dev/nvidia-caps-imex-channels/channel+3",
        "dev/nvidia-caps-imex-channels/channel04",
    ];
    for (minor, path) in (1..).zip(all) {
        assert!(root.node(path, minor));
    }
    fs::write(root.place("dev/nvidia-fs1"), "a file").unwrap();
    fs::write(root.place("dev/nvidia-caps-imex-channels/channel1"), "a file").unwrap();
    let host = root.on_host("/run/nvidia/driver/");
    let found = find_class_files(&host, &host).unwrap();
    assert_eq!(paths(&found.gdrcopy_nodes), ["/dev/gdrdrv"]);
    assert_eq!(paths(&found.gds_nodes), ["/dev/nvidia-fs", "/dev/nvidia-fs0", "/dev/nvidia-fs11"]);
    assert_eq!(
        paths(&found.mofed_nodes),
        ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"],
        "who holds umad or issm manages the network"
    );
    let channels: Vec<(u64, &str)> =
        found.imex_channels.iter().map(|(number, node)| (*number, node.host_path.as_str())).collect();
    let at = |number: u32| format!("/run/nvidia/driver/dev/nvidia-caps-imex-channels/channel{number}");
    assert_eq!(channels, [(0, at(0).as_str()), (17, at(17).as_str())]);
    let node = &found.imex_channels[&17];
    assert_eq!((node.major, node.minor, node.mode), (240, 12, 0o644));
}

#[test]
fn the_files_of_gds_are_those_of_the_driver_root() {
    let driver = Root::new();
    fs::write(driver.place("usr/local/cuda/gds/cufile.json"), "{}").unwrap();
    symlink("/usr/local/cuda/gds/cufile.json", driver.place("etc/cufile.json")).unwrap();
    fs::create_dir_all(driver.place("run/udev/data")).unwrap();
    let dev = Root::new();
    fs::write(dev.place("etc/cufile.json"), "not the driver's").unwrap();
    let found = find_class_files(&driver.on_host("/run/nvidia/driver"), &dev.on_host("/")).unwrap();
    let files: Vec<(&str, &str)> =
        found.gds_files.iter().map(|file| (file.container_path.as_str(), file.host_path.as_str())).collect();
    assert_eq!(
        files,
        [
            ("/etc/cufile.json", "/run/nvidia/driver/usr/local/cuda/gds/cufile.json"),
            ("/run/udev", "/run/nvidia/driver/run/udev"),
        ]
    );

    // The other way round they are nothing that can be mounted there.
    let odd = Root::new();
    fs::create_dir_all(odd.place("etc/cufile.json/x")).unwrap();
    fs::write(odd.place("run/udev"), "a file").unwrap();
    let host = odd.on_host("/");
    assert_eq!(find_class_files(&host, &host).unwrap(), ClassFiles::default());
}

#[test]
fn a_node_with_nothing_has_nothing_and_no_root_is_an_error() {
    let empty = Root::new();
    let host = empty.on_host("/");
    assert_eq!(find_class_files(&host, &host).unwrap(), ClassFiles::default());
    let nowhere = HostRoot::same("/nowhere/at/all");
    assert!(matches!(find_class_files(&host, &nowhere), Err(FindError::Root { .. })));
}

#[test]
fn links_do_not_lead_out_of_the_root() {
    let (root, outside) = (Root::new(), Root::new());
    if !outside.node("gdrdrv", 0) {
        return skip("device nodes can not be made here");
    }
    symlink(outside.0.path().join("gdrdrv"), root.place("dev/gdrdrv")).unwrap();
    symlink(outside.0.path(), root.place("run/udev")).unwrap();
    let host = root.on_host("/");
    assert_eq!(find_class_files(&host, &host).unwrap(), ClassFiles::default());
}
