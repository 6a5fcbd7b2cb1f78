//! Which parts need an MPS daemon, with which limits, and how those daemons are.

use crate::driver_links::DriverLinks;
use crate::options::AgentOptions;
use carve_cuda::Probe;
use carve_gpu_model::Bytes;
use carve_mps::{CgroupHome, ClientProbe, Mps, MpsSettings, PartDirectories, PartStatus, ProbeError, Seen};
use carve_slicing::health::MpsState;
use carve_slicing::mps::{MpsLimits, MpsOverhead, MpsPart, limits};
use carve_slicing::{Held, Mechanism, NodeGpus, Offer, PartId, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The MPS part of the agent. Nothing is started before something is to be shared by MPS, and when the agent ends its
/// daemons run on, for pods that use them and for the next agent to find.
#[derive(Debug)]
pub(crate) struct MpsDoor {
    links: DriverLinks,
    cgroup: Option<CgroupHome>,
    running: Option<Running>,
    wanted: BTreeMap<PartId, MpsLimits>,
    /// Parts that were reported as not ready, to be reported as well once they are not shared any more.
    reported: BTreeSet<PartId>,
    statuses: watch::Sender<BTreeMap<PartId, PartStatus>>,
}

#[derive(Debug)]
struct Running {
    mps: Mps,
    root: PathBuf,
}

/// A part that can not be shared as asked for.
#[derive(Debug)]
pub(crate) struct MpsTrouble {
    pub(crate) part: PartId,
    pub(crate) why: String,
}

impl MpsDoor {
    pub(crate) fn new(options: &AgentOptions) -> Self {
        MpsDoor {
            links: DriverLinks::new(options),
            cgroup: options
                .cgroup_root
                .clone()
                .map(|root| CgroupHome { root, name: options.mps_cgroup.clone() }),
            running: None,
            wanted: BTreeMap::new(),
            reported: BTreeSet::new(),
            statuses: watch::Sender::new(BTreeMap::new()),
        }
    }

    /// Tells whenever a daemon changes.
    pub(crate) fn status(&self) -> watch::Receiver<BTreeMap<PartId, PartStatus>> {
        self.statuses.subscribe()
    }

    /// Has a daemon for every part that is shared by MPS, and for every part that a pod still holds so.
    pub(crate) fn ensure(
        &mut self,
        node: &NodeGpus,
        offer: &Offer,
        settings: &Settings,
        held: &[Held],
    ) -> Vec<MpsTrouble> {
        let mut wanted = BTreeMap::new();
        let mut troubles = Vec::new();
        for device in offer.resources.values().flat_map(|resource| &resource.devices) {
            if device.share.mechanism != Mechanism::Mps || wanted.contains_key(&device.part) {
                continue;
            }
            let Some(part) = describe(node, &device.part) else { continue };
            match limits(&part, &MpsOverhead::default(), device.share.replicas) {
                Ok(limits) => {
                    wanted.insert(device.part.clone(), limits);
                }
                Err(error) => troubles.push(MpsTrouble { part: device.part.clone(), why: error.to_string() }),
            }
        }
        // A pod that was given a share and has not connected yet would run without limits if its daemon went.
        for (part, limits) in &self.wanted {
            if held.iter().any(|held| held.part() == *part) {
                wanted.entry(part.clone()).or_insert(*limits);
            }
        }
        let root = PathBuf::from(&settings.mps_root);
        if let Err(why) = self.keep(wanted, root, &settings.driver_root, &node.driver.version) {
            let parts = self.wanted.keys().cloned();
            troubles.extend(parts.map(|part| MpsTrouble { part, why: why.clone() }));
        }
        troubles
    }

    /// The parts that a daemon is kept for.
    pub(crate) fn keeps(&self) -> impl Iterator<Item = &PartId> {
        self.wanted.keys()
    }

    /// Has a daemon for exactly these parts, below this folder.
    pub(crate) fn keep(
        &mut self,
        wanted: BTreeMap<PartId, MpsLimits>,
        root: PathBuf,
        driver_root: &str,
        version: &str,
    ) -> Result<(), String> {
        self.wanted = wanted;
        if self.running.as_ref().is_some_and(|running| running.root != root) {
            // Another folder: daemons of the old one end when their clients are gone.
            if let Some(mut running) = self.running.take() {
                running.mps.ensure(&BTreeMap::new());
            }
        }
        // Daemons of an earlier agent end when nobody uses them any more, also if nothing is shared by MPS now.
        let left_behind = || !PartDirectories::left_behind(&root).is_empty();
        if self.running.is_none() && (!self.wanted.is_empty() || left_behind()) {
            self.running = Some(self.start(root, driver_root, version)?);
        }
        if let Some(running) = &mut self.running {
            running.mps.ensure(&self.wanted);
        }
        Ok(())
    }

    fn start(&self, root: PathBuf, driver_root: &str, version: &str) -> Result<Running, String> {
        let name = Path::new("nvidia-cuda-mps-control");
        let path = std::env::var("PATH").unwrap_or_default();
        let within = self
            .links
            .root()
            .map(|root| format!("{0}/usr/bin:{0}/usr/local/bin:{0}/opt/bin", root.display()));
        let program = within.and_then(|within| MpsSettings::find(name, &within));
        let program = program.or_else(|| MpsSettings::find(name, &path)).ok_or_else(|| {
            "nvidia-cuda-mps-control is neither in the driver's root nor on the search path".to_owned()
        })?;
        let mut settings = MpsSettings::new(&root, &program);
        settings.cgroup.clone_from(&self.cgroup);
        let libraries = self.links.make(driver_root, version);
        if let Some(libraries) = &libraries {
            settings.environment.insert("LD_LIBRARY_PATH".to_owned(), libraries.display().to_string());
        }
        let probe = CudaProbe::find(libraries).map(|probe| Arc::new(probe) as Arc<dyn ClientProbe>);
        if probe.is_none() {
            tracing::warn!(
                "no CUDA library is here: MPS limits are read back from the daemon, and no client checks them"
            );
        }
        let mps = Mps::new(settings, probe);
        let (mut from, to) = (mps.status(), self.statuses.clone());
        tokio::spawn(async move {
            let mut told: BTreeMap<PartId, String> = BTreeMap::new();
            loop {
                let now = from.borrow_and_update().clone();
                for (part, status) in &now {
                    let state = status.state.to_string();
                    if told.get(part) != Some(&state) {
                        tracing::info!(%part, state, "MPS");
                        told.insert(part.clone(), state);
                    }
                }
                to.send_replace(now);
                if from.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(Running { mps, root })
    }

    /// Ends the daemons below a folder that nobody needs any more, for as long as it may take, and says which parts still have one.
    pub(crate) async fn leave(
        &mut self,
        root: &Path,
        driver_root: &str,
        version: &str,
        needed: &BTreeSet<PartId>,
        most: Duration,
    ) -> Vec<PartId> {
        let left_behind = || PartDirectories::left_behind(root);
        let unneeded = || left_behind().into_iter().filter(|part| !needed.contains(part)).collect::<Vec<_>>();
        if !unneeded().is_empty() {
            match self.start(root.to_owned(), driver_root, version) {
                Ok(mut running) => {
                    running.mps.leave(unneeded());
                    let give_up = tokio::time::Instant::now() + most;
                    while !unneeded().is_empty() && tokio::time::Instant::now() < give_up {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                }
                Err(why) => tracing::warn!(why, "MPS daemons can not be ended"),
            }
        }
        let left = left_behind();
        if let (Some(cgroup), true) = (&self.cgroup, left.is_empty()) {
            cgroup.remove();
        }
        left
    }

    /// How every part is that is, or was, shared by MPS.
    pub(crate) fn states(&mut self) -> Vec<(PartId, MpsState)> {
        let statuses = self.statuses.borrow();
        let state = |part: &PartId| match statuses.get(part) {
            Some(status) if status.is_ready() => MpsState::Ready,
            Some(status) => MpsState::NotReady(status.state.to_string()),
            None => MpsState::NotReady("its MPS daemon was not started yet".to_owned()),
        };
        let mut states: Vec<(PartId, MpsState)> =
            self.wanted.keys().map(|part| (part.clone(), state(part))).collect();
        let gone = self.reported.iter().filter(|part| !self.wanted.contains_key(part));
        states.extend(gone.map(|part| (part.clone(), MpsState::Ready)));
        self.reported = self.wanted.keys().cloned().collect();
        states
    }

    /// Every part that a daemon is kept for, and whether containers may be sent there.
    pub(crate) fn daemons(&self) -> Vec<(String, bool)> {
        let statuses = self.statuses.borrow();
        let ready = |part: &PartId| statuses.get(part).is_some_and(PartStatus::is_ready);
        self.wanted.keys().map(|part| (part.to_string(), ready(part))).collect()
    }

    /// What people should know about the daemons.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let of = |(part, status): (&PartId, &PartStatus)| {
            let users = status.users.remark().into_iter();
            users
                .chain(status.remarks.iter().cloned())
                .map(move |text| format!("MPS on {part}: {text}"))
                .collect::<Vec<_>>()
        };
        self.statuses.borrow().iter().flat_map(of).collect()
    }
}

/// What is known of a part, for its limits.
fn describe(node: &NodeGpus, part: &PartId) -> Option<MpsPart> {
    let gpu = node.gpu_of(part)?;
    let compute_capability = gpu.gpu.compute_capability;
    let mig = gpu.migs.iter().find(|mig| mig.part() == *part);
    Some(match mig {
        Some(mig) => MpsPart { memory: mig.device.memory.bytes(), reserved: Bytes(0), compute_capability },
        None => MpsPart { memory: gpu.gpu.memory, reserved: gpu.reserved, compute_capability },
    })
}

/// A CUDA client that looks what its daemon lets it have.
#[derive(Debug)]
struct CudaProbe {
    /// Links to the driver's libraries, where the loader does not find them by itself.
    libraries: Option<PathBuf>,
}

impl CudaProbe {
    /// A probe, if there is a CUDA library.
    fn find(libraries: Option<PathBuf>) -> Option<Self> {
        let linked = libraries.as_ref().is_some_and(|folder| folder.join("libcuda.so.1").exists());
        (linked || is_installed()).then_some(CudaProbe { libraries: libraries.filter(|_| linked) })
    }

    fn probe(&self) -> Probe {
        let mut probe = Probe::new("/proc/self/exe");
        if let Some(folder) = &self.libraries {
            probe.library = Some(folder.join("libcuda.so.1"));
            probe.env.insert("LD_LIBRARY_PATH".into(), folder.into());
        }
        probe
    }
}

/// Whether the loader would find a CUDA library. It is looked for rather than loaded: a context must not live in here.
fn is_installed() -> bool {
    let told = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = [
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/lib64",
        "/usr/local/nvidia/lib64",
    ];
    let folders = told.split(':').filter(|folder| !folder.is_empty()).chain(usual);
    folders.into_iter().any(|folder| Path::new(folder).join("libcuda.so.1").exists())
}

/// A CUDA client to be started as another process, if there is a CUDA library.
pub(crate) fn cuda_probe(links: &DriverLinks, driver_root: &str, version: &str) -> Option<Probe> {
    CudaProbe::find(links.make(driver_root, version)).map(|found| found.probe())
}

impl ClientProbe for CudaProbe {
    fn look(&self, pipe: &Path, part: &PartId) -> Result<Seen, ProbeError> {
        let mut probe = self.probe();
        probe.env.insert("CUDA_MPS_PIPE_DIRECTORY".into(), pipe.into());
        probe.env.insert("CUDA_VISIBLE_DEVICES".into(), part.as_str().into());
        let seen =
            probe.look().map_err(|error| ProbeError { part: part.clone(), source: Box::new(error) })?;
        Ok(Seen { free: seen.free })
    }
}
