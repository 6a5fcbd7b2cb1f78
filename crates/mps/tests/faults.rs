//! What becomes of a part when its daemon dies, hangs, refuses or lies.

mod support;

use carve_gpu_model::{Bytes, Mebibytes};
use carve_mps::{ClientProbe, Mps, MpsSettings, PartState, PartStatus, ProbeError, Seen};
use carve_slicing::PartId;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::{Machine, failed, limits, lives, part, ready, until, want};

fn failures(status: &PartStatus) -> u32 {
    match &status.state {
        PartState::Failed(failure) => failure.times,
        _ => 0,
    }
}

#[tokio::test]
async fn waits_grow_while_daemons_die_at_their_start() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    machine.break_at(&gpu, "start:die");
    let mut mps = Mps::new(machine.settings(), None);
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    for (times, milliseconds) in [(1, 10), (2, 20), (3, 40), (4, 40)] {
        let status = until(&mut statuses, &gpu, |status| failures(status) >= times).await;
        let PartState::Failed(failure) = &status.state else { panic!("{status:?}") };
        assert_eq!(failure.reason, "Died");
        assert!(failure.message.contains("a fault was asked for"), "its last words: {}", failure.message);
        if failure.times == times {
            assert_eq!(failure.retry_in, Duration::from_millis(milliseconds));
        }
    }
    machine.repair(&gpu);
    ready(&mut statuses, &gpu).await;
}

#[tokio::test]
async fn a_part_whose_limits_are_not_taken_is_never_ready() {
    for (number, (fault, reason)) in [
        ("set_default_device_pinned_mem_limit:ignore", "LimitsNotTaken"),
        ("set_default_active_thread_percentage:ignore", "LimitsNotTaken"),
        ("set_default_device_pinned_mem_limit:refuse", "Control"),
        ("get_default_device_pinned_mem_limit:ignore", "LimitsNotTaken"),
        ("get_default_active_thread_percentage:ignore", "Answer"),
        ("set_default_device_pinned_mem_limit:die", "Control"),
    ]
    .into_iter()
    .enumerate()
    {
        let (machine, gpu) = (Machine::new(), part(&format!("GPU-{number}")));
        machine.break_at(&gpu, fault);
        let mut mps = Mps::new(machine.settings(), None);
        let mut statuses = mps.status();
        let mut ready_once = false;
        want(&mut mps, &gpu, limits(4_096, 25));
        let status = until(&mut statuses, &gpu, |status| {
            ready_once |= status.is_ready();
            failures(status) >= 3
        })
        .await;
        let PartState::Failed(failure) = &status.state else { panic!("{status:?}") };
        assert!(!ready_once, "{fault}");
        assert!([reason, "Absent"].contains(&failure.reason), "{fault}: {failure:?}");
        assert!(!machine.root().join(gpu.as_str()).join("limits").exists(), "nobody may adopt it");
        machine.repair(&gpu);
        let status = ready(&mut statuses, &gpu).await;
        assert!(!status.adopted, "{fault}");
    }
}

#[tokio::test]
async fn a_daemon_outlives_those_who_ask_and_are_gone_before_it_answers() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let mut mps = Mps::new(machine.settings(), None);
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    let pid = machine.pid(&gpu);
    for question in ["get_default_active_thread_percentage\n", "no such command\n", "get_ser"] {
        let mut stream = UnixStream::connect(machine.root().join(gpu.as_str()).join("pipe/control")).unwrap();
        // Nobody will read the answer, as when whoever asked was killed.
        stream.shutdown(Shutdown::Read).unwrap();
        stream.write_all(question.as_bytes()).unwrap();
    }
    assert_eq!(machine.tell(&gpu, "get_default_active_thread_percentage\n"), "25.0\n");
    assert!(lives(pid) && machine.pid(&gpu) == pid, "it is the same one");
}

