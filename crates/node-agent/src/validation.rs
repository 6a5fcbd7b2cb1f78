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
use crate::options::{AgentOptions, ConfigSource, Job};
use crate::rivals::{all_parts, rivals};
use carve_cluster_api::NodeApi;
use carve_dra_driver::{RecordStore, UsageRecord};
use carve_formats::DevicePluginConfig;
use carve_kubelet_api::dial::dial;
use carve_kubelet_api::registration::{InfoRequest, RegistrationClient};
use carve_slicing::{NodeGpus, PartId, Settings};
use std::collections::{BTreeMap, BTreeSet};
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

/// What the node is held against.
#[derive(Debug)]
pub(crate) struct Basis {
    pub(crate) settings: Settings,
    /// Which configuration that is, for people.
    pub(crate) title: String,
}

/// Proves that the node works, for a person who asks.
pub async fn validate(options: &AgentOptions, open: &OpenHost) -> Result<Report, ValidateError> {
    let basis = Basis::ask(options).await?;
    let report = prove(options, Machine::open(open).await, &basis).await;
    if let Err(error) = leave_files(&options.validations, &report) {
        tracing::warn!(folder = %options.validations.display(), %error, "results of validation can not be written");
    }
    Ok(report)
}

/// Why nothing can be proved.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// No configuration was found, and the flags alone make none.
    #[error("{why}, and the flags alone are no configuration; correct them, nothing was tried")]
    Flags {
        /// Why no configuration was found.
        why: String,
        /// What is wrong with the flags.
        source: carve_slicing::SettingsError,
    },
}

impl Basis {
    /// Finds the configuration that an agent with these options would take, by the node's label and the cluster's ConfigMap.
    async fn ask(options: &AgentOptions) -> Result<Self, ValidateError> {
        let mut cdi = Cdi::new(options);
        let chosen = choose(options, &mut cdi).await;
        let why = match chosen {
            Ok((mut settings, config, title)) => {
                cdi.choose_lists(&config, &mut settings);
                return Ok(Basis { settings, title: format!("configuration {title}") });
            }
            Err(why) => why,
        };
        let mut config = DevicePluginConfig::default();
        options.overlay(&mut config);
        match Settings::new(&config, options.honour_choices) {
            Ok(mut settings) => {
                cdi.choose_lists(&config, &mut settings);
                Ok(Basis { settings, title: format!("flags alone, because {why}") })
            }
            Err(source) => Err(ValidateError::Flags { why, source }),
        }
    }
}

/// How long the API server may take to tell about the node and its configuration.
const CLUSTER: Duration = Duration::from_secs(5);

/// The configuration that holds here, and what it is called.
async fn choose(
    options: &AgentOptions,
    cdi: &mut Cdi,
) -> Result<(Settings, DevicePluginConfig, String), String> {
    let api = match &options.node_name {
        Some(node) => NodeApi::connect(options.kubeconfig.as_deref(), node).await.map(Some),
        None => Ok(None),
    };
    let api = api.map_err(|error| error.to_string())?;
    let mut seen = None;
    if let Some(api) = &api {
        match tokio::time::timeout(CLUSTER, api.view()).await {
            Ok(Ok(view)) => {
                cdi.learn_runtime(view.runtime.clone());
                seen = Some(view);
            }
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("the API server tells nothing for {} s", CLUSTER.as_secs())),
        }
    }
    let named = match (&options.config, &api) {
        (ConfigSource::Folder(folder), _) => configuration::read_folder(folder),
        (ConfigSource::ConfigMap { namespace, name }, Some(api)) => {
            let mut map = api.follow_config_map(namespace, name);
            // Only the wait is bounded here; what was seen is taken afterwards.
            let _ =
                tokio::time::timeout(CLUSTER, async { map.wait_for(Option::is_some).await.map(drop) }).await;
            let named = map.borrow().clone();
            named.unwrap_or_else(|| {
                Err(format!("ConfigMap {namespace}/{name} was not told in {} s", CLUSTER.as_secs()))
            })
        }
        (ConfigSource::ConfigMap { namespace, name }, None) => {
            Err(format!("ConfigMap {namespace}/{name} can not be read without --node-name"))
        }
        (ConfigSource::Flags | ConfigSource::File(_), _) => Ok(BTreeMap::new()),
    };
    let found = configuration::find(options, &named, seen.as_ref()).map_err(|error| error.to_string())?;
    let (settings, config, _) = configuration::read(options, &found).map_err(|error| error.to_string())?;
    Ok((settings, config, found.title))
}

/// Proves that the node works; leaves no files.
pub(crate) async fn prove(options: &AgentOptions, machine: Result<Machine, String>, basis: &Basis) -> Report {
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
        steps.push(Step { name: "cdi", verdict: cdi(options, &node, basis) });
        if !failed(&steps) {
            let claims = options.jobs.contains(&Job::Claims);
            let verdict = if claims { serves_claims(options).await } else { plugin(options, &node).await };
            steps.push(Step { name: "plugin", verdict });
        }
        if !failed(&steps) {
            steps.push(Step { name: "cuda", verdict: cuda(options, &node, &basis.settings).await });
        }
    }
    Report { steps }
}

fn failed(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step.verdict, Verdict::Failed(_)))
}

fn cdi(options: &AgentOptions, node: &NodeGpus, basis: &Basis) -> Verdict {
    let Basis { settings, title } = basis;
    match Cdi::new(options).check(node, settings) {
        Ok(text) => Verdict::Passed(format!("{text}; by {title}")),
        Err(why) if settings.any_cdi_list() => Verdict::Failed(format!("{why}; by {title}")),
        // Then NVIDIA's runtime puts the devices in, and its files are not our business.
        Err(why) => {
            Verdict::Skipped(format!("{why}; by {title} containers do not learn their devices by CDI"))
        }
    }
}

