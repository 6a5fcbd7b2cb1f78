//! The host through the C interface and the simulated machine behind it must say the same, verb for verb.
//!
//! The library reads its settings from the environment once per process, so every machine gets a process of its own:
//! the tests run this executable again.

#[path = "../../nvml-sim/tests/support/built.rs"]
mod built;

use carve_gpu_host::machine::preset_names;
use carve_gpu_host::{
    BusyPart, GpuEvent, GpuHost, HostFailure, Machine, ModeOutcome, RecoveryAction, compute_instance_minor,
    gpu_instance_minor,
};
use carve_gpu_model::{Bytes, ComputeProfileIndex, GpuIndex, GpuInstanceId, ProfileId, ProfileTable};
use carve_nvml::{Nvml, NvmlPaths, OpenError};
use carve_sim_store::SharedMachine;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const STATE: &str = "CARVE_SIM_STATE";
const DEV: &str = "CARVE_SIM_DEV";

/// Everything the two can be asked. Errors are compared too: verb, GPU and failure.
fn compare(ours: &dyn GpuHost, theirs: &dyn GpuHost) {
    assert_eq!(ours.driver(), theirs.driver());
    let gpus = theirs.gpus().unwrap();
    assert_eq!(ours.gpus().unwrap(), gpus);
    // One index too many, for what is said about a GPU that is not there.
    for gpu in (0..=gpus.len() as u32).map(GpuIndex) {
        assert_eq!(ours.memory(gpu), theirs.memory(gpu));
        assert_eq!(ours.utilisation(gpu), theirs.utilisation(gpu));
        assert_eq!(ours.readings(gpu), theirs.readings(gpu));
        assert_eq!(ours.processes(gpu), theirs.processes(gpu));
        assert_eq!(ours.fabric(gpu), theirs.fabric(gpu));
        assert_eq!(ours.recovery_action(gpu), theirs.recovery_action(gpu));
        assert_eq!(ours.mig_mode(gpu), theirs.mig_mode(gpu));
        assert_eq!(ours.profile_table(gpu).map(figures), theirs.profile_table(gpu).map(figures));
        assert_eq!(ours.gpu_instances(gpu), theirs.gpu_instances(gpu));
        assert_eq!(ours.mig_devices(gpu), theirs.mig_devices(gpu));
        for instance in theirs.gpu_instances(gpu).unwrap_or_default() {
            assert_eq!(ours.compute_profiles(gpu, instance.id), theirs.compute_profiles(gpu, instance.id));
            assert_eq!(ours.compute_instances(gpu, instance.id), theirs.compute_instances(gpu, instance.id));
        }
    }
}

/// Every pair of GPUs.
fn compare_links(ours: &dyn GpuHost, theirs: &dyn GpuHost) {
    let count = theirs.gpus().unwrap().len() as u32;
    for (from, to) in (0..=count).flat_map(|from| (0..count).map(move |to| (GpuIndex(from), GpuIndex(to)))) {
        assert_eq!(ours.link(from, to), theirs.link(from, to));
    }
}

/// A table without how its figures are known, which is where the two rightly differ.
fn figures(table: ProfileTable) -> Vec<String> {
    let row = |profile: &carve_gpu_model::GpuProfile| {
        format!(
            "{} id {} index {} slices {} most {} memory {:?} SMs {:?} {:?} at {:?}",
            profile.name,
            profile.id,
            profile.index.0,
            profile.slices,
            profile.max_instances,
            profile.memory.map(|fact| fact.value),
            profile.multiprocessors.map(|fact| fact.value),
            profile.engines,
            profile.placements
        )
    };
    let totals = format!("{} slots, {} slices, {:?}", table.slots(), table.compute_slices(), table.engines());
    table.profiles().iter().map(row).chain([totals]).collect()
}

