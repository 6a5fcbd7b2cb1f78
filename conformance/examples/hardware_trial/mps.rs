//! MPS: shares are offered once a client has proved their limits, clients see these limits, and the daemon outlives the agent.

use crate::bare::Bare;
use crate::clients::{View, look, vector_add};
use crate::node::{Listed, Node};
use crate::report::{Report, Stopped};
use carve_kubelet_api::device_plugin::ContainerAllocateResponse;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const PART: &str = "MPS";
const REPLICAS: usize = 4;
/// Four shares of every GPU by MPS.
const CONFIG: &str = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n";
/// The most that a context was seen to take of a client's memory, rounded up.
const CONTEXT_MIB: u64 = 1024;
/// How long a daemon may take to go.
const LEAVING: Duration = Duration::from_secs(60);

/// What the daemon was told about each client.
struct Limits {
    memory_mib: u64,
    percent: u64,
}

/// Shares, clients, a kill.
pub(crate) async fn shares(
    node: &mut Node,
    report: &mut Report,
    bare: &dyn Fn(&str) -> Result<Bare, String>,
) -> Result<(), Stopped> {
    let told = |error: std::io::Error| error.to_string();
    let started = node.configure(CONFIG).and_then(|()| node.start()).map_err(told);
    report.row(PART, "the agent starts with 4 shares by MPS", started.map(|()| "started".to_owned()))?;
    let since = Instant::now();
    let lists = node.lists_until(|list| list.healthy > 0).await;
    // Looked at now: whatever the agent had said before it offered anything is in its log.
    let proved = node.said().lines().any(|line| line.contains("MPS") && line.contains("state=\"ready\""));
    let clients = clients_so_far(node);
    let offered = lists.clone().and_then(|lists| {
        let last = lists.last().ok_or("no list")?;
        let whole = last.ids.len() / REPLICAS;
        let right = last.healthy == last.ids.len() && last.healthy == whole * REPLICAS;
        let seen = format!("{} of {} healthy after {:.1?}", last.healthy, last.ids.len(), since.elapsed());
        if right { Ok(seen) } else { Err(seen) }
    });
    report.row(PART, "4 shares of each GPU are offered", offered)?;
    let lists = lists.unwrap_or_default();
    report.row(
        PART,
        "nothing is offered before a client has proved the limits",
        before_proof(&lists, proved, clients),
    )?;

    let ids = lists.last().map(|list| list.ids.clone()).unwrap_or_default();
    let part = ids.first().and_then(|id| id.split("::").next()).unwrap_or_default().to_owned();
    let pair: Vec<&String> = ids.iter().filter(|id| id.starts_with(&part)).take(2).collect();
    let (answer, second) = match pair.as_slice() {
        [one, two] => (node.allocate(one).await, node.allocate(two).await),
        _ => (Err("there are no two shares of one GPU".to_owned()), Err(String::new())),
    };
    let way = answer.clone().and_then(|answer| way_to_daemon(&answer, &part));
    report.row(PART, "the answer to Allocate leads to the daemon of the GPU", way)?;
    let (Ok(answer), Ok(second)) = (answer, second) else { return Err(Stopped) };
    let limits = read_limits(node, &part);
    let limits_seen =
        limits.as_ref().map(|limits| format!("{} MiB, {} %", limits.memory_mib, limits.percent));
    report.row(PART, "the daemon was told limits", limits_seen.map_err(Clone::clone))?;
    let Ok(limits) = limits else { return Err(Stopped) };

    let file = node.cdi();
    let containers = file.and_then(|file| {
        let without_mps =
            ContainerAllocateResponse { cdi_devices: answer.cdi_devices.clone(), ..Default::default() };
        Ok([
            bare("one")?.admit(&answer, &file)?,
            bare("two")?.admit(&second, &file)?,
            bare("alone")?.admit(&without_mps, &file)?,
        ])
    });
    let [one, two, alone] = match containers {
        Ok(containers) => containers,
        Err(why) => {
            report.row(PART, "containers are made as the answer says", Err(why))?;
            return Err(Stopped);
        }
    };
    let whole = look(&alone);
    report.row(
        PART,
        "a client without the daemon sees the whole GPU",
        whole.as_ref().map(ToString::to_string).map_err(Clone::clone),
    )?;
    let Ok(whole) = whole else { return Err(Stopped) };
    let before = clients_so_far(node);
    for (name, view) in ["one", "two"].into_iter().zip(together(&one, &two, look)) {
        let seen = view.and_then(|view| is_limited(&view, &whole, &limits));
        report.row(PART, format!("client {name} sees its share and no more"), seen)?;
    }
    for (name, sums) in ["one", "two"].into_iter().zip(together(&one, &two, vector_add)) {
        report.row(PART, format!("client {name} adds vectors beside the other"), sums)?;
    }
    let served = match (before, clients_so_far(node)) {
        (Some(before), Some(now)) if now == before + 4 => {
            Ok(format!("{} clients more than before", now - before))
        }
        (Some(before), Some(now)) => Err(format!("{before} clients before, {now} after")),
        _ => Ok("the stand-in does not log clients".to_owned()),
    };
    report.row(PART, "all four programs were clients of the daemon", served)?;
    survives_a_kill(node, report, &part, &one, (&whole, &limits)).await
}

