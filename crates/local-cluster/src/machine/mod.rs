//! A machine: its GPUs, what it offers of them, who has what, and what is being cut.

mod cut;
mod host;
mod measure;
mod observe;
mod report;

pub(crate) use cut::{Cutting, Told};

use host::Host;
use observe::Observed;

use crate::fleet::{FleetError, MachineSpec};
use crate::here::{Body, Here};
use crate::objects::text;
use crate::programs::Programs;
use crate::tenant::{Devices, Given, Tenant};
use carve_bookings::{Gpu as OfferedGpu, Offer as PartsOffer};
use carve_formats::device_plugin::DevicePluginConfig;
use carve_gpu_host::{GpuHost, SimulatedHost, SimulatedState};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_mig_manager::StateDir;
use carve_repartition::{Amounts, OrderReport};
use carve_slicing::{Device, MigMinors, NodeGpu, NodeGpus, Offer, Settings, Share, offer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Containers that may have a part of one GPU, as tokens are counted.
pub(crate) const TOKENS: usize = 16;

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) spec: MachineSpec,
    host: Host,
    journal: StateDir,
    settings: Settings,
    /// Why a configuration is not in force.
    pub(crate) wrong: Option<String>,
    /// The configuration as it was given.
    config: Option<String>,
    pub(crate) gpus: NodeGpus,
    pub(crate) offered: Offer,
    pub(crate) tenants: BTreeMap<String, Tenant>,
    /// What all of them have besides GPUs.
    pub(crate) taken: Amounts,
    /// What runs on it, where that is real.
    pub(crate) programs: Option<Programs>,
    /// What else it has, where that is real.
    pub(crate) body: Option<Body>,
    /// Whether its GPUs may be cut anew.
    may_cut: bool,
    observed: Observed,
    /// Numbers of tenants' programs, where they are simulated.
    pids: BTreeMap<String, u32>,
    next_pid: u32,
    pub(crate) cutting: Option<Cutting>,
    /// What became of the last order.
    pub(crate) order: Option<OrderReport>,
    /// The config that a label asks for, and what became of it.
    pub(crate) asked: Option<(String, Told)>,
    /// What a policy cuts it into: a file of mig-parted with one config.
    layout: Option<String>,
    /// Whether it looks otherwise than when it was drawn last.
    changed: bool,
}

/// How it comes: MIG devices by their own names, and containers learn of devices by CDI.
const CONFIG: &str = "version: v1\nflags: {migStrategy: mixed}\n";

fn read_config(text: &str) -> Result<Settings, String> {
    let parsed = DevicePluginConfig::parse(text);
    let words = || parsed.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let mut config = parsed.value.clone().ok_or_else(words)?;
    // One that says nothing about MIG means what is usual here.
    if config.flags.mig_strategy.is_none() {
        config.flags.mig_strategy = Some("mixed".to_owned());
    }
    Settings::new(&config, true).map_err(|error| error.to_string())
}

impl Machine {
    /// Switches a machine on, as it was when it was switched off if that is known.
    pub(crate) fn new(
        spec: MachineSpec,
        state: Option<SimulatedState>,
        folder: &Path,
    ) -> Result<Self, FleetError> {
        let fresh = spec.machine()?;
        let mut host = match state.filter(|state| state.is_consistent() && state.machine == fresh) {
            Some(state) => SimulatedHost::from_state(state),
            None => SimulatedHost::new(fresh),
        };
        // Programs do not survive; pods that run are started anew.
        for gpu in host.gpus().unwrap_or_default() {
            for process in host.processes(gpu.index).unwrap_or_default() {
                host.end_process(process.pid);
            }
        }
        Machine::of(spec, Host::Simulated(Box::new(host)), folder)
    }

    /// The machine that this process runs on.
    pub(crate) fn here(here: Here, folder: &Path) -> Result<Self, FleetError> {
        let spec = MachineSpec { name: here.name, kind: here.kind, labels: BTreeMap::new() };
        let mut machine = Machine::of(spec, Host::Here(here.host), folder)?;
        machine.programs = Some(Programs::new(here.runner));
        machine.body = Some(Body::read());
        machine.may_cut = here.may_cut;
        Ok(machine)
    }

    fn of(spec: MachineSpec, host: Host, folder: &Path) -> Result<Self, FleetError> {
        let unread = |why: String| FleetError::Machine(spec.name.clone(), why);
        let settings = read_config(CONFIG).map_err(unread)?;
        let gpus =
            NodeGpus::read(&*host, &MigMinors::default()).map_err(|error| unread(error.to_string()))?;
        let offered = offer(&gpus, &settings).unwrap_or_default();
        let journal = StateDir::new(folder.join(&spec.name));
        Ok(Machine {
            spec,
            host,
            journal,
            settings,
            wrong: None,
            config: None,
            gpus,
            offered,
            tenants: BTreeMap::new(),
            taken: Amounts::default(),
            programs: None,
            body: None,
            may_cut: true,
            observed: Observed::default(),
            pids: BTreeMap::new(),
            next_pid: 1000,
            cutting: None,
            order: None,
            asked: None,
            layout: None,
            changed: true,
        })
    }

