//! A container without a container runtime: a root with one program and its C library, and beside that only what kubelet
//! was told to put in. Whoever runs in it proves that this is enough.
//!
//! ```text
//! trial ── Bare::run ──▶ this program again, with a plan ── mount namespace, mounts, hooks, chroot ──▶ the command
//! ```
//! The mounts are made in a process of its own that has one thread and becomes the command: they end with it.

use carve_cdi::hook::state_of;
use carve_formats::cdi::{ContainerEdits, Spec};
use carve_kubelet_api::device_plugin::ContainerAllocateResponse;
use carve_test_support::libraries_of;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What this program is called with when it is to become a command in a container.
pub(crate) const INSIDE: &str = "inside";

/// Libraries that belong to the C library and that a driver's libraries may ask for without the program needing them.
const C_LIBRARY: [&str; 5] = ["libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"];

/// One container in the making.
#[derive(Debug, Clone)]
pub(crate) struct Bare {
    root: PathBuf,
    /// Path outside, path inside, whether it can be written to.
    binds: Vec<(String, String, bool)>,
    hooks: Vec<Vec<String>>,
    environment: BTreeMap<String, String>,
}

impl Bare {
    /// A root with `carve` and its C library, and nothing of a driver.
    pub(crate) fn new(root: &Path, carve: &Path) -> io::Result<Self> {
        for folder in ["dev", "etc", "proc", "tmp"] {
            fs::create_dir_all(root.join(folder))?;
        }
        place(carve, &root.join("carve"))?;
        let mut libraries = libraries_of(carve)?;
        let beside_libc: Vec<PathBuf> = libraries
            .iter()
            .filter(|path| path.file_name().is_some_and(|name| name == "libc.so.6"))
            .filter_map(|path| path.parent())
            .flat_map(|folder| C_LIBRARY.map(|name| folder.join(name)))
            .collect();
        libraries.extend(beside_libc.into_iter().filter(|path| path.exists()));
        for library in &libraries {
            place(library, &root.join(library.strip_prefix("/").unwrap_or(library)))?;
        }
        // Without a search path the loader has its own folders and its cache, which is what is to be tried.
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        Ok(Bare { root: root.to_owned(), binds: Vec::new(), hooks: Vec::new(), environment })
    }

    /// Lets the container see a file or folder of the host, for what stands in for a driver.
    pub(crate) fn show(mut self, path: &Path, variable: &str) -> Self {
        let text = path.display().to_string();
        let folder = path.parent().unwrap_or(path).display().to_string();
        self.binds.push((folder.clone(), folder, true));
        self.environment.insert(variable.to_owned(), text);
        self
    }

    /// Puts in what kubelet was told to, with the CDI devices as the file describes them.
    pub(crate) fn admit(mut self, answer: &ContainerAllocateResponse, file: &Spec) -> Result<Self, String> {
        for named in &answer.cdi_devices {
            let name = named.name.strip_prefix(&format!("{}=", file.kind)).ok_or_else(|| {
                format!("the answer names {}, the file describes {}", named.name, file.kind)
            })?;
            let device = file.devices.iter().find(|device| device.name == name);
            let device = device.ok_or_else(|| format!("the CDI file has no device {name}"))?;
            self.edit(&device.container_edits);
        }
        if !answer.cdi_devices.is_empty() {
            self.edit(&file.container_edits);
        }
        for mount in &answer.mounts {
            self.binds.push((mount.host_path.clone(), mount.container_path.clone(), !mount.read_only));
        }
        for node in &answer.devices {
            self.binds.push((node.host_path.clone(), node.container_path.clone(), true));
        }
        self.environment.extend(answer.envs.clone());
        Ok(self)
    }

