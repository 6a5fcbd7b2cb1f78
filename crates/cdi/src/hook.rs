//! What the container runtime runs while it makes a container with a GPU: `carve cdi-hook`.
//!
//! The driver's libraries are mounted already; what is missing are the links by which programs reach them and the entries in
//! the loader's cache. The hook makes both. It works for the host on files that the container brought, so it trusts none of
//! them: every path is resolved beneath the container's root, nothing that is mounted into the container is written to, the
//! environment is not read, and no program is run, neither the container's nor the host's. The container's cache is read by
//! our own code, and rewritten with the driver's libraries in place of any others of their names.

use crate::beneath::Beneath;
use crate::ld_cache::{LdCache, LdCacheError, Machine};
use carve_slicing::cdi::Link;
use serde_json::Value;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

const CACHE: &str = "/etc/ld.so.cache";
/// Tells a later ldconfig in the container, which starts from nothing, about the driver's folders. First in order of names.
const FOLDERS_DIR: &str = "/etc/ld.so.conf.d";
const FOLDERS_FILE: &str = "00-carve-gpu.conf";
/// The cache of a large desktop is some hundred kilobytes.
const MOST_CACHE: u64 = 16 << 20;
/// The state is a few hundred bytes, the configuration of a container some tens of kilobytes.
const MOST_JSON: u64 = 32 << 20;

/// What the hook is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookArgs {
    /// Links to make.
    pub links: Vec<Link>,
    /// Names of libraries and where they are in the container.
    pub libraries: Vec<(String, String)>,
    /// Folders for later runs of ldconfig.
    pub folders: Vec<String>,
}

/// What the hook did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReport {
    /// How many links are new.
    pub links_made: usize,
    /// What became of the loader's cache.
    pub cache: CacheOutcome,
    /// What a person should know who looks for the reason of something.
    pub notes: Vec<String>,
}

/// What became of the loader's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The container's own was changed.
    Changed,
    /// It says everything already.
    Unchanged,
    /// A new one was written.
    New,
    /// The container has no glibc, whose cache it is.
    NoGlibc,
}

