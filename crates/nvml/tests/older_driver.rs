//! A library as old drivers had it: few functions, first versions only. What can be told is told, the rest says why.

use carve_gpu_host::{GpuHost, HostFailure, ProcessKind, Readings, RecoveryAction, Verb};
use carve_gpu_model::{Bytes, GpuIndex, PciAddress, PciId, ProfileId};
use carve_nvml::{Nvml, OpenError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const GPU: GpuIndex = GpuIndex(0);

/// Two GPUs, of which the second is lost. `INIT` is what initialisation answers.
const SOURCE: &str = r#"
#include <string.h>
typedef unsigned int u; typedef unsigned long long ull;
typedef struct { char legacy[16]; u domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { ull total, free, used; } memory;
typedef struct { u pid; ull used; } process;
typedef struct { unsigned char cluster[16]; u status, clique; unsigned char state; } fabric;
static int here;
u nvmlInit_v2(void) { return INIT; }
u nvmlShutdown(void) { return 0; }
u nvmlDeviceGetCount_v2(u *n) { *n = 2; return 0; }
u nvmlDeviceGetHandleByIndex_v2(u i, void **d) { *d = &here; return i == 0 ? 0 : i == 1 ? 15 : 2; }
u nvmlSystemGetDriverVersion(char *t, u n) { strncpy(t, "450.80.02", n); return 0; }
u nvmlSystemGetCudaDriverVersion(int *v) { *v = 11000; return 0; }
u nvmlDeviceGetName(void *d, char *t, u n) { strncpy(t, "Tesla T4", n); return 0; }
u nvmlDeviceGetUUID(void *d, char *t, u n) { strncpy(t, "GPU-1", n); return 0; }
u nvmlDeviceGetMinorNumber(void *d, u *n) { *n = 3; return 0; }
u nvmlDeviceGetPciInfo_v2(void *d, pci *p) { p->domain = 1; p->bus = 2; p->device = 3; p->id = 0x1EB810DE; return 0; }
u nvmlDeviceGetCudaComputeCapability(void *d, int *a, int *b) { *a = 7; *b = 5; return 0; }
u nvmlDeviceGetMemoryInfo(void *d, memory *m) { m->total = 1000; m->free = 900; m->used = 100; return 0; }
u nvmlDeviceGetComputeRunningProcesses(void *d, u *n, process *p) {
    /* More than the first guess of a caller, and one of them twice. */
    u have = 101;
    if (*n < have) { *n = have; return 7; }
    for (u i = 0; i < have; i++) { p[i].pid = i == 100 ? 42 : i; p[i].used = i == 7 ? ~0ULL : 5; }
    *n = have; return 0;
}
u nvmlDeviceGetGpuFabricInfo(void *d, fabric *f) {
    /* On the way, failed, on its own, and at last a member. */
    static int asked;
    memset(f, 0, sizeof *f);
    f->state = asked == 0 ? 2 : 3;
    f->status = asked == 1 ? 999 : 0;
    f->cluster[15] = asked == 2 ? 0 : 0xAB;
    f->clique = 5;
    asked++; return 0;
}
"#;

/// Fields as later drivers have them, one answer after the other: not a field, not for this GPU, a number of another
/// kind, a failure of the call, a known action, and one that nobody has heard of yet.
const FIELDS: &str = r#"
typedef struct { u id, scope; long long at, took; u kind, code; union { u number; ull large; } value; } field;
u nvmlDeviceGetFieldValues(void *d, int n, field *f) {
    static int asked;
    if (n != 1 || f->id != 230) return 2;
    asked++;
    f->code = asked == 1 ? 2 : asked == 2 ? 3 : 0;
    f->kind = asked == 3 ? 3 : 1;
    f->value.number = asked == 5 ? 2 : 99;
    return asked == 4 ? 15 : 0;
}
"#;

/// Builds the library; `None` where there is no C compiler, which linking Rust needs anyway.
fn build(folder: &Path, source_text: &str, init: u32) -> Option<PathBuf> {
    let source = folder.join("old.c");
    let library = folder.join(format!("libold-{init}.so"));
    std::fs::write(&source, source_text).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", &format!("-DINIT={init}"), "-o"])
        .args([&library, &source])
        .status();
    match status {
        Ok(status) => {
            assert!(status.success());
            Some(library)
        }
        Err(error) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "cc: {error}, and CI must not skip");
            eprintln!("SKIPPED: cc: {error}");
            None
        }
    }
}

