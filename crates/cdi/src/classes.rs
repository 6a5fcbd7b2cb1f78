//! Finds what a container may be given beside a GPU: GDRCopy, GPUDirect Storage, InfiniBand, IMEX channels.
//!
//! Whether any of it is asked for is not known here, so nothing that is missing is remarked upon: `carve_slicing` holds
//! what was found against the settings.

use crate::beneath::Beneath;
use crate::driver::{FindError, HostRoot, kind, node};
use carve_slicing::ClassFiles;
use carve_slicing::cdi::{DriverFile, DriverNode};
use rustix::fs::FileType;

/// What GPUDirect Storage reads: its own settings, and by what udev knows of it, which disk a file is on.
const GDS_FILES: &[(&str, FileType)] =
    &[("/etc/cufile.json", FileType::RegularFile), ("/run/udev", FileType::Directory)];

/// Looks for everything there is of every class.
pub fn find_class_files(driver: &HostRoot, dev: &HostRoot) -> Result<ClassFiles, FindError> {
    let root = driver.open("the driver")?;
    let nodes = dev.open("the device nodes")?;
    let named = |folder: &str, wanted: &dyn Fn(&str) -> bool| -> Vec<DriverNode> {
        named(&nodes, dev, folder)
            .into_iter()
            .filter(|(name, _)| wanted(name))
            .map(|(_, node)| node)
            .collect()
    };
    let channels = self::named(&nodes, dev, "/dev/nvidia-caps-imex-channels");
    Ok(ClassFiles {
        gdrcopy_nodes: named("/dev", &|name| name == "gdrdrv"),
        gds_nodes: named("/dev", &|name| name.starts_with("nvidia-fs")),
        gds_files: GDS_FILES.iter().filter_map(|(path, is)| file(&root, driver, path, *is)).collect(),
        // Not umad and issm, the other nodes of the folder: who holds them can manage the whole InfiniBand network.
        mofed_nodes: named("/dev/infiniband", &|name| name.starts_with("uverbs") || name == "rdma_cm"),
        imex_channels: channels
            .into_iter()
            .filter_map(|(name, node)| Some((number(name.strip_prefix("channel")?)?, node)))
            .collect(),
    })
}

/// The character devices of a folder, with their names.
fn named(root: &Beneath, host: &HostRoot, folder: &str) -> Vec<(String, DriverNode)> {
    let names = root.folder(folder).and_then(|folder| folder.names()).unwrap_or_default();
    let found = names.into_iter().filter_map(|name| {
        let node = node(root, host, &format!("{folder}/{name}"))?;
        Some((name, node))
    });
    found.collect()
}

/// A number as the driver writes it, which no other text stands for.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

fn file(root: &Beneath, host: &HostRoot, path: &str, is: FileType) -> Option<DriverFile> {
    let stat = root.stat(path).ok()?;
    if kind(&stat) != is {
        return None;
    }
    let real = root.without_links(path).ok()?;
    Some(DriverFile { host_path: host.path(&real), container_path: path.to_owned() })
}
