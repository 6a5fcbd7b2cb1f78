//! Keeps the CDI file of the node true, and knows what to do where the container runtime does not read it.

use crate::options::AgentOptions;
use carve_cdi::{
    CdiSupport, Found, HostRoot, find_class_files, find_driver_files, remove_ours, runtime_has_cdi, write_all,
};
use carve_dra_driver::NodeFiles;
use carve_formats::DevicePluginConfig;
use carve_slicing::cdi::{HookPath, cdi_spec};
use carve_slicing::{
    CdiClass, ClassSpecs, DeviceList, FlatEdits, NodeGpus, Settings, class_specs, flat_edits,
};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The CDI part of the agent.
#[derive(Debug)]
pub(crate) struct Cdi {
    container_driver_root: PathBuf,
    folder: PathBuf,
    hook: PathBuf,
    hook_here: PathBuf,
    containerd_config: PathBuf,
    /// What the node's status calls its container runtime.
    runtime: Option<String>,
    installed: bool,
    control_nodes: Vec<String>,
}

/// What came of writing the file.
#[derive(Debug, Default)]
pub(crate) struct CdiOutcome {
    pub(crate) remarks: Vec<String>,
    /// Why containers would start without a GPU.
    pub(crate) trouble: Option<String>,
    /// The same in kubelet's words, where the runtime does not read the file.
    pub(crate) flattened: Option<Arc<FlatEdits>>,
    /// Classes that are asked for and that the node does not have.
    pub(crate) absent: BTreeSet<CdiClass>,
}

impl Cdi {
    pub(crate) fn new(options: &AgentOptions) -> Self {
        Cdi {
            container_driver_root: options.container_driver_root.clone(),
            folder: options.cdi_folder.clone(),
            hook: options.hook_program.clone(),
            hook_here: options.hook_program_here.clone(),
            containerd_config: options.containerd_config.clone(),
            runtime: None,
            installed: false,
            control_nodes: Vec::new(),
        }
    }

    /// The node's status says which container runtime it has. Tells whether that is news.
    pub(crate) fn learn_runtime(&mut self, runtime: Option<String>) -> bool {
        let news = runtime.is_some() && runtime != self.runtime;
        if news {
            self.runtime = runtime;
        }
        news
    }

    /// Device nodes that every container with a GPU needs, as far as they exist.
    pub(crate) fn control_nodes(&self) -> Vec<String> {
        self.control_nodes.clone()
    }

    /// Sets how containers learn their devices, where the configuration does not say.
    pub(crate) fn choose_lists(&self, config: &DevicePluginConfig, settings: &mut Settings) {
        let unsaid = config.flags.plugin.as_ref().is_none_or(|plugin| plugin.device_list_strategy.is_none());
        if let (true, Some(usual)) = (unsaid, self.usual_lists()) {
            settings.device_lists = usual;
        }
    }

    /// How containers learn their devices where nobody said: NVIDIA's way where its runtime is, otherwise CDI.
    fn usual_lists(&self) -> Option<BTreeSet<DeviceList>> {
        let config = fs::read_to_string(&self.containerd_config).unwrap_or_default();
        let toolkit = ["usr/bin", "usr/local/nvidia/toolkit"]
            .iter()
            .any(|folder| self.container_driver_root.join(folder).join("nvidia-container-runtime").exists());
        if toolkit || config.contains("nvidia-container-runtime") {
            return None;
        }
        match self.support() {
            CdiSupport::Enabled | CdiSupport::Disabled { .. } => Some(BTreeSet::from([DeviceList::CdiCri])),
            CdiSupport::Unknown { .. } => None,
        }
    }

    fn support(&self) -> CdiSupport {
        let Some(runtime) = &self.runtime else {
            return CdiSupport::Unknown { why: "the node's status was not read".to_owned() };
        };
        let configs = read_configs(&self.containerd_config);
        let configs: Vec<&str> = configs.iter().map(String::as_str).collect();
        runtime_has_cdi(runtime, &configs, Path::new(carve_cdi::SPEC_DIR))
    }

