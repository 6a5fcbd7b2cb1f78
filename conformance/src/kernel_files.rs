//! What the kernel tells about GPUs in `/proc` and `/sys`, as regular files for a simulated machine.

use carve_gpu_host::{Gpu, mig_minors};
use carve_gpu_model::PciId;
use carve_gpu_model::products::CATALOGUE;
use std::fs;
use std::io;
use std::path::Path;

/// PCI class of a GPU without a display.
const CLASS_3D: &str = "0x030200";

/// Size of a PCI device's configuration space as sysfs shows it to root.
const CONFIGURATION_SPACE: usize = 256;

/// Files that are the same for every machine.
pub(crate) fn write_fixed(root: &Path) -> io::Result<()> {
    write(root, "proc/modules", "nvidia 14000000 0 - Live 0x0000000000000000 (PO)\n")?;
    fs::create_dir_all(root.join("sys/bus/pci/devices"))
}

/// A list of what PCI devices are called, as distributions have it, with nothing but GPUs.
pub(crate) fn write_names(root: &Path) -> io::Result<()> {
    let boards = CATALOGUE.iter().flat_map(|product| product.boards);
    let devices: String = boards
        .flat_map(|board| board.pci_devices.iter().map(|device| format!("\t{device:04x}  {}\n", board.name)))
        .collect();
    let vendor = PciId::NVIDIA;
    let classes = "C 03  Display controller\n\t02  3D controller\n";
    write(root, "usr/share/misc/pci.ids", &format!("{vendor:04x}  NVIDIA Corporation\n{devices}{classes}"))
}

/// Replaces the files of the machine before by those of this one.
pub(crate) fn write_machine(root: &Path, name: &str, gpus: &[Gpu]) -> io::Result<()> {
    let devices = root.join("sys/bus/pci/devices");
    fs::remove_dir_all(&devices)?;
    fs::create_dir_all(&devices)?;
    for gpu in gpus {
        write_pci_device(&devices.join(gpu.address.to_string()), gpu)?;
    }
    write(root, "proc/driver/nvidia-caps/mig-minors", &mig_minors(gpus.len() as u32))?;
    write(root, "sys/class/dmi/id/product_name", &format!("{name}\n"))
}

fn write_pci_device(folder: &Path, gpu: &Gpu) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let (subsystem_vendor, subsystem) = gpu.subsystem.map_or((0, 0), |id| (id.vendor(), id.device()));
    let files = [
        ("vendor", format!("0x{:04x}", gpu.pci_id.vendor())),
        ("device", format!("0x{:04x}", gpu.pci_id.device())),
        ("class", CLASS_3D.to_owned()),
        ("subsystem_vendor", format!("0x{subsystem_vendor:04x}")),
        ("subsystem_device", format!("0x{subsystem:04x}")),
        ("numa_node", gpu.numa_node.map_or(-1, i64::from).to_string()),
        ("resource", "0x0000000000000000 0x0000000000000000 0x0000000000000000".to_owned()),
    ];
    for (file, text) in files {
        fs::write(folder.join(file), text + "\n")?;
    }
    // Vendor and device lead the configuration space; no capabilities follow, so it is no virtual GPU.
    let mut configuration = vec![0; CONFIGURATION_SPACE];
    let ids = [gpu.pci_id.vendor().to_le_bytes(), gpu.pci_id.device().to_le_bytes()].concat();
    configuration.splice(..ids.len(), ids);
    fs::write(folder.join("config"), configuration)
}

fn write(root: &Path, file: &str, text: &str) -> io::Result<()> {
    let path = root.join(file);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}
