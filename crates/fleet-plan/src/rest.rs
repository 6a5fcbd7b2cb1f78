//! Pods that take whole GPUs, parts or none: placed by bid prices on what MIG has left.

use crate::demand::Served;
use crate::one_way;
use crate::plan::{Draft, Job, Part};
use carve_gpu_model::{Geometry, Mebibytes, Mechanism, Mechanisms, ProfileName, Sharing};
use carve_placement::{
    Claim, CpuMilli, Fleet, Misfit, Models, NodeIndex, NodeShape, Placer, Policy, Spot, Workload,
};
use carve_planner::{Choice, Way};
use std::collections::{BTreeMap, BTreeSet};

/// The claims of a pod on the machines of one product.
struct Variant {
    claims: Vec<Claim>,
    choice: Choice,
}

/// Places what is left of the jobs; whatever has no place after that is pending.
pub(crate) fn place(jobs: &mut [Job], draft: &mut Draft<'_>) {
    let mut fleet = fleet(draft);
    let variants: Vec<Vec<Variant>> = jobs.iter().map(|job| variants(job, draft, &mut fleet)).collect();
    let seen = jobs.iter().zip(&variants).enumerate().flat_map(|(index, (job, variants))| {
        let claims = variants.iter().flat_map(|variant| &variant.claims).filter(|claim| claim.gpus > 0);
        claims.map(move |claim| (index, *claim, u64::from(job.pods)))
    });
    let typical = Workload::seen(seen.collect::<Vec<_>>(), 100);
    // Prices are of what is usually asked for; where nothing asks for GPUs there are none.
    let policy = if typical.kinds().is_empty() { Policy::BestFit } else { Policy::BidPrice };
    let mut placer = Placer::new(policy, &fleet, &typical, 0);
    for (job, variants) in jobs.iter_mut().zip(&variants) {
        if job.every_node {
            daemons(job, variants, &mut fleet, &placer, draft);
            continue;
        }
        let only = match &job.follows {
            None => None,
            Some(claim) => match draft.held.get(claim) {
                Some(node) => Some(NodeIndex(*node as u32)),
                None if job.pods > 0 => {
                    let because = format!("it shares claim {claim}, whose devices have no place");
                    draft.wait(job, job.pods, because);
                    continue;
                }
                None => continue,
            },
        };
        while job.pods > 0 {
            let Some((variant, spots)) = choose(variants, only, &mut fleet, &mut placer) else {
                let because = why(job, variants, &fleet, draft);
                draft.wait(job, job.pods, because);
                break;
            };
            settle(job, &variants[variant], &spots, draft);
            job.pods -= 1;
        }
    }
    one_way::settle(jobs, draft);
}

fn fleet(draft: &Draft<'_>) -> Fleet {
    let mut fleet = Fleet::new();
    for (node, left) in draft.nodes.iter().zip(&draft.left) {
        let machine = &draft.pools[node.pool].machine;
        let Some(model) = fleet.model(machine.product.key) else { continue };
        let gpus = machine.gpus.saturating_sub(left.cut);
        // NVIDIA's plugin serves no MPS beside MIG devices that are offered by profile.
        let beside_mig = Mechanisms::ANY.without(Mechanism::Mps);
        let shape = NodeShape {
            model,
            gpus,
            gpu_memory: machine.gpu_memory,
            cpu: CpuMilli(left.cpu),
            memory: Mebibytes(left.memory),
            pods: u32::MAX,
            mechanisms: if left.cut == 0 { Mechanisms::ANY } else { beside_mig },
            numa: machine.numa.iter().take(usize::from(gpus)).copied().collect(),
            islands: machine.islands.iter().take(usize::from(gpus)).copied().collect(),
        };
        // Names differ by their numbers, and a machine with more GPUs than a node may have was refused before.
        let _ = fleet.add(&node.name, shape);
    }
    fleet
}

