//! Up, down, and everything one asks of a lab from outside.

use crate::image::Programs as _;
use crate::places::Places;
use crate::programs::run;
use crate::release::Release;
use crate::{audit, config, debian, footprint, image, kubernetes, pki};
use anyhow::{Context, Result, bail};
use carve_oci_image::Image;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One node: a kubelet with a containerd.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Addresses of its pods.
    pub(crate) pods: String,
}

impl Node {
    /// The node with a number. The first shares its namespaces with the control plane.
    pub(crate) fn numbered(number: usize) -> Self {
        Node {
            name: format!("node{number}"),
            address: format!("10.250.0.{}", number + 1),
            pods: format!("10.244.{number}.0/24"),
        }
    }

    /// All nodes of a lab, by what was written down when it was started.
    pub(crate) fn all(lab: &Path) -> Vec<Self> {
        let number = fs::read_to_string(lab.join("nodes")).ok().and_then(|text| text.trim().parse().ok());
        (0..number.unwrap_or(1)).map(Node::numbered).collect()
    }

    /// The cgroup of its pods: cgroups are the machine's, so the name says of which lab it is.
    pub(crate) fn cgroup(&self, lab: &Path) -> String {
        let folder = lab.file_name().unwrap_or_default().to_string_lossy();
        match folder.split_once('-') {
            Some((_, name)) => format!("carve-lab-{name}-{}", self.name),
            None => format!("carve-lab-{}", self.name),
        }
    }

    /// Where its files are.
    pub(crate) fn folder(&self, lab: &Path) -> PathBuf {
        lab.join(&self.name)
    }
}

/// How a lab is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Not running.
    Down,
    /// Starting, or broken while starting.
    Starting,
    /// The node is ready; the text says how long that took.
    Ready(String),
}

/// What a lab is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Which Kubernetes.
    pub release: Release,
    /// How many nodes with kubelets.
    pub nodes: usize,
    /// Feature gates of every component, as `--feature-gates` takes them.
    pub feature_gates: Option<String>,
}

impl Wanted {
    /// What the suites run on, with so many nodes.
    pub fn usual(nodes: usize) -> Self {
        Wanted { release: Release::DEFAULT, nodes, feature_gates: None }
    }
}

/// A lab, running or not.
#[derive(Debug, Clone)]
pub struct Lab {
    places: Places,
}

/// How long a warm start may take before it counts as failed.
const START: Duration = Duration::from_secs(120);

/// More kubelets than two cores can carry.
const MOST_NODES: usize = 4;

impl Lab {
    /// The lab in these places.
    pub fn new(places: Places) -> Self {
        Lab { places }
    }

    /// What outlives a run.
    pub fn cache(&self) -> &Path {
        self.places.cache()
    }

    fn folder(&self) -> PathBuf {
        self.places.run()
    }

    /// Builds and fetches what is missing, so that the next `up` is a warm one.
    pub fn prepare(&self, release: Release) -> Result<()> {
        fs::create_dir_all(self.places.cache())?;
        kubernetes::built(&self.places, release)?;
        debian::unpacked(&self.places)?;
        image::pause(&go_module(), self.places.cache())?;
        Ok(())
    }

