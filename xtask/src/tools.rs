//! Programs of others that tasks need, installed once into the cache, in versions that do not change by themselves.

use crate::cache;
use crate::run::{read, run};
use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A program from the crate registry. It is compiled quickly rather than well, for all of them work for seconds.
pub(crate) fn from_crates(name: &str, version: &str, more: &[&str]) -> Result<PathBuf> {
    let home = cache().join("tools");
    let tool = home.join("bin").join(name);
    let stamp = home.join(format!(".{name}-{version}"));
    if !(tool.exists() && stamp.exists()) {
        eprintln!("installing {name} {version}");
        let mut command = Command::new("cargo");
        command.args(["install", "--locked", "--quiet", "--force", "--version", version, name, "--root"]);
        command.arg(&home).args(more).current_dir(std::env::temp_dir());
        for (setting, value) in [("OPT_LEVEL", "1"), ("LTO", "off"), ("CODEGEN_UNITS", "16")] {
            command.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
        }
        run(&mut command)?;
        fs::write(stamp, "")?;
    }
    Ok(tool)
}

/// Programs from Python's registry, as `name==version`, in a folder of their own: the answer is where they are. Nothing without Python.
pub(crate) fn from_python(folder: &str, packages: &[String]) -> Result<Option<PathBuf>> {
    let home = cache().join("tools").join(folder);
    let (programs, stamp) = (home.join("bin"), home.join(".complete"));
    if stamp.exists() {
        return Ok(Some(programs));
    }
    if read(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_err() {
        return Ok(None);
    }
    eprintln!("installing {}", packages.join(", ").replace("==", " "));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
    let mut pip = Command::new(programs.join("pip"));
    run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
    fs::write(stamp, "")?;
    Ok(Some(programs))
}
