//! Makes claims ready and takes them back: GPUs, instances, files and records, one call at a time.

use crate::claim_spec::{CdiNames, NodeFiles, Places};
use crate::limits::ContextMemory;
use crate::prepare_error::PrepareError;
use crate::record::{ClaimRecord, DeviceRecord, RecordError, RecordStore, Records, Stage, UsageRecord};
use crate::turns::SetTurns;
use carve_cdi::{WriteError, remove_named, write_named};
use carve_dra::{Claim, DeviceName, Grant, MigPlace, Usage, excludes, grants};
use carve_formats::dra_config::{ComputePolicy, MpsLimitError as ConfigLimitError, WithoutLimiter};
use carve_gpu_host::{Gpu, GpuHost};
use carve_gpu_model::{Bytes, GpuUuid, Mebibytes};
use carve_mig_manager::{InstanceError, StateDir, make_instance, remove_instance, uncut};
use carve_slicing::mps::{MpsLimitError, MpsLimits, MpsOverhead, MpsPart, limits};
use carve_slicing::{MigMinors, PartId};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a preparer works and for whom.
#[derive(Debug, Clone)]
pub struct PreparerSettings {
    /// Name of the driver.
    pub driver: String,
    /// The node's pool.
    pub pool: String,
    /// The boot of the machine.
    pub boot: String,
    /// Where records are.
    pub folder: PathBuf,
    /// Where CDI files go.
    pub cdi_folder: PathBuf,
    /// Where the journal of MIG changes is.
    pub mig: StateDir,
    /// Where things are on the host.
    pub places: Places,
    /// Where limits of shares are for this process; containers get them from [`Places::limits`].
    pub limits_here: PathBuf,
    /// What a process's context takes of a GPU.
    pub context: ContextMemory,
    /// Sets the length of turns, where that is possible.
    pub turns: Option<Arc<dyn SetTurns>>,
    /// Told after each step, so that tests can end everything there.
    pub steps: Steps,
}

