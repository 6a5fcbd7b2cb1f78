//! Runs our own program in a cage, where it finds the same files and device nodes as NVIDIA's programs.

use crate::cage::{CageError, LIBRARIES, io_error};
use crate::{Cage, Running, carve};
use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the kernel's own `/proc` is inside; `/proc` itself has the files of the simulated machine.
const KERNEL: &str = "/kernel";

impl Cage {
    /// Puts the built `carve` into the cage.
    pub fn admit_carve(&self) -> Result<(), CageError> {
        let program = carve::binary();
        self.place_needs_of(&[program])?;
        self.place(program, Path::new("/bin/carve"))?;
        let kernel = self.outside(Path::new(KERNEL));
        fs::create_dir_all(&kernel).map_err(io_error(&kernel, "make a directory"))?;
        let own = self.outside(Path::new("/proc/self"));
        symlink(format!("{KERNEL}/self"), &own).map_err(io_error(&own, "make a link"))
    }

    /// The built `carve` outside.
    pub fn carve_binary(&self) -> PathBuf {
        carve::binary().to_owned()
    }

    /// The command line of `carve` in the cage. It must have been admitted.
    #[allow(unsafe_code, reason = "changing the root of a child happens between fork and exec")]
    pub fn carve_command(&self, arguments: &[&str]) -> Result<Command, CageError> {
        let root = self.named_root()?;
        let kernel = self.outside(Path::new(KERNEL));
        let kernel = CString::new(kernel.into_os_string().into_encoded_bytes())
            .map_err(|error| io_error(self.root(), "name the directory")(error.into()))?;
        let mut command = self.dressed("carve");
        command.args(arguments).env("CARVE_NVML", format!("{LIBRARIES}/libnvidia-ml.so.1"));
        // SAFETY: between fork and exec only system calls are made; the paths were made before. The child has one thread,
        // so that no other one is surprised by its mounts, which nobody else sees and which go away with it.
        unsafe {
            command.pre_exec(move || {
                // carve asks `/proc/self` where its open files are; a root directory alone does not have that.
                unshare_unsafe(UnshareFlags::NEWNS)?;
                mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
                mount_bind_recursive(c"/proc", kernel.as_c_str())?;
                rustix::process::chroot(root.as_c_str())?;
                rustix::process::chdir(c"/")?;
                Ok(())
            });
        }
        Ok(command)
    }

    /// Starts `carve` to serve until it is stopped.
    pub fn start_carve(&self, arguments: &[&str]) -> Result<Running, CageError> {
        let child = self.carve_command(arguments)?.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        child.and_then(Running::new).map_err(io_error(self.root(), "start carve"))
    }
}
