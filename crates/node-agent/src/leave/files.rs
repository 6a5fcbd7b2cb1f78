//! The agent's files on a node: all of them go, except those that a running pod would miss if its container started again.

use super::in_use::InUse;
use crate::options::AgentOptions;
use crate::slices;
use carve_cdi::{remove_named, remove_ours};
use carve_dra_driver::CdiNames;
use carve_mig_manager::StateDir;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where files are, and who needs which.
#[derive(Debug)]
pub(super) struct Files {
    state: PathBuf,
    cdi: PathBuf,
    limits: PathBuf,
    /// The hook on the host, as CDI files name it, and here.
    hook: PathBuf,
    hook_here: PathBuf,
    driver: String,
    /// The driver's folder among kubelet's plugins.
    sockets: PathBuf,
    in_use: InUse,
}

impl Files {
    pub(super) fn new(options: &AgentOptions, in_use: &InUse) -> Self {
        Files {
            state: options.state_dir.clone(),
            cdi: options.cdi_folder.clone(),
            limits: options.dra.limits.clone(),
            hook: options.hook_program.clone(),
            hook_here: options.hook_program_here.clone(),
            driver: options.dra.driver_name.clone(),
            sockets: options.dra.plugins.join(&options.dra.driver_name),
            in_use: in_use.clone(),
        }
    }

    /// Removes what nobody needs; says what is left of ours, and what could not be removed.
    pub(super) fn remove(self) -> (Vec<String>, Vec<String>) {
        let mut troubles = Vec::new();
        let mut note = |done: Result<(), String>| troubles.extend(done.err());
        let started = slices::leave(&self.state, &self.cdi, &self.limits, &self.in_use.tokens);
        let started = started.unwrap_or_else(|why| {
            note(Err(why));
            BTreeSet::new()
        });
        if !self.in_use.devices {
            note(remove_ours(&self.cdi).map(drop).map_err(|error| error.to_string()));
        }
        self.remove_claim_files().into_iter().for_each(&mut note);
        let mut left = self.naming_our_hook();
        let kept_here = self.still_named(&left);
        let owners: BTreeSet<&String> = self.in_use.claims.iter().chain(&started).collect();
        left.extend(self.clear_limits(&owners));
        let keep = |path: &Path| {
            kept_here.contains(path)
                || (!self.in_use.claims.is_empty() && path.starts_with(self.state.join("dra")))
                || (!started.is_empty() && path.starts_with(self.state.join("slices")))
                // A change of MIG that was interrupted is finished or undone by whoever comes next.
                || path == StateDir::new(self.state.clone()).journal()
        };
        left.extend(clear(&self.state, &keep));
        if !self.hook_here.starts_with(&self.state)
            && let Some(folder) = self.hook_here.parent()
        {
            left.extend(clear_ours_beside_hook(folder, &self.hook_here, &kept_here));
        }
        // Sockets are gone by now; another instance's keep the folder.
        let _ = fs::remove_dir(&self.sockets);
        let left: BTreeSet<String> = left.into_iter().map(|path| path.display().to_string()).collect();
        (left.into_iter().collect(), troubles)
    }

    /// CDI files of claims that were taken back, and of the driver where no claim is left.
    fn remove_claim_files(&self) -> Vec<Result<(), String>> {
        let names = CdiNames::new(&self.driver);
        let mut done = Vec::new();
        for name in file_names(&self.cdi) {
            let of_claim = names.claim_of(&name).is_some_and(|uid| !self.in_use.claims.contains(uid));
            let of_driver = name == names.node_file() && self.in_use.claims.is_empty();
            if of_claim || of_driver {
                let removed = remove_named(&self.cdi, &name);
                done.push(removed.map(drop).map_err(|error| error.to_string()));
            }
        }
        done
    }

    /// CDI files that are still there and name what is ours.
    fn naming_our_hook(&self) -> Vec<PathBuf> {
        let hook = self.hook.display().to_string();
        let limits = self.limits.display().to_string();
        let names = |path: &PathBuf| {
            fs::read_to_string(path).is_ok_and(|text| text.contains(&hook) || text.contains(&limits))
        };
        file_names(&self.cdi).into_iter().map(|name| self.cdi.join(name)).filter(names).collect()
    }

    /// The hook and libraries that those CDI files name, as they are called here.
    fn still_named(&self, cdi_files: &[PathBuf]) -> BTreeSet<PathBuf> {
        let texts: Vec<String> = cdi_files.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        let (Some(there), Some(here)) = (self.hook.parent(), self.hook_here.parent()) else {
            return BTreeSet::new();
        };
        let named = |name: &String| {
            let on_host = there.join(name).display().to_string();
            texts.iter().any(|text| text.contains(&on_host))
        };
        file_names(here).into_iter().filter(named).map(|name| here.join(name)).collect()
    }