/// Who is told after each step.
#[derive(Clone, Default)]
pub struct Steps(Option<Arc<dyn Fn(&'static str) + Send + Sync>>);

impl Steps {
    /// Tells somebody.
    pub fn told(listener: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Steps(Some(Arc::new(listener)))
    }

    fn done(&self, step: &'static str) {
        tracing::trace!(step, "claim");
        if let Some(listener) = &self.0 {
            listener(step);
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}

/// A device that is ready, as kubelet is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The request it answers.
    pub request: String,
    /// Its pool.
    pub pool: String,
    /// Its name there.
    pub device: String,
    /// Which share of it.
    pub share: Option<String>,
    /// What the container runtime looks up.
    pub cdi_ids: Vec<String>,
}

/// Makes claims ready and takes them back.
#[derive(Debug, Clone)]
pub struct Preparer {
    pub(crate) settings: PreparerSettings,
    pub(crate) store: RecordStore,
    pub(crate) names: CdiNames,
    /// Files that were put aside and that nobody was told of yet.
    troubles: Arc<Mutex<Vec<String>>>,
}

impl Preparer {
    /// A preparer; it knows nothing that is not on disk.
    pub fn new(settings: PreparerSettings) -> Self {
        let store = RecordStore::new(settings.folder.join("claims"));
        let names = CdiNames::new(&settings.driver);
        Preparer { settings, store, names, troubles: Arc::default() }
    }

    /// Every claim that is known, and files that could not be read. Claims of an earlier boot are forgotten: nothing of them is left.
    pub fn records(&self) -> Result<Records, RecordError> {
        let _lock = self.store.lock()?;
        self.read()
    }

    pub(crate) fn read(&self) -> Result<Records, RecordError> {
        let mut records = self.store.all()?;
        // Whoever reads first puts a broken file aside, and that is seldom the one who tells.
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).extend(records.troubles.iter().cloned());
        let old = |record: &ClaimRecord| record.boot != self.settings.boot;
        let gone: Vec<String> =
            records.claims.values().filter(|record| old(record)).map(|record| record.uid.clone()).collect();
        for uid in gone {
            records.claims.remove(&uid);
            self.store.remove(&uid)?;
        }
        Ok(records)
    }

    /// Files that were put aside since this was asked last, in words.
    pub fn troubles(&self) -> Vec<String> {
        std::mem::take(&mut *self.troubles.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The first half: writes down what the claim gets and makes it. Afterwards [`Preparer::daemons`] has its daemons, and when they are
    /// ready comes [`Preparer::finish`]. A claim that is ready already stays as it is.
    pub fn begin(&self, host: &mut dyn GpuHost, claim: &Claim) -> Result<(), PrepareError> {
        let title = format!("{}/{}", claim.namespace, claim.name);
        let _lock = self.store.lock()?;
        let records = self.read()?;
        if records.claims.get(&claim.uid).is_some_and(|record| record.stage == Stage::Ready) {
            return Ok(());
        }
        let grants = grants(claim, &self.settings.driver, &self.settings.pool)?;
        let gpus = host.gpus().map_err(|source| PrepareError::Host { claim: title.clone(), source })?;
        let mut devices = Vec::new();
        for grant in &grants {
            let gpu = gpus.iter().find(|gpu| gpu.minor == grant.device.minor);
            let gpu = gpu.ok_or_else(|| PrepareError::NoGpu {
                claim: title.clone(),
                minor: grant.device.minor,
                device: grant.device.clone(),
            })?;
            self.refuse_taken(&title, &claim.uid, grant, &records)?;
            self.refuse_small(&title, &claim.uid, grant, gpu)?;
            devices.push(self.device(grant, gpu));
        }
        let mut record = ClaimRecord {
            boot: self.settings.boot.clone(),
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            stage: Stage::Started,
            devices,
        };
        self.store.put(&record)?;
        self.step("record: started");
        for (place, grant) in grants.iter().enumerate() {
            let gpu = gpus.iter().find(|gpu| gpu.minor == grant.device.minor);
            if let (Some(gpu), Some(device)) = (gpu, record.devices.get_mut(place)) {
                self.make(host, gpu, grant, device, &title)?;
                self.step("part made");
            }
        }
        self.limit_daemons(&grants, &mut record, &title)?;
        self.set_turns(&grants, &record, &records, &title)?;
        self.step("turns set");
        self.store.put(&record)?;
        self.step("record: parts");
        Ok(())
    }

    pub(crate) fn step(&self, step: &'static str) {
        self.settings.steps.done(step);
    }

    /// The last line of defence: what a claim gets is not what another still has.
    fn refuse_taken(
        &self,
        title: &str,
        uid: &str,
        grant: &Grant,
        records: &Records,
    ) -> Result<(), PrepareError> {
        if grant.usage == Usage::Watch {
            return Ok(());
        }
        for other in records.claims.values().filter(|other| other.uid != uid) {
            for held in other.devices.iter().filter(|held| held.usage != UsageRecord::Watch) {
                let Ok(name) = held.device.parse::<DeviceName>() else { continue };
                if excludes((&grant.device, grant.share.as_deref()), (&name, held.share.as_deref())) {
                    let how = if other.stage == Stage::Ending { "is giving back" } else { "holds" };
                    return Err(PrepareError::Taken {
                        claim: title.to_owned(),
                        device: grant.device.clone(),
                        held: held.device.clone(),
                        holder: other.title(),
                        how,
                    });
                }
            }
        }
        Ok(())
    }

    fn device(&self, grant: &Grant, gpu: &Gpu) -> DeviceRecord {
        let usage = match &grant.usage {
            Usage::Alone => UsageRecord::Alone,
            Usage::AloneByTurns(interval) | Usage::Turn(interval) => {
                UsageRecord::Turns { interval: interval.number() }
            }
            Usage::AloneOverMps(config) => UsageRecord::Mps {
                daemon_memory: None,
                daemon_threads: config
                    .active_thread_percentage
                    .filter(|percent| *percent > 0)
                    .map_or(100, u32::from),
                memory: None,
                threads: None,
                counted: None,
            },
            Usage::MpsShare { each, threads, .. } => UsageRecord::Mps {
                daemon_memory: None,
                daemon_threads: 100,
                memory: Some(each.0),
                threads: (*threads > 0).then_some(u32::from(*threads)),
                counted: None,
            },
            Usage::Fraction { memory, compute, config } => UsageRecord::Fraction {
                memory: memory.0,
                compute: *compute,
                burst: config.compute == ComputePolicy::Burst,
                pass: config.without_limiter == WithoutLimiter::Pass,
            },
            Usage::Watch => UsageRecord::Watch,
        };
        DeviceRecord {
            request: grant.request.clone(),
            device: grant.device.to_string(),
            share: grant.share.clone(),
            gpu: gpu.uuid.0.clone(),
            part: None,
            guards: None,
            usage,
        }
    }

    /// Makes the part that containers get: the GPU whole, or the instance.
    fn make(
        &self,
        host: &mut dyn GpuHost,
        gpu: &Gpu,
        grant: &Grant,
        device: &mut DeviceRecord,
        title: &str,
    ) -> Result<(), PrepareError> {
        let failed = |source| PrepareError::Instance {
            claim: title.to_owned(),
            device: grant.device.to_string(),
            source,
        };
        let unread = |source| PrepareError::Host { claim: title.to_owned(), source };
        let (part, memory) = match &grant.device.mig {
            _ if grant.usage == Usage::Watch => (gpu.uuid.0.clone(), None),
            None => {
                uncut(host, &self.settings.mig, &gpu.uuid).map_err(failed)?;
                let reserved = host.memory(gpu.index).map_err(unread)?.reserved;
                (gpu.uuid.0.clone(), Some((gpu.memory, reserved)))
            }
            Some(place) => {
                self.mark(&gpu.uuid, place).map_err(PrepareError::Record)?;
                self.step("instance marked");
                let made = make_instance(host, &self.settings.mig, &gpu.uuid, place.id, place.start);
                let made = made.map_err(failed)?;
                let minors = fs::read_to_string("/proc/driver/nvidia-caps/mig-minors").unwrap_or_default();
                let guards =
                    MigMinors::parse(&minors).of(gpu.minor, made.gpu_instance, made.compute_instance);
                device.guards = Some((guards.0.0, guards.1.0));
                (made.uuid.0, Some((made.memory.bytes(), Bytes(0))))
            }
        };
        device.part = Some(part);
        if let (UsageRecord::Mps { daemon_memory, counted, .. }, Some((memory, reserved))) =
            (&mut device.usage, memory)
        {
            // Limits of the daemon are for each client; these are for all clients of the claim.
            let together = match &grant.usage {
                Usage::MpsShare { memory, .. } => memory.0,
                _ => memory.0.saturating_sub(reserved.0) >> 20,
            };
            *counted = self.settings.places.limiter.is_some().then_some(together);
            let part = MpsPart { memory, reserved, compute_capability: gpu.compute_capability };
            let whole = limits(&part, &MpsOverhead::default(), 1).map_err(|error: MpsLimitError| {
                PrepareError::Mps {
                    claim: title.to_owned(),
                    device: grant.device.clone(),
                    why: error.to_string(),
                }
            })?;
            *daemon_memory = Some(whole.pinned_memory.0);
        }
        Ok(())
    }

    /// Limits that a claim's own config sets for all clients of its daemons.
    fn limit_daemons(
        &self,
        grants: &[Grant],
        record: &mut ClaimRecord,
        title: &str,
    ) -> Result<(), PrepareError> {
        let over_mps = |grant: &&Grant| matches!(grant.usage, Usage::AloneOverMps(_));
        let parts: Vec<String> = grants
            .iter()
            .zip(&record.devices)
            .filter(|(grant, _)| over_mps(grant))
            .filter_map(|(_, device)| device.part.clone())
            .collect();
        for (grant, device) in grants.iter().zip(&mut record.devices) {
            let (Usage::AloneOverMps(config), Some(part)) = (&grant.usage, &device.part) else { continue };
            let refused = |error: ConfigLimitError| PrepareError::Mps {
                claim: title.to_owned(),
                device: grant.device.clone(),
                why: error.to_string(),
            };
            let limits = config.memory.for_devices(&parts).map_err(refused)?;
            if let (UsageRecord::Mps { daemon_memory, .. }, Some(limit)) =
                (&mut device.usage, limits.get(part))
            {
                *daemon_memory = Some(daemon_memory.map_or(limit.0, |whole| whole.min(limit.0)));
            }
        }
        Ok(())
    }

    /// Sets the length of turns where a claim wants one.
    fn set_turns(
        &self,
        grants: &[Grant],
        record: &ClaimRecord,
        records: &Records,
        title: &str,
    ) -> Result<(), PrepareError> {
        for (grant, device) in grants.iter().zip(&record.devices) {
            let UsageRecord::Turns { interval } = device.usage else { continue };
            if interval == 0 {
                continue;
            }
            let refuse = |why: String| PrepareError::Turns {
                claim: title.to_owned(),
                device: grant.device.clone(),
                why,
            };
            let mut others = records.claims.values().filter(|other| other.uid != record.uid);
            let other = others.find(|other| {
                other.devices.iter().any(|held| {
                    held.gpu == device.gpu
                        && matches!(held.usage, UsageRecord::Turns { interval: set } if set != 0 && set != interval)
                })
            });
            if let Some(other) = other {
                return Err(refuse(format!(
                    "claim {} on the same GPU has set another, and a GPU has one for all",
                    other.title()
                )));
            }
            let turns = self.settings.turns.as_ref();
            let turns =
                turns.ok_or_else(|| refuse("there is no nvidia-smi in the driver's root".to_owned()))?;
            turns.set(&GpuUuid(device.gpu.clone()), interval).map_err(refuse)?;
        }
        Ok(())
    }

    /// The daemons that there should be, for all claims. Not told while records are lost: a daemon that no record speaks of would be ended
    /// under its pods.
    pub fn daemons(&self) -> Result<BTreeMap<PartId, MpsLimits>, PrepareError> {
        let _lock = self.store.lock()?;
        let records = self.read()?;
        if let Some(uid) = self.files_without_record(&records).into_iter().next() {
            return Err(PrepareError::Lost(uid));
        }
        let live = records.claims.values().filter(|record| record.stage != Stage::Ending);
        let mut daemons = BTreeMap::new();
        for device in live.flat_map(|record| &record.devices) {
            let (Some(part), UsageRecord::Mps { daemon_memory: Some(memory), daemon_threads, .. }) =
                (&device.part, &device.usage)
            else {
                continue;
            };
            let limits =
                MpsLimits { pinned_memory: Mebibytes(*memory), active_thread_percentage: *daemon_threads };
            daemons.insert(PartId::new(part.clone()), limits);
        }
        Ok(daemons)
    }

    /// The parts of a claim that need a daemon.
    pub fn daemons_of(&self, uid: &str) -> Result<Vec<PartId>, RecordError> {
        let records = self.records()?;
        let devices = records.claims.get(uid).map(|record| record.devices.as_slice()).unwrap_or_default();
        let over_mps = devices.iter().filter(|device| matches!(device.usage, UsageRecord::Mps { .. }));
        Ok(over_mps.filter_map(|device| device.part.clone().map(PartId::new)).collect())
    }

    /// The second half: limits, the file for the container runtime, and the word that it is ready.
    pub fn finish(&self, uid: &str, files: &NodeFiles) -> Result<Vec<PreparedDevice>, PrepareError> {
        let _lock = self.store.lock()?;
        let mut records = self.read()?;
        let not_begun = || PrepareError::NotBegun(uid.to_owned());
        let mut record = records.claims.remove(uid).ok_or_else(not_begun)?;
        let whole = record.devices.iter().all(|device| device.part.is_some());
        if record.stage == Stage::Ending || !whole {
            return Err(not_begun());
        }
        let title = record.title();
        let hook = files.hook.as_ref().ok_or_else(|| PrepareError::NoFiles {
            claim: title.clone(),
            why: "the driver's files were not found yet; the agent's events say what is missing".to_owned(),
        })?;
        self.write_limits(&record)?;
        self.step("limits written");
        let cdi = |source| PrepareError::Cdi { claim: title.clone(), source };
        let folder = &self.settings.cdi_folder;
        let node = self.names.node_spec(files, hook);
        write_named(folder, &self.names.node_file(), &node).map_err(cdi)?;
        let spec = self.names.claim_spec(&record, files, &self.settings.places);
        write_named(folder, &self.names.claim_file(uid), &spec).map_err(cdi)?;
        self.step("CDI file written");
        if record.stage != Stage::Ready {
            record.stage = Stage::Ready;
            self.store.put(&record)?;
            self.step("record: ready");
        }
        let prepared = record.devices.iter().map(|device| PreparedDevice {
            request: device.request.clone(),
            pool: self.settings.pool.clone(),
            device: device.device.clone(),
            share: device.share.clone(),
            cdi_ids: self.names.ids(uid, device),
        });
        Ok(prepared.collect())
    }

    /// Begins to take a claim back: containers can not be started with it any more. Tells whether there is anything more to undo.
    pub fn release(&self, uid: &str) -> Result<bool, PrepareError> {
        let _lock = self.store.lock()?;
        let mut records = self.read()?;
        let record = records.claims.remove(uid);
        let title = record.as_ref().map_or_else(|| format!("with uid {uid}"), ClaimRecord::title);
        if let Some(mut record) = record.clone() {
            record.stage = Stage::Ending;
            self.store.put(&record)?;
            self.step("record: ending");
        }
        self.remove_files(uid).map_err(|source| PrepareError::Cdi { claim: title, source })?;
        Ok(record.is_some())
    }

    pub(crate) fn remove_files(&self, uid: &str) -> Result<(), WriteError> {
        remove_named(&self.settings.cdi_folder, &self.names.claim_file(uid))?;
        let limits = self.settings.limits_here.join(uid);
        match fs::remove_dir_all(&limits) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(WriteError { path: limits, source })
            }
            _ => Ok(()),
        }
    }

    /// Ends taking a claim back: what nobody else uses is destroyed. Its daemons must be gone.
    pub fn end(&self, host: &mut dyn GpuHost, uid: &str) -> Result<(), PrepareError> {
        let _lock = self.store.lock()?;
        let mut records = self.read()?;
        let Some(record) = records.claims.remove(uid) else { return Ok(()) };
        let title = record.title();
        for device in &record.devices {
            let others = || records.claims.values().flat_map(|other| &other.devices);
            let Ok(name) = device.device.parse::<DeviceName>() else { continue };
            let gpu = GpuUuid(device.gpu.clone());
            if let (Some(place), true) = (&name.mig, device.usage != UsageRecord::Watch) {
                let used = others().any(|other| {
                    let same = other
                        .device
                        .parse::<DeviceName>()
                        .is_ok_and(|other| other.mig.as_ref() == Some(place));
                    other.gpu == device.gpu && same && other.usage != UsageRecord::Watch
                });
                if !used {
                    let removed = remove_instance(host, &self.settings.mig, &gpu, place.id, place.start);
                    match removed {
                        // A GPU that is gone has no instances.
                        Ok(()) | Err(InstanceError::NoGpu { .. }) => {
                            self.step("instance destroyed");
                            self.unmark(&gpu, place)?;
                        }
                        Err(source) => {
                            return Err(PrepareError::Instance {
                                claim: title,
                                device: device.device.clone(),
                                source,
                            });
                        }
                    }
                }
            }
            if let (UsageRecord::Turns { interval: 1.. }, Some(turns)) = (&device.usage, &self.settings.turns)
            {
                let used = others().any(|other| {
                    other.gpu == device.gpu && matches!(other.usage, UsageRecord::Turns { interval: 1.. })
                });
                // A length that stays behind harms nobody, and the next one who cares sets it.
                if !used && let Err(why) = turns.set(&gpu, 0) {
                    tracing::warn!(claim = title, why, "the length of turns can not be set back");
                }
            }
        }
        self.step("parts given back");
        self.store.remove(uid)?;
        self.step("record: gone");
        Ok(())
    }

    // Instances that this driver has made are marked, so that others' are never taken for orphans.

    pub(crate) fn marks(&self) -> PathBuf {
        self.settings.folder.join("instances")
    }

    fn mark_path(&self, gpu: &GpuUuid, place: &MigPlace) -> PathBuf {
        self.marks().join(format!("{}@{}@{}@{}", gpu.0, place.profile, place.id, place.start))
    }

    fn mark(&self, gpu: &GpuUuid, place: &MigPlace) -> Result<(), RecordError> {
        let path = self.mark_path(gpu, place);
        let marked = fs::create_dir_all(self.marks()).and_then(|()| fs::File::create(&path)?.sync_all());
        marked.map_err(|source| RecordError::Io { action: "mark an instance", path, source })
    }

    pub(crate) fn unmark(&self, gpu: &GpuUuid, place: &MigPlace) -> Result<(), RecordError> {
        let path = self.mark_path(gpu, place);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(RecordError::Io { action: "remove the mark of an instance", path, source })
            }
            _ => Ok(()),
        }
    }
}