    /// Whether it looks otherwise than when this was asked last.
    pub(crate) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// How its GPUs are offered.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is kept of it when the process ends: nothing of a real one, whose GPUs keep it themselves.
    pub(crate) fn state(&self) -> Option<&SimulatedState> {
        self.host.simulated().map(SimulatedHost::state)
    }

    /// Takes another configuration of how whole GPUs are shared, or the usual one. While somebody has a device under the old one, its name stays.
    pub(crate) fn configure(&mut self, config: Option<&str>) -> bool {
        if self.config.as_deref() == config {
            return false;
        }
        (self.config, self.changed) = (config.map(str::to_owned), true);
        match read_config(config.unwrap_or(CONFIG)) {
            Ok(settings) => {
                self.wrong = None;
                self.settings = settings;
                self.look();
            }
            Err(why) => self.wrong = Some(why),
        }
        true
    }

    /// Reads the GPUs anew.
    pub(crate) fn look(&mut self) {
        self.changed = true;
        if let Ok(gpus) = NodeGpus::read(&*self.host, &MigMinors::default()) {
            self.gpus = gpus.remembering(&self.gpus);
        }
        match offer(&self.gpus, &self.settings) {
            Ok(offered) => self.offered = offered,
            Err(error) => {
                self.wrong = Some(error.to_string());
                self.offered = Offer::default();
            }
        }
    }

    /// GPUs of which nothing may be given away now.
    fn withheld(&self) -> BTreeMap<String, String> {
        let mut withheld = BTreeMap::new();
        for gpu in self.gpus.gpus.iter().filter(|gpu| gpu.lost) {
            withheld.insert(gpu.gpu.uuid.0.clone(), "the driver has lost it".to_owned());
        }
        for uuid in self.cutting.iter().flat_map(|cutting| &cutting.gpus) {
            withheld.insert(uuid.clone(), "it is being cut".to_owned());
        }
        withheld
    }

    /// All that tenants have.
    fn given(&self) -> impl Iterator<Item = (&Tenant, &Given)> {
        self.tenants.values().flat_map(|tenant| tenant.held.iter().map(move |held| (tenant, &held.given)))
    }

    /// GPUs of which somebody has a part.
    fn in_parts(&self) -> BTreeSet<&str> {
        let parts = self.given().filter_map(|(_, given)| match given {
            Given::Part { gpu, .. } => Some(gpu.as_str()),
            Given::Device { .. } => None,
        });
        parts.collect()
    }

    /// The device of an id, under whatever resource it is now.
    fn device(&self, id: &str) -> Option<&Device> {
        self.offered
            .resources
            .values()
            .flat_map(|resource| &resource.devices)
            .find(|device| device.id.as_str() == id)
    }

    /// Devices that somebody has, as they were given.
    fn devices_held(&self) -> impl Iterator<Item = (&Tenant, &Device)> {
        let all = self.tenants.values().flat_map(|tenant| tenant.held.iter().map(move |held| (tenant, held)));
        all.filter_map(|(tenant, held)| Some((tenant, held.device.as_ref()?)))
    }

    /// Devices of a resource that can be given away. Nothing is given of what somebody has in another way, from before a configuration changed.
    pub(crate) fn free(&self, resource: &str) -> Vec<&Device> {
        let (withheld, in_parts) = (self.withheld(), self.in_parts());
        let mut taken: BTreeMap<&str, Vec<&Device>> = BTreeMap::new();
        for (_, device) in self.devices_held() {
            taken.entry(device.part.as_str()).or_default().push(device);
        }
        let found = self.offered.resources.iter().find(|(name, _)| name.to_string() == resource);
        let devices = found.into_iter().flat_map(|(_, found)| &found.devices);
        let free = |device: &&Device| {
            let gpu = device.gpu_uuid.0.as_str();
            let beside = taken.get(device.part.as_str()).map_or(&[][..], Vec::as_slice);
            beside.iter().all(|other| other.id != device.id && other.share == device.share)
                && !withheld.contains_key(gpu)
                && !in_parts.contains(gpu)
        };
        devices.filter(free).collect()
    }

