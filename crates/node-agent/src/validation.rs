//! Proves that a node works, step by step: driver, CDI, plugin, CUDA.
//!
//! Each step leaves a file where GPU Operator's validators leave theirs, so that whoever waits for those goes on. CUDA is
//! only tried on a GPU that nobody holds: a proof must not cost a tenant its memory.

use crate::agent::read;
use crate::cdi::Cdi;
use crate::configuration;
use crate::driver_links::DriverLinks;
use crate::holders::holders;
use crate::machine::{Machine, OpenHost};
use crate::mps::cuda_probe;
use crate::options::AgentOptions;
use crate::rivals::rivals;
use carve_formats::DevicePluginConfig;
use carve_slicing::{NodeGpus, PartId, Settings};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Passed(String),
    /// It could not be tried.
    Skipped(String),
    /// It does not work.
    Failed(String),
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, text) = match &self.verdict {
            Verdict::Passed(text) => ("passed", text),
            Verdict::Skipped(text) => ("skipped", text),
            Verdict::Failed(text) => ("failed", text),
        };
        write!(f, "{:<8} {word:<8} {text}", self.name)
    }
}

/// All steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In the order in which they were done; a failed one is the last.
    pub steps: Vec<Step>,
}

impl Report {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step.verdict, Verdict::Failed(_)))
    }

    /// All steps in one line.
    pub(crate) fn summary(&self) -> String {
        let line = |step: &Step| match &step.verdict {
            Verdict::Passed(_) => format!("{} works", step.name),
            Verdict::Skipped(why) => format!("{} was not tried: {why}", step.name),
            Verdict::Failed(why) => format!("{} does not work: {why}", step.name),
        };
        self.steps.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

/// The steps with the files they leave.
const FILES: [(&str, &str); 4] = [
    ("driver", "driver-ready"),
    ("cdi", "toolkit-ready"),
    ("plugin", "plugin-ready"),
    ("cuda", "cuda-ready"),
];

/// How long kubelet and the plugin may take to find each other.
const REGISTRATION: Duration = Duration::from_secs(30);

/// Proves that the node works, for a person who asks.
pub async fn validate(options: &AgentOptions, open: &OpenHost) -> Report {
    let report = prove(options, Machine::open(open).await).await;
    if let Err(error) = leave_files(&options.validations, &report) {
        tracing::warn!(folder = %options.validations.display(), %error, "results of validation can not be written");
    }
    report
}

/// Proves that the node works; leaves no files.
pub(crate) async fn prove(options: &AgentOptions, machine: Result<Machine, String>) -> Report {
    let mut steps = Vec::new();
    let mut node = None;
    let driver = match machine {
        Err(why) => Verdict::Failed(why),
        Ok(machine) => match read(&machine, None).await {
            Err(why) => Verdict::Failed(why),
            Ok(reading) if reading.node.gpus.is_empty() => Verdict::Failed("there is no GPU".to_owned()),
            Ok(reading) => {
                let text =
                    format!("driver {}, {} GPU(s)", reading.node.driver.version, reading.node.gpus.len());
                node = Some(reading.node);
                Verdict::Passed(text)
            }
        },
    };
    steps.push(Step { name: "driver", verdict: driver });
    if let Some(node) = node {
        steps.push(Step { name: "cdi", verdict: cdi(options, &node) });
        if !failed(&steps) {
            steps.push(Step { name: "plugin", verdict: plugin(options, &node).await });
        }
        if !failed(&steps) {
            steps.push(Step { name: "cuda", verdict: cuda(options, &node).await });
        }
    }
    Report { steps }
}

fn failed(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step.verdict, Verdict::Failed(_)))
}

