//! What Prometheus can ask the agent.

mod cost;
mod dcgm;
#[cfg(test)]
mod reference;
mod shares;
mod state;
mod table;
mod usage;

pub(crate) use dcgm::NodeLabels;
pub(crate) use shares::{ShareLabels, ShareSeries};

use crate::ledger::CostRows;
use crate::usage::UsageRows;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use shares::ShareTable;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// All series of the agent.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    started: u64,
    allocations: Family<Outcome, Counter>,
    registrations: Family<ByResource, Counter>,
    devices: Family<Devices, Gauge>,
    config_ok: Gauge,
    config_loads: Family<Came, Counter>,
    xids: Family<Xid, Counter>,
    mig_applies: Family<Came, Counter>,
    claims: Family<Claims, Counter>,
    claims_ready: Gauge,
    claim_devices: Family<ClaimDevice, Gauge>,
    /// The devices of claims that have a series now.
    attributed: Mutex<BTreeSet<ClaimDevice>>,
    shares: Arc<ShareTable>,
    usage: Arc<UsageTable>,
    ready: Gauge,
    state: Arc<state::StateTable>,
}

/// What is told of use now.
#[derive(Debug, Default)]
struct UsageTable {
    now: Mutex<(NodeLabels, UsageRows)>,
    cost: Mutex<CostRows>,
    /// The last XID of each GPU.
    last_xids: Mutex<BTreeMap<String, u64>>,
}