/// Cuts a GPU into every profile in turn, wherever it may sit, and divides it; all through the C interface.
fn cut_and_divide(ours: &mut Nvml, theirs: &SharedMachine, gpu: GpuIndex) {
    let table = ours.profile_table(gpu).unwrap();
    for profile in table.profiles() {
        for at in profile.placements.iter().copied().map(Some).chain([None]) {
            let made = ours.create_gpu_instance(gpu, profile.id, at).unwrap();
            assert!(at.is_none_or(|at| at == made.placement));
            assert_eq!(theirs.gpu_instances(gpu).unwrap(), vec![made]);
            let again = ours.create_gpu_instance(gpu, profile.id, Some(made.placement)).unwrap_err();
            assert_eq!(again.failure, HostFailure::InsufficientResources);
            if at.is_none() {
                divide(ours, theirs, gpu, made.id);
            }
            ours.destroy_gpu_instance(gpu, made.id).unwrap();
            let gone = ours.destroy_gpu_instance(gpu, made.id).unwrap_err();
            assert_eq!(gone.failure, HostFailure::NotFound);
        }
    }
}

fn divide(ours: &mut Nvml, theirs: &SharedMachine, gpu: GpuIndex, instance: GpuInstanceId) {
    for offer in ours.compute_profiles(gpu, instance).unwrap() {
        let parts: Vec<_> = (0..offer.max_instances)
            .map(|_| ours.create_compute_instance(gpu, instance, offer.index).unwrap())
            .collect();
        assert_eq!(theirs.compute_instances(gpu, instance).unwrap(), parts);
        assert_eq!(ours.destroy_gpu_instance(gpu, instance).unwrap_err().failure, HostFailure::InUse);
        compare(ours, theirs);
        for part in parts {
            ours.destroy_compute_instance(gpu, instance, part.id).unwrap();
        }
    }
}

fn open(pci_devices: &Path) -> Nvml {
    Nvml::open_at(NvmlPaths {
        library: Some(built::library()),
        nvidia_smi: built::nvidia_smi(),
        pci_devices: pci_devices.to_owned(),
        smi_libraries: None,
    })
    .unwrap()
}

/// NUMA nodes as the kernel would tell them.
fn write_numa_nodes(machine: &SharedMachine, pci_devices: &Path) {
    for gpu in machine.gpus().unwrap() {
        let folder = pci_devices.join(gpu.address.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let node = gpu.numa_node.map_or(-1, i64::from);
        std::fs::write(folder.join("numa_node"), format!("{node}\n")).unwrap();
    }
}

fn in_a_process_of_its_own(test: &str, machine: &str) {
    on_machine(test, Machine::named(machine).unwrap());
}

fn on_machine(test: &str, machine: Machine) {
    with_nodes(test, machine, None);
}

/// With device nodes of these names, the child is shown what has its nodes alone.
fn with_nodes(test: &str, machine: Machine, nodes: Option<&[&str]>) {
    let name = machine.name().to_owned();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let shared = SharedMachine::open(&state, machine).unwrap();
    write_numa_nodes(&shared, &dir.path().join("pci"));
    // Built here once rather than by every child.
    built::library();
    let dev = nodes.map(|nodes| {
        let dev = dir.path().join("dev");
        std::fs::create_dir_all(dev.join("nvidia-caps")).unwrap();
        nodes.iter().for_each(|node| std::fs::write(dev.join(node), "").unwrap());
        (DEV, dev)
    });
    let output = Command::new(std::env::current_exe().unwrap())
        .envs(dev)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(STATE, &state)
        .env(built::BUILT, "yes")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} on {name}: {told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test} is no test here");
}

/// The machine of a child process, with the directory of its PCI devices; `None` in an ordinary test run.
fn given() -> Option<(SharedMachine, PathBuf)> {
    let state = PathBuf::from(std::env::var_os(STATE)?);
    let pci = state.parent()?.join("pci");
    Some((SharedMachine::attach(&state).unwrap(), pci))
}

#[test]
fn every_preset_looks_the_same_through_nvml() {
    preset_names().for_each(|preset| in_a_process_of_its_own("child_looks_and_cuts", preset));
}