    fn root(&self, on_host: &str) -> HostRoot {
        let mounted =
            fs::read_dir(&self.container_driver_root).is_ok_and(|mut entries| entries.next().is_some());
        if mounted {
            HostRoot { on_host: on_host.to_owned(), here: self.container_driver_root.clone() }
        } else {
            HostRoot::same(on_host)
        }
    }

    fn dev_root(&self, settings: &Settings) -> HostRoot {
        // A container sees the host's device nodes under its own /dev.
        if settings.dev_root == "/" { HostRoot::same("/") } else { self.root(&settings.dev_root) }
    }

    /// Says whether containers could be given a GPU, without writing anything.
    pub(crate) fn check(&self, node: &NodeGpus, settings: &Settings) -> Result<String, String> {
        let (driver, dev) = (self.root(&settings.driver_root), self.dev_root(settings));
        let found =
            find_driver_files(&driver, &dev, &node.driver.version).map_err(|error| error.to_string())?;
        let (libraries, nodes) = (found.files.libraries.len(), found.files.gpu_nodes.len());
        let remarks = found.remarks.iter().map(|remark| format!("; {remark}")).collect::<String>();
        Ok(format!("{libraries} driver libraries, device nodes of {nodes} GPU(s){remarks}"))
    }

    /// What the node has of the classes beside GPUs. What it has not, containers do without; only IMEX channels can be
    /// required.
    fn classes(&self, settings: &Settings, outcome: &mut CdiOutcome) -> ClassSpecs {
        let found = find_class_files(&self.root(&settings.driver_root), &self.dev_root(settings));
        // Roots that can not be opened are told about with the driver's files.
        let classes = class_specs(settings, &found.unwrap_or_default());
        for absent in &classes.absent {
            if absent.class() == CdiClass::ImexChannel && settings.imex_required {
                outcome.trouble = Some(absent.to_string());
            }
            outcome.remarks.push(absent.to_string());
            outcome.absent.insert(absent.class());
        }
        classes
    }

    /// Brings the file up to date. Where containers learn their devices otherwise it goes, once no pod can ask for what it
    /// names (`unused`).
    pub(crate) fn write(&mut self, node: &NodeGpus, settings: &Settings, unused: bool) -> CdiOutcome {
        let mut outcome = CdiOutcome::default();
        if !settings.any_cdi_list() && unused {
            match remove_ours(&self.folder) {
                Ok(false) => {}
                Ok(true) => tracing::info!(
                    folder = %self.folder.display(),
                    "the CDI files are gone: no container learns its devices by them any more"
                ),
                Err(error) => outcome.remarks.push(error.to_string()),
            }
        }
        let classes = self.classes(settings, &mut outcome);
        self.control_nodes = existing_control_nodes(&self.dev_root(settings).here);
        let found = find_driver_files(
            &self.root(&settings.driver_root),
            &self.dev_root(settings),
            &node.driver.version,
        );
        let Found { files, remarks } = match found {
            Ok(found) => found,
            Err(error) => {
                outcome.trouble = Some(error.to_string());
                return outcome;
            }
        };

        if !settings.any_cdi_list() {
            return outcome;
        }
        outcome.remarks.extend(remarks);
        let Some(hook) = HookPath::new(self.hook.display().to_string()) else {
            outcome.trouble = Some(format!("the hook's path {} is not absolute", self.hook.display()));
            return outcome;
        };
        if !self.installed {
            match install(&self.hook_here) {
                Ok(()) => self.installed = true,
                Err(error) => {
                    let path = self.hook_here.display();
                    outcome.trouble = Some(format!("the hook can not be put at {path}: {error}"));
                    return outcome;
                }
            }
        }
        let spec = cdi_spec(node, &files, settings, &hook);
        if let CdiSupport::Disabled { why } = self.support() {
            let way = "containers get device nodes and libraries from kubelet instead";
            outcome.remarks.push(format!("{why}; {way}"));
            outcome.flattened = Some(Arc::new(flat_edits(&spec, &files).with_classes(&classes)));
        }
        if let Err(error) = write_all(&self.folder, &spec, &classes) {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            outcome.trouble = Some(format!("{error}{}", source.unwrap_or_default()));
        }
        outcome
    }
}

