//! `docs/reference/environment.md`: variables that stand for options, those that are read without one, and those that other programs get.

use super::{below, built, help, shown};
use carve_test_support::reference::check_page;
use clap::Command;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

type Rows = &'static [(&'static str, &'static str)];

const HEAD: &str = "# Variables

`carve` has no file of settings of its own; [files that it is given](config.md) have a page, too.

## Instead of options

What is typed wins over the variable. Names without `CARVE_` are those of NVIDIA's programs and of Kubernetes, so that manifests keep working.

";

/// Read, and no option says the same.
const READ: Rows = &[
    (
        "CUDA_MPS_PIPE_DIRECTORY",
        "`carve run`: where an MPS daemon of this machine listens; `/tmp/nvidia-mps` unless said",
    ),
    ("HOME", "where a person's state is kept without `XDG_STATE_HOME`: `~/.local/state/carve`"),
    ("LD_LIBRARY_PATH", "`carve agent`: where `libcuda.so.1` is looked for before the usual folders"),
    ("LD_PRELOAD", "`carve run`: kept, behind the limiter"),
    ("PATH", "where programs are found: `nvidia-cuda-mps-control`, `docker`, hooks of `carve mig`"),
    (
        "XDG_RUNTIME_DIR",
        "`carve run`: where commands of one person find each other: `$XDG_RUNTIME_DIR/carve/run`",
    ),
    ("XDG_STATE_HOME", "a person's simulated machines, journals and checkpoints: `$XDG_STATE_HOME/carve`"),
];

/// Set for containers, or for programs that carve starts.
const GIVEN: Rows = &[
    (
        "NVIDIA_VISIBLE_DEVICES",
        "containers: their devices with `--device-list-strategy envvar`, a folder with `volume-mounts`; `void` in CDI files, so that older runtimes add nothing",
    ),
    ("NVIDIA_IMEX_CHANNELS", "containers: IMEX channels, with `--imex-channel-ids`"),
    ("NVIDIA_GDRCOPY", "containers: `enabled`, with `--gdrcopy-enabled`"),
    ("NVIDIA_GDS", "containers: `enabled`, with `--gds-enabled`"),
    ("NVIDIA_MOFED", "containers: `enabled`, with `--mofed-enabled`"),
    (
        "CUDA_VISIBLE_DEVICES",
        "containers that share a part through MPS, commands under `carve run`, containers of `carve up`, tenants of `carve bench`, probes: what they have",
    ),
    (
        "CUDA_MPS_PIPE_DIRECTORY",
        "containers that share a part through MPS, tenants of `carve bench`, daemons, probes: where the daemon of that part listens",
    ),
    ("CUDA_MPS_LOG_DIRECTORY", "MPS daemons: where they write"),
    (
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "commands under `carve run` over MPS, tenants of `carve bench`: their part of the multiprocessors",
    ),
    (
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "commands under `carve run` over MPS, tenants of `carve bench`: their memory",
    ),
    ("CUDA_DEVICE_ORDER", "tenants of `carve bench`: GPUs are counted as the driver does"),
    (
        "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING",
        "never set, and taken from probes as all that steers CUDA: a probe sees what a container would see",
    ),
    (
        "LD_PRELOAD",
        "commands under `carve run`, tenants of `carve bench`: the limiter, before whatever was there",
    ),
    ("LD_LIBRARY_PATH", "MPS daemons, probes, `nvidia-smi`: the driver's libraries of the host"),
    ("MIG_PARTED_CONFIG_FILE", "hooks of `carve mig apply`: what was typed"),
    ("MIG_PARTED_SELECTED_CONFIG", "hooks of `carve mig apply`: the config that is applied"),
    ("MIG_PARTED_SKIP_RESET", "hooks of `carve mig apply`: what was typed"),
    ("MIG_PARTED_CHECKPOINT_FILE", "hooks of `carve mig restore`: what was typed"),
    ("MIG_PARTED_MODE_CHANGE_ONLY", "hooks of both: what was typed"),
    ("MIG_PARTED_HOOKS_FILE", "hooks of both: what was typed"),
];

/// In the environment of a pod that asks for parts of GPUs.
const REFUSED: Rows = &[
    (
        "NVIDIA_VISIBLE_DEVICES",
        "anything but nothing, `none` and `void`: older runtimes give whatever it names",
    ),
    (
        "NVIDIA_MIG_CONFIG_DEVICES",
        "anything but nothing and `none`: with it a container may cut the GPUs of others",
    ),
    ("NVIDIA_MIG_MONITOR_DEVICES", "likewise"),
    ("CUDA_MPS_…", "anything: it leads around the daemon that holds the container to its part"),
    (
        "CUDA_DISABLE_CONTROL",
        "anything but nothing, `0` and `false`: it asks not to be held to limits (HAMi)",
    ),
    ("CUDA_OVERSUBSCRIBE", "likewise"),
    ("CUDA_DEVICE_MEMORY_LIMIT…", "more memory than the container asks for (HAMi)"),
    ("CUDA_DEVICE_SM_LIMIT", "more compute than the container asks for (HAMi)"),
];

