//! `carve gpus`: what is here, and how claims use it.

mod used;
mod watch;

use crate::args::{GpusArgs, Output};
use crate::failure::{Failure, Outcome};
use crate::machine::Chosen;
use crate::print;
use crate::table::Table;
use carve_gpu_host::{Driver, GpuHost, HostResult, MemoryUse, MigDevice};
use carve_gpu_model::{Geometry, Product};
use carve_mig_manager::{GpuState, inventory};
use serde::Serialize;
use used::{UseView, Used};

/// Everything about the machine, as JSON and YAML print it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Machine {
    simulated: Option<String>,
    driver: DriverView,
    gpus: Vec<GpuView>,
}

#[derive(Debug, Serialize)]
struct DriverView {
    version: String,
    cuda: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GpuView {
    index: u32,
    uuid: String,
    name: String,
    product: Option<&'static str>,
    architecture: Option<String>,
    compute_capability: String,
    pci_address: String,
    pci_id: String,
    pci_subsystem_id: Option<String>,
    minor: u32,
    numa_node: Option<u32>,
    #[serde(rename = "memoryMiB")]
    memory: u64,
    #[serde(rename = "memoryReservedMiB")]
    reserved: Option<u64>,
    #[serde(rename = "memoryUsedMiB")]
    used: Option<u64>,
    utilisation_percent: Option<u32>,
    processes: usize,
    mig: MigView,
    trouble: Option<String>,
    /// How it is used, in words; only where there are claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<Vec<UseView>>,
}

#[derive(Debug, Serialize)]
struct MigView {
    capable: bool,
    enabled: bool,
    pending: bool,
    devices: Vec<DeviceView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceView {
    uuid: String,
    profile: String,
    gpu_instance: u32,
    compute_instance: u32,
    start: Option<u8>,
    size: Option<u8>,
    #[serde(rename = "memoryMiB")]
    memory: u64,
    multiprocessors: u32,
    /// Claims that have it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claims: Vec<String>,
}

/// The machine at one moment.
struct Seen {
    driver: Driver,
    states: Vec<GpuState>,
    used: Used,
}

impl Seen {
    fn look(chosen: &Chosen) -> Result<Self, Failure> {
        let host = chosen.host.as_ref();
        let read = || -> HostResult<(Driver, Vec<GpuState>)> { Ok((host.driver()?, inventory(host)?)) };
        let (driver, states) = read().map_err(|error| chosen.failure(&error))?;
        Ok(Seen { driver, states, used: Used::read(&chosen.claims) })
    }