    fn edit(&mut self, edits: &ContainerEdits) {
        for node in &edits.device_nodes {
            let host = if node.host_path.is_empty() { &node.path } else { &node.host_path };
            self.binds.push((host.clone(), node.path.clone(), true));
        }
        for mount in &edits.mounts {
            self.binds.push((mount.host_path.clone(), mount.container_path.clone(), false));
        }
        for hook in &edits.hooks {
            self.hooks
                .push(std::iter::once(hook.path.clone()).chain(hook.args.iter().skip(1).cloned()).collect());
        }
        for pair in &edits.env {
            if let Some((name, value)) = pair.split_once('=') {
                self.environment.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    /// How much of the host is in the container.
    pub(crate) fn contents(&self) -> String {
        let nodes = self.binds.iter().filter(|(host, _, _)| host.contains("/dev/")).count();
        format!("{nodes} device nodes, {} mounts, {} hook(s)", self.binds.len() - nodes, self.hooks.len())
    }

    /// Runs a command in it, to its end.
    pub(crate) fn run(&self, command: &[&str]) -> io::Result<Output> {
        let plan = json!({
            "root": self.root, "binds": self.binds, "hooks": self.hooks, "environment": self.environment,
            "command": command,
        });
        let mut child = Command::new(std::env::current_exe()?)
            .arg(INSIDE)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut plans) = child.stdin.take() {
            plans.write_all(plan.to_string().as_bytes())?;
        }
        child.wait_with_output()
    }
}

/// A file of the host as a file of the root; the same file where that is possible.
fn place(file: &Path, target: &Path) -> io::Result<()> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    // What the loader names is often a link itself.
    let file = file.canonicalize()?;
    fs::hard_link(&file, target).or_else(|_| fs::copy(&file, target).map(drop))
}

/// Becomes the command of a plan. Comes back only with the reason why that is not possible.
#[allow(unsafe_code, reason = "a mount namespace of its own is asked for by an unsafe call")]
pub(crate) fn become_command() -> io::Error {
    let plan: Value = match serde_json::from_reader(io::stdin().lock()) {
        Ok(plan) => plan,
        Err(error) => return error.into(),
    };
    // SAFETY: the process has one thread and has opened nothing that depends on its mounts.
    if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNS) } {
        return named("the mount namespace", error.into());
    }
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let root = PathBuf::from(plan["root"].as_str().unwrap_or_default());
    if let Err(error) = furnish(&root, &plan, &texts) {
        return error;
    }
    let command = texts(&plan["command"]);
    let environment = plan["environment"].as_object().into_iter().flatten();
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("no command");
    };
    let mut command = Command::new(program);
    // Standard input was read to its end; there is no /dev/null in here to take its place.
    command.args(arguments).env_clear();
    command.envs(environment.filter_map(|(name, value)| Some((name, value.as_str()?))));
    named(program, command.exec())
}

fn furnish(root: &Path, plan: &Value, texts: &dyn Fn(&Value) -> Vec<String>) -> io::Result<()> {
    let tell = |what: &Path| {
        let what = what.display().to_string();
        move |error: rustix::io::Errno| named(&what, error.into())
    };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(tell(Path::new("/")))?;
    mount_bind(root, root).map_err(tell(root))?;
    for bind in plan["binds"].as_array().into_iter().flatten() {
        let outside = PathBuf::from(bind[0].as_str().unwrap_or_default());
        let inside = bind[1].as_str().unwrap_or_default().trim_start_matches('/');
        let inside = root.join(inside);
        if outside.is_dir() {
            fs::create_dir_all(&inside).map_err(|error| named(&inside.display().to_string(), error))?;
        } else {
            inside.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::File::options().append(true).create(true).open(&inside).map(drop).or_else(|error| {
                // What is there already can be mounted over.
                if inside.exists() { Ok(()) } else { Err(error) }
            })?;
        }
        mount_bind_recursive(&outside, &inside).map_err(tell(&outside))?;
        if bind[2] != json!(true) {
            mount_remount(&inside, MountFlags::BIND | MountFlags::RDONLY, c"").map_err(tell(&inside))?;
        }
    }
    for hook in plan["hooks"].as_array().into_iter().flatten().map(texts) {
        run_hook(root, &hook)?;
    }
    mount("proc", root.join("proc"), "proc", MountFlags::empty(), None).map_err(tell(Path::new("/proc")))?;
    rustix::process::chroot(root).map_err(tell(root))?;
    rustix::process::chdir("/").map_err(tell(Path::new("/")))
}

/// Runs a hook as a runtime does: the container's state comes on standard input, and its bundle names the root.
fn run_hook(root: &Path, words: &[String]) -> io::Result<()> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let bundle = root.with_extension("bundle");
    fs::create_dir_all(&bundle)?;
    fs::write(bundle.join("config.json"), json!({"root": {"path": root}}).to_string())?;
    let mut hook = Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| named(program, error))?;
    if let Some(mut state) = hook.stdin.take() {
        state.write_all(state_of(&bundle).as_bytes())?;
    }
    let status = hook.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the hook {program}: {status}"))) }
}

fn named(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