/// Why a container can not be given its GPU.
#[derive(Debug, Error)]
pub enum HookError {
    /// The hook was called wrongly.
    #[error("cdi-hook: {0}; the CDI file is written by carve, have the agent write it again")]
    Arguments(String),
    /// The runtime's word about the container can not be understood.
    #[error("cdi-hook: {what}, from the container runtime, can not be read")]
    State {
        /// State or configuration.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The container's root can not be opened.
    #[error("cdi-hook: the container's root {} can not be opened", root.display())]
    Root {
        /// The root.
        root: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something in the container can not be written.
    #[error(
        "cdi-hook: {path} in the container can not be {action}; without it programs there do not find the GPU's driver. \
         Look for what the image or a volume has at that path (a path on a volume is not written to)"
    )]
    Write {
        /// Where.
        path: String,
        /// Made or replaced.
        action: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A cache that was made to hurt.
    #[error("cdi-hook: /etc/ld.so.cache of the container is refused; remove it from the image")]
    Cache(#[source] LdCacheError),
    /// No glibc for this machine is known.
    #[error("cdi-hook: libraries of this machine ({0}) are not known; x86_64 and aarch64 are")]
    Machine(&'static str),
}

impl HookArgs {
    /// Reads the arguments behind the verb.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, HookError> {
        let mut parsed = HookArgs::default();
        let mut args = args.into_iter();
        while let Some(option) = args.next() {
            let value = args.next().ok_or_else(|| HookError::Arguments(format!("{option} needs a value")))?;
            let pair = || {
                let (first, path) = value
                    .split_once("::")
                    .ok_or_else(|| HookError::Arguments(format!("{option} {value} is not NAME::PATH")))?;
                if first.is_empty() || first.contains('\0') {
                    return Err(HookError::Arguments(format!("{option} {value} says nothing before '::'")));
                }
                Ok((first.to_owned(), absolute(path)?))
            };
            match option.as_str() {
                "--link" => {
                    let (target, path) = pair()?;
                    parsed.links.push(Link { path, target });
                }
                "--library" => parsed.libraries.push(pair()?),
                "--folder" => parsed.folders.push(absolute(&value)?),
                _ => return Err(HookError::Arguments(format!("there is no option {option}"))),
            }
        }
        Ok(parsed)
    }
}

/// A path in the container, checked: from the root, and straight.
fn absolute(path: &str) -> Result<String, HookError> {
    let straight = path.split('/').skip(1).all(|name| !matches!(name, "" | "." | ".."));
    if !path.starts_with('/') || !straight || path.contains(['\0', '\n']) || path.len() >= 4096 {
        return Err(HookError::Arguments(format!("'{path}' is no absolute path without '..'")));
    }
    Ok(path.to_owned())
}

/// Does what the arguments say in the container whose state the runtime gives.
pub fn run(state: impl Read, args: &HookArgs) -> Result<HookReport, HookError> {
    let root = container_root(state)?;
    let machine = Machine::this().ok_or(HookError::Machine(std::env::consts::ARCH))?;
    let inside = Beneath::on_one_mount(&root).map_err(|source| HookError::Root { root, source })?;
    let mut notes = Vec::new();
    let mut links_made = 0;
    for link in &args.links {
        links_made += usize::from(make_link(&inside, link, &mut notes)?);
    }
    let cache = update_cache(&inside, machine, args, &mut notes)?;
    if cache != CacheOutcome::NoGlibc && !args.folders.is_empty() {
        let content: String = args.folders.iter().map(|folder| format!("{folder}\n")).collect();
        put(&inside, FOLDERS_DIR, FOLDERS_FILE, content.as_bytes())?;
    }
    Ok(HookReport { links_made, cache, notes })
}

/// Where the container's root is, by the runtime's own files, which the container can not change.
fn container_root(state: impl Read) -> Result<PathBuf, HookError> {
    let state = json(state)
        .map_err(|source| HookError::State { what: "the container's state".to_owned(), source })?;
    let field = |value: &Value, names: &[&str], what: String| {
        let found = names.iter().try_fold(value, |value, name| value.get(name)).and_then(Value::as_str);
        let missing = || io::Error::other(format!("it has no {}", names.join(".")));
        found.map(PathBuf::from).ok_or_else(|| HookError::State { what, source: missing() })
    };
    let bundle = field(&state, &["bundle"], "the container's state".to_owned())?;
    let path = bundle.join("config.json");
    let error = |source| HookError::State { what: path.display().to_string(), source };
    let config = std::fs::File::open(&path).and_then(json).map_err(error)?;
    let root = field(&config, &["root", "path"], path.display().to_string())?;
    // Relative to the bundle, unless it is absolute.
    Ok(bundle.join(root))
}

fn json(from: impl Read) -> io::Result<Value> {
    let mut text = Vec::new();
    from.take(MOST_JSON).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// The folder and the name of a path that was checked.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn make_link(inside: &Beneath, link: &Link, notes: &mut Vec<String>) -> Result<bool, HookError> {
    let (folder, name) = split(&link.path);
    match inside.make_folder(folder).and_then(|folder| folder.put_link(name, &link.target)) {
        // A file of the host is mounted at the very name, which serves as well.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            notes.push(format!("{} is a mount and stays as it is", link.path));
            Ok(false)
        }
        other => other.map_err(|source| HookError::Write {
            path: link.path.clone(),
            action: "made a link",
            source,
        }),
    }
}

fn put(inside: &Beneath, folder: &str, name: &str, content: &[u8]) -> Result<(), HookError> {
    let done = inside.make_folder(folder).and_then(|folder| folder.put_file(name, content, 0o644));
    done.map_err(|source| HookError::Write { path: format!("{folder}/{name}"), action: "written", source })
}

fn update_cache(
    inside: &Beneath,
    machine: Machine,
    args: &HookArgs,
    notes: &mut Vec<String>,
) -> Result<CacheOutcome, HookError> {
    let found = inside.read(CACHE, MOST_CACHE);
    let before = match found {
        Ok(bytes) => match LdCache::parse(&bytes) {
            Ok(cache) => Some(cache),
            Err(LdCacheError::Layout) => {
                // The loader passes over it, so nothing that works now is lost.
                notes.push(format!("{CACHE} was no cache of glibc and is replaced"));
                None
            }
            Err(error @ LdCacheError::TooLarge) => return Err(HookError::Cache(error)),
        },
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(HookError::Cache(LdCacheError::TooLarge));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            notes.push(format!("{CACHE} was no file and is replaced"));
            None
        }
        Err(source) => {
            return Err(HookError::Write { path: CACHE.to_owned(), action: "read", source });
        }
    };
    if before.is_none() && !inside.has_name(machine.loader()) {
        notes.push(format!(
            "no {}: the container has no glibc, and its loader reads no cache",
            machine.loader()
        ));
        return Ok(CacheOutcome::NoGlibc);
    }
    let mut cache = before.clone().unwrap_or_default();
    for (name, path) in &args.libraries {
        cache.put(machine, name, path);
    }
    let outcome = match &before {
        None => CacheOutcome::New,
        Some(before) if before.to_bytes() == cache.to_bytes() => return Ok(CacheOutcome::Unchanged),
        Some(_) => CacheOutcome::Changed,
    };
    let (folder, name) = split(CACHE);
    put(inside, folder, name, &cache.to_bytes())?;
    Ok(outcome)
}

/// What a runtime gives on standard input, for a bundle: for tests and for trying the hook by hand.
pub fn state_of(bundle: &Path) -> String {
    serde_json::json!({ "ociVersion": "1.0.2", "id": "by-hand", "status": "creating", "bundle": bundle })
        .to_string()
}
