//! A daemon in a cgroup of its own outlives the container of the process that started it; one without does not.
//!
//! A runtime ends a container by killing what is in its cgroup, and so does this test, with real cgroups. They lie below
//! the test's own, so that the limits it runs under go on holding.

mod support;

use carve_mps::{CgroupHome, IdleDaemons, Mps, MpsSettings};
use rustix::process::{Pid, Signal, geteuid, getpgid, kill_process};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Machine, limits, part, ready, settings, want};

const SYSTEM: &str = "/sys/fs/cgroup";
/// Far longer than anything takes; only a test that fails waits so long.
const AT_MOST: Duration = Duration::from_secs(180);
const AGAIN: Duration = Duration::from_millis(10);
/// Names for the process that plays a container, besides those of its machine.
const CONTAINER: &str = "CARVE_TEST_CONTAINER_CGROUPS";
const ROOT: &str = "CARVE_TEST_CGROUP_ROOT";
const NAME: &str = "CARVE_TEST_CGROUP_NAME";

/// Which hierarchies a test plays with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// That of the second version alone, which many machines have beside the others.
    Unified,
}

/// The test's own place in every hierarchy, with a cgroup for a container and one for daemons below it.
struct Cgroups {
    places: Vec<PathBuf>,
    /// Links to the places, as a root with all hierarchies has them.
    _links: tempfile::TempDir,
    container: String,
    home: CgroupHome,
}

impl Cgroups {
    /// `None`, and said so, where this machine does not let us.
    fn new(test: &str, which: Which) -> Option<Self> {
        Self::make(test, which)
            .map_err(|error| {
                let must = std::env::var("CI").as_deref() == Ok("true") && geteuid().is_root();
                assert!(!must, "cgroups: {error}, and CI must not skip");
                eprintln!("SKIPPED: cgroups: {error}");
            })
            .ok()
    }

    fn make(test: &str, which: Which) -> io::Result<Self> {
        let links = tempfile::tempdir()?;
        let unified_only = Path::new(SYSTEM).join("cgroup.controllers").exists();
        let mut places = Vec::new();
        for line in fs::read_to_string("/proc/self/cgroup")?.lines() {
            let fields: Vec<&str> = line.splitn(3, ':').collect();
            let [_, name, path] = fields[..] else { continue };
            let folder = match name.strip_prefix("name=").unwrap_or(name) {
                "" if unified_only => PathBuf::from(SYSTEM),
                "" => Path::new(SYSTEM).join("unified"),
                name => Path::new(SYSTEM).join(name),
            };
            let place = folder.join(path.trim_start_matches('/'));
            let wanted = which == Which::All || name.is_empty();
            if wanted && place.join("cgroup.procs").exists() {
                std::os::unix::fs::symlink(&place, links.path().join(format!("{}", places.len())))?;
                places.push(place);
            }
        }
        if places.is_empty() {
            return Err(io::Error::other(format!("{SYSTEM} holds none of this process")));
        }
        let id = std::process::id();
        let one = places[0].join("cgroup.controllers").exists() && places.len() == 1;
        let root = if one { places[0].clone() } else { links.path().to_owned() };
        let home = CgroupHome { root, name: format!("carve-test-mps-{test}-{id}") };
        let cgroups =
            Cgroups { places, _links: links, container: format!("carve-test-container-{test}-{id}"), home };
        for container in cgroups.containers() {
            fs::create_dir(&container)?;
            for file in ["cpuset.cpus", "cpuset.mems"] {
                // In the first version a cgroup without them takes no process.
                if let Ok(all) = fs::read(container.with_file_name(file)) {
                    let _ = fs::write(container.join(file), all);
                }
            }
        }
        // Whether processes may be moved shows only when one is.
        let mut probe = Command::new("sleep").arg("60").spawn()?;
        let moved = cgroups
            .containers()
            .try_for_each(|container| fs::write(container.join("cgroup.procs"), probe.id().to_string()));
        probe.kill()?;
        probe.wait()?;
        moved.map(|()| cgroups)
    }

