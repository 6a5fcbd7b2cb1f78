//! Where commands find each other, and where the limiter's library is.

use crate::failure::Failure;
use carve_limiter_host::LIBRARY;
use rustix::fs::StatVfsMountFlags;
use std::path::{Path, PathBuf};

/// The folder of commands. Libraries are loaded from it, so it must lie where that is possible.
pub(crate) fn root(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = || std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    let places = match named {
        Some(named) => vec![std::path::absolute(named).unwrap_or_else(|_| named.to_owned())],
        None if rustix::process::geteuid().is_root() => {
            ["/run", "/var/lib"].map(|place| Path::new(place).join("carve/run")).to_vec()
        }
        None => variable().map(|place| place.join("carve/run")).into_iter().collect(),
    };
    let Some(place) = places.iter().find(|place| can_load_from(place)) else {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let message = match looked.as_slice() {
            [] => "XDG_RUNTIME_DIR is not set, so there is no folder for what runs".to_owned(),
            some => format!("no program may be loaded from {} (mounted noexec)", some.join(" or ")),
        };
        return Err(Failure::new(message).hint("name a folder of your own with --run-dir DIR"));
    };
    // The loader takes both for the end of a name.
    if place.to_string_lossy().contains([' ', ':']) {
        let message = format!(
            "{}: the loader can not take a library from a folder with a space or colon in its name",
            place.display()
        );
        return Err(Failure::new(message).hint("name another folder with --run-dir DIR"));
    }
    Ok(place.clone())
}

fn can_load_from(place: &Path) -> bool {
    let there = place.ancestors().find(|folder| folder.exists());
    let mount = there.and_then(|folder| rustix::fs::statvfs(folder).ok());
    mount.is_none_or(|mount| !mount.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// The limiter's library.
pub(crate) fn library(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return if named.is_file() {
            Ok(named.to_owned())
        } else {
            Err(Failure::new(format!("{}: the limiter's library is not there", named.display())).hint(HOW))
        };
    }
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.with_file_name(LIBRARY);
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Failure::new(format!("the limiter's library is not beside carve: {} is not there", beside.display()))
        .hint(HOW))
}

const HOW: &str = "cargo xtask limiter builds it as target/limiter/release/libcarve_limiter.so; put it beside carve, or name it \
                   with --limiter FILE or CARVE_LIMITER";
