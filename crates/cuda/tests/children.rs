//! Probes as child processes on simulated machines: what they see, how they fail, and that none outstays its time.

mod support;

use carve_cuda::{DeviceChoice, ProbeVerb, RunError};
use carve_gpu_host::GpuHost;
use carve_gpu_model::{Bytes, GpuIndex, Mebibytes};
use std::path::Path;
use std::time::Duration;
use support::Simulated;

fn failed(result: Result<impl std::fmt::Debug, RunError>) -> (String, String) {
    match result {
        Err(RunError::Failed { reason, message }) => (reason, message),
        other => panic!("expected a failed probe, not {other:?}"),
    }
}

#[test]
fn a_client_sees_the_gpu_that_nvml_sees() {
    let mut simulated = Simulated::named("h200");
    let gpu = simulated.machine.gpus().unwrap().remove(0);
    let memory = simulated.machine.memory(gpu.index).unwrap();
    let seen = simulated.probe([]).look().unwrap();
    assert_eq!((seen.name.as_str(), seen.multiprocessors), ("NVIDIA H200", 132));
    assert_eq!(seen.uuid, gpu.uuid.0.parse().unwrap());
    assert_eq!(seen.total, Bytes(memory.total.0 - memory.reserved.0));
    let overhead = seen.total.0 - seen.free.0;
    assert_eq!(Bytes(overhead).whole_mebibytes(), Mebibytes(513), "a context takes memory too");

    // What others hold is not free.
    let held = Mebibytes(10_000).bytes();
    simulated
        .machine
        .change_world(|host| host.start_process(gpu.index, None, 4711, held, 0))
        .unwrap()
        .unwrap();
    let beside = simulated.probe([]).look().unwrap();
    assert_eq!(seen.free.0 - beside.free.0, held.0);
    assert_eq!(beside.total, seen.total);
}

#[test]
fn every_device_adds_right_by_number_and_by_uuid() {
    let simulated = Simulated::named("mixed");
    for gpu in simulated.machine.gpus().unwrap() {
        let uuid: DeviceChoice = gpu.uuid.0.parse().unwrap();
        for device in [DeviceChoice::Ordinal(gpu.index.0), uuid] {
            let mut probe = simulated.probe([]);
            probe.device = device;
            let added = probe.vector_add().unwrap();
            assert_eq!((added.elements, added.device.as_str()), (1 << 20, gpu.name.as_str()));
            assert_eq!(DeviceChoice::Uuid(added.uuid), uuid);
            assert!(added.milliseconds > 0.0);
        }
    }
}

#[test]
fn a_mig_device_is_seen_by_its_uuid_alone() {
    let mut simulated = Simulated::named("h200");
    let (small, large) = (simulated.cut(19), simulated.cut(9));
    for mig in [&small, &large] {
        let probe = simulated.probe([("CUDA_VISIBLE_DEVICES", mig.uuid.0.as_str())]);
        let seen = probe.look().unwrap();
        assert_eq!(seen.uuid, mig.uuid.0.parse().unwrap());
        let profile = if mig.uuid == small.uuid { "1g.18gb" } else { "3g.71gb" };
        assert_eq!(seen.name, format!("NVIDIA H200 MIG {profile}"));
        assert_eq!((seen.total, seen.multiprocessors), (mig.memory.bytes(), mig.multiprocessors));
        assert_eq!(probe.vector_add().unwrap().uuid, seen.uuid);
    }
    // Without the variable a process sees the first one.
    let first = simulated.machine.mig_devices(GpuIndex(0)).unwrap().remove(0);
    assert_eq!(simulated.probe([]).look().unwrap().uuid, first.uuid.0.parse().unwrap());
    // The other part is there, but not for a process that was given this one.
    let mut other = simulated.probe([("CUDA_VISIBLE_DEVICES", small.uuid.0.as_str())]);
    other.device = large.uuid.0.parse().unwrap();
    let (reason, message) = failed(other.look());
    assert_eq!(reason, "device-not-seen");
    assert!(message.contains(&large.uuid.0[4..]) && message.contains(&small.uuid.0[4..]), "{message}");
}

#[test]
fn limits_of_mps_show_to_its_clients() {
    let simulated = Simulated::named("h200");
    let pipe = simulated.folder.path().join("pipe");
    std::fs::create_dir(&pipe).unwrap();
    let probe = simulated.probe([("CUDA_MPS_PIPE_DIRECTORY", pipe.to_str().unwrap())]);
    let free = simulated.probe([]).look().unwrap();
    assert_eq!(probe.look().unwrap(), free, "no limits, no difference");

    // What a real H200 tells under the same limits.
    let limits = pipe.join("carve-sim-limits");
    std::fs::write(&limits, "pinned_mib=4096\npercentage=50\n").unwrap();
    let seen = probe.look().unwrap();
    assert_eq!((seen.total, seen.multiprocessors), (free.total, 66));
    // Half of the multiprocessors, so about half of the context's memory.
    assert_eq!(seen.free.whole_mebibytes(), Mebibytes(4096 - 271));
    std::fs::write(&limits, "pinned_mib=4096\n").unwrap();
    let seen = probe.look().unwrap();
    assert_eq!((seen.free.whole_mebibytes(), seen.multiprocessors), (Mebibytes(3582), 132));
    assert!(probe.vector_add().is_ok());
    // Somebody who is not a client is not limited.
    assert_eq!(simulated.probe([]).look().unwrap(), free);

    std::fs::write(&limits, "pinned_mib=520\n").unwrap();
    let (reason, message) = failed(probe.vector_add());
    assert_eq!(reason, "cuda-refused");
    assert!(
        message.contains("allocate 4194304 bytes") && message.contains("CUDA_ERROR_OUT_OF_MEMORY, 2"),
        "{message}"
    );
    std::fs::write(&limits, "pinned_mib=500\n").unwrap();
    assert!(failed(probe.look()).1.contains("make a context on device 0"));
    std::fs::write(&limits, "nonsense\n").unwrap();
    assert!(failed(probe.look()).1.contains("CUDA_ERROR_MPS_CONNECTION_FAILED, 805"));
}