/// Does something in both containers at the same time.
fn together<T: Send>(
    one: &Bare,
    two: &Bare,
    act: impl Fn(&Bare) -> Result<T, String> + Sync,
) -> [Result<T, String>; 2] {
    std::thread::scope(|scope| {
        let second = scope.spawn(|| act(two));
        let first = act(one);
        [first, second.join().unwrap_or_else(|_| Err("the thread of a client died".to_owned()))]
    })
}

/// How many clients the daemons have had, by their own logs, in which one may stand several times. The stand-in for the
/// daemon does not notice clients.
fn clients_so_far(node: &Node) -> Option<usize> {
    let simulated = std::env::var_os("CARVE_SIM_STATE").is_some();
    let log = |part: &String| {
        let path = node.path("mps").join(part).join("log/control.log");
        let text = fs::read_to_string(path).unwrap_or_default();
        let pids = text.split("NEW CLIENT ").skip(1).filter_map(|rest| rest.split(' ').next());
        pids.collect::<BTreeSet<&str>>().len()
    };
    (!simulated).then(|| node.files("mps").iter().map(log).sum())
}

fn before_proof(lists: &[Listed], proved: bool, clients: Option<usize>) -> Result<String, String> {
    let before: Vec<String> =
        lists.iter().map(|list| format!("{} of {}", list.healthy, list.ids.len())).collect();
    let ready = if proved { "the daemon was called ready before" } else { "the daemon was not called ready" };
    let served = clients.map(|clients| format!(", and had served {clients} client(s)")).unwrap_or_default();
    let seen = format!("healthy: {}; {ready}{served}", before.join(", then "));
    if proved && clients != Some(0) { Ok(seen) } else { Err(seen) }
}

fn way_to_daemon(answer: &ContainerAllocateResponse, part: &str) -> Result<String, String> {
    let env = |name: &str| answer.envs.get(name).cloned().unwrap_or_default();
    let pipe = env("CUDA_MPS_PIPE_DIRECTORY");
    let mounted = answer.mounts.iter().any(|mount| mount.container_path == pipe);
    let shm = answer.mounts.iter().any(|mount| mount.container_path == "/dev/shm");
    let seen = format!("pipe {pipe}, device {}", env("CUDA_VISIBLE_DEVICES"));
    if mounted && shm && env("CUDA_VISIBLE_DEVICES") == part { Ok(seen) } else { Err(format!("{answer:?}")) }
}

/// The agent's own note beside the daemon.
fn read_limits(node: &Node, part: &str) -> Result<Limits, String> {
    let path = node.path("mps").join(part).join("limits");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).ok_or_else(|| format!("no {name} in: {text}"))
    };
    Ok(Limits { memory_mib: number("memory-mib")?, percent: number("threads-percent")? })
}

