//! The stand-in for `nvidia-smi` on a shared machine.

use carve_gpu_host::{GpuHost, Machine, ModeOutcome};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_sim_store::SharedMachine;
use std::path::Path;
use std::process::{Command, Output};

fn smi(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvidia-smi"))
        .args(arguments)
        .env("CARVE_SIM_STATE", state)
        .output()
        .unwrap()
}

#[test]
fn resets_the_named_gpus_only() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let mut machine = SharedMachine::open(&state, Machine::named("p4d.24xlarge").unwrap()).unwrap();
    let gpus = machine.gpus().unwrap();
    for gpu in &gpus {
        assert_eq!(machine.set_mig_mode(gpu.index, true).unwrap(), ModeOutcome::NeedsReset);
    }
    let named = format!("{},{}", gpus[1].address.nvml_bus_id(), gpus[2].address);
    assert!(smi(&state, &["-r", "-i", &named]).status.success());
    assert!(smi(&state, &["--gpu-reset", "--id", "3"]).status.success());
    assert!(smi(&state, &["--gpu-reset", &format!("--id={}", gpus[4].uuid)]).status.success());
    let on: Vec<bool> =
        gpus.iter().map(|gpu| machine.mig_mode(gpu.index).unwrap().unwrap().current).collect();
    assert_eq!(on, [false, true, true, true, true, false, false, false]);

    machine.change_world(|host| host.start_process(GpuIndex(0), None, 7, Bytes(1), 1)).unwrap().unwrap();
    let busy = smi(&state, &["-r", "-i", "0"]);
    assert_eq!(busy.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&busy.stderr).contains("in use"));
}

#[test]
fn lists_gpus_and_refuses_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let mut machine = SharedMachine::open(&state, Machine::named("h200").unwrap()).unwrap();
    let gpu = GpuIndex(0);
    machine.set_mig_mode(gpu, true).unwrap();
    let instance = machine.create_gpu_instance(gpu, carve_gpu_model::ProfileId(9), None).unwrap();
    let index = carve_gpu_model::ComputeProfileIndex(0);
    machine.create_compute_instance(gpu, instance.id, index).unwrap();
    let listed = smi(&state, &["-L"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(text.starts_with("GPU 0: NVIDIA H200 (UUID: GPU-"), "{text}");
    assert!(text.contains("\n  MIG 1c.3g.71gb Device 0: (UUID: MIG-"), "{text}");
    for wrong in [&["-q"][..], &[], &["-r", "-i"], &["-r", "-i", "17"]] {
        let output = smi(&state, wrong);
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
    assert!(!smi(&dir.path().join("absent.json"), &["-L"]).status.success());
}
