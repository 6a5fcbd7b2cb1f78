//! A root directory in which one of NVIDIA's programs finds a simulated machine and nothing else.

use crate::incumbents::skip;
use crate::{Incumbents, Outcome, Program, Running, built, kernel_files};
use carve_gpu_host::{GpuHost, HostError, Machine};
use carve_sim_store::{SharedMachine, StoreError};
use carve_test_support::libraries_of;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use thiserror::Error;

/// Where the state file lies, seen from inside.
const STATE: &str = "/state/machine.json";
/// Where the simulated library lies, seen from inside.
pub(crate) const LIBRARIES: &str = "/usr/lib/simulated";

/// Why a cage can not be made or used.
#[derive(Debug, Error)]
pub enum CageError {
    /// The operating system refused.
    #[error("{path}: can not {what}", path = path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The refusal.
        source: io::Error,
    },
    /// The state file can not be used.
    #[error("the machine in the cage")]
    Store(#[from] StoreError),
    /// The machine does not tell its GPUs.
    #[error("the machine in the cage")]
    Host(#[from] HostError),
}

pub(crate) fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> CageError {
    let path = path.to_owned();
    move |source| CageError::Io { path, what, source }
}

/// A root directory with NVIDIA's programs and a simulated machine. It goes away when dropped.
#[derive(Debug)]
pub struct Cage {
    root: TempDir,
}

impl Cage {
    /// Furnishes a cage. `None` without root, which chroot needs (said on stderr; a failure under `CI=true`).
    pub fn new(incumbents: &Incumbents) -> Result<Option<Self>, CageError> {
        if !rustix::process::geteuid().is_root() {
            skip("running NVIDIA's programs in a root directory of their own needs root");
            return Ok(None);
        }
        let root = tempfile::tempdir().map_err(io_error(&std::env::temp_dir(), "make a directory"))?;
        let cage = Cage { root };
        cage.furnish(incumbents)?;
        Ok(Some(cage))
    }

    fn furnish(&self, incumbents: &Incumbents) -> Result<(), CageError> {
        let library = built::library();
        let nvidia_smi = built::nvidia_smi();
        let programs: Vec<PathBuf> = Program::ALL.iter().map(|program| incumbents.path(*program)).collect();
        let mut files: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
        files.extend([library.as_path(), nvidia_smi.as_path()]);
        self.place_needs_of(&files)?;
        for program in Program::ALL {
            self.place(&incumbents.path(program), &Path::new("/bin").join(program.file_name()))?;
        }
        self.place(&nvidia_smi, Path::new("/bin/nvidia-smi"))?;
        self.place(&library, &Path::new(LIBRARIES).join("libnvidia-ml.so.1"))?;
        for folder in ["dev", "tmp", "state", "var/lib/kubelet/device-plugins"] {
            let folder = self.root().join(folder);
            fs::create_dir_all(&folder).map_err(io_error(&folder, "make a directory"))?;
        }
        self.make_node("/dev/null", (1, 3))?;
        kernel_files::write_fixed(self.root()).map_err(io_error(self.root(), "write /proc and /sys"))
    }

    /// Puts the libraries that files need into the cage.
    pub(crate) fn place_needs_of(&self, files: &[&Path]) -> Result<(), CageError> {
        for file in files {
            let needed = libraries_of(file).map_err(io_error(file, "find its libraries"))?;
            needed
                .iter()
                .filter(|file| !self.outside(file).exists())
                .try_for_each(|file| self.place(file, file))?;
        }
        Ok(())
    }

    /// Puts a file into the cage, as a link where the file system allows it.
    pub(crate) fn place(&self, file: &Path, inside: &Path) -> Result<(), CageError> {
        let target = self.outside(inside);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(io_error(parent, "make a directory"))?;
        }
        // What ldd names is often a link itself; the cage needs the file.
        let file = file.canonicalize().map_err(io_error(file, "find the file"))?;
        if fs::hard_link(&file, &target).is_ok() {
            return Ok(());
        }
        fs::copy(&file, &target).map(drop).map_err(io_error(&file, "copy the file into the cage"))
    }

    /// Makes a character device with these numbers. Nothing need be behind it.
    pub(crate) fn make_node(&self, inside: &str, (major, minor): (u32, u32)) -> Result<(), CageError> {
        let path = self.outside(Path::new(inside));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io_error(parent, "make a directory"))?;
        }
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(major, minor))
            .map_err(|error| io_error(&path, "make the device")(error.into()))
    }

    /// The root directory, seen from outside.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A path inside the cage, seen from outside.
    pub fn outside(&self, inside: &Path) -> PathBuf {
        self.root().join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The state file, seen from outside.
    pub fn state_file(&self) -> PathBuf {
        self.outside(Path::new(STATE))
    }

    /// Writes a file for a program to read.
    pub fn write(&self, inside: &str, contents: &str) -> Result<(), CageError> {
        let path = self.outside(Path::new(inside));
        fs::write(&path, contents).map_err(io_error(&path, "write the file"))
    }

    /// Reads a file that a program wrote.
    pub fn read(&self, inside: &str) -> Result<String, CageError> {
        let path = self.outside(Path::new(inside));
        fs::read_to_string(&path).map_err(io_error(&path, "read the file"))
    }

    /// Puts another machine into the cage, just switched on. Programs started before should have ended.
    pub fn switch_on(&self, machine: Machine) -> Result<SharedMachine, CageError> {
        let path = self.state_file();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error(&path, "remove the state file")(error));
            }
            _ => {}
        }
        let name = machine.name().to_owned();
        let machine = SharedMachine::open(&path, machine)?;
        let gpus = machine.gpus()?;
        kernel_files::write_machine(self.root(), &name, &gpus)
            .map_err(io_error(self.root(), "write /proc and /sys"))?;
        Ok(machine)
    }

    /// Tells programs what PCI devices are called. Whoever is not told reads a list of 1.5 MB of its own for each GPU, which is nearly all that
    /// mig-parted does; a measurement leaves that as it is where NVIDIA's images run.
    pub fn name_devices(&self) -> Result<(), CageError> {
        kernel_files::write_names(self.root()).map_err(io_error(self.root(), "write the names of devices"))
    }

    /// Runs a program to its end.
    pub fn run(&self, program: Program, arguments: &[&str]) -> Result<Outcome, CageError> {
        self.run_with(program, arguments, &[])
    }

    /// Runs a program to its end with more environment than usual, such as planned faults.
    pub fn run_with(
        &self,
        program: Program,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Outcome, CageError> {
        let mut command = self.command(program, arguments, environment)?;
        let output = command.output().map_err(io_error(self.root(), "run the program"))?;
        Ok(Outcome {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Starts a program that serves until it is stopped.
    pub fn start(&self, program: Program, arguments: &[&str]) -> Result<Running, CageError> {
        let mut command = self.command(program, arguments, &[])?;
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        child.and_then(Running::new).map_err(io_error(self.root(), "start the program"))
    }

    /// The command line of a program in the cage, for whoever wants to time it.
    #[allow(unsafe_code, reason = "changing the root of a child happens between fork and exec")]
    pub fn command(
        &self,
        program: Program,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Command, CageError> {
        let root = self.named_root()?;
        let mut command = self.dressed(program.file_name());
        command.args(arguments).env("NODE_NAME", "simulated").envs(environment.iter().copied());
        if matches!(program, Program::MigParted) {
            // It ends within a second and runs thousands of times: memory it would only tidy up is let go with it.
            command.env("GOGC", "off");
        }
        // SAFETY: between fork and exec only system calls are made; the path was made before.
        unsafe {
            command.pre_exec(move || {
                rustix::process::chroot(root.as_c_str())?;
                rustix::process::chdir(c"/")?;
                Ok(())
            });
        }
        Ok(command)
    }

    /// The command line of a program in `/bin` with the environment that shows it the machine, its root not yet changed.
    pub(crate) fn dressed(&self, program: &str) -> Command {
        let mut command = Command::new(format!("/bin/{program}"));
        command
            .env_clear()
            .envs([
                ("PATH", "/bin"),
                ("HOME", "/tmp"),
                ("LD_LIBRARY_PATH", LIBRARIES),
                ("CARVE_SIM_STATE", STATE),
            ])
            .stdin(Stdio::null());
        command
    }

    /// The root directory as system calls want it.
    pub(crate) fn named_root(&self) -> Result<CString, CageError> {
        CString::new(self.root().as_os_str().as_bytes())
            .map_err(|error| io_error(self.root(), "name the directory")(error.into()))
    }
}
