//! Specs that people have for NVIDIA's DRA driver and others, on the real scheduler with our devices.
//!
//! Each spec gets a namespace and a node without a kubelet whose simulated GPUs are published for the driver `gpu.nvidia.com`; all are
//! applied at once. What the scheduler gives them, or why they wait, is the table `docs/reference/dra-specs.md`. The test fails when it
//! answers otherwise; `UPDATE_TABLES=1` writes the table anew.

mod specs;

use carve_cluster_tests::{Batch, Cluster, PATIENCE, Unit, class_objects};
use carve_test_support::fixtures;
use specs::{Entry, FOLDERS, asked, entries, read};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const DRIVER: &str = "gpu.nvidia.com";
const SUITE: &str = "dra-specs";
/// How long an answer must stay as it is before it is written down.
const SETTLED: Duration = Duration::from_secs(10);

fn table_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/dra-specs.md")
}

const HEAD: &str = "# Specs written for other DRA drivers

What the stock scheduler of Kubernetes 1.36.4 gives to specs that were written for NVIDIA's DRA driver, for the example driver of
Kubernetes, for HAMi and for vgpu-manager, where the devices are carve's. `cluster-tests/tests/dra_specs.rs` applies them and writes
this table; it fails when the scheduler answers otherwise.

The driver's name is `gpu.nvidia.com`, the classes `gpu.nvidia.com` (with the extended resource `nvidia.com/gpu`) and `mig.nvidia.com`
are those of NVIDIA's chart. Only images and nodes are replaced, and what the note says. The example driver's `gpu.example.com` is
`gpu.nvidia.com` here. In braces is what a claim takes of a device that others may hold as well. A pod that waits shows the
scheduler's own words.

| spec | machine | asks for | gets | note |
|---|---|---|---|---|
";

fn table(units: &[Unit], answers: &BTreeMap<String, String>) -> String {
    let mut units = units.iter();
    let mut text = HEAD.to_owned();
    let cell = |words: &str| words.replace('|', "\\|").replace('\n', " ");
    for entry in entries() {
        let cells = match entry {
            Entry::LeftOut(file, why) => {
                [format!("`{file}`"), String::new(), String::new(), "left out".to_owned(), why.to_owned()]
            }
            Entry::Applied(spec) => {
                let one = units.next().unwrap_or_else(|| panic!("{} was not read", spec.file));
                let answer = answers.get(&one.name).cloned().unwrap_or_else(|| "no answer".to_owned());
                let machine = spec.machine.replace(':', " × ");
                [format!("`{}`", spec.file), machine, asked(&one.objects), answer, spec.note.to_owned()]
            }
        };
        let cells: Vec<String> = cells.iter().map(|words| cell(words)).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

#[test]
fn no_file_of_the_fixtures_is_forgotten() {
    let named: BTreeSet<String> = entries()
        .into_iter()
        .map(|entry| match entry {
            Entry::Applied(spec) => spec.file.to_owned(),
            Entry::LeftOut(file, _) => file.to_owned(),
        })
        .collect();
    for folder in FOLDERS {
        let Some(path) = fixtures(&format!("dra/{folder}")) else { return };
        for file in std::fs::read_dir(path).expect("a folder").flatten() {
            let name = format!("{folder}/{}", file.file_name().to_string_lossy());
            assert!(named.contains(&name), "{name} is neither applied nor left out");
        }
    }
}

#[test]
fn specs_get_what_the_table_says() {
    let Some(cluster) = Cluster::connect() else { return };
    let applied = entries().into_iter().filter_map(|entry| match entry {
        Entry::Applied(spec) => Some(spec),
        Entry::LeftOut(..) => None,
    });
    let units: Option<Vec<Unit>> = applied.map(|spec| read(&spec, cluster.probe_image())).collect();
    let Some(units) = units else { return };
    let start = Instant::now();
    let batch = Batch::apply(&cluster, SUITE, DRIVER, &class_objects(DRIVER), units.clone());
    println!("{} specs are applied after {:.1} s", units.len(), start.elapsed().as_secs_f64());

    let recorded = std::fs::read_to_string(table_path()).unwrap_or_default();
    let give_up = Instant::now() + PATIENCE;
    let mut last = (String::new(), Instant::now());
    loop {
        let now = batch.answers(&BTreeMap::new());
        let text = table(&units, &now);
        if text == recorded {
            break;
        }
        if text != last.0 || now.len() < units.len() {
            last = (text, Instant::now());
        }
        if last.1.elapsed() > SETTLED && std::env::var_os("UPDATE_TABLES").is_some() {
            std::fs::write(table_path(), &last.0).expect("the table is written");
            break;
        }
        // Until then the scheduler has been made to look again several times.
        let late = last.1.elapsed() > 4 * SETTLED || Instant::now() > give_up;
        assert!(
            !late,
            "the table differs; UPDATE_TABLES=1 writes it anew:\n{}",
            carve_test_support::lines_that_differ(&recorded, &last.0)
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("{} specs are answered after {:.1} s", units.len(), start.elapsed().as_secs_f64());
}
