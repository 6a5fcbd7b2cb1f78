//! Stands in for `nvidia-smi` where carve and MIG tools call it: resets GPUs of the simulated machine, lists them, and notes how long
//! turns are.

use carve_gpu_host::{Gpu, GpuHost, HostFailure};
use carve_gpu_model::{GpuIndex, PciAddress};
use carve_sim_store::{DeviceNodes, SharedMachine};
use std::path::PathBuf;
use std::process::ExitCode;

const STATE: &str = "CARVE_SIM_STATE";
const USAGE: &str = "this stand-in for nvidia-smi knows `-r [-i GPU,…]` (or --gpu-reset, --id), `-L`, and \
                     `compute-policy -i GPU --set-timeslice=0|1|2|3`";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    List,
    Reset(Option<String>),
    Turns(Option<String>, u32),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).and_then(|wish| fulfil(&wish)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("nvidia-smi (simulated): {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Wish, String> {
    let mut reset = false;
    let mut list = false;
    let mut gpus = None;
    let mut turns = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-r" | "--gpu-reset" => reset = true,
            "-L" | "--list-gpus" => list = true,
            "compute-policy" => {}
            "-i" | "--id" => {
                gpus = Some(rest.next().ok_or(format!("{argument} needs a value; {USAGE}"))?.clone())
            }
            other => match (other.strip_prefix("--id="), other.strip_prefix("--set-timeslice=")) {
                (Some(value), _) => gpus = Some(value.to_owned()),
                (None, Some(value)) => {
                    let length = value.parse().ok().filter(|length| *length <= 3);
                    turns = Some(length.ok_or(format!("'{value}' is no length of turns; {USAGE}"))?);
                }
                (None, None) => return Err(format!("'{other}' is not simulated; {USAGE}")),
            },
        }
    }
    match (reset, list, turns) {
        (true, false, None) => Ok(Wish::Reset(gpus)),
        (false, true, None) => Ok(Wish::List),
        (false, false, Some(length)) => Ok(Wish::Turns(gpus, length)),
        (false, false, None) => Err(format!("`carve gpus` shows what is here; {USAGE}")),
        _ => Err(USAGE.to_owned()),
    }
}

fn fulfil(wish: &Wish) -> Result<String, String> {
    let path = std::env::var_os(STATE).filter(|path| !path.is_empty());
    let path = PathBuf::from(path.ok_or(format!("{STATE} is not set, so there is no machine to work on"))?);
    let mut machine = SharedMachine::attach(&path).map_err(|error| error.to_string())?;
    let nodes = std::env::var_os(DeviceNodes::VARIABLE).filter(|folder| !folder.is_empty());
    let nodes = nodes.map(DeviceNodes::new);
    let mut known = machine.gpus().map_err(|error| error.to_string())?;
    known.retain(|gpu| nodes.as_ref().is_none_or(|nodes| nodes.show_gpu(gpu)));
    match wish {
        Wish::List => list(&machine, &known, nodes.as_ref()),
        Wish::Reset(named) => reset(&mut machine, &choose(&known, named.as_deref())?),
        Wish::Turns(named, length) => {
            // Beside the machine, for tests to read: the driver has no way to ask for it either.
            let folder = path.with_extension("turns");
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            for gpu in choose(&known, named.as_deref())? {
                std::fs::write(folder.join(&gpu.uuid.0), length.to_string())
                    .map_err(|error| error.to_string())?;
            }
            Ok(String::new())
        }
    }
}

/// The GPUs that are meant; all where none is named.
fn choose<'a>(known: &'a [Gpu], names: Option<&str>) -> Result<Vec<&'a Gpu>, String> {
    match names {
        None => Ok(known.iter().collect()),
        Some(names) => names.split(',').map(|name| find(known, name)).collect(),
    }
}

/// A GPU by index, UUID or bus id, as `nvidia-smi -i` takes them.
fn find<'a>(known: &'a [Gpu], name: &str) -> Result<&'a Gpu, String> {
    let address: Option<PciAddress> = name.contains(':').then(|| name.parse().ok()).flatten();
    let index = name.parse().ok();
    // Among those that are shown here, which may be fewer than the machine has.
    let mut numbered = known.iter().enumerate();
    numbered
        .find(|(position, gpu)| {
            Some(*position) == index || gpu.uuid.0 == name || Some(gpu.address) == address
        })
        .map(|(_, gpu)| gpu)
        .ok_or_else(|| format!("there is no GPU '{name}'"))
}

fn reset(machine: &mut SharedMachine, chosen: &[&Gpu]) -> Result<String, String> {
    let indices: Vec<GpuIndex> = chosen.iter().map(|gpu| gpu.index).collect();
    machine.reset(&indices).map_err(|error| {
        let bus = chosen.iter().find(|gpu| Some(gpu.index) == error.gpu).map(|gpu| gpu.address.nvml_bus_id());
        let bus = bus.unwrap_or_default();
        match error.failure {
            HostFailure::InUse => format!("GPU {bus} is in use by a process and can not be reset"),
            failure => format!("GPU {bus} can not be reset: {failure}"),
        }
    })?;
    let lines = chosen.iter().map(|gpu| format!("GPU {} was reset.\n", gpu.address.nvml_bus_id()));
    Ok(lines.collect())
}

fn list(machine: &SharedMachine, known: &[Gpu], nodes: Option<&DeviceNodes>) -> Result<String, String> {
    let mut text = String::new();
    for (number, gpu) in known.iter().enumerate() {
        text.push_str(&format!("GPU {number}: {} (UUID: {})\n", gpu.name, gpu.uuid));
        // A lost GPU is listed without what is on it.
        let Ok(devices) = machine.mig_devices(gpu.index) else { continue };
        let table = machine.profile_table(gpu.index).ok();
        let instances = machine.gpu_instances(gpu.index).map_err(|error| error.to_string())?;
        let shown = devices.into_iter().filter(|mig| nodes.is_none_or(|nodes| nodes.show_mig(gpu, mig)));
        for (position, device) in shown.enumerate() {
            let instance = instances.iter().find(|instance| instance.id == device.gpu_instance);
            let profile = instance.zip(table.as_ref()).and_then(|(found, table)| table.by_id(found.profile));
            let name = profile.map(|(_, profile)| {
                profile.name.with_compute_slices(u64::from(device.compute_slices)).to_string()
            });
            text.push_str(&format!(
                "  MIG {} Device {position}: (UUID: {})\n",
                name.unwrap_or_default(),
                device.uuid
            ));
        }
    }
    Ok(text)
}