#[test]
#[ignore = "run as a child process"]
fn child_looks_and_cuts() {
    let Some((mut theirs, pci)) = given() else { return };
    let mut ours = open(&pci);
    compare(&ours, &theirs);
    compare_links(&ours, &theirs);
    // The first GPU of each kind stands for its like.
    let mut names = std::collections::BTreeSet::new();
    for gpu in theirs.gpus().unwrap() {
        if !gpu.mig_capable || !names.insert(gpu.name) {
            continue;
        }
        if ours.set_mig_mode(gpu.index, true).unwrap() == ModeOutcome::NeedsReset {
            compare(&ours, &theirs);
            ours.reset(&[gpu.index]).unwrap();
        }
        assert!(ours.mig_mode(gpu.index).unwrap().unwrap().current);
        cut_and_divide(&mut ours, &theirs, gpu.index);
        let largest = theirs.profile_table(gpu.index).unwrap().profiles().last().unwrap().clone();
        let instance = theirs.create_gpu_instance(gpu.index, largest.id, None).unwrap();
        compare(&ours, &theirs);
        assert_eq!(ours.set_mig_mode(gpu.index, false).unwrap_err().failure, HostFailure::InUse);
        ours.destroy_gpu_instance(gpu.index, instance.id).unwrap();
    }
}

#[test]
fn a_fabric_over_several_machines_comes_through() {
    let text = "name: rack
gpus:
- product: gb200-186gb
  count: 2
  fabric: {cluster: 00112233-4455-6677-8899-aabbccddeeff, clique: 7}
- product: t4";
    on_machine("child_sees_the_fabric", Machine::parse(text).unwrap());
}

#[test]
#[ignore = "run as a child process"]
fn child_sees_the_fabric() {
    let Some((mut theirs, pci)) = given() else { return };
    let ours = open(&pci);
    assert_eq!(ours.fabric(GpuIndex(1)).unwrap().unwrap().clique.0, 7);
    assert_eq!(ours.fabric(GpuIndex(2)).unwrap(), None);
    compare(&ours, &theirs);
    theirs.change_world(|host| host.lose(GpuIndex(0))).unwrap();
    assert_eq!(ours.fabric(GpuIndex(0)).unwrap_err().failure, HostFailure::GpuLost);
    compare(&ours, &theirs);
}

#[test]
fn a_container_sees_its_mig_device_on_its_gpu_and_nothing_else() {
    with_nodes("child_in_a_container", Machine::named("mixed").unwrap(), Some(&["nvidia2"]));
}

#[test]
#[ignore = "run as a child process"]
fn child_in_a_container() {
    let Some((mut theirs, pci)) = given() else { return };
    let (ours, inside, outside) = (open(&pci), GpuIndex(0), GpuIndex(2));
    theirs.set_mig_mode(outside, true).unwrap();
    for _ in 0..3 {
        let instance = theirs.create_gpu_instance(outside, ProfileId(19), None).unwrap();
        theirs.create_compute_instance(outside, instance.id, ComputeProfileIndex(0)).unwrap();
    }
    let gpus = ours.gpus().unwrap();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0], carve_gpu_host::Gpu { index: inside, ..theirs.gpus().unwrap()[2].clone() });
    assert!(ours.mig_mode(inside).unwrap().unwrap().current);
    assert!(ours.mig_devices(inside).unwrap().is_empty());
    assert_eq!(ours.memory(outside).unwrap_err().failure, HostFailure::InvalidArgument);

    let last = theirs.mig_devices(outside).unwrap().pop().unwrap();
    let dev = PathBuf::from(std::env::var_os(DEV).unwrap());
    for minor in [
        gpu_instance_minor(2, last.gpu_instance),
        compute_instance_minor(2, last.gpu_instance, last.compute_instance),
    ] {
        std::fs::write(dev.join(format!("nvidia-caps/nvidia-cap{minor}")), "").unwrap();
    }
    assert_eq!(ours.mig_devices(inside).unwrap(), [carve_gpu_host::MigDevice { position: 0, ..last }]);
}

