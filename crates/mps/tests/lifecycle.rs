//! Daemons from start to end, driven against the stand-in for the control program.

mod support;

use carve_mps::{IdleDaemons, Mps, MpsSettings, PartState, UserId, UserMode};
use carve_slicing::PartId;
use std::collections::BTreeMap;
use std::process::Command;
use support::{Machine, gone, kill, limits, lives, part, ready, settings, until, want};

fn mps(settings: MpsSettings) -> (Mps, support::Statuses) {
    let mps = Mps::new(settings, None);
    let statuses = mps.status();
    (mps, statuses)
}

#[tokio::test]
async fn limits_are_set_and_read_back_before_a_part_is_ready() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let (mut mps, mut statuses) = mps(machine.settings());
    want(&mut mps, &gpu, limits(35_635, 25));
    let status = ready(&mut statuses, &gpu).await;
    assert!(!status.adopted);
    let commands: Vec<String> =
        machine.commands(&gpu).into_iter().skip_while(|command| !command.starts_with("set")).collect();
    assert_eq!(
        commands[..4],
        [
            "set_default_device_pinned_mem_limit GPU-1 35635M",
            "set_default_active_thread_percentage 25",
            "get_default_active_thread_percentage",
            "get_default_device_pinned_mem_limit GPU-1",
        ]
    );
    let pipe = machine.root().join("GPU-1/pipe");
    let log = machine.root().join("GPU-1/log");
    assert_eq!(
        machine.log_file(&gpu, "environment"),
        format!(
            "CUDA_MPS_LOG_DIRECTORY={}\nCUDA_MPS_PIPE_DIRECTORY={}\nCUDA_VISIBLE_DEVICES=GPU-1",
            log.display(),
            pipe.display()
        ),
        "and nothing of this process's environment"
    );
}

#[tokio::test]
async fn each_part_has_a_daemon_of_its_own() {
    let (machine, gpu, mig) = (Machine::new(), part("GPU-1"), part("MIG-2"));
    let (mut mps, mut statuses) = mps(machine.settings());
    mps.ensure(&BTreeMap::from([(gpu.clone(), limits(4_096, 25)), (mig.clone(), limits(2_048, 50))]));
    ready(&mut statuses, &gpu).await;
    ready(&mut statuses, &mig).await;
    assert_ne!(machine.pid(&gpu), machine.pid(&mig));
    for (part, other, percentage) in [(&gpu, &mig, "25.0\n"), (&mig, &gpu, "50.0\n")] {
        assert_eq!(machine.tell(part, "get_default_active_thread_percentage"), percentage);
        let foreign = format!("get_default_device_pinned_mem_limit {other}");
        assert_eq!(machine.tell(part, &foreign), "", "a daemon knows its own part only");
    }
}

/// Run by the test below as a process of its own, to be killed.
#[tokio::test]
#[ignore = "is a part of another test"]
async fn owner_that_is_killed() {
    let root = std::env::var("CARVE_TEST_MPS_ROOT").unwrap();
    let program = std::env::var("CARVE_TEST_MPS_PROGRAM").unwrap();
    let mut mps = Mps::new(settings(root.as_ref(), program.as_ref()), None);
    want(&mut mps, &part("GPU-1"), limits(4_500, 25));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_owner_leaves_its_daemon_to_the_next() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["owner_that_is_killed", "--exact", "--ignored"])
        .env("CARVE_TEST_MPS_ROOT", machine.root())
        .env("CARVE_TEST_MPS_PROGRAM", machine.program())
        .spawn()
        .unwrap();
    while !machine.root().join("GPU-1/limits").exists() {
        assert!(owner.try_wait().unwrap().is_none(), "the owner ended before it had made its daemon ready");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    machine.tell(&gpu, "sim_attach 11 0");
    let pid = machine.pid(&gpu);
    owner.kill().unwrap();
    owner.wait().unwrap();

    let (mut mps, mut statuses) = mps(machine.settings());
    want(&mut mps, &gpu, limits(4_500, 25));
    let status = ready(&mut statuses, &gpu).await;
    assert!(status.adopted);
    assert_eq!((status.clients, machine.pid(&gpu)), (1, pid));
    let told = machine.commands(&gpu);
    assert_eq!(told.iter().filter(|command| command.starts_with("start")).count(), 1);
    assert_eq!(told.iter().filter(|command| command.starts_with("set_")).count(), 2, "no limit is touched");
    assert!(!told.contains(&"quit".to_owned()));
}

