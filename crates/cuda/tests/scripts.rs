//! Children that are no probes: shell scripts in the place of the program, to see what the parent makes of them.
//!
//! One test function, because a script that one thread still writes while another starts a process can not be run.

use carve_cuda::{Answer, Probe, ProbeVerb, RunError, run_probe};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that does what a shell script says, instead of probing.
fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("script");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn scripts_in_the_place_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    what_steers_cuda_comes_from_the_probe_alone(folder.path());
    children_that_do_not_answer_are_reported_as_what_they_are(folder.path());
}

fn what_steers_cuda_comes_from_the_probe_alone(folder: &Path) {
    // Prints what it was given, as an answer that can not be taken for one.
    let mut probe = Probe::new(script(
        folder,
        "echo \"$CUDA_DEVICE_ORDER/$CUDA_VISIBLE_DEVICES/$CUDA_MPS_PIPE_DIRECTORY/$*\"",
    ));
    probe.env.insert("CUDA_VISIBLE_DEVICES".into(), "GPU-x".into());
    probe.library = Some("/lib/cuda".into());
    let Err(RunError::Garbled { found, .. }) = run_probe(&probe, ProbeVerb::Look) else { panic!() };
    assert_eq!(found, "PCI_BUS_ID/GPU-x//cuda-probe look --device 0 --library /lib/cuda");
}

fn children_that_do_not_answer_are_reported_as_what_they_are(folder: &Path) {
    let absent = Probe::new("/nowhere/carve").look().unwrap_err();
    assert!(matches!(&absent, RunError::NotStarted { .. }), "{absent:?}");
    let killed = Probe::new(script(folder, "echo the driver is gone >&2; kill -SEGV $$")).look();
    let Err(RunError::NoAnswer { said, status, .. }) = &killed else { panic!("{killed:?}") };
    assert_eq!((said.as_str(), status.code()), ("the driver is gone", None));
    let other = r#"echo '{"answer":{"look":{"name":"x","uuid":"8932f937-d72c-4106-c12f-20bd9faed9f6","free":1,"total":2,"multiprocessors":3}}}'"#;
    let probe = Probe::new(script(folder, other));
    assert!(matches!(run_probe(&probe, ProbeVerb::Look), Ok(Answer::Look(_))));
    assert!(matches!(probe.vector_add(), Err(RunError::Garbled { .. })), "an answer to another question");
    // More than a pipe holds, so that a child waits for a reader unless there is one.
    let flood = Probe::new(script(folder, "yes | head -c 1000000; yes >&2 | head -c 1000000 >&2")).look();
    assert!(matches!(&flood, Err(RunError::Garbled { found, .. }) if found.starts_with("y\ny")), "{flood:?}");
}