    /// Devices for containers, or the resource of which there are too few.
    pub(crate) fn choose(
        &self,
        wanted: &BTreeMap<String, BTreeMap<String, usize>>,
    ) -> Result<Devices, String> {
        let mut chosen = Devices::default();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        // Shares of one GPU go to the one that is used least, as NVIDIA's plugin has it; whole devices are filled from the front.
        let users = |device: &Device, taken: &BTreeSet<String>| {
            let part = device.part.as_str();
            let is_of =
                |id: &str| id == part || id.strip_prefix(part).is_some_and(|rest| rest.starts_with("::"));
            let now = self.devices_held().filter(|(_, held)| held.part == device.part).count();
            now + taken.iter().filter(|id| is_of(id)).count()
        };
        for (container, resources) in wanted {
            for (resource, count) in resources {
                for _ in 0..*count {
                    let free = self.free(resource);
                    let left = free.into_iter().filter(|device| !taken.contains(device.id.as_str()));
                    let best = left.min_by_key(|device| (users(device, &taken), device.gpu));
                    let device = best.ok_or_else(|| resource.clone())?;
                    taken.insert(device.id.as_str().to_owned());
                    let of_container = chosen.0.entry(container.clone()).or_default();
                    of_container.entry(resource.clone()).or_default().push(device.id.as_str().to_owned());
                }
            }
        }
        Ok(chosen)
    }

    /// GPUs that are given out in parts: those that are neither cut nor shared.
    pub(crate) fn parts(&self) -> PartsOffer {
        let mut withheld = self.withheld();
        for (tenant, device) in self.devices_held() {
            let why = format!("{} has it as a whole", tenant.pod());
            withheld.entry(device.gpu_uuid.0.clone()).or_insert(why);
        }
        let whole = |gpu: &&NodeGpu| {
            let devices = self.offered.resources.values().flat_map(|resource| &resource.devices);
            let mut own = devices.into_iter().filter(|device| device.gpu == gpu.gpu.index);
            !gpu.mig_enabled && own.all(|device| device.share == Share::NONE)
        };
        let offered = |gpu: &NodeGpu| OfferedGpu {
            uuid: gpu.gpu.uuid.clone(),
            product: gpu.gpu.name.clone(),
            memory: Bytes(gpu.gpu.memory.0.saturating_sub(gpu.reserved.0)).whole_mebibytes(),
            withheld: withheld.get(&gpu.gpu.uuid.0).cloned(),
        };
        PartsOffer { gpus: self.gpus.gpus.iter().filter(whole).map(offered).collect() }
    }

    /// A pod has come, or is found again.
    pub(crate) fn take_in(&mut self, mut tenant: Tenant, pod: &Value, now: i64) {
        self.changed = true;
        let pid = self.next_pid;
        self.next_pid += 1;
        for held in &mut tenant.held {
            if let Given::Device { id } = &held.given {
                held.device = self.device(id).cloned();
            }
            let (gpu, instance) = match (&held.given, &held.device) {
                (Given::Part { gpu, .. }, _) => (self.index_of(gpu), None),
                (_, Some(device)) => (Some(device.gpu), self.instance_of(device)),
                (_, None) => (None, None),
            };
            if let (Some(gpu), Some(host)) = (gpu, self.host.simulated_mut()) {
                // A program on every part, so that nobody cuts what is in use.
                let _ = host.start_process(gpu, instance, pid, Bytes(0), 0);
            }
        }
        self.pids.insert(tenant.uid.clone(), pid);
        if let Some(programs) = &mut self.programs {
            let policy = text(&pod["spec"]["restartPolicy"]);
            programs.take_in(&tenant, &pod["metadata"]["annotations"], policy, now);
        }
        self.taken.add(&tenant.asks);
        if let Some(before) = self.tenants.insert(tenant.uid.clone(), tenant) {
            self.taken.take(&before.asks);
        }
    }

    /// A pod is gone.
    pub(crate) fn let_go(&mut self, uid: &str) -> Option<Tenant> {
        self.changed = true;
        if let (Some(pid), Some(host)) = (self.pids.remove(uid), self.host.simulated_mut()) {
            host.end_process(pid);
        }
        if let Some(programs) = &mut self.programs {
            programs.let_go(uid);
        }
        self.observed.forget(uid);
        let gone = self.tenants.remove(uid)?;
        self.taken.take(&gone.asks);
        Some(gone)
    }

    fn index_of(&self, uuid: &str) -> Option<GpuIndex> {
        self.gpus.gpus.iter().find(|gpu| gpu.gpu.uuid.0 == uuid).map(|gpu| gpu.gpu.index)
    }

    fn instance_of(
        &self,
        device: &Device,
    ) -> Option<(carve_gpu_model::GpuInstanceId, carve_gpu_model::ComputeInstanceId)> {
        let gpu = self.gpus.gpu(device.gpu)?;
        let mig = gpu.migs.iter().find(|mig| mig.part() == device.part)?;
        Some((mig.device.gpu_instance, mig.device.compute_instance))
    }
}