#[test]
fn first_versions_serve_and_the_rest_says_that_it_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = build(dir.path(), SOURCE, 0) else { return };
    let mut host = Nvml::open(Some(&library)).unwrap();
    let driver = host.driver().unwrap();
    assert_eq!((driver.version.as_str(), driver.cuda), ("450.80.02", (11, 0)));
    let gpus = host.gpus().unwrap();
    assert_eq!(gpus.len(), 1, "the lost one was never seen");
    let gpu = &gpus[0];
    assert_eq!((gpu.name.as_str(), gpu.minor, gpu.memory), ("Tesla T4", 3, Bytes(1000)));
    assert_eq!(gpu.address, PciAddress { domain: 1, bus: 2, device: 3 });
    assert_eq!((gpu.pci_id, gpu.subsystem), (PciId::nvidia(0x1EB8), None));
    assert!(!gpu.mig_capable);
    assert_eq!(host.memory(GPU).unwrap().used, Bytes(100));
    let processes = host.processes(GPU).unwrap();
    assert_eq!(processes.len(), 100);
    assert!(processes.iter().all(|one| one.kind == ProcessKind::Compute && one.gpu_instance.is_none()));
    assert_eq!((processes[6].memory, processes[7].memory), (Some(Bytes(5)), None));

    assert_eq!(host.mig_mode(GPU).unwrap(), None);
    assert_eq!((host.gpu_instances(GPU).unwrap(), host.mig_devices(GPU).unwrap()), (vec![], vec![]));
    let missing = |failure| assert_eq!(failure, HostFailure::FunctionNotFound);
    missing(host.utilisation(GPU).unwrap_err().failure);
    assert_eq!(host.busy(GPU, None).unwrap(), None);
    assert_eq!(host.readings(GPU).unwrap(), Readings::default());
    missing(host.profile_table(GPU).unwrap_err().failure);
    missing(host.set_mig_mode(GPU, true).unwrap_err().failure);
    missing(host.create_gpu_instance(GPU, ProfileId(19), None).unwrap_err().failure);
    assert_eq!(host.memory(GpuIndex(1)).unwrap_err().failure, HostFailure::GpuLost);
    assert_eq!(host.recovery_action(GPU).unwrap(), None);
    assert_eq!(host.recovery_action(GpuIndex(1)).unwrap_err().failure, HostFailure::GpuLost);
    for _ in 0..3 {
        assert_eq!(host.fabric(GPU).unwrap(), None);
    }
    let fabric = host.fabric(GPU).unwrap().unwrap();
    assert_eq!(format!("{}.{}", fabric.cluster, fabric.clique), "00000000-0000-0000-0000-0000000000ab.5");
    let started = Instant::now();
    assert_eq!(host.next_event(Duration::from_millis(30)).unwrap(), None);
    assert!(started.elapsed() >= Duration::from_millis(30), "waits even though nothing can come");
}

#[test]
fn a_field_that_is_no_answer_is_told_from_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = build(dir.path(), &format!("{SOURCE}{FIELDS}"), 0) else { return };
    let host = Nvml::open(Some(&library)).unwrap();
    for cannot_tell in ["no such field", "not supported", "another kind of number"] {
        assert_eq!(host.recovery_action(GPU).unwrap(), None, "{cannot_tell}");
    }
    let lost = host.recovery_action(GPU).unwrap_err();
    assert_eq!((lost.verb, lost.failure), (Verb::RecoveryAction, HostFailure::GpuLost));
    assert_eq!(host.recovery_action(GPU).unwrap(), Some(RecoveryAction::Reboot));
    assert_eq!(host.recovery_action(GPU).unwrap(), Some(RecoveryAction::Other(99)));
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    for (code, expected) in [
        (9, "the NVIDIA kernel driver is not loaded"),
        (4, "no permission"),
        (18, "different versions"),
        (999, "driver error 999"),
    ] {
        let Some(library) = build(dir.path(), SOURCE, code) else { return };
        let error = Nvml::open(Some(&library)).unwrap_err();
        assert!(!matches!(error, OpenError::LibraryNotFound { .. }));
        assert!(error.to_string().contains(expected), "{error}");
    }
}
