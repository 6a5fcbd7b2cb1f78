//! The first process inside the lab's namespaces: makes the place, starts everything, buries the dead.

use crate::components::{self, Component};
use crate::lab::Node;
use crate::programs::run;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitOptions, wait, waitpid};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the lab; does not return while it lives.
pub fn inside(folder: &Path) -> Result<()> {
    let start = Instant::now();
    let nodes = Node::all(folder);
    let node = Node::numbered(0);
    make_place(folder, &node)?;
    let mut running = Running { folder: folder.to_owned(), processes: BTreeMap::new(), ended: Vec::new() };
    running.start(components::etcd(folder))?;
    running.start(components::containerd(folder, &node))?;
    running.start(components::apiserver(folder, &node.address))?;
    running.until("containerd answers", || containerd_answers(folder, &node))?;
    import_images(folder, &node)?;
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
    let program = std::env::current_exe()?;
    running.start(components::services(folder, &program))?;
    for (number, other) in nodes.iter().enumerate().skip(1) {
        let pid = running.start(components::node(folder, &program, number))?;
        running
            .until("the namespaces of a node are there", || other.folder(folder).join("waiting").exists())?;
        connect(other, number, pid)?;
        fs::write(other.folder(folder).join("connected"), "")?;
    }
    let question = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}{.spec.taints}";
    for node in &nodes {
        running.until("every node is ready", || {
            kubectl(&["get", "node", &node.name, "-o", question]).is_ok_and(|answer| answer == "True")
        })?;
    }
    let ready = format!(
        "API server ready after {:.1} s, {} ready after {:.1} s",
        served.as_secs_f64(),
        if nodes.len() == 1 { "node".to_owned() } else { format!("{} nodes", nodes.len()) },
        start.elapsed().as_secs_f64()
    );
    fs::write(folder.join("ready"), ready)?;
    loop {
        running.look_after()?;
        let asked = folder.join("start-fleet");
        if let Ok(number) = fs::read_to_string(&asked) {
            running.start(components::fleet(folder, &program, number.trim()))?;
            fs::remove_file(asked)?;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs one more node, in mount and network namespaces of its own; does not return while it lives.
pub fn inside_node(folder: &Path, number: usize) -> Result<()> {
    let node = Node::numbered(number);
    let home = node.folder(folder);
    fs::write(home.join("waiting"), "")?;
    while !home.join("connected").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    mount(&["--make-rshared", "/"])?;
    mount(&["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"])?;
    mount(&["--bind", &home.join("kubelet").display().to_string(), "/var/lib/kubelet"])?;
    mount(&["--make-rshared", "/var/lib/kubelet"])?;
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "set", "eth0", "up"])?;
    ip(&["addr", "add", &format!("{}/32", node.address), "dev", "eth0"])?;
    ip(&["route", "add", &format!("{}/32", Node::numbered(0).address), "dev", "eth0"])?;
    ip(&["route", "add", "default", "via", &Node::numbered(0).address, "dev", "eth0"])?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    let mut running = Running { folder: folder.to_owned(), processes: BTreeMap::new(), ended: Vec::new() };
    running.start(components::containerd(folder, &node))?;
    running.until("containerd answers", || containerd_answers(folder, &node))?;
    import_images(folder, &node)?;
    running.start(components::kubelet(folder, &node))?;
    loop {
        running.look_after()?;
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn ctr(folder: &Path, node: &Node) -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(node.folder(folder).join("containerd.sock"));
    command
}

fn containerd_answers(folder: &Path, node: &Node) -> bool {
    run(ctr(folder, node).arg("version")).is_ok()
}

fn import_images(folder: &Path, node: &Node) -> Result<()> {
    let mut images: Vec<PathBuf> =
        fs::read_dir(folder.join("images"))?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    images.sort();
    for tar in images {
        run(ctr(folder, node).args(["--namespace", "k8s.io", "images", "import"]).arg(tar))?;
    }
    Ok(())
}

fn mount(words: &[&str]) -> Result<()> {
    run(Command::new("mount").args(words)).map(drop)
}

fn ip(words: &[&str]) -> Result<()> {
    run(Command::new("ip").args(words)).map(drop).context("ip is part of iproute2")
}

/// A cable between the first node and another, and the way to that one's pods.
fn connect(node: &Node, number: usize, pid: i32) -> Result<()> {
    let cable = format!("lab{number}");
    ip(&["link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &pid.to_string()])?;
    ip(&["link", "set", &cable, "up"])?;
    ip(&["route", "add", &format!("{}/32", node.address), "dev", &cable])?;
    ip(&["route", "add", &node.pods, "via", &node.address, "dev", &cable, "onlink"])?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    Ok(())
}

/// Mounts and addresses that exist only in here.
fn make_place(folder: &Path, node: &Node) -> Result<()> {
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
    ip(&["link", "set", "lo", "up"])?;
    // kubelet wants an address that is not a loopback one; the API server sits on its service address.
    ip(&["addr", "add", &format!("{}/32", node.address), "dev", "lo"])?;
    ip(&["addr", "add", "10.96.0.1/32", "dev", "lo"])?;
    ip(&["route", "add", "default", "via", &node.address, "dev", "lo"])
}

/// Everything that was started, by process id.
struct Running {
    folder: PathBuf,
    processes: BTreeMap<i32, Component>,
    /// What died or was stopped, and can be started again.
    ended: Vec<Component>,
}

impl Running {
    fn start(&mut self, component: Component) -> Result<i32> {
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
        match fs::remove_file(self.folder.join(format!("ended-{}", component.name))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        // Buried by `look_after`, together with the orphans that every init inherits.
        let pid = child.id() as i32;
        self.processes.insert(pid, component);
        Ok(pid)
    }

    /// Buries the dead. A component among them is written down and not started again: a test must see it.
    fn look_after(&mut self) -> Result<()> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(component) = self.processes.remove(&pid.as_raw_nonzero().get()) {
                let how = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => format!("exit status {code}"),
                    (_, Some(signal)) => format!("signal {signal}"),
                    _ => format!("{status:?}"),
                };
                eprintln!("{} ended: {how}", component.name);
                fs::write(self.folder.join(format!("ended-{}", component.name)), how)?;
                self.ended.push(component);
            }
        }
        self.obey()
    }

    /// Does what was asked from outside: a file `stop-NAME` kills a component, `restart-NAME` also starts it anew.
    /// Every node has an init that looks here, so a file is left for the one that has the component.
    fn obey(&mut self) -> Result<()> {
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((verb, wanted)) = name.split_once('-') else { continue };
            if !matches!(verb, "stop" | "restart") {
                continue;
            }
            let running = self.processes.iter().find(|(_, component)| component.name == wanted);
            if let Some(pid) = running.map(|(pid, _)| *pid) {
                run(Command::new("kill").args(["-9", &pid.to_string()]))?;
                if verb == "stop" {
                    fs::remove_file(entry.path())?;
                    continue;
                }
                // Buried here, because its end was wanted; a large process takes a while to let go of its sockets, and the new one
                // would find its address in use.
                let _ = waitpid(Pid::from_raw(pid), WaitOptions::empty());
                self.ended.extend(self.processes.remove(&pid));
            }
            if let Some(place) = self.ended.iter().position(|component| component.name == wanted) {
                if verb == "restart" {
                    let component = self.ended.remove(place);
                    self.start(component)?;
                }
                fs::remove_file(entry.path())?;
            }
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
