//! NVIDIA's programs, Karpenter and Helm: which there are, and where they were built.

use std::path::{Path, PathBuf};

/// Where the programs are, if not in the cache.
const VARIABLE: &str = "CARVE_INCUMBENTS";

/// One of NVIDIA's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// `nvidia-mig-parted`
    MigParted,
    /// `nvidia-device-plugin`
    DevicePlugin,
    /// `gpu-feature-discovery`
    FeatureDiscovery,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 3] = [Program::MigParted, Program::DevicePlugin, Program::FeatureDiscovery];

    /// What the executable is called.
    pub const fn file_name(self) -> &'static str {
        match self {
            Program::MigParted => "nvidia-mig-parted",
            Program::DevicePlugin => "nvidia-device-plugin",
            Program::FeatureDiscovery => "gpu-feature-discovery",
        }
    }
}

/// A folder that holds all of NVIDIA's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incumbents {
    folder: PathBuf,
}

impl Incumbents {
    /// Finds the programs, or says on stderr that what needs them is skipped. Under `CI=true` their absence is a
    /// failure, so that a comparison can not pass there by not running.
    pub fn locate() -> Option<Self> {
        let found = Incumbents { folder: folder() };
        let absent: Vec<&str> = Program::ALL
            .into_iter()
            .filter(|program| !found.path(*program).is_file())
            .map(Program::file_name)
            .collect();
        if absent.is_empty() {
            return Some(found);
        }
        skip(&format!(
            "{} not in {} (set {VARIABLE} to the folder that has NVIDIA's programs)",
            absent.join(", "),
            found.folder.display()
        ));
        None
    }

    /// Path of a program.
    pub fn path(&self, program: Program) -> PathBuf {
        self.folder.join(program.file_name())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Karpenter's controllers with a cloud that makes Node objects and no machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Karpenter {
    /// The program.
    pub program: PathBuf,
    /// Definition of the objects that describe its machines.
    pub node_classes: PathBuf,
}

impl Karpenter {
    /// Finds it, or says on stderr that what needs it is skipped, as [`Incumbents::locate`] does.
    pub fn locate() -> Option<Self> {
        let path = |name: &str| folder().join(name);
        let found =
            Karpenter { program: path("karpenter"), node_classes: path("karpenter.nodeclasses.yaml") };
        if found.program.is_file() && found.node_classes.is_file() {
            return Some(found);
        }
        let shown = found.program.display();
        skip(&format!("{shown} or its definitions are absent ('cargo xtask incumbents' builds them)"));
        None
    }
}

/// Where Helm was built; where it was not, says so as [`Incumbents::locate`] does.
pub fn helm() -> Option<PathBuf> {
    let program = folder().join("helm");
    if program.is_file() {
        return Some(program);
    }
    skip(&format!("{} is absent ('cargo xtask incumbents' builds it)", program.display()));
    None
}

fn folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(VARIABLE).unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        cache.unwrap_or_default().join("carve/incumbents/bin")
    })
}

/// Says that something does not run here and why; where nothing may be skipped, fails.
#[allow(clippy::panic, reason = "the panic is the test's failure")]
pub(crate) fn skip(why: &str) {
    if std::env::var("CI").as_deref() == Ok("true") {
        panic!("{why}, and CI must not skip");
    }
    eprintln!("SKIPPED: {why}");
}