impl Cdi {
    /// What containers of claims need of the node, with the hook in its place.
    pub(crate) fn node_files(
        &mut self,
        node: &NodeGpus,
        settings: &Settings,
        runtime: Option<String>,
    ) -> Result<NodeFiles, String> {
        self.learn_runtime(runtime);
        if let CdiSupport::Disabled { why } = self.support() {
            return Err(format!("{why}; claims need it: switch it on and restart containerd"));
        }
        let found = find_driver_files(
            &self.root(&settings.driver_root),
            &self.dev_root(settings),
            &node.driver.version,
        );
        let found = found.map_err(|error| error.to_string())?;
        for remark in &found.remarks {
            tracing::warn!("{remark}");
        }
        let hook = HookPath::new(self.hook.display().to_string())
            .ok_or_else(|| format!("the hook's path {} is not absolute", self.hook.display()))?;
        if !self.installed {
            install(&self.hook_here).map_err(|error| {
                format!("the hook can not be put at {}: {error}", self.hook_here.display())
            })?;
            self.installed = true;
        }
        Ok(NodeFiles { driver: found.files, hook: Some(hook), dev_root: settings.dev_root.clone() })
    }
}

/// containerd's configuration and what it imports, as far as it can be seen here.
fn read_configs(main: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(main) else { return Vec::new() };
    let mut paths = Vec::new();
    for import in carve_cdi::imports(&text) {
        let import = Path::new(&import);
        let name = import.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((before, after)) = name.split_once('*') else {
            paths.push(import.to_owned());
            continue;
        };
        let folder = fs::read_dir(import.parent().unwrap_or(Path::new("/")));
        let mut found: Vec<PathBuf> =
            folder.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        found.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(before) && name.ends_with(after)
        });
        found.sort();
        paths.extend(found);
    }
    std::iter::once(text).chain(paths.iter().filter_map(|path| fs::read_to_string(path).ok())).collect()
}

/// The device nodes of the driver that every container needs, as far as they are there. Containers get them also where
/// NVIDIA's runtime brings the libraries, so that they do not depend on any being found.
fn existing_control_nodes(root: &Path) -> Vec<String> {
    let names = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];
    // Where the host's root is not mounted here, the container's own device nodes tell.
    let exists = |name: &&&str| root.join("dev").join(name).exists() || Path::new("/dev").join(name).exists();
    let there = names.iter().filter(exists);
    there.map(|name| format!("/dev/{name}")).collect()
}

/// Puts this program where the container runtime will find it.
fn install(path: &Path) -> io::Result<()> {
    let mut program = fs::File::open("/proc/self/exe")?;
    if fs::File::open(path).is_ok_and(|there| is_same(&mut program, there).unwrap_or(false)) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("new");
    let put = fs::copy("/proc/self/exe", &new)
        .and_then(|_| fs::set_permissions(&new, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&new, path));
    if put.is_err() {
        // Half a program takes room that is missing already.
        let _ = fs::remove_file(&new);
    }
    put
}

/// Whether two files hold the same, without having either in memory.
fn is_same(one: &mut fs::File, mut other: fs::File) -> io::Result<bool> {
    use std::io::Read;
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut here, mut there) = ([0; 1 << 14], [0; 1 << 14]);
    loop {
        let read = one.read(&mut here)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact(&mut there[..read])?;
        if here[..read] != there[..read] {
            return Ok(false);
        }
    }
}
