//! Builds NVIDIA's own programs, Karpenter and Helm from their Go modules into the cache, as opponents, referees and tools for the tests.

use crate::run::{is_ci, read, run};
use crate::{cache, root};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File name of the oracle made of NVIDIA's config packages.
pub(crate) const ORACLE: &str = "carve-oracle";

struct Module {
    path: &'static str,
    /// The newest version the module proxy serves; the recorded goldens are of a later one.
    version: &'static str,
    /// Packages, and what the programs are called.
    programs: &'static [(&'static str, &'static str)],
    /// Files that a program does not bring along, and what they are called beside it.
    files: &'static [(&'static str, &'static str)],
    /// A program of ours that is made of the module's packages: where its source is here, and where it goes in the module.
    ours: Option<(&'static str, &'static str)>,
}

const MODULES: &[Module] = &[
    Module {
        path: "github.com/NVIDIA/mig-parted",
        version: "v0.13.1",
        programs: &[("./cmd/nvidia-mig-parted", "nvidia-mig-parted")],
        files: &[],
        ours: None,
    },
    Module {
        path: "github.com/NVIDIA/k8s-device-plugin",
        version: "v0.19.1",
        programs: &[
            ("./cmd/nvidia-device-plugin", "nvidia-device-plugin"),
            ("./cmd/gpu-feature-discovery", "gpu-feature-discovery"),
        ],
        files: &[],
        ours: None,
    },
    // All of Karpenter's controllers, with a cloud that makes Node objects and no machines.
    Module {
        path: "sigs.k8s.io/karpenter",
        version: "v1.14.1",
        programs: &[("./carve", "karpenter")],
        files: &[("kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml", "karpenter.nodeclasses.yaml")],
        ours: Some(("conformance/karpenter/main.go", "carve/main.go")),
    },
    // Installs our chart as people do.
    Module {
        path: "helm.sh/helm/v4",
        version: "v4.3.1",
        programs: &[("./cmd/helm", "helm")],
        files: &[],
        ours: None,
    },
];

/// Builds what is missing for the tests; without Go it says so, unless nothing may be skipped.
pub(crate) fn for_tests() -> Result<Option<PathBuf>> {
    let go = Command::new("go").arg("version").output();
    match go {
        Ok(output) if output.status.success() => build().map(Some),
        _ if is_ci() => {
            bail!("go is not installed, and CI must not skip")
        }
        _ => {
            eprintln!("SKIPPED: go is not installed, so the comparisons with NVIDIA's programs do not run");
            Ok(None)
        }
    }
}

/// Where programs are once they were built.
pub(crate) fn programs() -> PathBuf {
    cache().join("incumbents/bin")
}

/// Builds what is missing and answers the folder of programs.
pub(crate) fn build() -> Result<PathBuf> {
    MODULES.iter().try_for_each(build_module)?;
    eprintln!("building the oracle");
    run(go(&root().join("conformance/oracle"))
        .args(["build", "-trimpath", "-o"])
        .arg(programs().join(ORACLE))
        .arg("."))?;
    Ok(programs())
}

/// Builds Helm alone, for whoever wants to install the chart.
pub(crate) fn helm() -> Result<()> {
    let has_helm = |module: &&Module| module.programs.iter().any(|(_, program)| *program == "helm");
    MODULES.iter().filter(has_helm).try_for_each(build_module)
}

fn build_module(module: &Module) -> Result<()> {
    let (home, programs) = (cache().join("incumbents"), programs());
    fs::create_dir_all(&programs)?;
    let stamp = |program: &str| programs.join(format!(".{program}-{}", module.version));
    let built = |(_, program): &(&str, &str)| programs.join(program).exists() && stamp(program).exists();
    if module.programs.iter().all(built) && ours_is_there(module, &home) {
        return Ok(());
    }
    eprintln!("building {} {}", module.path, module.version);
    let source = fetch(module, &home)?;
    for (file, name) in module.files {
        fs::copy(source.join(file), programs.join(name)).context(*file)?;
    }
    if let Some((here, there)) = module.ours {
        let there = source.join(there);
        fs::create_dir_all(there.parent().unwrap_or(&source))?;
        fs::copy(root().join(here), there).context(here)?;
    }
    for (package, program) in module.programs {
        run(go(&source).args(["build", "-trimpath", "-o"]).arg(programs.join(program)).arg(package))?;
        fs::write(stamp(program), "")?;
    }
    Ok(())
}

/// Whether a program of ours was built from the source that is here now.
fn ours_is_there(module: &Module, home: &Path) -> bool {
    module.ours.is_none_or(|(here, there)| {
        let (here, there) = (fs::read(root().join(here)), fs::read(copy(module, home).join(there)));
        here.ok().zip(there.ok()).is_some_and(|(here, there)| here == there)
    })
}

/// Where the source of a module is built.
fn copy(module: &Module, home: &Path) -> PathBuf {
    // Later major versions of a module have theirs as the last part of its path.
    let is_version = |part: &str| {
        part.strip_prefix('v').is_some_and(|rest| rest.chars().all(|letter| letter.is_ascii_digit()))
    };
    let name = module.path.rsplit('/').find(|part| !is_version(part)).unwrap_or(module.path);
    home.join(format!("{name}-{}", module.version))
}

/// The source of a module. A module's own go.sum only counts in the main module, so it is built from a copy.
fn fetch(module: &Module, home: &Path) -> Result<PathBuf> {
    let copy = copy(module, home);
    let wanted = format!("{}@{}", module.path, module.version);
    let empty = home.join("empty");
    fs::create_dir_all(&empty)?;
    read(go(&empty).args(["mod", "download"]).arg(&wanted)).context("is the Go module proxy reachable?")?;
    let list = read(go(&empty).args(["env", "GOMODCACHE"]))?;
    let cached = Path::new(list.trim()).join(escape(&wanted));
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    run(Command::new("cp").arg("-r").arg(&cached).arg(&copy))?;
    run(Command::new("chmod").args(["-R", "u+w"]).arg(&copy))?;
    Ok(copy)
}

/// How the module cache spells a path: capitals as `!` and the small letter.
fn escape(path: &str) -> String {
    let mut escaped = String::new();
    for letter in path.chars() {
        if letter.is_ascii_uppercase() {
            escaped.push('!');
        }
        escaped.push(letter.to_ascii_lowercase());
    }
    escaped
}

fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).env("GOFLAGS", "-mod=mod -buildvcs=false").env("GOWORK", "off");
    command
}
