//! A process with a folder of device nodes is shown what has its nodes there and nothing else, under new numbers.

#[path = "support/built.rs"]
mod built;
#[macro_use]
#[path = "support/c.rs"]
mod c;

use c::{C, Handle, gpu, passes, started, text};
use carve_gpu_host::{GpuHost, Machine, MigDevice, compute_instance_minor, gpu_instance_minor};
use carve_gpu_model::{GpuIndex, ProfileId};
use carve_sim_store::SharedMachine;
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;

const STATE: &str = "CARVE_SIM_STATE";
const DEV: &str = "CARVE_SIM_DEV";
const CUT: GpuIndex = GpuIndex(2);

/// Two A100, an H100 cut into two halves, and a T4; the process has the nodes of the H100, its second half, and the T4.
fn container(dir: &Path) -> (PathBuf, PathBuf, SharedMachine) {
    let (state, dev) = (dir.join("state.json"), dir.join("dev"));
    let mut machine = SharedMachine::open(&state, Machine::named("mixed").unwrap()).unwrap();
    machine.set_mig_mode(CUT, true).unwrap();
    for _ in 0..2 {
        let instance = machine.create_gpu_instance(CUT, ProfileId(9), None).unwrap();
        let offer = *machine.compute_profiles(CUT, instance.id).unwrap().last().unwrap();
        machine.create_compute_instance(CUT, instance.id, offer.index).unwrap();
    }
    std::fs::create_dir_all(dev.join("nvidia-caps")).unwrap();
    std::fs::write(dev.join("nvidia2"), "").unwrap();
    std::fs::write(dev.join("nvidia3"), "").unwrap();
    give(&dev, &machine.mig_devices(CUT).unwrap()[1]);
    (state, dev, machine)
}

/// Makes the two nodes of a MIG device.
fn give(dev: &Path, mig: &MigDevice) {
    let instance = gpu_instance_minor(CUT.0, mig.gpu_instance);
    let compute = compute_instance_minor(CUT.0, mig.gpu_instance, mig.compute_instance);
    for minor in [instance, compute] {
        std::fs::write(dev.join(format!("nvidia-caps/nvidia-cap{minor}")), "").unwrap();
    }
}

#[test]
fn only_what_has_its_nodes_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let (state, dev, _) = container(dir.path());
    passes("child_in_a_container", &[(STATE, state.to_str().unwrap()), (DEV, dev.to_str().unwrap())]);
}

fn count(library: &C) -> u32 {
    let mut count = 77;
    assert_eq!(c!(library, nvmlDeviceGetCount_v2(&mut count => *mut u32)), 0);
    count
}

fn uuid(library: &C, device: Handle) -> String {
    text(
        |buffer, length| c!(library, nvmlDeviceGetUUID(device => Handle, buffer => *mut c_char, length => u32)),
    )
}

/// The codes of asking for a device by its identity.
fn find(library: &C, uuid: &str) -> (u32, Handle) {
    let (uuid, mut device) = (CString::new(uuid).unwrap(), null_mut());
    let code =
        c!(library, nvmlDeviceGetHandleByUUID(uuid.as_ptr() => *const c_char, &mut device => *mut Handle));
    (code, device)
}

fn migs(library: &C, device: Handle) -> Vec<String> {
    let mut most = 0;
    assert_eq!(c!(library, nvmlDeviceGetMaxMigDeviceCount(device => Handle, &mut most => *mut u32)), 0);
    let mut found = Vec::new();
    for position in 0..most {
        let (mut mig, mut told) = (null_mut(), 77);
        let code = c!(library, nvmlDeviceGetMigDeviceHandleByIndex(
            device => Handle, position => u32, &mut mig => *mut Handle,
        ));
        if code != 0 {
            assert_eq!(code, 6);
            continue;
        }
        assert_eq!(c!(library, nvmlDeviceGetIndex(mig => Handle, &mut told => *mut u32)), 0);
        assert_eq!(told, position);
        found.push(uuid(library, mig));
    }
    found
}

