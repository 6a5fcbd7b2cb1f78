//! Which machine is meant: the one with the driver, or a simulated one.

use crate::args::MachineArgs;
use crate::failure::Failure;
use crate::input;
use carve_dra_driver::RecordStore;
use carve_gpu_host::{GpuHost, Machine};
use carve_mig_manager::StateDir;
use carve_nvml::{Nvml, NvmlPaths, OpenError};
use carve_sim_store::SharedMachine;
use std::path::{Path, PathBuf};

/// What is simulated where no driver is and nothing was asked for.
const DEFAULT_MACHINE: &str = "p4d.24xlarge";

/// The machine to talk to.
pub(crate) struct Chosen {
    pub(crate) host: Box<dyn GpuHost>,
    /// Where the manager keeps its journal.
    pub(crate) state_dir: StateDir,
    /// Where an agent records which claims use the GPUs.
    pub(crate) claims: RecordStore,
    /// Name of the machine, if it is simulated.
    pub(crate) simulated: Option<String>,
}

impl Chosen {
    /// A failure with the message of an error, and what the machine has to add to it.
    pub(crate) fn failure(&self, error: &dyn std::error::Error) -> Failure {
        let mut failure = Failure::of(error);
        if let Some(words) = self.host.last_words() {
            failure.message.push_str(&format!("\n{words}"));
        }
        failure
    }
}

/// Opens the machine that the arguments mean, and says on stderr if it is simulated.
pub(crate) fn open(args: &MachineArgs) -> Result<Chosen, Failure> {
    match (&args.machine, &args.nvml) {
        (Some(_), Some(_)) => {
            Err(Failure::new("--machine simulates and --nvml names a driver library; give one of them"))
        }
        (Some(machine), None) => simulated(args, machine, "as asked for"),
        (None, Some(library)) => real(args, Some(library)).map_err(|error| not_usable(&error)),
        (None, None) => match real(args, None) {
            Ok(chosen) => Ok(chosen),
            Err(OpenError::LibraryNotFound { .. }) => match mounted_library() {
                Some(library) => real(args, Some(&library)).map_err(|error| not_usable(&error)),
                None => simulated(args, DEFAULT_MACHINE, "no NVIDIA driver is installed here"),
            },
            Err(error) => Err(not_usable(&error)),
        },
    }
}

/// Opens the machine for programs that are started on it: they use what is here, so nothing is simulated unless that was asked for.
pub(crate) fn open_for_programs(args: &MachineArgs) -> Result<Chosen, Failure> {
    if args.machine.is_some() || args.nvml.is_some() {
        return open(args);
    }
    let library = mounted_library();
    real(args, None)
        .or_else(|error| match (&error, &library) {
            (OpenError::LibraryNotFound { .. }, Some(library)) => real(args, Some(library)),
            _ => Err(error),
        })
        .map_err(|error| not_usable(&error))
}

/// The driver of this machine, if there is one.
pub(crate) fn driver(args: &MachineArgs) -> Result<Option<Nvml>, Failure> {
    let library = args.nvml.clone();
    match (Nvml::open(library.as_deref()), library) {
        (Ok(nvml), _) => Ok(Some(nvml)),
        (Err(OpenError::LibraryNotFound { .. }), None) => match mounted_library() {
            Some(library) => Nvml::open(Some(&library)).map(Some).map_err(|error| not_usable(&error)),
            None => Ok(None),
        },
        (Err(error), _) => Err(not_usable(&error)),
    }
}

/// Opens the machine for the agent, which runs unattended: nothing is simulated unless that was asked for.
pub(crate) fn open_for_agent(
    args: &MachineArgs,
    driver_root: &Path,
    links: &Path,
) -> Result<Box<dyn GpuHost>, String> {
    let text = |failure: Failure| failure.message;
    match (&args.machine, &args.nvml) {
        (Some(_), Some(_)) => {
            Err("--machine simulates and --nvml names a driver library; give one of them".to_owned())
        }
        (Some(machine), None) => {
            simulated(args, machine, "as asked for").map(|chosen| chosen.host).map_err(text)
        }
        (None, library) => {
            let within = library.clone().or_else(|| library_under(driver_root));
            let mut paths = NvmlPaths { library: within, ..NvmlPaths::default() };
            let smi = driver_root.join("usr/bin/nvidia-smi");
            if smi.exists() {
                paths.nvidia_smi = smi;
                paths.smi_libraries = Some(links.to_owned());
            }
            let host = Nvml::open_at(paths).map_err(|error| text(Failure::of(&error)))?;
            Ok(Box::new(host))
        }
    }
}

