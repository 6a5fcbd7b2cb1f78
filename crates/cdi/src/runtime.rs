//! Whether the node's container runtime looks at CDI files, by its version and its configuration.

use std::path::Path;
use toml::{Table, Value};

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CdiSupport {
    /// It looks at them.
    Enabled,
    /// It does not, and containers would start without their GPU.
    Disabled {
        /// What was found, and what to do.
        why: String,
    },
    /// It can not be told.
    Unknown {
        /// What is missing.
        why: String,
    },
}

/// Where containerd keeps the settings of its Kubernetes door: versions 1, 2 and 3 of its configuration.
const SECTIONS: &[&str] = &["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];

/// Files that a configuration of containerd imports, as it names them: paths, where `*` stands for any name.
pub fn imports(config: &str) -> Vec<String> {
    let table: Table = config.parse().unwrap_or_default();
    let files = table.get("imports").and_then(Value::as_array).into_iter().flatten();
    files.filter_map(|file| file.as_str().map(str::to_owned)).collect()
}

/// Tells whether a runtime will find a file in `spec_dir`.
///
/// `runtime` is what a node's status says: `containerd://1.7.27`. `configs` are the texts of containerd's configuration, the
/// main file first and those it imports behind it; none, if there is no such file.
pub fn runtime_has_cdi(runtime: &str, configs: &[&str], spec_dir: &Path) -> CdiSupport {
    let unknown = |why: String| CdiSupport::Unknown { why };
    let disabled = |why: String| CdiSupport::Disabled { why };
    let Some((name, version)) = runtime.split_once("://") else {
        return unknown(format!("'{runtime}' is not NAME://VERSION, as a node's status has it"));
    };
    let Some(number) = major_minor(version) else {
        return unknown(format!("'{version}' is no version of {name}"));
    };
    match name {
        "containerd" if number < (1, 7) => disabled(format!(
            "containerd {version} has no CDI; update it to 1.7 or later, or use deviceListStrategy envvar with NVIDIA's runtime"
        )),
        "containerd" => containerd(version, number, configs, spec_dir),
        "cri-o" if number < (1, 23) => {
            disabled(format!("CRI-O {version} has no CDI; update it to 1.23 or later"))
        }
        "cri-o" => CdiSupport::Enabled,
        _ => unknown(format!("carve does not know whether {name} {version} reads CDI files")),
    }
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn containerd(version: &str, number: (u32, u32), configs: &[&str], spec_dir: &Path) -> CdiSupport {
    let mut enabled = None;
    let mut folders: Option<Vec<String>> = None;
    let mut imports = false;
    for (place, text) in configs.iter().enumerate() {
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                let why =
                    format!("file {place} of containerd's configuration is no TOML: {}", error.message());
                return CdiSupport::Unknown { why };
            }
        };
        imports |= table.get("imports").and_then(Value::as_array).is_some_and(|files| !files.is_empty());
        let Some(plugins) = table.get("plugins").and_then(Value::as_table) else { continue };
        for section in SECTIONS.iter().filter_map(|name| plugins.get(*name)?.as_table()) {
            if let Some(value) = section.get("enable_cdi").and_then(Value::as_bool) {
                enabled = Some(value);
            }
            if let Some(list) = section.get("cdi_spec_dirs").and_then(Value::as_array) {
                folders = Some(list.iter().filter_map(|folder| Some(folder.as_str()?.to_owned())).collect());
            }
        }
    }
    if imports && configs.len() == 1 && enabled.is_none() {
        let why = "containerd's configuration imports other files, which were not found".to_owned();
        return CdiSupport::Unknown { why };
    }
    if !enabled.unwrap_or(number >= (2, 0)) {
        let found = match enabled {
            Some(_) => "enable_cdi is false in its configuration".to_owned(),
            None => format!("it is off in containerd {version} unless it is switched on"),
        };
        let section = if number >= (2, 0) { SECTIONS[2] } else { SECTIONS[1] };
        return CdiSupport::Disabled {
            why: format!(
                "containerd reads no CDI files: {found}; set enable_cdi = true under [plugins.\"{section}\"] in \
                 /etc/containerd/config.toml and restart containerd"
            ),
        };
    }
    match folders {
        Some(folders) if !folders.iter().any(|folder| same_folder(Path::new(folder), spec_dir)) => {
            CdiSupport::Disabled {
                why: format!(
                    "containerd looks for CDI files in {}, and carve writes to {}; add it to cdi_spec_dirs in \
                     /etc/containerd/config.toml and restart containerd",
                    if folders.is_empty() { "no folder".to_owned() } else { folders.join(", ") },
                    spec_dir.display()
                ),
            }
        }
        _ => CdiSupport::Enabled,
    }
}