    /// Limits of those who are gone; says whose are left.
    fn clear_limits(&self, owners: &BTreeSet<&String>) -> Vec<PathBuf> {
        let keep = |path: &Path| {
            let first = path.strip_prefix(&self.limits).ok().and_then(|within| within.components().next());
            let name = first.map(|first| first.as_os_str().to_string_lossy().into_owned());
            let preload = name.as_deref() == Some("ld.so.preload") && !owners.is_empty();
            preload || name.is_some_and(|name| owners.contains(&name))
        };
        let left = clear(&self.limits, &keep);
        // One line for each owner says it better than one for each file.
        let top = |path: PathBuf| {
            let first = path.strip_prefix(&self.limits).ok()?.components().next()?;
            Some(self.limits.join(first))
        };
        left.into_iter().filter_map(top).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Names of the files in a folder.
fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Removes everything in a folder that is not to be kept, and says which files are left. The folder itself stays: it is mounted.
fn clear(folder: &Path, keep: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for name in file_names(folder) {
        let path = folder.join(name);
        if path.is_dir() && !path.is_symlink() {
            left.extend(clear(&path, keep));
            // Not empty where something of it is kept.
            let _ = fs::remove_dir(&path);
            continue;
        }
        if keep(&path) {
            left.push(path);
            continue;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => left.push(path),
            _ => {}
        }
    }
    left
}

/// The hook and the libraries beside it, where that folder is not below the agent's own.
fn clear_ours_beside_hook(folder: &Path, hook: &Path, kept: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| path == hook || crate::limiter_file::is_one(path);
    let paths = file_names(folder).into_iter().map(|name| folder.join(name)).filter(ours);
    paths.filter(|path| kept.contains(path) || fs::remove_file(path).is_err()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Files, InUse};
    use std::fs;
    use std::path::Path;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A node on which everything was used once.
    fn node(root: &Path, in_use: InUse) -> Files {
        let state = root.join("carve");
        let hook = state.join("bin/carve");
        let mentions = |extra: &str| format!("{{\"hook\": \"{}\", \"mount\": \"{extra}\"}}", hook.display());
        write(&hook, "program");
        let (old, new) =
            (state.join("bin/libcarve_limiter-old.so"), state.join("bin/libcarve_limiter-new.so"));
        write(&old, "old");
        write(&new, "new");
        for file in
            ["agent.json", "running", "ledger/1.json", "dra/lock", "dra/u1.json", "driver-libraries/a"]
        {
            write(&state.join(file), "{}");
        }
        let cdi = root.join("cdi");
        write(&cdi.join("k8s.gpu.carve.dev-node.json"), &mentions(""));
        write(&cdi.join("k8s.gpu.carve.dev-claim_u1.json"), &mentions(&old.display().to_string()));
        write(&cdi.join("k8s.gpu.carve.dev-claim_u2.json"), &mentions(&new.display().to_string()));
        write(&cdi.join("somebody-else.json"), "{}");
        let limits = root.join("limits");
        for file in ["u1/limits/GPU-1/main", "u2/limits/GPU-1/main", "ld.so.preload"] {
            write(&limits.join(file), "x");
        }
        let sockets = root.join("plugins/gpu.carve.dev");
        fs::create_dir_all(&sockets).expect("a folder");
        let hook_here = hook.clone();
        Files { state, cdi, limits, hook, hook_here, driver: "gpu.carve.dev".to_owned(), sockets, in_use }
    }

    fn all(root: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(root).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() { found.extend(all(&path)) } else { found.push(path.display().to_string()) }
        }
        found.sort();
        found
    }

    #[test]
    fn where_nobody_uses_anything_nothing_is_left_and_nobody_else_s_files_stay() {
        let root = tempfile::tempdir().expect("a folder");
        let (left, troubles) = node(root.path(), InUse::default()).remove();
        assert_eq!((left, troubles), (Vec::new(), Vec::new()));
        assert_eq!(all(root.path()), [root.path().join("cdi/somebody-else.json").display().to_string()]);
        assert!(!root.path().join("plugins/gpu.carve.dev").exists());
        // Whoever was killed half way finds nothing to complain of.
        let again = Files { ..node(root.path(), InUse::default()) };
        assert_eq!(again.remove().0, Vec::<String>::new());
    }

    #[test]
    fn what_a_running_pod_needs_to_start_its_container_again_stays_and_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        let in_use = InUse { claims: ["u1".to_owned()].into(), ..InUse::default() };
        let (left, troubles) = node(root.path(), in_use).remove();
        assert_eq!(troubles, Vec::<String>::new());
        let at = |path: &str| root.path().join(path).display().to_string();
        let needed = [
            "carve/bin/carve",
            "carve/bin/libcarve_limiter-old.so",
            "carve/dra/lock",
            "carve/dra/u1.json",
            "cdi/k8s.gpu.carve.dev-claim_u1.json",
            "cdi/k8s.gpu.carve.dev-node.json",
            "limits/ld.so.preload",
            "limits/u1",
        ];
        assert_eq!(left, needed.map(at));
        let there = all(root.path());
        assert!(
            there.contains(&at("limits/u1/limits/GPU-1/main")) && there.contains(&at("limits/ld.so.preload"))
        );
        assert!(
            !there.contains(&at("carve/agent.json")) && !there.contains(&at("limits/u2/limits/GPU-1/main"))
        );
    }
}