#[test]
fn a_gpu_that_is_full_refuses_and_says_what_was_asked() {
    let mut simulated = Simulated::named("h200");
    let gpu = GpuIndex(0);
    let memory = simulated.machine.memory(gpu).unwrap();
    let all = Bytes(memory.total.0 - memory.reserved.0);
    simulated.machine.change_world(|host| host.start_process(gpu, None, 4711, all, 0)).unwrap().unwrap();
    let (reason, message) = failed(simulated.probe([]).vector_add());
    assert_eq!(reason, "cuda-refused");
    assert!(message.contains("make a context") && message.contains("another process may hold"), "{message}");
}

#[test]
fn no_library_and_no_device_are_told_apart() {
    let simulated = Simulated::named("h200");
    let mut absent = simulated.probe([]);
    absent.library = Some("/nowhere/libcuda.so.1".into());
    assert_eq!(failed(absent.look()).0, "library-not-found");
    let mut other = simulated.probe([]);
    other.library = Some("libc.so.6".into());
    let (reason, message) = failed(other.look());
    assert_eq!(reason, "symbol-missing");
    assert!(message.contains("cuInit"), "{message}");
    for nothing in ["", "-1", "7"] {
        let (reason, message) = failed(simulated.probe([("CUDA_VISIBLE_DEVICES", nothing)]).look());
        assert_eq!(reason, "no-device");
        assert!(message.contains("CUDA_VISIBLE_DEVICES"), "{message}");
    }
    let (reason, message) = failed(simulated.probe([("CUDA_VISIBLE_DEVICES", "0,0")]).look());
    assert_eq!(reason, "cuda-does-not-start");
    assert!(
        message.contains("CUDA_ERROR_INVALID_DEVICE, 101") && message.contains("named twice"),
        "{message}"
    );
    assert_eq!(failed(Simulated::named("none").probe([]).look()).0, "no-device");
    let mut ninth = simulated.probe([]);
    ninth.device = DeviceChoice::Ordinal(9);
    assert_eq!(failed(ninth.look()).0, "device-not-seen");
}

#[test]
fn one_wrong_sum_and_a_dead_kernel_are_noticed() {
    let simulated = Simulated::named("h200");
    let (reason, message) = failed(simulated.probe([("CARVE_SIM_CUDA_FAULT", "wrong-sum")]).vector_add());
    assert_eq!(reason, "wrong-sum");
    assert!(message.contains("gave 1 wrong sums of 1048576; the first at element 524288"), "{message}");
    let (reason, message) = failed(simulated.probe([("CARVE_SIM_CUDA_FAULT", "launch-fails")]).vector_add());
    assert_eq!(reason, "cuda-refused");
    assert!(
        message.contains("finish the work") && message.contains("CUDA_ERROR_LAUNCH_FAILED, 719"),
        "{message}"
    );
    // The same machine without the faults is well.
    assert!(simulated.probe([]).vector_add().is_ok());
    let (_, message) = failed(simulated.probe([("CARVE_SIM_CUDA_FAULT", "typo")]).look());
    assert!(message.contains("CUDA_ERROR_UNKNOWN"), "{message}");
}

/// The processes that were started with this state file in their environment.
fn living(state: &Path) -> usize {
    let wanted = format!("CARVE_SIM_STATE={}", state.display());
    let environments = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let folder = entry.ok()?.path();
        folder.file_name()?.to_str()?.parse::<u32>().ok()?;
        std::fs::read(folder.join("environ")).ok()
    });
    let given =
        |environment: &Vec<u8>| environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes());
    environments.filter(given).count()
}

#[test]
fn a_hanging_kernel_is_killed_and_leaves_nobody_behind() {
    let simulated = Simulated::named("h200");
    let mut probe = simulated.probe([("CARVE_SIM_CUDA_FAULT", "hang")]);
    probe.timeout = Duration::from_secs(3);
    let error = probe.vector_add().unwrap_err();
    let RunError::TimedOut { verb: ProbeVerb::VectorAdd, ended: true, .. } = error else {
        panic!("{error:?}")
    };
    assert!(error.to_string().contains("had not finished after 3 s and was killed; "), "{error}");
    assert_eq!(living(simulated.machine.path()), 0);
    // Only the kernel hangs; a look does not start one.
    probe.timeout = Duration::from_secs(120);
    assert!(probe.look().is_ok());
}