#[test]
fn processes_events_and_lost_gpus_come_through() {
    in_a_process_of_its_own("child_watches_the_world", "mixed");
}

#[test]
#[ignore = "run as a child process"]
fn child_watches_the_world() {
    let Some((mut theirs, pci)) = given() else { return };
    let mut ours = open(&pci);
    let (first, hopper) = (GpuIndex(0), GpuIndex(2));
    assert_eq!(ours.next_event(Duration::ZERO).unwrap(), None);
    theirs.change_world(|host| host.start_process(first, None, 4711, Bytes(3 << 30), 40)).unwrap().unwrap();
    ours.set_mig_mode(hopper, true).unwrap();
    let largest = ours.profile_table(hopper).unwrap().profiles().last().unwrap().clone();
    let instance = ours.create_gpu_instance(hopper, largest.id, None).unwrap();
    let offer = ours.compute_profiles(hopper, instance.id).unwrap()[0];
    let part = ours.create_compute_instance(hopper, instance.id, offer.index).unwrap();
    let inside = Some((instance.id, part.id));
    theirs
        .change_world(|host| host.start_process(hopper, inside, 4712, Bytes(1 << 30), 10))
        .unwrap()
        .unwrap();
    compare(&ours, &theirs);
    let busy = ours.destroy_compute_instance(hopper, instance.id, part.id).unwrap_err();
    assert_eq!(busy.failure, HostFailure::InUse);

    assert_eq!(ours.reset(&[first]).unwrap_err().failure, HostFailure::InUse);
    assert!(ours.reset_report().unwrap().contains("in use"), "{:?}", ours.reset_report());

    // The reset gave the watch back; waiting starts a new one.
    assert_eq!(ours.next_event(Duration::ZERO).unwrap(), None);
    let event =
        GpuEvent { gpu: hopper, xid: 94, gpu_instance: Some(instance.id), compute_instance: Some(part.id) };
    theirs.change_world(|host| host.raise(event)).unwrap();
    assert_eq!(ours.next_event(Duration::from_secs(180)).unwrap(), Some(event));
    assert_eq!(ours.next_event(Duration::from_millis(30)).unwrap(), None);

    theirs.change_world(|host| host.need_recovery(hopper, RecoveryAction::DrainPeers)).unwrap();
    assert_eq!(ours.recovery_action(hopper).unwrap(), Some(RecoveryAction::DrainPeers));
    assert_eq!(ours.recovery_action(first).unwrap(), Some(RecoveryAction::NoneNeeded));
    theirs.change_world(|host| host.lose(first)).unwrap();
    assert_eq!(ours.recovery_action(first).unwrap_err().failure, HostFailure::GpuLost);
    compare(&ours, &theirs);
    compare_links(&ours, &theirs);
    drop(ours);
    // Somebody who never saw the lost GPU sees the others all the same.
    let mut newcomer = open(&pci);
    let rest: Vec<_> = newcomer.gpus().unwrap().into_iter().map(|gpu| gpu.index.0).collect();
    assert_eq!(rest, [1, 2, 3]);
    assert_eq!(newcomer.next_event(Duration::ZERO).unwrap(), None);
    // Once it is found again, it is watched as the others are, soon.
    theirs.change_world(|host| host.find_again(first)).unwrap();
    assert_eq!(newcomer.next_event(Duration::from_secs(2)).unwrap(), None);
    assert_eq!(newcomer.next_event(Duration::ZERO).unwrap(), None);
    let event = GpuEvent { gpu: first, xid: 48, gpu_instance: None, compute_instance: None };
    theirs.change_world(|host| host.raise(event)).unwrap();
    assert_eq!(newcomer.next_event(Duration::from_secs(180)).unwrap(), Some(event));
}

#[test]
fn how_busy_devices_are_comes_through() {
    in_a_process_of_its_own("child_asks_how_busy", "mixed");
}

