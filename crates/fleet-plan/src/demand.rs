//! What the pods of a workload mean on each product: by which mechanism, and how much of a GPU.

use crate::nodes::{NodeType, Pool};
use crate::plan::Settings;
use carve_formats::workloads::{GpuAsk, MemoryAsk, PodAsk, Thousandths};
use carve_gpu_model::{Mebibytes, Mechanism, Mechanisms, ProfileName, Sharing};
use carve_placement::{Claim, CpuMilli, GpuMilli, Models, Together, WHOLE};
use carve_planner::{Choice, Hardware, Needs, Size, Way, choose};
use std::collections::BTreeMap;

/// Clients that one MPS daemon serves at once, since Volta.
pub(crate) const MPS_CLIENTS: u16 = 48;

/// A pod on machines of one type.
#[derive(Debug, Clone)]
pub(crate) enum Served {
    /// By MIG devices: so many of each profile, and how many pods use one device together.
    Mig { devices: BTreeMap<ProfileName, u32>, together: u32, choice: Choice },
    /// By whole GPUs or parts, one claim for each request. CPU and memory are in the first.
    Claims { claims: Vec<Claim>, choice: Choice },
    /// Not at all.
    Not { because: String },
}

/// What a pod of a workload means on each type of machine.
pub(crate) fn demand(pod: &PodAsk, pools: &[Pool], settings: Settings) -> Vec<Served> {
    pools.iter().map(|pool| on(pod, &pool.machine, settings)).collect()
}

fn on(pod: &PodAsk, machine: &NodeType, settings: Settings) -> Served {
    let shares = settings.shares;
    let host = Claim::cpu_only(CpuMilli(pod.cpu_milli), pod.memory);
    let wanted: Vec<&GpuAsk> = pod.gpus.iter().filter(|ask| ask.count > 0).collect();
    if wanted.is_empty() {
        let choice =
            Choice { way: Way::Exclusive, because: "it asks for no GPU".to_owned(), refused: Vec::new() };
        return Served::Claims { claims: vec![host], choice };
    }
    let name = machine.product.name();
    if !product_will_do(pod, &wanted, machine) {
        return Served::Not { because: format!("it wants other GPUs than {name}") };
    }
    let mut devices: BTreeMap<ProfileName, u32> = BTreeMap::new();
    let mut claims: Vec<Claim> = Vec::new();
    let (mut first, mut together) = (None, 1);
    for ask in wanted {
        let choice = match choose(&needs(ask, machine), &hardware(machine, settings.mechanisms)) {
            Ok(choice) => choice,
            Err(none) => return Served::Not { because: none.to_string() },
        };
        match &choice.way {
            Way::Mig(profile) => *devices.entry(profile.clone()).or_default() += ask.count,
            Way::Layered(profile, _) => {
                *devices.entry(profile.clone()).or_default() += ask.count;
                together = shares.max(1);
            }
            Way::Exclusive => whole(&mut claims, ask.count, host),
            Way::Shared(sharing) => claims.push(part(ask, *sharing, machine, shares, host)),
        }
        first = first.or(Some(choice));
    }
    let Some(choice) = first else { return Served::Not { because: "it asks for nothing".to_owned() } };
    match (devices.is_empty(), claims.is_empty()) {
        (true, _) => {
            for (index, claim) in claims.iter_mut().enumerate() {
                (claim.cpu, claim.memory) =
                    if index == 0 { (host.cpu, host.memory) } else { (CpuMilli(0), Mebibytes(0)) };
            }
            Served::Claims { claims, choice }
        }
        // Devices that several pods share must be alike for all of them.
        (false, true) if together == 1 || devices.len() == 1 => Served::Mig { devices, together, choice },
        _ => Served::Not {
            because: "it asks for MIG devices and something else at once, which is not planned".to_owned(),
        },
    }
}

