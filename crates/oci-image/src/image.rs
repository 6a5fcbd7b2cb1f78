//! An image in the making: files, what runs, as whom, and what is said of it.

use crate::archive::Archive;
use std::collections::BTreeMap;
use std::path::Path;

/// What a processor understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// x86_64.
    Amd64,
    /// aarch64.
    Arm64,
}

impl Architecture {
    /// Of what this was compiled for.
    pub const OWN: Self = if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 };

    /// As images and Debian call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As compilers call it.
    pub fn compiler_name(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// An image for one platform: one layer, one entry point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub(crate) name: String,
    pub(crate) architecture: Architecture,
    pub(crate) files: Archive,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) environment: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) compressed: bool,
}

impl Image {
    /// An image with a name such as `localhost/carve:test` for this machine, with the folders that container runtimes mount over.
    pub fn new(name: &str) -> Self {
        let mut files = Archive::new();
        for folder in ["proc", "sys", "dev", "etc"] {
            files.folder(folder, 0o755);
        }
        files.folder("tmp", 0o1777);
        Image {
            name: name.to_owned(),
            architecture: Architecture::OWN,
            files,
            entrypoint: Vec::new(),
            environment: Vec::new(),
            user: None,
            annotations: BTreeMap::new(),
            compressed: false,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same for another processor.
    pub fn architecture(mut self, architecture: Architecture) -> Self {
        self.architecture = architecture;
        self
    }

    /// Adds a file.
    pub fn file(mut self, path: impl AsRef<Path>, contents: Vec<u8>, executable: bool) -> Self {
        self.files.file(path, contents, executable);
        self
    }

    /// Adds a symbolic link.
    pub fn link(mut self, path: impl AsRef<Path>, target: &str) -> Self {
        self.files.link(path, target);
        self
    }

    /// What runs when a pod names no command.
    pub fn entrypoint<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.entrypoint = words.map(str::to_owned).to_vec();
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// As whom it runs when a pod does not say; root without it.
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Says something of the image, such as `org.opencontainers.image.version`: as a label, and as an annotation of its manifest.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Compresses its layer, for images that travel.
    pub fn compressed(mut self) -> Self {
        self.compressed = true;
        self
    }

    /// What is in it.
    pub fn files(&self) -> &Archive {
        &self.files
    }
}
