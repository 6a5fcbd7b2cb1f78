//! Several handles, threads and processes on one state file; killed writers; files that hold something else.

use carve_gpu_host::{GpuEvent, GpuHost, HostFailure, Machine, ModeOutcome};
use carve_gpu_model::{Bytes, ComputeInstanceId, ComputeProfileIndex, GpuIndex, ProfileId};
use carve_sim_store::{SharedMachine, StoreError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const GPU: GpuIndex = GpuIndex(0);
const ONE_SLICE: ProfileId = ProfileId(19);
const CHILD_FILE: &str = "CARVE_TEST_STATE_FILE";

fn h200() -> Machine {
    Machine::named("h200").unwrap()
}

fn cut_machine(path: &Path) -> SharedMachine {
    let mut machine = SharedMachine::open(path, h200()).unwrap();
    assert_eq!(machine.set_mig_mode(GPU, true).unwrap(), ModeOutcome::Done);
    machine
}

/// Creates and destroys one instance; a full GPU is no error, because others cut it too.
fn one_round(machine: &mut SharedMachine) {
    let instance = match machine.create_gpu_instance(GPU, ONE_SLICE, None) {
        Ok(instance) => instance,
        Err(error) => {
            assert_eq!(error.failure, HostFailure::InsufficientResources);
            return;
        }
    };
    let part = machine.create_compute_instance(GPU, instance.id, ComputeProfileIndex(0)).unwrap();
    machine.destroy_compute_instance(GPU, instance.id, part.id).unwrap();
    machine.destroy_gpu_instance(GPU, instance.id).unwrap();
}

#[test]
fn two_handles_see_each_others_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/down/state.json");
    let mut one = cut_machine(&path);
    let two = SharedMachine::attach(&path).unwrap();
    assert!(two.mig_mode(GPU).unwrap().unwrap().current);
    let made = one.create_gpu_instance(GPU, ONE_SLICE, None).unwrap();
    assert_eq!(two.gpu_instances(GPU).unwrap(), vec![made]);
    let mut three = SharedMachine::open(&path, h200()).unwrap();
    three.destroy_gpu_instance(GPU, made.id).unwrap();
    assert_eq!(one.gpu_instances(GPU).unwrap(), vec![]);
    assert_eq!(one.state().unwrap(), two.state().unwrap());
}

#[test]
fn a_verb_that_fails_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let mut machine = cut_machine(&path);
    machine.create_gpu_instance(GPU, ProfileId(0), None).unwrap();
    let before = std::fs::read(&path).unwrap();
    let full = machine.create_gpu_instance(GPU, ONE_SLICE, None).unwrap_err();
    assert_eq!(full.failure, HostFailure::InsufficientResources);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn the_world_changes_for_everybody_and_events_come_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let mut one = cut_machine(&path);
    let xid = |xid| GpuEvent { gpu: GPU, xid, gpu_instance: None, compute_instance: None };
    one.change_world(|host| host.raise(xid(48))).unwrap();
    // A handle opened later missed that one, as a process started later would.
    let mut two = SharedMachine::attach(&path).unwrap();
    assert_eq!(two.next_event(Duration::ZERO).unwrap(), None);
    let raiser = std::thread::spawn({
        let path = path.clone();
        move || {
            std::thread::sleep(Duration::from_millis(50));
            let mut three = SharedMachine::attach(&path).unwrap();
            three.change_world(|host| host.raise(xid(79))).unwrap();
        }
    });
    let started = Instant::now();
    assert_eq!(two.next_event(Duration::from_secs(180)).unwrap(), Some(xid(79)));
    assert!(
        started.elapsed() < Duration::from_secs(170),
        "it is woken, it does not wait until the time is up"
    );
    raiser.join().unwrap();
    assert_eq!(one.next_event(Duration::ZERO).unwrap(), Some(xid(48)));
    assert_eq!(one.next_event(Duration::ZERO).unwrap(), Some(xid(79)));
    assert_eq!(one.next_event(Duration::from_millis(15)).unwrap(), None);

    let instance = one.create_gpu_instance(GPU, ONE_SLICE, None).unwrap();
    let part = one.create_compute_instance(GPU, instance.id, ComputeProfileIndex(0)).unwrap();
    two.change_world(|host| host.start_process(GPU, Some((instance.id, part.id)), 4711, Bytes(1 << 30), 50))
        .unwrap()
        .unwrap();
    let busy = one.destroy_compute_instance(GPU, instance.id, ComputeInstanceId(0)).unwrap_err();
    assert_eq!(busy.failure, HostFailure::InUse);
    two.change_world(|host| host.lose(GPU)).unwrap();
    assert_eq!(one.memory(GPU).unwrap_err().failure, HostFailure::GpuLost);
}