/// Memory and threads of a client, held against its limits and against the whole GPU.
fn is_limited(view: &View, whole: &View, limits: &Limits) -> Result<String, String> {
    let share = limits.memory_mib * REPLICAS as u64;
    // All shares together are the GPU, less what the driver keeps.
    let divided = share <= whole.total_mib && share * 10 >= whole.total_mib * 9;
    let memory = view.free_mib <= limits.memory_mib && view.free_mib + CONTEXT_MIB >= limits.memory_mib;
    // Multiprocessors are given in pairs.
    let threads = whole.multiprocessors * limits.percent / 100;
    let computing = view.multiprocessors <= threads && view.multiprocessors + 2 > threads;
    let seen = format!(
        "{} of {} MiB free under a limit of {}, {} of {} multiprocessors",
        view.free_mib, whole.total_mib, limits.memory_mib, view.multiprocessors, whole.multiprocessors
    );
    if divided && memory && computing { Ok(seen) } else { Err(seen) }
}

async fn survives_a_kill(
    node: &mut Node,
    report: &mut Report,
    part: &str,
    client: &Bare,
    (whole, limits): (&View, &Limits),
) -> Result<(), Stopped> {
    let before = daemon(node, part);
    let killed = node.kill();
    let lives = killed.and_then(|()| before.clone()).and_then(|pid| {
        let lives = Path::new("/proc").join(pid.to_string()).exists();
        if lives { Ok(format!("process {pid} lives")) } else { Err(format!("process {pid} is gone")) }
    });
    report.row(PART, "the agent is killed (SIGKILL); the daemon lives on", lives)?;
    let started = node.start().map_err(|error| error.to_string());
    let again = match started {
        Ok(()) => node.lists_until(|list| list.healthy > 0 && list.healthy == list.ids.len()).await,
        Err(why) => Err(why),
    };
    let adopted = again.and(daemon(node, part)).and_then(|now| {
        let seen = format!("process {now}");
        if before.as_ref() == Ok(&now) { Ok(seen) } else { Err(format!("{seen}, before {before:?}")) }
    });
    report.row(PART, "the next agent takes over the same daemon", adopted)?;
    let seen = look(client).and_then(|view| is_limited(&view, whole, limits));
    report.row(PART, "a client sees the same share as before", seen)
}

/// Shared no longer: the daemon ends and leaves nothing.
pub(crate) async fn retire(node: &Node, report: &mut Report, gpus: usize) -> Result<Listed, Stopped> {
    let configured = node.configure("version: v1\n").map_err(|error| error.to_string());
    let lists = match configured {
        Ok(()) => node.lists_until(|list| list.ids.len() == gpus && list.healthy == gpus).await,
        Err(why) => Err(why),
    };
    let last = lists.as_ref().ok().and_then(|lists| lists.last().cloned());
    let seen = lists.map(|_| format!("{gpus} whole GPU(s) offered"));
    report.row(PART, "without sharing, whole GPUs are offered", seen)?;
    let give_up = Instant::now() + LEAVING;
    while !(daemons(node).is_empty() && node.files("mps").is_empty()) && Instant::now() < give_up {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (daemons, files) = (daemons(node), node.files("mps"));
    let seen = format!("{} process(es) of MPS, {} folder(s)", daemons.len(), files.len());
    let gone = if daemons.is_empty() && files.is_empty() {
        Ok(seen)
    } else {
        Err(format!("{seen}: {daemons:?} {files:?}"))
    };
    report.row(PART, "and the daemon ends with its files", gone)?;
    last.ok_or(Stopped)
}

/// The process of a part's daemon, as it says itself.
fn daemon(node: &Node, part: &str) -> Result<u32, String> {
    let path = node.path("mps").join(part).join("pipe/nvidia-cuda-mps-control.pid");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.trim().parse().map_err(|_| format!("{}: '{text}' is no process", path.display()))
}

/// Every process of MPS that works in the node's folder.
pub(crate) fn daemons(node: &Node) -> Vec<u32> {
    let folder = node.path("mps").display().to_string();
    let is_ours = |pid: &u32| {
        let process = Path::new("/proc").join(pid.to_string());
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        // The kernel keeps 15 letters of a name.
        name.starts_with("nvidia-cuda-mps") && String::from_utf8_lossy(&environment).contains(&folder)
    };
    crate::node::names_in(Path::new("/proc"))
        .iter()
        .filter_map(|name| name.parse().ok())
        .filter(is_ours)
        .collect()
}

/// After a trial that broke off: ends daemons and takes away their mounts.
pub(crate) fn put_away(node: &Node) {
    for pid in daemons(node) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    for part in node.files("mps") {
        let _ = unmount(node.path("mps").join(part).join("shm"), UnmountFlags::DETACH);
    }
}