    fn containers(&self) -> impl Iterator<Item = PathBuf> {
        self.places.iter().map(|place| place.join(&self.container))
    }

    /// Kills everything in the container once; answers whether anything was there.
    fn kill_container(&self) -> bool {
        let read =
            |container: PathBuf| fs::read_to_string(container.join("cgroup.procs")).unwrap_or_default();
        let text: String = self.containers().map(read).collect();
        for pid in text.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        !text.is_empty()
    }

    /// Ends the container as a runtime does.
    fn end_container(&self) {
        let started = Instant::now();
        while self.kill_container() {
            assert!(started.elapsed() < AT_MOST, "the container does not end");
            std::thread::sleep(AGAIN);
        }
    }
}

impl Drop for Cgroups {
    /// A cgroup can be removed as soon as its last process is gone altogether.
    fn drop(&mut self) {
        // A test that failed leaves its owner running.
        self.kill_container();
        let homes = self.places.iter().map(|place| place.join(&self.home.name));
        homes.chain(self.containers()).for_each(|folder| remove(&folder));
    }
}

fn remove(cgroup: &Path) {
    let started = Instant::now();
    while cgroup.exists() && fs::remove_dir(cgroup).is_err() && started.elapsed() < AT_MOST {
        std::thread::sleep(AGAIN);
    }
}

/// Run by the tests below as a process of its own, to be killed with its cgroup.
#[tokio::test]
#[ignore = "is a part of another test"]
async fn owner_in_a_container() {
    let variable = |name: &str| std::env::var(name).unwrap();
    for container in variable(CONTAINER).split(':') {
        fs::write(Path::new(container).join("cgroup.procs"), std::process::id().to_string()).unwrap();
    }
    let home = std::env::var(NAME).ok().map(|name| CgroupHome { root: variable(ROOT).into(), name });
    let (root, program) = (variable("CARVE_TEST_MPS_ROOT"), variable("CARVE_TEST_MPS_PROGRAM"));
    let mut mps = Mps::new(MpsSettings { cgroup: home, ..settings(root.as_ref(), program.as_ref()) }, None);
    let mut statuses = mps.status();
    want(&mut mps, &part("GPU-1"), limits(4_096, 25));
    let status = ready(&mut statuses, &part("GPU-1")).await;
    // Whole or not at all, for the test waits for it.
    let (new, whole) = (Path::new(&root).join("remarks.new"), Path::new(&root).join("remarks"));
    fs::write(&new, status.remarks.join("\n")).unwrap();
    fs::rename(new, whole).unwrap();
    std::future::pending::<()>().await;
}

/// Starts the owner in the container and waits until its daemon is ready; answers the remarks too.
fn start_owner(machine: &Machine, cgroups: &Cgroups, home: Option<&CgroupHome>) -> (Child, String) {
    let containers: Vec<String> = cgroups.containers().map(|path| path.display().to_string()).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["owner_in_a_container", "--exact", "--ignored"])
        .env("CARVE_TEST_MPS_ROOT", machine.root())
        .env("CARVE_TEST_MPS_PROGRAM", machine.program())
        .env(CONTAINER, containers.join(":"));
    if let Some(home) = home {
        command.env(ROOT, &home.root).env(NAME, &home.name);
    }
    let mut owner = command.spawn().unwrap();
    let remarks = machine.root().join("remarks");
    while !remarks.exists() {
        assert!(owner.try_wait().unwrap().is_none(), "the owner ended before its daemon was ready");
        std::thread::sleep(AGAIN);
    }
    (owner, fs::read_to_string(remarks).unwrap())
}

/// A process that has ended and is still listed has no program any more.
fn runs(pid: Pid) -> bool {
    fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).is_ok()
}

#[tokio::test]
async fn a_daemon_outlives_the_container_of_its_owner() {
    let Some(cgroups) = Cgroups::new("kept", Which::All) else { return };
    let remarks = outlives(&cgroups).await;
    assert_eq!(remarks, "", "nothing to remark");
}