fn variants(job: &Job, draft: &Draft<'_>, fleet: &mut Fleet) -> Vec<Variant> {
    let mut variants: BTreeMap<&str, Variant> = BTreeMap::new();
    for (pool, served) in draft.pools.iter().zip(&job.served) {
        let Served::Claims { claims, choice } = served else { continue };
        if job.pod.gpus.is_empty() {
            let variant = Variant { claims: claims.clone(), choice: choice.clone() };
            return vec![variant];
        }
        let key = pool.machine.product.key;
        let Some(model) = fleet.model(key) else { continue };
        let models = Models::NONE.with(model);
        let claims = claims.iter().map(|claim| Claim { models, ..*claim }).collect();
        variants.entry(key).or_insert(Variant { claims, choice: choice.clone() });
    }
    variants.into_values().collect()
}

/// The best variant and where each of its claims goes; they are placed.
fn choose(
    variants: &[Variant],
    only: Option<NodeIndex>,
    fleet: &mut Fleet,
    placer: &mut Placer,
) -> Option<(usize, Vec<(Claim, Spot)>)> {
    let mut best: Option<(i32, usize, Spot)> = None;
    for (index, variant) in variants.iter().enumerate() {
        let [claim] = variant.claims.as_slice() else { continue };
        if only.is_some() {
            continue;
        }
        let Some(spot) = placer.decide(fleet, claim) else { continue };
        let points = placer.points(fleet, spot.node, claim);
        if best.is_none_or(|(most, _, _)| points > most) {
            best = Some((points, index, spot));
        }
    }
    if let Some((_, index, spot)) = best {
        let claim = *variants[index].claims.first()?;
        fleet.place(&claim, spot);
        return Some((index, vec![(claim, spot)]));
    }
    for (index, variant) in variants.iter().enumerate() {
        let nodes = fleet.nodes().filter(|node| only.is_none_or(|only| only == *node));
        for node in nodes {
            if let Some(spots) = all_on(node, &variant.claims, fleet, placer) {
                return Some((index, spots));
            }
        }
    }
    None
}

/// All claims of a pod on one node, or none of them.
fn all_on(
    node: NodeIndex,
    claims: &[Claim],
    fleet: &mut Fleet,
    placer: &Placer,
) -> Option<Vec<(Claim, Spot)>> {
    let mut placed: Vec<(Claim, Spot)> = Vec::new();
    for claim in claims {
        if fleet.fits(node, claim).is_err() {
            for (claim, spot) in placed.iter().rev() {
                fleet.release(claim, *spot);
            }
            return None;
        }
        let spot = Spot { node, gpus: placer.score(fleet, node, claim).gpus };
        fleet.place(claim, spot);
        placed.push((*claim, spot));
    }
    Some(placed)
}

/// One pod on every node that can take it.
fn daemons(job: &mut Job, variants: &[Variant], fleet: &mut Fleet, placer: &Placer, draft: &mut Draft<'_>) {
    for node in fleet.nodes() {
        let fits = variants
            .iter()
            .enumerate()
            .find_map(|(index, variant)| Some((index, all_on(node, &variant.claims, fleet, placer)?)));
        match fits {
            Some((variant, spots)) => settle(job, &variants[variant], &spots, draft),
            None => {
                let not = job.served.get(draft.nodes[node.0 as usize].pool);
                let because = match not {
                    Some(Served::Not { because }) => because.clone(),
                    Some(Served::Mig { .. }) => "MIG devices for a DaemonSet are not planned".to_owned(),
                    _ => format!("{} has no room for it", draft.nodes[node.0 as usize].name),
                };
                draft.wait(job, 1, because);
            }
        }
    }
    job.pods = 0;
}

fn settle(job: &Job, variant: &Variant, spots: &[(Claim, Spot)], draft: &mut Draft<'_>) {
    let Some((_, first)) = spots.first() else { return };
    let node = first.node.0 as usize;
    for (claim, spot) in spots {
        let way = way(claim);
        for gpu in spot.gpus.iter() {
            let part = Part {
                workload: job.workload,
                compute: claim.compute.0,
                memory: claim.gpu_memory,
                way: way.clone(),
            };
            if let Some(parts) = draft.nodes[node].parts.get_mut(gpu) {
                parts.push(part);
            }
        }
    }
    draft.land(job, node, &variant.choice, 1);
}

fn way(claim: &Claim) -> Way {
    claim.mechanisms.iter().next().and_then(Sharing::of).map_or(Way::Exclusive, Way::Shared)
}