/// `/var/run` is a link to `/run` on every distribution that has both.
fn same_folder(one: &Path, other: &Path) -> bool {
    let short = |path: &Path| match path.strip_prefix("/var/run") {
        Ok(rest) => Path::new("/run").join(rest),
        Err(_) => path.to_owned(),
    };
    short(one) == short(other)
}

#[cfg(test)]
mod tests {
    use super::{CdiSupport, runtime_has_cdi};
    use std::path::Path;

    fn ask(runtime: &str, configs: &[&str]) -> CdiSupport {
        runtime_has_cdi(runtime, configs, Path::new("/var/run/cdi"))
    }

    #[track_caller]
    fn disabled(runtime: &str, configs: &[&str], because: &str) {
        match ask(runtime, configs) {
            CdiSupport::Disabled { why } if why.contains(because) => {}
            other => panic!("{runtime}: {other:?}"),
        }
    }

    #[test]
    fn by_version_alone() {
        assert_eq!(ask("containerd://2.0.0", &[]), CdiSupport::Enabled);
        assert_eq!(ask("containerd://v2.1.4-k3s1", &[]), CdiSupport::Enabled);
        assert_eq!(ask("cri-o://1.23.0", &[]), CdiSupport::Enabled);
        assert_eq!(ask("cri-o://1.34.1", &[]), CdiSupport::Enabled);
        disabled("containerd://1.7.27", &[], "off in containerd 1.7.27");
        disabled("containerd://1.6.36", &[], "update it to 1.7");
        disabled("cri-o://1.22.9", &[], "1.23");
        for strange in ["docker://28.1.0", "containerd", "containerd://", "cri-o://new"] {
            assert!(matches!(ask(strange, &[]), CdiSupport::Unknown { .. }), "{strange}");
        }
    }

    #[test]
    fn switches_in_both_layouts() {
        let old =
            |value| format!("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = {value}\n");
        let new =
            |value| format!("version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = {value}\n");
        assert_eq!(ask("containerd://1.7.27", &[&old(true)]), CdiSupport::Enabled);
        assert_eq!(ask("containerd://2.2.0", &[&old(true)]), CdiSupport::Enabled, "an old file is migrated");
        assert_eq!(ask("containerd://2.0.0", &[&new(true)]), CdiSupport::Enabled);
        disabled("containerd://2.0.0", &[&new(false)], "io.containerd.cri.v1.runtime");
        disabled("containerd://2.0.0", &[&old(false)], "enable_cdi is false");
        disabled("containerd://1.7.0", &["version = 2\n"], "io.containerd.grpc.v1.cri");
    }

    #[test]
    fn imported_files_count_and_win() {
        let main = "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n";
        let off = "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n";
        assert!(matches!(ask("containerd://2.0.0", &[main]), CdiSupport::Unknown { .. }));
        disabled("containerd://2.0.0", &[main, off], "enable_cdi is false");
    }

    #[test]
    fn folders_that_leave_ours_out() {
        let dirs = |list: &str| format!("[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = {list}\n");
        disabled("containerd://2.0.0", &[&dirs("['/etc/cdi']")], "/etc/cdi");
        disabled("containerd://2.0.0", &[&dirs("[]")], "no folder");
        assert_eq!(ask("containerd://2.0.0", &[&dirs("['/etc/cdi', '/run/cdi']")]), CdiSupport::Enabled);
    }

    #[test]
    fn what_is_no_toml_is_said_so() {
        match ask("containerd://2.0.0", &["version = ="]) {
            CdiSupport::Unknown { why } => assert!(why.contains("no TOML"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