#[test]
#[ignore = "run as a child process"]
fn child_in_a_container() {
    let (state, dev) = (std::env::var(STATE).unwrap(), PathBuf::from(std::env::var(DEV).unwrap()));
    let machine = SharedMachine::attach(state.as_ref()).unwrap();
    let (gpus, parts) = (machine.gpus().unwrap(), machine.mig_devices(CUT).unwrap());
    let library = started();
    assert_eq!(count(&library), 2);
    for (index, known) in [(0, &gpus[2]), (1, &gpus[3])] {
        let device = gpu(&library, index);
        let (mut minor, mut told) = (77, 77);
        assert_eq!(c!(library, nvmlDeviceGetMinorNumber(device => Handle, &mut minor => *mut u32)), 0);
        assert_eq!(c!(library, nvmlDeviceGetIndex(device => Handle, &mut told => *mut u32)), 0);
        assert_eq!((minor, told, uuid(&library, device)), (known.minor, index, known.uuid.0.clone()));
        assert_eq!(find(&library, &known.uuid.0), (0, device));
    }
    // What a driver answers about GPUs whose nodes are absent, as an R580 on an H200 did.
    let mut none: Handle = null_mut();
    assert_eq!(c!(library, nvmlDeviceGetHandleByIndex_v2(2 => u32, &mut none => *mut Handle)), 2);
    assert_eq!(find(&library, &gpus[0].uuid.0).0, 6);
    let bus = CString::new(gpus[0].address.nvml_bus_id()).unwrap();
    let code = c!(library, nvmlDeviceGetHandleByPciBusId_v2(bus.as_ptr() => *const c_char, &mut none => *mut Handle));
    assert_eq!(code, 6);

    let cut = gpu(&library, 0);
    assert_eq!(migs(&library, cut), [parts[1].uuid.0.clone()]);
    assert_eq!(find(&library, &parts[0].uuid.0).0, 6);
    // MIG devices come and go while NVML runs, GPUs with its next start.
    give(&dev, &parts[0]);
    std::fs::remove_file(dev.join("nvidia3")).unwrap();
    assert_eq!(migs(&library, cut), [parts[0].uuid.0.clone(), parts[1].uuid.0.clone()]);
    assert_eq!(count(&library), 2);
    assert_eq!((c!(library, nvmlShutdown()), c!(library, nvmlInit_v2())), (0, 0));
    assert_eq!(count(&library), 1);
    std::fs::remove_dir_all(dev.join("nvidia-caps")).unwrap();
    assert!(migs(&library, cut).is_empty());
    // Who may watch MIG devices is shown them all.
    std::fs::create_dir(dev.join("nvidia-caps")).unwrap();
    std::fs::write(dev.join("nvidia-caps/nvidia-cap2"), "").unwrap();
    assert_eq!(migs(&library, cut).len(), 2);

    std::fs::remove_file(dev.join("nvidia2")).unwrap();
    assert_eq!((c!(library, nvmlShutdown()), c!(library, nvmlInit_v2())), (0, 0));
    assert_eq!(count(&library), 0);
    let mut index = 0;
    assert_eq!(c!(library, nvmlDeviceGetIndex(cut => Handle, &mut index => *mut u32)), 2, "an old handle");
}

#[test]
fn the_listing_of_nvidia_smi_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (state, dev, machine) = container(dir.path());
    let (gpus, parts) = (machine.gpus().unwrap(), machine.mig_devices(CUT).unwrap());
    let smi = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nvidia-smi"));
        let output = command.args(arguments).env(STATE, &state).env(DEV, &dev).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (listed, text) = smi(&["-L"]);
    assert!(listed);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("GPU 0: ") && lines[0].contains(&gpus[2].uuid.0), "{text}");
    assert!(lines[1].contains(" Device 0: ") && lines[1].contains(&parts[1].uuid.0), "{text}");
    assert!(lines[2].starts_with("GPU 1: ") && lines[2].contains(&gpus[3].uuid.0), "{text}");
    let (reset, text) = smi(&["-r", "-i", "1"]);
    assert!(reset && text.contains(&gpus[3].address.nvml_bus_id()), "{text}");
    assert!(!smi(&["-r", "-i", &gpus[0].uuid.0]).0, "what is not shown can not be reset");
}