impl Collector for UsageTable {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let xids = self.last_xids.lock().unwrap_or_else(PoisonError::into_inner);
        usage::encode(&now.1, &mut encoder)?;
        cost::encode(&self.cost.lock().unwrap_or_else(PoisonError::into_inner), &mut encoder)?;
        dcgm::encode(&now.0, &now.1, &xids, &mut encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResource {
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    resource: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Devices {
    resource: String,
    health: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Came {
    result: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Claims {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Xid {
    gpu: String,
    xid: u64,
    class: String,
}

/// A device of a claim and the container that has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct ClaimDevice {
    #[prometheus(flatten)]
    pub(crate) labels: ShareLabels,
    pub(crate) usage: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Empty series.
    pub(crate) fn new() -> Self {
        let mut all = Registry::default();
        let usage = Arc::new(UsageTable::default());
        all.register_collector(Box::new(Arc::clone(&usage)));
        let registry = all.sub_registry_with_prefix("carve_agent");
        let allocations = Family::default();
        registry.register("allocations", "Containers that kubelet asked devices for", allocations.clone());
        let registrations = Family::default();
        registry.register("registrations", "Registrations with kubelet", registrations.clone());
        let devices = Family::default();
        registry.register("devices", "Devices offered to kubelet", devices.clone());
        let config_ok = Gauge::default();
        config_ok.set(1);
        registry.register("config_ok", "Whether the newest configuration is in force", config_ok.clone());
        let config_loads = Family::default();
        registry.register("config_loads", "Configurations read, by what came of them", config_loads.clone());
        let xids = Family::default();
        registry.register("xid_events", "XIDs the driver reported", xids.clone());
        let mig_applies = Family::default();
        registry.register("mig_applies", "MIG configs applied, by what came of them", mig_applies.clone());
        let claims = Family::default();
        registry.register("claims", "Claims that kubelet asked to prepare or to take back", claims.clone());
        let claims_ready = Gauge::default();
        registry.register("claims_ready", "Claims that containers may be started with", claims_ready.clone());
        let claim_devices = Family::default();
        registry.register(
            "claim_device",
            "Devices of claims, with the container that has each",
            claim_devices.clone(),
        );
        let shares = Arc::new(ShareTable::default());
        registry.register_collector(Box::new(Arc::clone(&shares)));
        let ready = Gauge::default();
        registry.register("ready", "Whether the agent does its work", ready.clone());
        let state = Arc::new(state::StateTable::default());
        registry.register_collector(Box::new(Arc::clone(&state)));
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let registry = Mutex::new(all);
        Metrics {
            registry,
            started,
            allocations,
            registrations,
            devices,
            config_ok,
            config_loads,
            xids,
            mig_applies,
            claims,
            claims_ready,
            claim_devices,
            attributed: Mutex::default(),
            shares,
            usage,
            ready,
            state,
        }
        .counting_from_nothing()
    }

    /// What should wake somebody is there before it happens: the first of its kind is one more than none, and one more than nothing is nothing.
    fn counting_from_nothing(self) -> Self {
        for verb in ["prepare", "unprepare"] {
            for outcome in ["ok", "failed"] {
                drop(self.claims.get_or_create(&Claims { verb, outcome }));
            }
        }
        for result in ["success", "failed"] {
            drop(self.mig_applies.get_or_create(&Came { result: result.to_owned() }));
        }
        self
    }

    /// Whether the agent does its work.
    pub(crate) fn ready(&self, ready: bool) {
        self.ready.set(i64::from(ready));
    }

    /// Which GPUs there are, by UUID, and whether anything may be given out of each.
    pub(crate) fn health(&self, gpus: Vec<(u32, String, bool)>) {
        self.state.set_gpus(gpus);
    }

    /// Which parts a door shares by MPS, and whether the daemon of each is ready.
    pub(crate) fn mps(&self, door: &'static str, daemons: Vec<(String, bool)>) {
        self.state.set_mps(door, daemons);
    }

    /// When the agent was started, in seconds.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    pub(crate) fn allocation(&self, resource: &str, ok: bool) {
        let outcome = if ok { "ok" } else { "refused" };
        self.allocations.get_or_create(&Outcome { resource: resource.to_owned(), outcome }).inc();
    }

    pub(crate) fn registered(&self, resource: &str) {
        self.registrations.get_or_create(&ByResource { resource: resource.to_owned() }).inc();
    }

    pub(crate) fn devices(&self, resource: &str, healthy: usize, unhealthy: usize) {
        for (health, number) in [("healthy", healthy), ("unhealthy", unhealthy)] {
            let labels = Devices { resource: resource.to_owned(), health };
            self.devices.get_or_create(&labels).set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn config(&self, ok: bool) {
        self.config_ok.set(i64::from(ok));
        let result = if ok { "ok" } else { "refused" }.to_owned();
        self.config_loads.get_or_create(&Came { result }).inc();
    }

    pub(crate) fn xid(&self, gpu: String, xid: u64, class: String) {
        self.usage.last_xids.lock().unwrap_or_else(PoisonError::into_inner).insert(gpu.clone(), xid);
        self.xids.get_or_create(&Xid { gpu, xid, class }).inc();
    }

    pub(crate) fn mig_apply(&self, result: &str) {
        self.mig_applies.get_or_create(&Came { result: result.to_owned() }).inc();
    }

    pub(crate) fn claim(&self, verb: &'static str, ok: bool) {
        let outcome = if ok { "ok" } else { "failed" };
        self.claims.get_or_create(&Claims { verb, outcome }).inc();
    }

    /// How many claims are ready, and which containers have which of their devices; what is not among them has no series any more.
    pub(crate) fn attribute(&self, ready: usize, devices: BTreeSet<ClaimDevice>) {
        self.claims_ready.set(i64::try_from(ready).unwrap_or(i64::MAX));
        let mut known = self.attributed.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in known.difference(&devices) {
            self.claim_devices.remove(gone);
        }
        for device in &devices {
            self.claim_devices.get_or_create(device).set(1);
        }
        *known = devices;
    }

    /// What shares of a door used, and how many processes escaped on each part that is watched; others of that door have no series any more.
    pub(crate) fn shares(&self, door: &str, shares: Vec<ShareSeries>, escaped: BTreeMap<String, u64>) {
        self.shares.set(door, shares, escaped);
    }

    /// What the node is called where its use is told.
    pub(crate) fn node(&self, labels: NodeLabels) {
        self.usage.now.lock().unwrap_or_else(PoisonError::into_inner).0 = labels;
    }

    /// What containers and devices used; whatever is not among it has no series any more.
    pub(crate) fn usage(&self, rows: UsageRows) {
        self.usage.now.lock().unwrap_or_else(PoisonError::into_inner).1 = rows;
    }

    /// What the machine costs, and who pays for it.
    pub(crate) fn cost(&self, rows: CostRows) {
        *self.usage.cost.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// Everything, in the text form of OpenMetrics.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a String does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