#[tokio::test]
async fn so_it_does_with_cgroups_of_the_second_version() {
    let Some(cgroups) = Cgroups::new("unified", Which::Unified) else { return };
    // Where there are others beside it, the daemon shares those with its owner, and that is remarked.
    outlives(&cgroups).await;
}

async fn outlives(cgroups: &Cgroups) -> String {
    let (machine, gpu) = (Machine::new(), part("GPU-1"));
    let (mut owner, remarks) = start_owner(&machine, cgroups, Some(&cgroups.home));
    let pid = machine.pid(&gpu);
    assert_eq!(getpgid(Some(pid)).unwrap(), pid, "and in a process group of its own");
    machine.tell(&gpu, "sim_attach 11 0");
    for place in &cgroups.places {
        let members = fs::read_to_string(place.join(&cgroups.home.name).join("cgroup.procs")).unwrap();
        assert!(
            members.lines().any(|member| member == pid.as_raw_nonzero().to_string()),
            "{}",
            place.display()
        );
    }
    cgroups.end_container();
    assert!(!owner.wait().unwrap().success(), "the owner was killed");
    assert!(runs(pid), "its daemon was not");

    let mut mps = Mps::new(machine.settings(), None);
    let mut statuses = mps.status();
    want(&mut mps, &gpu, limits(4_096, 25));
    let status = ready(&mut statuses, &gpu).await;
    assert_eq!((status.adopted, status.clients, machine.pid(&gpu)), (true, 1, pid));
    mps.shutdown(IdleDaemons::Keep).await;
    remarks
}

/// As an agent does that leaves the machine while another one comes.
#[tokio::test]
async fn daemons_come_into_a_cgroup_that_somebody_else_takes_away() {
    let Some(cgroups) = Cgroups::new("taken", Which::All) else { return };
    let machine = Machine::new();
    let stop = Arc::new(AtomicBool::new(false));
    let (until, home) = (Arc::clone(&stop), cgroups.home.clone());
    let taking = std::thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            home.remove();
        }
    });
    let mut remarks = Vec::new();
    for round in 0..12 {
        let gpu = part(&format!("GPU-{round}"));
        let settings = MpsSettings { cgroup: Some(cgroups.home.clone()), ..machine.settings() };
        let mut mps = Mps::new(settings, None);
        let mut statuses = mps.status();
        want(&mut mps, &gpu, limits(4_096, 25));
        remarks.extend(ready(&mut statuses, &gpu).await.remarks);
        // The cgroup can be taken away again.
        mps.shutdown(IdleDaemons::Quit).await;
    }
    stop.store(true, Ordering::Relaxed);
    taking.join().unwrap();
    // The test's own limits are those of this process, and that is remarked where it has any.
    remarks.retain(|remark| remark.contains("could not be moved"));
    assert_eq!(remarks, Vec::<String>::new());
}

#[test]
fn without_a_cgroup_of_its_own_a_daemon_ends_with_the_container() {
    let Some(cgroups) = Cgroups::new("lost", Which::All) else { return };
    let machine = Machine::new();
    let (mut owner, _) = start_owner(&machine, &cgroups, None);
    let pid = machine.pid(&part("GPU-1"));
    assert!(runs(pid));
    cgroups.end_container();
    owner.wait().unwrap();
    assert!(!runs(pid));
}

#[test]
fn a_home_inside_the_container_is_told() {
    let Some(cgroups) = Cgroups::new("view", Which::All) else { return };
    let machine = Machine::new();
    // What a container sees as its root is its own cgroup.
    let name = format!("{}/{}", cgroups.container, cgroups.home.name);
    let home = CgroupHome { name, ..cgroups.home.clone() };
    let (mut owner, remarks) = start_owner(&machine, &cgroups, Some(&home));
    assert!(remarks.contains("still inside the agent's own cgroup"), "{remarks}");
    assert!(
        remarks.contains("MPS clients would be cut off when the agent's container restarts"),
        "{remarks}"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    drop(machine);
    for container in cgroups.containers() {
        remove(&container.join(&cgroups.home.name));
    }
}
