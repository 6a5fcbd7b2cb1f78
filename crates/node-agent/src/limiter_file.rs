//! The limiter's library on the node: containers mount it from there, so the agent brings the one of its own image along.

use crate::options::AgentOptions;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How the library is called on a node, before a part of its hash.
const PREFIX: &str = "libcarve_limiter-";
const SUFFIX: &str = ".so";
/// Letters of the hash in a name.
const HASH: usize = 16;

/// Whether a file is one of those that agents put on nodes.
pub(crate) fn is_one(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

/// Puts the library beside the hook, under a name that says what is in it, and answers how the host calls it. Running containers keep the one
/// they were started with: its name stands in their CDI files, and only those that no CDI file names go.
pub(crate) fn install(options: &AgentOptions, shipped: &Path) -> io::Result<PathBuf> {
    let bytes = fs::read(shipped)?;
    let mut hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    hash.truncate(HASH);
    let name = format!("{PREFIX}{hash}{SUFFIX}");
    let nowhere = || io::Error::other("the hook's path names no folder");
    let here = options.hook_program_here.parent().ok_or_else(nowhere)?;
    let on_host = options.hook_program.parent().ok_or_else(nowhere)?;
    let path = here.join(&name);
    if !fs::read(&path).is_ok_and(|there| there == bytes) {
        fs::create_dir_all(here)?;
        let new = here.join(format!(".{name}.new"));
        let put = fs::write(&new, &bytes)
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs::rename(&new, &path));
        if put.is_err() {
            // Half a library takes room that is missing already.
            let _ = fs::remove_file(&new);
        }
        put?;
    }
    forget_unnamed(here, on_host, &name, &options.cdi_folder);
    Ok(on_host.join(name))
}

/// Removes libraries of earlier agents that no container would ask for any more.
fn forget_unnamed(here: &Path, on_host: &Path, current: &str, cdi: &Path) {
    let texts: Vec<String> = fs::read_dir(cdi)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .collect();
    for entry in fs::read_dir(here).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let named = || texts.iter().any(|text| text.contains(&on_host.join(&name).display().to_string()));
        if is_one(&path) && name != current && !named() {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{forget_unnamed, is_one};
    use std::fs;
    use std::path::Path;

    #[test]
    fn only_what_no_cdi_file_names_goes() {
        let root = tempfile::tempdir().expect("a folder");
        let (here, cdi) = (root.path().join("bin"), root.path().join("cdi"));
        fs::create_dir_all(&here).expect("a folder");
        fs::create_dir_all(&cdi).expect("a folder");
        let names = ["libcarve_limiter-aa.so", "libcarve_limiter-bb.so", "libcarve_limiter-cc.so", "carve"];
        for name in names {
            fs::write(here.join(name), name).expect("a file");
        }
        let on_host = Path::new("/var/lib/carve/bin");
        fs::write(cdi.join("claim.json"), r#"{"hostPath": "/var/lib/carve/bin/libcarve_limiter-aa.so"}"#)
            .expect("a file");
        forget_unnamed(&here, on_host, "libcarve_limiter-cc.so", &cdi);
        let there = |name: &str| here.join(name).exists();
        assert_eq!(names.map(there), [true, false, true, true], "bb is named by nobody");
        assert!(!is_one(Path::new("/var/lib/carve/bin/carve")));
    }
}
