//! The programs of a release: for both processors, against an old C library, the same bytes wherever they are built.

use crate::dist::elf::Glibc;
use crate::programs::BUILT;
use crate::run::{cargo, read, run};
use crate::{limiter, root, tools};
use anyhow::{Context, Result, bail};
use carve_oci_image::Architecture;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pinned: another linker makes other bytes.
const ZIG: &str = "0.17.0";
const CARGO_ZIGBUILD: &str = "0.24.0";

/// The C library of RHEL 8; Debian 10, Ubuntu 20.04 and later have newer ones.
pub(crate) fn promised() -> Glibc {
    Glibc::new(2, 28)
}

/// What a release has for a processor.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) architecture: Architecture,
    pub(crate) carve: PathBuf,
    /// Only where the limiter knows the processor.
    pub(crate) limiter: Option<PathBuf>,
}

/// Builds them.
pub(crate) fn build(architecture: Architecture) -> Result<Programs> {
    let packages = [format!("ziglang=={ZIG}"), format!("cargo-zigbuild=={CARGO_ZIGBUILD}")];
    let folder = format!("zig-{ZIG}-zigbuild-{CARGO_ZIGBUILD}");
    let Some(zig) = tools::from_python(&folder, &packages)? else {
        bail!(
            "releases are linked by zig, which comes from Python's registry: install python3 with venv and pip"
        );
    };
    let triple = format!("{}-unknown-linux-gnu", architecture.compiler_name());
    add_target(&triple)?;
    let mut command = zigbuild(&zig, "zigbuild")?;
    command.args(["--locked", "--release", "--package", "carve", "--bin", "carve"]);
    run(command.args(["--target", &format!("{triple}.{}", promised())]))?;
    let carve = root().join("target").join(&triple).join("release/carve");
    let limiter = match architecture {
        Architecture::Amd64 => Some(build_limiter(&zig, &triple)?),
        Architecture::Arm64 => {
            eprintln!("the limiter knows x86_64 only; the release for {triple} is without it");
            None
        }
    };
    Ok(Programs { architecture, carve, limiter })
}

fn build_limiter(zig: &Path, triple: &str) -> Result<PathBuf> {
    let folder = root().join("target/limiter-release");
    let mut command = zigbuild(zig, "rustc")?;
    command.args(["--locked", "--target", triple, "--target-dir"]).arg(&folder);
    command.args(limiter::CARGO).arg("--").args(limiter::RUSTC);
    // Otherwise zig links its own idea of a C library.
    run(command.args(["-C", "link-arg=-nostdlib"]))?;
    Ok(folder.join(triple).join("release").join(limiter::LIBRARY))
}

fn zigbuild(zig: &Path, verb: &str) -> Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(zig.to_owned()).chain(std::env::split_paths(&path)))?;
    let mut command = Command::new(zig.join("cargo-zigbuild"));
    crate::run::forget_ourselves(&mut command);
    command.arg(verb).current_dir(root()).env("PATH", path);
    // Whatever else is set would make other bytes.
    for name in ["RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CFLAGS"] {
        command.env_remove(name);
    }
    let flags: Vec<String> = forgotten_paths()?
        .into_iter()
        .map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()))
        .collect();
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    Ok(command)
}

/// Places that would otherwise stand in the program, and what stands there instead.
fn forgotten_paths() -> Result<Vec<(PathBuf, String)>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let sources = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
    let registries =
        std::fs::read_dir(&sources).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<(PathBuf, String)> =
        registries.map(|registry| (registry, "/build/registry".to_owned())).collect();
    paths.sort();
    paths.push((root(), "/build/carve".to_owned()));
    // Where the standard library's source is installed, its place is named instead of this.
    let about = read(Command::new("rustc").arg("-vV").current_dir(root()))?;
    let commit =
        about.lines().find_map(|line| line.strip_prefix("commit-hash: ")).context("rustc names no commit")?;
    let sysroot = read(Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()))?;
    paths.push((Path::new(sysroot.trim()).join("lib/rustlib/src/rust"), format!("/rustc/{commit}")));
    Ok(paths)
}

/// Makes sure that the compiler has the standard library of a target.
fn add_target(triple: &str) -> Result<()> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", triple]).current_dir(root());
    if Path::new(read(&mut command)?.trim()).exists() {
        return Ok(());
    }
    run(Command::new("rustup").args(["target", "add", triple]).current_dir(root())).with_context(|| {
        format!("the standard library for {triple} is not installed; --only x86_64 does without aarch64")
    })
}

/// The programs as tests have them: this machine's, built for tests unless it is said that all is built.
pub(crate) fn of_tests() -> Result<Programs> {
    if std::env::var_os(BUILT).is_some() {
        return of_built();
    }
    run(cargo().args(["build", "--quiet", "--workspace", "--bin", "carve"]))?;
    limiter::build()?;
    of_built()
}

/// The same as they were built last, without names and lines, which are more than half of them.
pub(crate) fn of_built() -> Result<Programs> {
    let carve = root().join("target/dist-carve");
    run(Command::new("strip").arg("-o").arg(&carve).arg(root().join("target/debug/carve")))?;
    Ok(Programs { architecture: Architecture::OWN, carve, limiter: Some(limiter::built()) })
}