#[test]
#[ignore = "run as a child process"]
fn child_asks_how_busy() {
    let Some((mut theirs, pci)) = given() else { return };
    let mut ours = open(&pci);
    let (older, hopper) = (GpuIndex(0), GpuIndex(2));
    for (gpu, percent) in [(older, 40), (hopper, 25)] {
        let started =
            theirs.change_world(|host| host.start_process(gpu, None, 4711 + gpu.0, Bytes(1), percent));
        started.unwrap().unwrap();
    }
    assert_eq!(ours.busy(hopper, None).unwrap(), None, "there is nothing yet to compare with");
    assert_eq!(ours.busy(hopper, None).unwrap(), Some(BusyPart(250_000)));
    theirs.change_world(|host| host.end_process(4711 + hopper.0)).unwrap();
    assert_eq!(ours.busy(hopper, None).unwrap(), Some(BusyPart(125_000)), "one sample saw it");
    assert_eq!(ours.busy(hopper, None).unwrap(), Some(BusyPart(0)));

    // The driver looks at older ones several times a second.
    assert_eq!(ours.busy(older, None).unwrap(), None);
    let mut noted = None;
    for _ in 0..600 {
        noted = ours.busy(older, None).unwrap();
        if noted.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(noted, Some(BusyPart(400_000)));
    assert_eq!(ours.busy(older, Some(GpuInstanceId(1))).unwrap(), None, "it is not cut");

    ours.set_mig_mode(hopper, true).unwrap();
    let instance = ours.create_gpu_instance(hopper, ProfileId(19), None).unwrap().id;
    let offer = ours.compute_profiles(hopper, instance).unwrap()[0];
    let part = ours.create_compute_instance(hopper, instance, offer.index).unwrap().id;
    let started =
        theirs.change_world(|host| host.start_process(hopper, Some((instance, part)), 4713, Bytes(1), 10));
    started.unwrap().unwrap();
    assert_eq!(ours.busy(hopper, None).unwrap(), None, "its instances are told");
    assert_eq!(ours.busy(hopper, Some(instance)).unwrap(), None);
    assert_eq!(ours.busy(hopper, Some(instance)).unwrap(), Some(BusyPart(100_000)));
    theirs.change_world(|host| host.end_process(4713)).unwrap();
    ours.destroy_compute_instance(hopper, instance, part).unwrap();
    ours.destroy_gpu_instance(hopper, instance).unwrap();
    assert_eq!(ours.busy(hopper, Some(instance)).unwrap_err().failure, HostFailure::NotFound);
    assert_eq!(ours.busy(GpuIndex(9), None).unwrap_err().failure, HostFailure::InvalidArgument);
    theirs.change_world(|host| host.lose(older)).unwrap();
    assert_eq!(ours.busy(older, None).unwrap_err().failure, HostFailure::GpuLost);
}

#[test]
fn what_is_not_nvml_is_told_apart() {
    let absent = Nvml::open(Some(Path::new("/nowhere/libnvidia-ml.so.1"))).unwrap_err();
    assert!(matches!(&absent, OpenError::LibraryNotFound { refusals } if refusals.len() == 1), "{absent:?}");
    assert!(absent.to_string().contains("/nowhere/libnvidia-ml.so.1"), "{absent}");
    // A library that is there but another one; the C library is in every process.
    let other = Nvml::open(Some(Path::new("libc.so.6"))).unwrap_err();
    assert!(matches!(other, OpenError::SymbolMissing { symbol: "nvmlInit_v2", .. }), "{other:?}");
}

#[test]
fn wrong_settings_look_like_a_driver_that_is_not_there() {
    in_a_process_of_its_own("child_finds_no_driver", "a30");
}

#[test]
#[ignore = "run as a child process"]
fn child_finds_no_driver() {
    let Some((theirs, _)) = given() else { return };
    std::fs::write(theirs.path(), "no state").unwrap();
    let error = Nvml::open(Some(&built::library())).unwrap_err();
    assert!(matches!(error, OpenError::DriverNotLoaded), "{error:?}");
}