    /// Starts a lab and waits until its nodes are ready. `images` are tar files to import on each.
    pub fn up(&self, wanted: &Wanted, images: &[PathBuf]) -> Result<String> {
        let Wanted { release, nodes, feature_gates } = wanted.clone();
        if !(1..=MOST_NODES).contains(&nodes) {
            bail!("the lab has 1 to {MOST_NODES} nodes, not {nodes}");
        }
        if !rustix::process::geteuid().is_root() {
            bail!("the lab needs root: it makes namespaces, mounts and cgroups");
        }
        if self.status() != Status::Down {
            bail!("this lab is already there; 'cargo xtask lab down' ends it");
        }
        self.prepare(release)?;
        let folder = self.folder();
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(folder.join("log"))?;
        fs::create_dir_all(folder.join("images"))?;
        fs::write(folder.join("nodes"), nodes.to_string())?;
        fs::write(folder.join("feature-gates"), feature_gates.unwrap_or_default())?;
        let nodes = Node::all(&folder);
        let debian = debian::unpacked(&self.places)?;
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        pki::write(&folder, &names)?;
        audit::write(&folder)?;
        for node in &nodes {
            config::write(&folder, node, &debian)?;
        }
        let pause = image::pause(&go_module(), self.places.cache())?;
        for (number, tar) in std::iter::once(&pause).chain(images).enumerate() {
            fs::copy(tar, folder.join(format!("images/{number}.tar")))
                .with_context(|| tar.display().to_string())?;
        }
        let programs = kubernetes::built(&self.places, release)?;
        let path = format!(
            "{}:{usr}/bin:{usr}/sbin:{}",
            programs.display(),
            std::env::var("PATH").unwrap_or_default(),
            usr = debian.display()
        );
        fs::write(folder.join("path"), &path)?;
        footprint::save(&folder, self.another_runs().as_deref())?;
        for node in &nodes {
            footprint::make_cgroup(&node.cgroup(&folder))?;
        }
        // A copy, because a build may replace the program that runs this.
        let program = folder.join("lab-program");
        fs::copy("/proc/self/exe", &program).context("can not copy this program")?;
        let log = File::create(folder.join("log/init.log"))?;
        let child = Command::new("unshare")
            .args([
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--propagation",
                "private",
            ])
            .arg(&program)
            .arg("lab-inside")
            .arg(&folder)
            .env("PATH", &path)
            // A seventh of an API server's time went into tidying up memory, of which there is enough.
            .env("GOGC", "400")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C ends who waits for the lab, not the lab.
            .process_group(0)
            .spawn()
            .context("can not start unshare (of util-linux)")?;
        fs::write(folder.join("pid"), child.id().to_string())?;
        let give_up = Instant::now() + START;
        loop {
            match self.status() {
                Status::Ready(text) => return Ok(text),
                Status::Down => bail!("the lab ended while starting\n{}", self.last_lines()),
                Status::Starting if Instant::now() > give_up => {
                    let lines = self.last_lines();
                    self.down()?;
                    bail!("the lab was not ready after {} s\n{lines}", START.as_secs());
                }
                Status::Starting => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Ends the lab and puts back what it changed. A lab that is down stays down.
    pub fn down(&self) -> Result<()> {
        let folder = self.folder();
        if let Some(pid) = self.outer() {
            // The first process inside takes everything in its pid namespace with it; the outer one then ends.
            if let Some(inner) = self.init() {
                let _ = run(Command::new("kill").args(["-9", &inner.to_string()]));
            }
            let give_up = Instant::now() + Duration::from_secs(10);
            while alive(pid) {
                if Instant::now() > give_up {
                    bail!("process {pid} of the lab does not end");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // The last one to end puts the settings back; whoever still runs has written down the same.
        if self.another_runs().is_none() {
            footprint::restore(&folder)?;
        }
        for cgroup in (0..MOST_NODES).map(|number| Node::numbered(number).cgroup(&folder)) {
            if !footprint::remove_cgroup(&cgroup) {
                bail!("the cgroup {cgroup} can not be removed; something still runs in it");
            }
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        Ok(())
    }

    /// How the lab is.
    pub fn status(&self) -> Status {
        match self.outer() {
            None => Status::Down,
            Some(_) => match fs::read_to_string(self.folder().join("ready")) {
                Ok(text) => Status::Ready(text.trim().to_owned()),
                Err(_) => Status::Starting,
            },
        }
    }

    /// The process that holds the namespaces, seen from outside.
    fn outer(&self) -> Option<u32> {
        outer_of(&self.folder())
    }

    /// What the run of another lab on this machine has written, if there is one.
    fn another_runs(&self) -> Option<PathBuf> {
        let own = self.folder();
        self.places.runs().into_iter().find(|run| *run != own && outer_of(run).is_some())
    }

    /// The cgroup below which a node's pods live.
    pub fn cgroup_of(&self, node: &str) -> Option<String> {
        let found = Node::all(&self.folder()).into_iter().find(|known| known.name == node)?;
        Some(found.cgroup(&self.folder()))
    }

    /// Where tests put files that its nodes see.
    pub fn scratch(&self) -> PathBuf {
        self.places.scratch()
    }

    /// The first process inside, seen from outside.
    pub fn init(&self) -> Option<u32> {
        let outer = self.outer()?;
        let processes = fs::read_dir("/proc").ok()?;
        let mut numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        numbers.find(|pid| parent(*pid) == Some(outer))
    }

    /// The kubeconfig of the administrator; its server can be reached inside the lab only.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("admin.kubeconfig")
    }

    /// Configuration of the first node's containerd.
    pub fn containerd_config(&self) -> PathBuf {
        Node::numbered(0).folder(&self.folder()).join("containerd.toml")
    }

    /// Configuration of a node's containerd.
    pub fn containerd_config_of(&self, node: &str) -> Option<PathBuf> {
        let found = Node::all(&self.folder()).into_iter().find(|known| known.name == node)?;
        Some(found.folder(&self.folder()).join("containerd.toml"))
    }

    /// A command that runs inside the lab, on its first node, with kubectl and its settings at hand.
    pub fn command(&self, words: &[String]) -> Result<Command> {
        let init = self.init().context("no lab is running; 'cargo xtask lab up' starts one")?;
        self.command_beside(init, words)
    }

    /// The same on another node: in its mounts and its network.
    pub fn command_on(&self, node: &str, words: &[String]) -> Result<Command> {
        let first = Node::numbered(0).name;
        let holder = if node == first { self.init() } else { self.holder(node) };
        self.command_beside(holder.with_context(|| format!("no lab with a node {node} is running"))?, words)
    }

    /// The process that holds the namespaces of a node that is not the first, seen from outside.
    fn holder(&self, node: &str) -> Option<u32> {
        let number = (0..MOST_NODES).find(|number| Node::numbered(*number).name == node)?.to_string();
        let folder = self.folder().display().to_string();
        let processes = fs::read_dir("/proc").ok()?;
        let mut numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        numbers.find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            // Its parent was told the same and more.
            words.get(1..4) == Some(&[b"lab-node", folder.as_bytes(), number.as_bytes()])
        })
    }

    fn command_beside(&self, init: u32, words: &[String]) -> Result<Command> {
        let path = fs::read_to_string(self.folder().join("path"))?;
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &init.to_string(), "--mount", "--net", "--pid", "--"])
            .arg("env")
            .arg(format!("PATH={path}"))
            .arg(format!("KUBECONFIG={}", self.kubeconfig().display()))
            .args(words);
        Ok(command)
    }

    /// Brings an image onto every node.
    pub fn import(&self, image: &Image) -> Result<()> {
        let tar = self.folder().join("import.tar");
        image.write(&tar)?;
        for node in Node::all(&self.folder()) {
            let socket = node.folder(&self.folder()).join("containerd.sock").display().to_string();
            let words = ["ctr", "--address", &socket, "--namespace", "k8s.io", "images", "import"];
            let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            words.push(tar.display().to_string());
            run(&mut self.command(&words)?)?;
        }
        Ok(fs::remove_file(&tar)?)
    }

    /// Adds nodes without kubelets to the cluster and waits until they are there. They stay until the lab ends.
    pub fn start_fleet(&self, nodes: usize) -> Result<()> {
        let (asked, ready) = (self.folder().join("start-fleet"), self.folder().join("fleet-ready"));
        if ready.exists() {
            bail!("the lab has a fleet already");
        }
        self.init().context("no lab is running")?;
        // Written under another name first, so that nobody reads half a number.
        let new = self.folder().join("new-fleet");
        fs::write(&new, nodes.to_string())?;
        fs::rename(&new, &asked)?;
        let give_up = Instant::now() + START;
        while !ready.exists() {
            if Instant::now() > give_up || self.folder().join("ended-fleet").exists() {
                bail!("the fleet did not come up\n{}", self.log("fleet").unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Names of the nodes.
    pub fn nodes(&self) -> Vec<String> {
        Node::all(&self.folder()).into_iter().map(|node| node.name).collect()
    }

    /// Kills a component with SIGKILL, if it runs, and starts it again.
    pub fn restart(&self, component: &str) -> Result<()> {
        self.ask("restart", component)
    }

    /// Kills a component with SIGKILL and leaves it dead until `restart`.
    pub fn stop(&self, component: &str) -> Result<()> {
        self.ask("stop", component)
    }

    fn ask(&self, verb: &str, component: &str) -> Result<()> {
        let file = self.folder().join(format!("{verb}-{component}"));
        fs::write(&file, "")?;
        let give_up = Instant::now() + Duration::from_secs(5);
        while file.exists() {
            if Instant::now() > give_up {
                fs::remove_file(&file)?;
                bail!("the lab did not {verb} {component}; known: {}", self.logs().join(", "));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Logs of a component, or the names of all.
    pub fn log(&self, component: &str) -> Result<String> {
        let path = self.folder().join(format!("log/{component}.log"));
        fs::read_to_string(&path)
            .with_context(|| format!("{}; known: {}", path.display(), self.logs().join(", ")))
    }

    /// Shows what the API server has written down of every call, one JSON object each; Kubernetes' own callers are not among them.
    pub fn records(&self, show: impl FnMut(&str)) -> Result<()> {
        audit::read(&self.folder(), show)
    }

    /// Names of the components that have a log.
    pub fn logs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder().join("log")).into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".log").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// The last lines of every log, for a failure: a few of each component, and more of one that is dead.
    pub fn last_lines(&self) -> String {
        let (mut alive, mut dead) = (String::new(), String::new());
        for name in self.logs() {
            let log = self.log(&name).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let ended = fs::read_to_string(self.folder().join(format!("ended-{name}")));
            let (text, title, shown) = match ended {
                Ok(how) => (&mut dead, format!("{name}, which ended ({how})"), 20),
                Err(_) => (&mut alive, name, 5),
            };
            text.push_str(&format!("── {title}\n"));
            for line in &lines[lines.len().saturating_sub(shown)..] {
                text.push_str(&format!("   {line}\n"));
            }
        }
        // The dead last: what a failing test prints is read from its end.
        alive + &dead
    }
}

/// The Go sources of the lab.
fn go_module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes")
}

/// The process that holds the namespaces of the lab in a folder, seen from outside.
fn outer_of(folder: &Path) -> Option<u32> {
    let pid: u32 = fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok()?;
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command.split('\0');
    let ours = words.any(|word| word == "lab-inside") && words.next() == folder.to_str();
    (ours && alive(pid)).then_some(pid)
}

/// Whether a process is there and not just waiting to be buried.
fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next().map(str::to_owned));
    state.is_some_and(|state| state != "Z" && state != "X")
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Lab, Node, outer_of};
    use crate::places::Places;
    use std::path::Path;

    #[test]
    fn labs_with_names_share_neither_folders_nor_cgroups() {
        let labs = [Places::named("first"), Places::named("second")].map(Lab::new);
        let [first, second] = labs.each_ref().map(|lab| lab.folder());
        assert_eq!(first.parent(), second.parent(), "one cache");
        assert_ne!(first, second);
        assert_ne!(labs[0].scratch(), labs[1].scratch());
        let node = Node::numbered(1);
        assert_eq!(node.cgroup(&first), "carve-lab-first-node1");
        assert_eq!(node.cgroup(&second), "carve-lab-second-node1");
        assert_eq!(node.cgroup(Path::new("/cache/run")), "carve-lab-node1");
    }

    /// A number that was written down may belong to somebody else by now, and be it another lab.
    #[test]
    fn a_process_of_somebody_else_is_no_lab() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pid"), std::process::id().to_string()).unwrap();
        assert_eq!(outer_of(folder.path()), None);
        let other = std::process::Command::new("sh")
            .args(["-c", "read line", "lab-inside", "/another/folder"])
            .stdin(std::process::Stdio::piped())
            .spawn();
        let mut other = other.unwrap();
        std::fs::write(folder.path().join("pid"), other.id().to_string()).unwrap();
        let found = outer_of(folder.path());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(found, None);
    }
}