/// Whether a plugin offers these GPUs to kubelet.
async fn plugin(options: &AgentOptions, node: &NodeGpus) -> Verdict {
    let folder = options.kubelet_socket.parent().unwrap_or(Path::new("/")).to_owned();
    let mut parts = all_parts(node);
    if options.jobs.contains(&Job::Slices) {
        parts = carve_bookings::tokens(1).into_iter().map(PartId::new).collect();
    }
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

/// Whether a driver shows up where kubelet looks for those that serve claims.
async fn serves_claims(options: &AgentOptions) -> Verdict {
    let (folder, driver) = (&options.dra.registry, &options.dra.driver_name);
    let give_up = tokio::time::Instant::now() + REGISTRATION;
    loop {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for socket in entries.map(|entry| entry.path()) {
            let Ok(channel) = dial(&socket).await else { continue };
            let told = RegistrationClient::new(channel).get_info(InfoRequest {}).await;
            if told.is_ok_and(|told| told.into_inner().name == *driver) {
                let name = socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Verdict::Passed(format!("{name} serves claims for {driver}"));
            }
        }
        if tokio::time::Instant::now() > give_up {
            let folder = folder.display();
            return Verdict::Failed(format!(
                "no driver in {folder} serves claims for {driver}; is the agent running?"
            ));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Adds two vectors on the first part that nobody holds.
async fn cuda(options: &AgentOptions, node: &NodeGpus, settings: &Settings) -> Verdict {
    let records = fs::read_dir(options.state_dir.join("dra/claims")).into_iter().flatten().flatten();
    let any = records.into_iter().any(|entry| entry.path().extension().is_some_and(|kind| kind == "json"));
    if options.jobs.contains(&Job::Claims) && any {
        return Verdict::Skipped(
            "claims hold GPUs of this node, and what is theirs is left alone".to_owned(),
        );
    }
    let started = fs::read_dir(options.state_dir.join("slices")).into_iter().flatten().flatten();
    let any = started.into_iter().any(|entry| entry.path().extension().is_some_and(|kind| kind == "json"));
    if options.jobs.contains(&Job::Slices) && any {
        return Verdict::Skipped(
            "pods hold parts of GPUs of this node, and what is theirs is left alone".to_owned(),
        );
    }
    let links = DriverLinks::new(options);
    let Some(mut probe) = cuda_probe(&links, &settings.driver_root, &node.driver.version) else {
        return Verdict::Skipped("no CUDA library is here".to_owned());
    };
    let held = match holders(&options.pod_resources_socket).await {
        Ok(held) => held.devices,
        Err(why) => return Verdict::Skipped(format!("which GPUs are free is not known: {why}")),
    };
    let claimed = match claimed(&options.state_dir) {
        Ok(claimed) => claimed,
        Err(why) => return Verdict::Skipped(format!("which GPUs are free is not known: {why}")),
    };
    let free = node.gpus.iter().filter(|gpu| !gpu.lost).find_map(|gpu| {
        let is_free =
            |part: &PartId| !held.iter().any(|held| held.part() == *part) && !claimed.contains(part);
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

/// The parts that claims have. Kubelet tells claims by the names of their devices; which parts those are is on record.
fn claimed(state: &Path) -> Result<BTreeSet<PartId>, String> {
    let records = RecordStore::of_agent(state).look().map_err(|error| error.to_string())?;
    let devices = records.claims.into_values().flat_map(|record| record.devices);
    let taking = devices.filter(|device| device.usage != UsageRecord::Watch);
    Ok(taking.map(|device| PartId::new(device.part.unwrap_or(device.gpu))).collect())
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

/// Takes the files away, where nobody vouches for the node any more.
pub(crate) fn remove_files(folder: &Path) {
    for (_, file) in FILES {
        let _ = fs::remove_file(folder.join(file));
    }
}

#[cfg(test)]
mod tests {
    use super::claimed;
    use carve_dra_driver::{ClaimRecord, DeviceRecord, RecordStore, Stage, UsageRecord};
    use carve_slicing::PartId;
    use std::collections::BTreeSet;

    #[test]
    fn parts_of_claims_are_not_free() {
        let folder = tempfile::tempdir().unwrap();
        assert!(claimed(folder.path()).unwrap().is_empty());
        let store = RecordStore::of_agent(folder.path());
        let _lock = store.lock().unwrap();
        let device = |gpu: &str, part: Option<&str>, usage| DeviceRecord {
            request: "r".to_owned(),
            device: "gpu-0".to_owned(),
            share: None,
            gpu: gpu.to_owned(),
            part: part.map(str::to_owned),
            guards: None,
            usage,
        };
        let record = ClaimRecord {
            boot: "b".to_owned(),
            namespace: "n".to_owned(),
            name: "c".to_owned(),
            uid: "u".to_owned(),
            stage: Stage::Ready,
            devices: vec![
                device("GPU-0", Some("MIG-1"), UsageRecord::Alone),
                device("GPU-1", None, UsageRecord::Alone),
                device("GPU-2", Some("GPU-2"), UsageRecord::Watch),
            ],
        };
        store.put(&record).unwrap();
        assert_eq!(claimed(folder.path()).unwrap(), BTreeSet::from(["MIG-1", "GPU-1"].map(PartId::new)));
    }
}