/// Whole GPUs of one pod are chosen together, so that they are different ones.
fn whole(claims: &mut Vec<Claim>, count: u32, host: Claim) {
    let more = u8::try_from(count).unwrap_or(u8::MAX);
    match claims.iter_mut().find(|claim| claim.compute == WHOLE) {
        Some(claim) => claim.gpus = claim.gpus.saturating_add(more),
        None => claims.push(Claim {
            gpus: more,
            compute: WHOLE,
            mechanisms: Mechanisms::NONE.with(Mechanism::Exclusive),
            ..host
        }),
    }
}

fn part(ask: &GpuAsk, sharing: Sharing, machine: &NodeType, shares: u32, host: Claim) -> Claim {
    let total = machine.gpu_memory.0.max(1);
    let memory = match ask.memory {
        Some(MemoryAsk::Amount(amount)) => amount.0,
        Some(MemoryAsk::Share(share)) => total * u64::from(share.0) / 1000,
        None if ask.shared => total / u64::from(shares.max(1)),
        // Without a word about memory it may use all of it.
        None => total,
    };
    let by_memory = u16::try_from((memory * 1000).div_ceil(total)).unwrap_or(1000);
    // The smallest part of which no more fit on a GPU than MPS has clients for.
    let least = if sharing == Sharing::Mps { 1000_u16.div_ceil(MPS_CLIENTS) } else { 1 };
    let compute = match ask.compute {
        Some(Thousandths(compute)) => compute.max(least),
        // Rounding up would keep the last of equal shares out, and their memory keeps more of them than that off the GPU.
        None if ask.shared => (1000 / shares.max(1)) as u16,
        None => by_memory.max(least),
    };
    Claim {
        gpus: u8::try_from(ask.count).unwrap_or(u8::MAX),
        compute: GpuMilli(compute.clamp(1, 1000)),
        gpu_memory: Mebibytes(memory),
        models: Models::ANY,
        mechanisms: Mechanisms::NONE.with(sharing.mechanism()),
        together: Together::Node,
        ..host
    }
}

fn hardware(machine: &NodeType, mechanisms: Mechanisms) -> Hardware<'_> {
    Hardware {
        name: machine.product.name(),
        memory: machine.gpu_memory,
        compute_capability: machine.product.compute_capability,
        table: machine.table.as_ref(),
        mechanisms,
    }
}

fn needs(ask: &GpuAsk, machine: &NodeType) -> Needs {
    let size = match (&ask.mig, ask.any_mig) {
        (Some(profile), _) if ask.shared => Size::ShareOfProfile(profile.clone()),
        (Some(profile), _) => Size::Profile(profile.clone()),
        (None, true) => Size::AnyProfile,
        (None, false) if ask.is_whole() => Size::Whole,
        // Several GPUs with all of their compute are whole GPUs, whatever memory is named.
        (None, false) if ask.count > 1 && ask.compute == Some(Thousandths::WHOLE) => Size::Whole,
        (None, false) if ask.shared => Size::Share,
        (None, false) => Size::Part {
            memory: ask.memory.map(|memory| match memory {
                MemoryAsk::Amount(amount) => amount,
                MemoryAsk::Share(share) => Mebibytes(machine.gpu_memory.0 * u64::from(share.0) / 1000),
            }),
            compute: ask.compute.map(|compute| compute.0),
        },
    };
    Needs { size, isolation: ask.isolation, named: ask.hint }
}

/// Whether the models, ids and node labels a pod names allow this product.
fn product_will_do(pod: &PodAsk, asks: &[&GpuAsk], machine: &NodeType) -> bool {
    let name = machine.product.name().to_lowercase();
    let has = |part: &String| {
        let part = part.to_lowercase();
        name.contains(&part) || name.replace(' ', "-").contains(&part) || machine.product.key.contains(&part)
    };
    let label = machine.product.name().replace(' ', "-");
    let labelled = |product: &String| product == &label || product.starts_with(&format!("{label}-"));
    (pod.products.is_empty() || pod.products.iter().any(labelled))
        && asks.iter().all(|ask| {
            (ask.models.wanted.is_empty() || ask.models.wanted.iter().any(has))
                && !ask.models.unwanted.iter().any(has)
        })
}