/// 4 500 and 4 600 MiB are both told as `4G`: only the note tells them apart.
#[tokio::test]
async fn other_limits_wait_for_clients_to_leave() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let (mut mps, mut statuses) = mps(machine.settings());
    want(&mut mps, &gpu, limits(4_500, 25));
    ready(&mut statuses, &gpu).await;
    let pid = machine.pid(&gpu);
    machine.tell(&gpu, "sim_attach 11 0");
    machine.tell(&gpu, "sim_attach 12 0");

    want(&mut mps, &gpu, limits(4_600, 25));
    until(&mut statuses, &gpu, |status| status.state == PartState::WrongLimits { clients: 2 }).await;
    machine.tell(&gpu, "sim_detach 11");
    until(&mut statuses, &gpu, |status| status.state == PartState::WrongLimits { clients: 1 }).await;
    assert!(!machine.commands(&gpu).contains(&"quit".to_owned()));
    assert_eq!(machine.pid(&gpu), pid);

    machine.tell(&gpu, "sim_detach 12");
    let status = ready(&mut statuses, &gpu).await;
    assert_eq!(status.limits, Some(limits(4_600, 25)));
    assert_ne!(machine.pid(&gpu), pid);
    assert!(machine.commands(&gpu).contains(&"set_default_device_pinned_mem_limit GPU-1 4600M".to_owned()));
}

#[tokio::test]
async fn a_part_no_longer_wanted_keeps_its_daemon_while_it_is_used() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let (mut mps, mut statuses) = mps(machine.settings());
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    machine.tell(&gpu, "sim_attach 11 0");
    let pid = machine.pid(&gpu);

    mps.ensure(&BTreeMap::new());
    until(&mut statuses, &gpu, |status| status.state == PartState::Leaving { clients: 1 }).await;
    assert!(lives(pid) && !machine.commands(&gpu).contains(&"quit".to_owned()));
    // Wanted again after all: the same daemon serves on.
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    assert_eq!(machine.pid(&gpu), pid);

    mps.ensure(&BTreeMap::new());
    until(&mut statuses, &gpu, |status| status.state == PartState::Leaving { clients: 1 }).await;
    machine.tell(&gpu, "sim_detach 11");
    gone(&mut statuses, &gpu).await;
    assert!(!lives(pid) && !machine.root().join("GPU-1").exists());
    // And from nothing again.
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
}

#[tokio::test]
async fn shutdown_spares_daemons_with_clients() {
    let (machine, used, idle) = (Machine::new(), part("GPU-1"), part("GPU-2"));
    let wanted = BTreeMap::from([(used.clone(), limits(4_096, 25)), (idle.clone(), limits(4_096, 25))]);
    let start = async |adopted: bool| {
        let (mut mps, mut statuses) = mps(machine.settings());
        mps.ensure(&wanted);
        for part in [&used, &idle] {
            assert_eq!(ready(&mut statuses, part).await.adopted, adopted);
        }
        mps
    };
    let first = start(false).await;
    machine.tell(&used, "sim_attach 11 0");
    let (used_pid, idle_pid) = (machine.pid(&used), machine.pid(&idle));
    first.shutdown(IdleDaemons::Keep).await;
    assert!(lives(used_pid) && lives(idle_pid));
    start(true).await.shutdown(IdleDaemons::Quit).await;
    assert!(lives(used_pid));
    assert_eq!(machine.tell(&used, "get_client_list 900001"), "11\n");
    assert_eq!(machine.tell(&idle, "get_server_list"), "Cannot find MPS control daemon process\n");
}

#[tokio::test]
async fn daemons_of_an_earlier_process_that_nobody_wants_end() {
    let (machine, gpu, other) = (Machine::new(), part("GPU-1"), part("GPU-2"));
    let (mut first, mut statuses) = mps(machine.settings());
    want(&mut first, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    first.shutdown(IdleDaemons::Keep).await;

    let (mut next, mut statuses) = mps(machine.settings());
    want(&mut next, &other, limits(4_096, 25));
    ready(&mut statuses, &other).await;
    while machine.root().join("GPU-1").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(!statuses.borrow().contains_key(&gpu));
}

#[tokio::test]
async fn a_dead_daemon_is_replaced_with_its_limits() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let (mut mps, mut statuses) = mps(machine.settings());
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    let pid = machine.pid(&gpu);
    kill(pid);
    // A status is seen until the next one, so that whoever is slow to look misses that it was dead and finds another daemon.
    let another = || machine.pid(&gpu) != pid;
    let dead = until(&mut statuses, &gpu, |status| !status.is_ready() || another()).await;
    if let PartState::Failed(why) = &dead.state {
        assert_eq!(why.reason, "Died");
        assert!(dead.state.to_string().contains("signal: 9"), "{}", dead.state);
    }
    until(&mut statuses, &gpu, |status| status.is_ready() && another()).await;
    assert_eq!(machine.tell(&gpu, "get_default_device_pinned_mem_limit GPU-1"), "4G\n");

    // An adopted one has no parent here, so its silence tells.
    mps.shutdown(IdleDaemons::Keep).await;
    let (mut mps, mut statuses) = self::mps(machine.settings());
    want(&mut mps, &gpu, limits(4_096, 25));
    assert!(ready(&mut statuses, &gpu).await.adopted);
    kill(machine.pid(&gpu));
    let dead = until(&mut statuses, &gpu, |status| !status.is_ready() || !status.adopted).await;
    if let PartState::Failed(why) = &dead.state {
        assert_eq!(why.reason, "Absent");
    }
    until(&mut statuses, &gpu, |status| status.is_ready() && !status.adopted).await;
}