/// Read by the libraries and programs that stand in for the driver's; nothing of them is shipped.
const SIMULATED: Rows = &[
    ("CARVE_SIM_MACHINE", "a preset, `PRODUCT:COUNT` or [a YAML file](machines.md)"),
    ("CARVE_SIM_STATE", "the file that is the machine; without it every process has one of its own"),
    (
        "CARVE_SIM_DEV",
        "folder of device nodes, such as `/dev` in a container: only GPUs and MIG devices with theirs are shown",
    ),
    (
        "CARVE_SIM_FAULT",
        "faults `VERB:NTH:before\\|after:CODE\\|die`; `@FILE` takes them from a file, once, so that a program started again finds none",
    ),
    ("CARVE_SIM_TRACE", "file that records every call of NVML and of CUDA"),
    (
        "CARVE_SIM_CUDA_FAULT",
        "`wrong-sum`, `launch-fails`, `hang`, `pools-in-pieces`, or `alloc-fails:N` for the N-th allocation of the process",
    ),
    (
        "CARVE_SIM_CUDA_CLOCK",
        "file, made when it is not there: CUDA programs that name the same one compete for each device's time, first come first served, and for its memory",
    ),
    (
        "CARVE_SIM_MPS_FAULT",
        "`COMMAND:WHAT` for the MPS control program: `die`, `hang`, `refuse` or `ignore`; a file `fault` in the pipe directory does the same",
    ),
];

/// What is told of them, section by section.
const SECTIONS: [(&str, &str, Rows); 4] = [
    ("Read without an option", "", READ),
    ("What other programs get", "", GIVEN),
    (
        "Refused in pods",
        "The controller refuses a pod that asks for parts of GPUs and sets one of these ([why](../security/threat-model.md)).",
        REFUSED,
    ),
    (
        "Simulated GPUs",
        "For the libraries that stand in for NVML and CUDA where carve is tested; no release holds them.",
        SIMULATED,
    ),
];

/// Every variable with the options that it stands for, and their words.
fn of_options(command: &Command, path: &str, found: &mut BTreeMap<String, Vec<(String, String)>>) {
    for arg in shown(command).into_iter().filter(|arg| path == "carve" || !arg.is_global_set()) {
        let Some(name) = arg.get_env() else { continue };
        let option = arg.get_long().map(|long| format!("`{path} --{long}`")).unwrap_or_default();
        found.entry(name.to_string_lossy().into_owned()).or_default().push((option, help(arg)));
    }
    for one in below(command) {
        of_options(one, &format!("{path} {}", one.get_name()), found);
    }
}

/// Options that say the same stand together.
fn row(name: &str, options: &[(String, String)]) -> String {
    let mut by_words: Vec<(&str, Vec<&str>)> = Vec::new();
    for (option, words) in options {
        match by_words.iter_mut().find(|(known, _)| known == words) {
            Some((_, all)) => all.push(option),
            None => by_words.push((words, vec![option])),
        }
    }
    let lines: Vec<String> =
        by_words.iter().map(|(words, options)| format!("{words}<br>{}", options.join(", "))).collect();
    format!("| `{name}` | {} |", lines.join("<br>"))
}

fn page() -> String {
    let mut found = BTreeMap::new();
    of_options(&built(), "carve", &mut found);
    let mut text = HEAD.to_owned();
    text.push_str("| variable | |\n|---|---|\n");
    for (name, options) in &found {
        let _ = writeln!(text, "{}", row(name, options));
    }
    for (heading, words, rows) in SECTIONS {
        let _ = writeln!(text, "\n## {heading}\n");
        if !words.is_empty() {
            let _ = writeln!(text, "{words}\n");
        }
        let _ = writeln!(text, "| variable | |\n|---|---|");
        for (name, about) in rows {
            let _ = writeln!(text, "| `{name}` | {about} |");
        }
    }
    text
}

#[test]
fn variables_are_those_of_the_reference() {
    let page = page();
    for name in ["`CARVE_MACHINE`", "`NODE_NAME`", "`XDG_STATE_HOME`"] {
        assert!(page.contains(name), "{name}");
    }
    check_page("environment.md", &page);
}

/// Names in the sources that look like variables which somebody sets or reads.
fn named(folder: &Path, found: &mut BTreeSet<String>) {
    let entries =
        std::fs::read_dir(folder).expect("the sources").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "reference", "examples", "benches"].contains(&name.as_str()) {
            named(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).expect("a source");
            // Tests stand at the end.
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            found.extend(code.split('"').filter(|word| is_variable(word)).map(str::to_owned));
        }
    }
}

fn is_variable(word: &str) -> bool {
    let is_name =
        word.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
    let known = ["CARVE_", "NVIDIA_", "CUDA_", "LD_", "XDG_", "MIG_PARTED_"];
    let begins = known.iter().any(|begin| word.starts_with(begin) && word.len() > begin.len());
    let answer = word.starts_with("CUDA_ERROR_") || word == "CUDA_SUCCESS";
    is_name && !answer && (begins || ["HOME", "PATH", "KUBECONFIG"].contains(&word))
}

#[test]
fn every_variable_that_the_sources_name_is_told_and_no_other() {
    let mut named_in_code = BTreeSet::new();
    named(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut named_in_code);
    assert!(named_in_code.len() > 60, "{named_in_code:?}");
    let mut options = BTreeMap::new();
    of_options(&built(), "carve", &mut options);
    let listed = SECTIONS.iter().flat_map(|(_, _, rows)| rows.iter().map(|(name, _)| *name));
    let told: BTreeSet<&str> = options.keys().map(String::as_str).chain(listed.clone()).collect();
    // What ends in … stands for all that begin so.
    let whole = |name: &str| told.contains(name) || told.contains(format!("{name}…").as_str());
    // The last is read by a limiter that is built for tests alone.
    let silent: Vec<&String> =
        named_in_code.iter().filter(|name| !whole(name) && *name != "CARVE_FAULT").collect();
    assert_eq!(silent, Vec::<&String>::new(), "docs/reference/environment.md does not tell of these");
    let begins = |name: &str| named_in_code.iter().any(|known| known.starts_with(name.trim_end_matches('…')));
    let gone: Vec<&str> = listed.filter(|name| !begins(name)).collect();
    assert_eq!(gone, Vec::<&str>::new(), "nothing in the sources names these");
}