/// The settings in force, as far as they can be known without the cluster.
fn settings(options: &AgentOptions) -> Option<Settings> {
    let found = configuration::find(options, &Ok(std::collections::BTreeMap::new()), None).ok();
    let read = found.and_then(|found| configuration::read(options, &found).ok());
    read.map(|(settings, _, _)| settings).or_else(|| {
        let mut config = DevicePluginConfig::default();
        options.overlay(&mut config);
        Settings::new(&config, options.honour_choices).ok()
    })
}

fn cdi(options: &AgentOptions, node: &NodeGpus) -> Verdict {
    let Some(settings) = settings(options) else {
        return Verdict::Failed("the flags are not usable".to_owned());
    };
    match Cdi::new(options).check(node, &settings) {
        Ok(text) => Verdict::Passed(text),
        Err(why) if settings.any_cdi_list() => Verdict::Failed(why),
        // Then NVIDIA's runtime puts the devices in, and its files are not our business.
        Err(why) => Verdict::Skipped(why),
    }
}

/// Whether a plugin offers these GPUs to kubelet.
async fn plugin(options: &AgentOptions, node: &NodeGpus) -> Verdict {
    let folder = options.kubelet_socket.parent().unwrap_or(Path::new("/")).to_owned();
    let parts = parts(node);
    let give_up = tokio::time::Instant::now() + REGISTRATION;
    loop {
        let serving = rivals(&folder, &[], &parts).await;
        if let Some(one) = serving.first() {
            let socket = one.socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Verdict::Passed(format!("{socket} offers {}", one.device));
        }
        if tokio::time::Instant::now() > give_up {
            let folder = folder.display();
            return Verdict::Failed(format!(
                "no plugin in {folder} offers a GPU of this node; is the agent running?"
            ));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn parts(node: &NodeGpus) -> BTreeSet<PartId> {
    node.gpus
        .iter()
        .flat_map(|gpu| std::iter::once(gpu.part()).chain(gpu.migs.iter().map(carve_slicing::NodeMig::part)))
        .collect()
}

/// Adds two vectors on the first part that nobody holds.
async fn cuda(options: &AgentOptions, node: &NodeGpus) -> Verdict {
    let driver_root = settings(options).map_or_else(|| "/".to_owned(), |settings| settings.driver_root);
    let links = DriverLinks::new(options);
    let Some(mut probe) = cuda_probe(&links, &driver_root, &node.driver.version) else {
        return Verdict::Skipped("no CUDA library is here".to_owned());
    };
    let held = match holders(&options.pod_resources_socket).await {
        Ok(held) => held,
        Err(why) => return Verdict::Skipped(format!("which GPUs are free is not known: {why}")),
    };
    let free = node.gpus.iter().filter(|gpu| !gpu.lost).find_map(|gpu| {
        let is_free = |part: &PartId| !held.iter().any(|held| held.part() == *part);
        if gpu.mig_enabled {
            return gpu.migs.iter().map(carve_slicing::NodeMig::part).find(is_free);
        }
        Some(gpu.part()).filter(is_free)
    });
    let Some(part) = free else { return Verdict::Skipped("every GPU is held by a pod".to_owned()) };
    probe.env.insert("CUDA_VISIBLE_DEVICES".into(), part.as_str().into());
    let added = tokio::task::spawn_blocking(move || probe.vector_add()).await;
    match added {
        Ok(Ok(added)) => {
            Verdict::Passed(format!("{} added {} pairs of numbers", added.device, added.elements))
        }
        Ok(Err(error)) => Verdict::Failed(format!("{part}: {error}")),
        Err(error) => Verdict::Failed(error.to_string()),
    }
}

/// A file for each step that passed, and none for the others.
pub(crate) fn leave_files(folder: &Path, report: &Report) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, file) in FILES {
        let path = folder.join(file);
        let passed = report
            .steps
            .iter()
            .find(|step| step.name == name)
            .is_some_and(|step| matches!(step.verdict, Verdict::Passed(_) | Verdict::Skipped(_)));
        if passed {
            fs::write(&path, "")?;
        } else if path.exists() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