/// The driver library in the agent's container, which has the host's driver where the agent looks for it.
fn mounted_library() -> Option<PathBuf> {
    let named = std::env::var_os("DRIVER_ROOT_CTR_PATH").filter(|path| !path.is_empty());
    library_under(&named.map_or_else(|| PathBuf::from("/driver-root"), PathBuf::from))
}

/// The driver library under a root that is mounted into the agent's container.
fn library_under(root: &Path) -> Option<PathBuf> {
    let folders = [
        "usr/lib64",
        "usr/lib/x86_64-linux-gnu",
        "usr/lib/aarch64-linux-gnu",
        "lib64",
        "lib/x86_64-linux-gnu",
    ];
    folders.iter().find_map(|folder| beneath(root, &root.join(folder).join("libnvidia-ml.so.1")))
}

/// Where a path leads without leaving the root: links of the driver's root mean paths in that root.
fn beneath(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..16 {
        match std::fs::read_link(&path) {
            Ok(target) if target.is_absolute() => path = root.join(target.strip_prefix("/").ok()?),
            Ok(target) => path = path.parent()?.join(target),
            Err(_) => return path.exists().then_some(path),
        }
    }
    None
}

fn real(args: &MachineArgs, library: Option<&Path>) -> Result<Chosen, OpenError> {
    let host = Nvml::open(library)?;
    let path = args.state_dir.clone().unwrap_or_else(|| PathBuf::from("/var/lib/carve"));
    let claims = RecordStore::of_agent(&path);
    Ok(Chosen { host: Box::new(host), state_dir: StateDir::new(path), claims, simulated: None })
}

fn not_usable(error: &OpenError) -> Failure {
    Failure::of(error).hint("to try carve without a GPU, simulate one: --machine p4d.24xlarge")
}

fn simulated(args: &MachineArgs, asked: &str, why: &str) -> Result<Chosen, Failure> {
    let machine = if asked.contains('/') || asked.ends_with(".yaml") || asked.ends_with(".yml") {
        let path = Path::new(asked);
        let text = input::read(path)?;
        Machine::parse(&text).map_err(|error| Failure::new(format!("{asked}: {error}")))?
    } else {
        Machine::named(asked).map_err(|error| Failure::of(&error))?
    };
    let home = state_home(args)?;
    let folder = home.join("machines");
    let name = machine.name().to_owned();
    let file = folder.join(format!("{}.json", file_name(&name)));
    let host = SharedMachine::open(&file, machine).map_err(|error| Failure::of(&error))?;
    eprintln!("simulated machine {name} ({why}); nothing real is read or changed");
    let state_dir = StateDir::new(folder.join(format!("{}.mig", file_name(&name))));
    Ok(Chosen {
        host: Box::new(host),
        state_dir,
        claims: RecordStore::of_agent(&home),
        simulated: Some(name),
    })
}

/// A machine's name as a file name; names come from files people write.
fn file_name(name: &str) -> String {
    let safe =
        |letter: char| if letter.is_ascii_alphanumeric() || ".-_".contains(letter) { letter } else { '_' };
    name.chars().map(safe).collect::<String>().trim_start_matches('.').to_owned()
}

/// Where simulated machines are kept: a person's own state, not the system's.
pub(crate) fn state_home(args: &MachineArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = &args.state_dir {
        return Ok(path.clone());
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("carve"))
        .ok_or_else(|| {
            Failure::new("neither HOME nor XDG_STATE_HOME is set; say where to keep state with --state-dir")
        })
}