#[tokio::test]
async fn a_daemon_that_hangs_fails_and_is_kept_for_its_clients() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let settings = MpsSettings { answer_timeout: Duration::from_secs(2), ..machine.settings() };
    let mut mps = Mps::new(settings, None);
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    machine.tell(&gpu, "sim_attach 11 0");
    let pid = machine.pid(&gpu);
    machine.break_at(&gpu, "get_server_list:hang");
    let status = failed(&mut statuses, &gpu, "NoAnswer").await;
    assert!(status.state.to_string().contains("`get_server_list` within 2.0 s"), "{}", status.state);
    assert!(lives(pid));
    machine.repair(&gpu);
    let status = until(&mut statuses, &gpu, |status| status.is_ready() && status.clients == 1).await;
    assert_eq!((machine.pid(&gpu), status.clients), (pid, 1), "the same daemon with the same client");
}

#[tokio::test]
async fn a_daemon_that_hangs_before_it_is_ready_is_not_kept() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    machine.break_at(&gpu, "set_default_active_thread_percentage:hang");
    let settings = MpsSettings { answer_timeout: Duration::from_secs(2), ..machine.settings() };
    let mut mps = Mps::new(settings, None);
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    failed(&mut statuses, &gpu, "NoAnswer").await;
    machine.repair(&gpu);
    ready(&mut statuses, &gpu).await;
    assert!(
        !machine.commands(&gpu).contains(&"quit".to_owned()),
        "it was killed at once, not found and ended later"
    );
    let starts = machine.commands(&gpu).iter().filter(|command| command.starts_with("start")).count();
    assert!(starts >= 2);
}

/// A client that came before the limits has a server without them, whatever the daemon says of later ones.
#[tokio::test]
async fn a_server_without_the_limits_is_found_out() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let mut mps = Mps::new(machine.settings(), None);
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    for command in [
        "set_default_device_pinned_mem_limit GPU-1 9000M",
        "sim_attach 11 0",
        "set_default_device_pinned_mem_limit GPU-1 4096M",
    ] {
        machine.tell(&gpu, command);
    }
    until(&mut statuses, &gpu, |status| status.state == PartState::WrongLimits { clients: 1 }).await;
    assert!(!machine.commands(&gpu).contains(&"quit".to_owned()));
    machine.tell(&gpu, "sim_detach 11");
    ready(&mut statuses, &gpu).await;
    assert_eq!(machine.tell(&gpu, "get_server_list"), "");
}

/// A client that sees what a test says.
#[derive(Debug)]
struct Sees(AtomicU64);

impl ClientProbe for Sees {
    fn look(&self, pipe: &Path, part: &PartId) -> Result<Seen, ProbeError> {
        assert!(pipe.join("control").exists(), "a daemon listens before a client looks");
        match self.0.load(Ordering::SeqCst) {
            u64::MAX => Err(ProbeError { part: part.clone(), source: "no driver".into() }),
            free => Ok(Seen { free: Bytes(free) }),
        }
    }
}

#[tokio::test]
async fn a_client_that_sees_too_much_keeps_a_part_from_being_ready() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let probe = Arc::new(Sees(AtomicU64::new(u64::MAX)));
    let mut mps = Mps::new(machine.settings(), Some(probe.clone()));
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    let status = failed(&mut statuses, &gpu, "Probe").await;
    assert!(status.state.to_string().contains("no driver"), "{}", status.state);
    probe.0.store(Mebibytes(142_565).bytes().0, Ordering::SeqCst);
    let status = failed(&mut statuses, &gpu, "NotHeld").await;
    assert!(status.state.to_string().contains("sees 142565 MiB free under a limit of 4096 MiB"));
    probe.0.store(Mebibytes(3_951).bytes().0, Ordering::SeqCst);
    ready(&mut statuses, &gpu).await;
}

#[tokio::test]
async fn a_missing_control_program_is_named() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let mut mps = Mps::new(
        MpsSettings { control_program: "/nowhere/nvidia-cuda-mps-control".into(), ..machine.settings() },
        None,
    );
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    let status = failed(&mut statuses, &gpu, "Control").await;
    let text = status.state.to_string();
    assert!(text.contains("/nowhere/nvidia-cuda-mps-control could not be run"), "{text}");
    assert!(text.contains("No such file"), "{text}");

    let outside = part("../GPU-1");
    want(&mut mps, &outside, limits(4_096, 25));
    failed(&mut statuses, &outside, "Directory").await;
}
