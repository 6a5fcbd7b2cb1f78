//! The first process inside the lab's namespaces: makes the place, starts everything, buries the dead.

use crate::components::{self, Component};
use crate::lab::Node;
use crate::programs::run;
use anyhow::{Context, Result, bail};
use rustix::process::{WaitOptions, wait};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the lab; does not return while it lives.
pub fn inside(folder: &Path) -> Result<()> {
    let start = Instant::now();
    let node = Node::first();
    make_place(folder, &node)?;
    let mut running = Running { folder: folder.to_owned(), processes: BTreeMap::new() };
    running.start(components::etcd(folder))?;
    running.start(components::containerd(folder, &node))?;
    running.start(components::apiserver(folder, &node.address))?;
    let socket = node.folder(folder).join("containerd.sock");
    let ctr = || {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(&socket);
        command
    };
    running.until("containerd answers", || run(ctr().arg("version")).is_ok())?;
    let mut images: Vec<PathBuf> =
        fs::read_dir(folder.join("images"))?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    images.sort();
    for tar in images {
        run(ctr().args(["--namespace", "k8s.io", "images", "import"]).arg(tar))?;
    }
    let kubectl = |words: &[&str]| {
        let mut command = Command::new("kubectl");
        command.arg(format!("--kubeconfig={}/admin.kubeconfig", folder.display())).args(words);
        run(&mut command)
    };
    running.until("the API server is ready", || {
        kubectl(&["get", "--raw", "/readyz"]).is_ok_and(|answer| answer == "ok")
    })?;
    let served = start.elapsed();
    running.start(components::controller_manager(folder))?;
    running.start(components::scheduler(folder))?;
    running.start(components::kubelet(folder, &node))?;
    let question = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}{.spec.taints}";
    running.until("the node is ready", || {
        kubectl(&["get", "node", &node.name, "-o", question]).is_ok_and(|answer| answer == "True")
    })?;
    let ready = format!(
        "API server ready after {:.1} s, node ready after {:.1} s",
        served.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
    fs::write(folder.join("ready"), ready)?;
    loop {
        running.look_after()?;
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Mounts and addresses that exist only in here.
fn make_place(folder: &Path, node: &Node) -> Result<()> {
    let mount = |words: &[&str]| run(Command::new("mount").args(words)).map(drop);
    let shown = |path: &Path| path.display().to_string();
    mount(&["--make-rshared", "/"])?;
    mount(&["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"])?;
    // kubelet's folders are constants under /var/lib; the machine's own stay as they are.
    let (upper, work) = (folder.join("var-lib/upper"), folder.join("var-lib/work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    let layers = format!("lowerdir=/var/lib,upperdir={},workdir={}", upper.display(), work.display());
    mount(&["-t", "overlay", "-o", &layers, "overlay", "/var/lib"])?;
    fs::create_dir_all("/var/lib/kubelet")?;
    mount(&["--bind", &shown(&node.folder(folder).join("kubelet")), "/var/lib/kubelet"])?;
    mount(&["--make-rshared", "/var/lib/kubelet"])?;
    let ip = |words: &[&str]| run(Command::new("ip").args(words)).map(drop).context("ip is part of iproute2");
    ip(&["link", "set", "lo", "up"])?;
    // kubelet wants an address that is not a loopback one; the API server sits on its service address.
    ip(&["addr", "add", &format!("{}/32", node.address), "dev", "lo"])?;
    ip(&["addr", "add", "10.96.0.1/32", "dev", "lo"])?;
    ip(&["route", "add", "default", "via", &node.address, "dev", "lo"])?;
    Ok(())
}

/// Everything that was started, by process id.
struct Running {
    folder: PathBuf,
    processes: BTreeMap<i32, Component>,
}

impl Running {
    fn start(&mut self, component: Component) -> Result<()> {
        let path = self.folder.join(format!("log/{}.log", component.name));
        let log = File::options().create(true).append(true).open(path)?;
        let child = Command::new(&component.program)
            .args(&component.arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("can not start {}", component.name))?;
        // Buried by `look_after`, together with the orphans that every init inherits.
        self.processes.insert(child.id() as i32, component);
        Ok(())
    }

    /// Buries the dead. A component among them is written down and not started again: a test must see it.
    fn look_after(&mut self) -> Result<()> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(component) = self.processes.remove(&pid.as_raw_nonzero().get()) {
                let line = format!("{} ended: {status:?}\n", component.name);
                eprint!("{line}");
                fs::write(self.folder.join(format!("ended-{}", component.name)), line)?;
            }
        }
        self.obey()
    }

    /// Does what was asked from outside: a file `restart-NAME` kills a component and starts it anew.
    fn obey(&mut self) -> Result<()> {
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(wanted) = name.strip_prefix("restart-") else { continue };
            let found =
                self.processes.iter().find(|(_, component)| component.name == wanted).map(|(pid, _)| *pid);
            if let Some(component) =
                found.and_then(|pid| self.processes.remove(&pid).map(|component| (pid, component)))
            {
                let (pid, component) = component;
                run(Command::new("kill").args(["-9", &pid.to_string()]))?;
                self.start(component)?;
            }
            fs::remove_file(entry.path())?;
        }
        Ok(())
    }

    /// Waits for something, as long as everything that was started lives.
    fn until(&mut self, what: &str, holds: impl Fn() -> bool) -> Result<()> {
        let started = self.processes.len();
        let give_up = Instant::now() + Duration::from_secs(100);
        while !holds() {
            self.look_after()?;
            if self.processes.len() < started {
                bail!("a component ended before {what}");
            }
            if Instant::now() > give_up {
                bail!("waited 100 s, but not so: {what}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