    /// Whether claims use these GPUs, so that it is worth a column.
    fn has_claims(&self) -> bool {
        self.used.any(self.states.iter().map(|state| state.gpu.uuid.0.as_str()))
    }
}

/// Lists the GPUs, once or until somebody ends it.
pub(crate) fn gpus(chosen: &Chosen, args: &GpusArgs) -> Outcome {
    if args.watch {
        return watch::watch(chosen, args);
    }
    let seen = Seen::look(chosen)?;
    for trouble in &seen.used.troubles {
        eprintln!("{trouble}");
    }
    match args.output {
        Output::Table => print::out(&short(&seen)),
        Output::Wide => print::out(&wide(chosen.host.as_ref(), &seen)),
        Output::Json => print::json(&machine(chosen, &seen)),
        Output::Yaml => print::yaml(&machine(chosen, &seen)),
    }
}

/// What a GPU is cut into, in a few words.
fn cut(state: &GpuState) -> String {
    match (&state.trouble, state.mode) {
        (Some(trouble), _) => format!("does not answer: {}", trouble.failure),
        (None, None) => "-".to_owned(),
        (None, Some(mode)) if mode.current != mode.pending => {
            format!("{} after a reset", if mode.pending { "on" } else { "off" })
        }
        (None, Some(mode)) if !mode.current => "off".to_owned(),
        (None, Some(_)) => match &state.table {
            Some(table) => match Geometry::of(table, &state.placed()) {
                empty if empty.is_empty() => "on, not cut".to_owned(),
                geometry => geometry.to_string(),
            },
            None => "on".to_owned(),
        },
    }
}

fn short(seen: &Seen) -> String {
    let states = &seen.states;
    if states.is_empty() {
        return "no GPUs\n".to_owned();
    }
    let mut table = Table::new(["GPU", "NAME", "MEMORY", "MIG", "PROCESSES"]).right([2, 4]);
    for state in states {
        table.row([
            state.gpu.index.to_string(),
            state.gpu.name.clone(),
            state.gpu.memory.whole_mebibytes().to_string(),
            cut(state),
            state.processes.len().to_string(),
        ]);
    }
    if seen.has_claims() {
        table.column(4, "USED", states.iter().map(|state| seen.used.words(&state.gpu.uuid.0)));
    }
    table.render()
}

fn wide(host: &dyn GpuHost, seen: &Seen) -> String {
    let Seen { driver, states, used } = seen;
    let mut table = Table::new([
        "GPU",
        "NAME",
        "MEMORY",
        "MEMORY USED",
        "BUSY",
        "MIG",
        "PROCESSES",
        "UUID",
        "PCI",
        "PCI ID",
        "CC",
        "NUMA",
    ])
    .right([2, 3, 4, 6]);
    for state in states {
        let gpu = &state.gpu;
        let memory: Option<MemoryUse> = host.memory(gpu.index).ok();
        let busy = host.utilisation(gpu.index).ok();
        table.row([
            gpu.index.to_string(),
            gpu.name.clone(),
            gpu.memory.whole_mebibytes().to_string(),
            memory.map_or("-".to_owned(), |memory| memory.used.whole_mebibytes().to_string()),
            busy.map_or("-".to_owned(), |busy| format!("{} %", busy.compute_percent)),
            cut(state),
            state.processes.len().to_string(),
            gpu.uuid.to_string(),
            gpu.address.to_string(),
            gpu.pci_id.to_string(),
            format!("{}.{}", gpu.compute_capability.0, gpu.compute_capability.1),
            gpu.numa_node.map_or("-".to_owned(), |node| node.to_string()),
        ]);
    }
    if seen.has_claims() {
        table.column(6, "USED", states.iter().map(|state| used.words(&state.gpu.uuid.0)));
        table.column(usize::MAX, "CLAIMS", states.iter().map(|state| claims(host, state, used)));
    }
    let (major, minor) = driver.cuda;
    format!("driver {}, CUDA {major}.{minor}\n{}", driver.version, table.render())
}

/// The claims on a GPU, each with the MIG device that it has.
fn claims(host: &dyn GpuHost, state: &GpuState, used: &Used) -> String {
    let devices = devices(host, state);
    let place = |part: &str| {
        let device = devices.iter().find(|device| device.uuid.0 == part)?;
        let view = device_view(state, device, Vec::new());
        Some(format!("{} at {}", view.profile, view.start?))
    };
    used.claims(&state.gpu.uuid.0, place)
}

fn devices(host: &dyn GpuHost, state: &GpuState) -> Vec<MigDevice> {
    if state.mig_enabled() { host.mig_devices(state.gpu.index).unwrap_or_default() } else { Vec::new() }
}

fn machine(chosen: &Chosen, seen: &Seen) -> Machine {
    let driver = &seen.driver;
    let used = seen.has_claims().then_some(&seen.used);
    Machine {
        simulated: chosen.simulated.clone(),
        driver: DriverView {
            cuda: format!("{}.{}", driver.cuda.0, driver.cuda.1),
            version: driver.version.clone(),
        },
        gpus: seen.states.iter().map(|state| view(chosen.host.as_ref(), state, used)).collect(),
    }
}

fn view(host: &dyn GpuHost, state: &GpuState, used: Option<&Used>) -> GpuView {
    let gpu = &state.gpu;
    let uuid = gpu.uuid.0.as_str();
    let claims_of = |device: &MigDevice| used.map(|used| used.of_part(uuid, &device.uuid.0));
    let product = Product::by_pci_id(gpu.pci_id);
    let memory = host.memory(gpu.index).ok();
    let devices = devices(host, state);
    GpuView {
        index: gpu.index.0,
        uuid: gpu.uuid.0.clone(),
        name: gpu.name.clone(),
        product: product.map(|product| product.key),
        architecture: product.map(|product| product.architecture.to_string()),
        compute_capability: format!("{}.{}", gpu.compute_capability.0, gpu.compute_capability.1),
        pci_address: gpu.address.to_string(),
        pci_id: gpu.pci_id.to_string(),
        pci_subsystem_id: gpu.subsystem.map(|id| id.to_string()),
        minor: gpu.minor,
        numa_node: gpu.numa_node,
        memory: gpu.memory.whole_mebibytes().0,
        reserved: memory.map(|memory| memory.reserved.whole_mebibytes().0),
        used: memory.map(|memory| memory.used.whole_mebibytes().0),
        utilisation_percent: host.utilisation(gpu.index).ok().map(|busy| busy.compute_percent),
        processes: state.processes.len(),
        mig: MigView {
            capable: gpu.mig_capable,
            enabled: state.mig_enabled(),
            pending: state.mode.is_some_and(|mode| mode.pending),
            devices: devices
                .iter()
                .map(|device| device_view(state, device, claims_of(device).unwrap_or_default()))
                .collect(),
        },
        trouble: state.trouble.as_ref().map(|trouble| trouble.failure.to_string()),
        used_as: used.map(|used| used.words(uuid)),
        claims: used.map(|used| used.views(uuid)),
    }
}

fn device_view(state: &GpuState, device: &MigDevice, claims: Vec<String>) -> DeviceView {
    let instance = state.instances.iter().find(|instance| instance.id == device.gpu_instance);
    let table = state.table.as_ref();
    let profile = instance.zip(table).and_then(|(instance, table)| table.get(instance.placed.profile));
    let placement = instance.zip(table).and_then(|(instance, table)| table.placement(instance.placed));
    DeviceView {
        uuid: device.uuid.0.clone(),
        profile: profile.map_or_else(String::new, |profile| {
            profile.name.with_compute_slices(u64::from(device.compute_slices)).to_string()
        }),
        gpu_instance: device.gpu_instance.0,
        compute_instance: device.compute_instance.0,
        start: placement.map(|placement| placement.start),
        size: placement.map(|placement| placement.size),
        memory: device.memory.0,
        multiprocessors: device.multiprocessors,
        claims,
    }
}