/// Why a pod has no place, in words.
fn why(job: &Job, variants: &[Variant], fleet: &Fleet, draft: &Draft<'_>) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut misfits: BTreeMap<Misfit, usize> = BTreeMap::new();
    for node in fleet.nodes() {
        let tried = variants.iter().flat_map(|variant| &variant.claims);
        let misfit =
            tried.filter_map(|claim| fleet.fits(node, claim).err()).filter(|one| *one != Misfit::Model).max();
        if let Some(misfit) = misfit {
            *misfits.entry(misfit).or_default() += 1;
        } else if variants.iter().any(|variant| variant.claims.len() > 1) {
            *misfits.entry(Misfit::Gpus).or_default() += 1;
        }
    }
    for (pool, served) in draft.pools.iter().zip(&job.served) {
        let reason = match served {
            Served::Claims { .. } => continue,
            Served::Not { because } => because.clone(),
            Served::Mig { devices, .. } => no_device(pool, devices, draft),
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.extend(misfits.into_iter().map(|(misfit, nodes)| {
        let nodes = if nodes == 1 { "1 node has".to_owned() } else { format!("{nodes} nodes have") };
        match misfit {
            Misfit::Model => format!("{nodes} other GPUs"),
            Misfit::Mechanism => {
                format!("{nodes} GPUs cut by MIG, beside which its mechanism is not offered")
            }
            Misfit::Gpus => format!("{nodes} too little left of their GPUs"),
            Misfit::Apart => format!("{nodes} GPUs enough, but not close enough together"),
            Misfit::Cpu => format!("{nodes} too little CPU left"),
            Misfit::Memory => format!("{nodes} too little memory left"),
            Misfit::Pods => format!("{nodes} as many pods as they take"),
            Misfit::Away => format!("{nodes} gone"),
        }
    }));
    if reasons.is_empty() { "no node has room for it".to_owned() } else { reasons.join("; ") }
}

/// Whether a GPU that is cut would hold more devices.
fn fits_beside(pool: &crate::Pool, held: &Geometry, devices: &BTreeMap<ProfileName, u32>) -> bool {
    let Some(table) = &pool.machine.table else { return false };
    let mut all = held.clone();
    for (profile, count) in devices {
        // A division of a device is held by the device.
        let Ok((_, known)) = table.by_name(profile) else { return false };
        all.add(known.name.clone(), *count);
    }
    let mut legal = false;
    if let Ok(counts) = all.counts(table) {
        table.visit_arrangements(&[], &counts, |_| {
            legal = true;
            false
        });
    }
    legal
}

fn no_device(pool: &crate::Pool, devices: &BTreeMap<ProfileName, u32>, draft: &Draft<'_>) -> String {
    let nodes = || draft.nodes.iter().filter(|node| draft.pools[node.pool].machine.name == pool.machine.name);
    let gpus = nodes().map(|node| node.mig.len()).sum::<usize>();
    let cut = nodes().flat_map(|node| &node.mig).flatten().count();
    let wanted: Vec<String> = devices.iter().map(|(profile, count)| format!("{count}× {profile}")).collect();
    let wanted = wanted.join(" + ");
    let most = devices.keys().next().filter(|_| devices.len() == 1).and_then(|profile| {
        let table = pool.machine.table.as_ref()?;
        table.by_name(profile).ok().map(|(_, known)| known.max_instances)
    });
    let full = match most {
        Some(most) => format!(" (at most {most} fit on one)"),
        None => String::new(),
    };
    // Many GPUs are cut alike; each sort is tried once.
    let sorts: BTreeSet<&Geometry> = nodes().flat_map(|node| &node.mig).flatten().collect();
    if sorts.into_iter().any(|held| fits_beside(pool, held, devices)) {
        format!(
            "{} has room for {wanted}{full}, but too little CPU or memory left on the same machine",
            pool.machine.name
        )
    } else if cut == gpus {
        format!("all {gpus} GPUs of {} are cut, and none has room for {wanted}{full}", pool.machine.name)
    } else {
        format!(
            "{} has no room for {wanted}{full}, or too little CPU or memory for the pod",
            pool.machine.name
        )
    }
}