#[test]
fn eight_writers_keep_the_state_legal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    cut_machine(&path);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut machine = SharedMachine::attach(&path).unwrap();
                (0..50).for_each(|_| one_round(&mut machine));
            });
        }
        let children: Vec<_> = (0..4).map(|_| spawn_child("child_does_fifty_rounds", &path)).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
    });
    let machine = SharedMachine::attach(&path).unwrap();
    assert_eq!(machine.gpu_instances(GPU).unwrap(), vec![]);
}

#[test]
fn a_killed_writer_leaves_a_readable_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    cut_machine(&path);
    for round in 0..25u64 {
        let mut child = spawn_child("child_writes_for_ever", &path);
        std::thread::sleep(Duration::from_millis(20 + round * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut machine = SharedMachine::attach(&path).unwrap();
        for instance in machine.gpu_instances(GPU).unwrap() {
            for part in machine.compute_instances(GPU, instance.id).unwrap() {
                machine.destroy_compute_instance(GPU, instance.id, part.id).unwrap();
            }
            machine.destroy_gpu_instance(GPU, instance.id).unwrap();
        }
    }
}

#[test]
fn files_that_hold_something_else_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let good = {
        cut_machine(&path);
        std::fs::read(&path).unwrap()
    };
    let half = &good[..good.len() / 2];
    let later = br#"{"format": 2, "state": {}}"#;
    let other_gpus =
        String::from_utf8(good.clone()).unwrap().replace(r#""gpus":[{"mode""#, r#""gpus":[{},{"mode""#);
    for bytes in [&b""[..], b"\0\xff\xfe", b"hello", b"[]", b"{}", half, later, other_gpus.as_bytes()] {
        std::fs::write(&path, bytes).unwrap();
        for error in
            [SharedMachine::open(&path, h200()).unwrap_err(), SharedMachine::attach(&path).unwrap_err()]
        {
            assert!(matches!(error, StoreError::Garbage { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains("state.json") && text.contains("remove it to start the machine anew"),
                "{text}"
            );
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn another_machine_in_the_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    cut_machine(&path);
    let error = SharedMachine::open(&path, Machine::named("a30").unwrap()).unwrap_err().to_string();
    for part in ["state.json", "'h200'", "'a30'", "remove the file"] {
        assert!(error.contains(part), "{error}");
    }
    let renamed = Machine::parse("name: h200\ngpus: [{product: h200-141gb, count: 2}]").unwrap();
    assert!(matches!(SharedMachine::open(&path, renamed), Err(StoreError::ChangedMachine { .. })));
    let nowhere = dir.path().join("nowhere/state.json");
    assert!(matches!(SharedMachine::attach(&nowhere), Err(StoreError::Absent { .. })));
}

#[test]
fn a_file_that_vanishes_is_told_by_the_verb() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let mut machine = cut_machine(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(machine.gpus().unwrap_err().failure, HostFailure::Other(999));
    assert!(matches!(machine.take_trouble(), Some(StoreError::Absent { .. })));
    assert!(machine.set_mig_mode(GPU, false).is_err());
    assert!(!path.exists());
}

fn spawn_child(test: &str, path: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored"])
        .env(CHILD_FILE, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn child_machine() -> Option<SharedMachine> {
    let path = PathBuf::from(std::env::var_os(CHILD_FILE)?);
    Some(SharedMachine::attach(&path).unwrap())
}

#[test]
#[ignore = "run as a child process by the tests above"]
fn child_does_fifty_rounds() {
    if let Some(mut machine) = child_machine() {
        (0..50).for_each(|_| one_round(&mut machine));
    }
}

#[test]
#[ignore = "run as a child process by the tests above"]
fn child_writes_for_ever() {
    if let Some(mut machine) = child_machine() {
        loop {
            one_round(&mut machine);
        }
    }
}