async fn two_users(machine: &Machine, gpu: &PartId, mode: UserMode) -> carve_mps::PartStatus {
    let (mut mps, mut statuses) = mps(MpsSettings { users: mode, ..machine.settings() });
    want(&mut mps, gpu, limits(4_096, 25));
    ready(&mut statuses, gpu).await;
    machine.tell(gpu, "sim_attach 11 0");
    machine.tell(gpu, "sim_attach 12 1000");
    machine.tell(gpu, "sim_attach 13 0");
    let connected = if machine.commands(gpu)[0] == "start multi-user" { 3 } else { 2 };
    until(&mut statuses, gpu, |status| status.clients == connected).await
}

#[tokio::test]
async fn users_are_served_together_or_those_who_wait_are_named() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let together = two_users(&machine, &gpu, UserMode::Together).await;
    assert_eq!(machine.commands(&gpu)[0], "start multi-user");
    assert!(together.users.waiting.is_empty() && together.remarks.is_empty(), "{together:?}");

    let apart = part("GPU-2");
    let status = two_users(&machine, &apart, UserMode::OneAtATime).await;
    assert_eq!(machine.commands(&apart)[0], "start");
    assert_eq!(status.users.served, Some(UserId(0)));
    assert_eq!(status.users.waiting, [UserId(1000)].into());
    assert!(status.remarks[0].contains("user 1000 wait"), "{:?}", status.remarks);

    // A control program that does not know multi-user mode is not asked for it.
    let old = part("GPU-3");
    machine.break_at(&old, "help:refuse");
    two_users(&machine, &old, UserMode::Together).await;
    assert_eq!(machine.commands(&old)[0], "start");
}

#[tokio::test]
async fn compute_mode_is_touched_only_when_asked_for_and_only_of_whole_gpus() {
    let machine = Machine::new();
    let (smi_program, record) = machine.recording_smi();
    for set_compute_mode in [false, true] {
        let settings =
            MpsSettings { set_compute_mode, smi_program: smi_program.clone(), ..machine.settings() };
        let (mut mps, mut statuses) = mps(settings);
        let (gpu, mig) = (part("GPU-1"), part("MIG-1"));
        mps.ensure(&BTreeMap::from([(gpu.clone(), limits(4_096, 25)), (mig.clone(), limits(4_096, 25))]));
        ready(&mut statuses, &gpu).await;
        ready(&mut statuses, &mig).await;
        mps.shutdown(IdleDaemons::Quit).await;
        assert_eq!(record.exists(), set_compute_mode);
    }
    let told = std::fs::read_to_string(&record).unwrap();
    assert_eq!(told, "-i GPU-1 -c EXCLUSIVE_PROCESS\n-i GPU-1 -c DEFAULT\n");
}

#[tokio::test]
async fn a_long_log_is_emptied_and_read_on() {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let settings = MpsSettings { longest_log: 2_000, users: UserMode::OneAtATime, ..machine.settings() };
    let (mut mps, mut statuses) = mps(settings);
    want(&mut mps, &gpu, limits(4_096, 25));
    ready(&mut statuses, &gpu).await;
    let asked = |machine: &Machine| machine.commands(&gpu).len();
    // Each command is a line of at least fifty bytes in the log.
    while asked(&machine) < 200 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(machine.log_file(&gpu, "control.log").len() < 4_000);
    machine.tell(&gpu, "sim_attach 11 7");
    until(&mut statuses, &gpu, |status| status.users.served == Some(UserId(7))).await;
}
