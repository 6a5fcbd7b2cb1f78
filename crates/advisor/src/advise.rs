//! From what a cluster is to what it should be.

use crate::advice::{Advice, Advised, Fleet, GpuThen, NodeThen, PartThen, Reason, WorkloadAdvice};
use crate::input::{Node, Settings, Situation, Workload};
use crate::money::{self, Load};
use crate::packing::{Item, Machine, Need, Packer, Place};
use crate::rules::{Fit, LIGHT_LOAD, Ruled, product_of, rule, turns, usable};
use crate::{diffs, remedies};
use carve_economics::Prices;
use carve_gpu_model::{Mebibytes, Mechanism, Sharing};
use std::collections::{BTreeMap, BTreeSet};

/// What every workload gets, and where.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Of each workload.
    pub(crate) fits: Vec<Fit>,
    /// Every pod that may be moved.
    items: Vec<Item>,
    places: Vec<Place>,
    kept: Vec<bool>,
}

/// Advises.
pub fn advise(situation: &Situation, settings: &Settings, prices: &Prices) -> Advice {
    let nodes: BTreeMap<&str, &Node> =
        situation.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let mut ruled: Vec<Ruled> =
        situation.workloads.iter().map(|workload| rule(workload, &nodes, settings)).collect();
    beside_parts(situation, &mut ruled);
    let outcome = best(situation, &ruled, &nodes);
    let (machines, money) = money::money(&situation.nodes, &outcome.kept, settings);
    let names = |stays: bool| {
        let nodes = situation.nodes.iter().zip(&outcome.kept).filter(move |(_, kept)| **kept == stays);
        nodes.map(|(node, _)| node.name.clone()).collect::<Vec<_>>()
    };
    let kept = kept(situation, &outcome);
    let workloads: Vec<WorkloadAdvice> = situation
        .workloads
        .iter()
        .zip(&ruled)
        .enumerate()
        .map(|(index, (workload, ruled))| told(index, workload, ruled, &outcome, &nodes, settings))
        .collect();
    let loads = loads(situation, &outcome);
    let fleet = Fleet {
        machines,
        kept,
        freed: names(false),
        money,
        cheaper: money::cheaper(&situation.nodes, &loads, prices, settings),
    };
    let diffs = diffs::diffs(situation, &workloads, &fleet);
    Advice {
        api_version: "carve.dev/v1alpha1".to_owned(),
        kind: "Advice".to_owned(),
        notes: notes(situation, &workloads),
        workloads,
        fleet,
        diffs,
    }
}

/// Whoever is on a machine with something that can not be moved keeps what it has there.
fn beside_parts(situation: &Situation, ruled: &mut [Ruled]) {
    loop {
        let stays = |ruled: &&Ruled| ruled.now == Fit::Pinned && ruled.ways.is_empty();
        let pinned = situation.workloads.iter().zip(ruled.iter()).filter(|(_, ruled)| stays(ruled));
        let closed: BTreeSet<String> =
            pinned.flat_map(|(workload, _)| &workload.replicas).map(|replica| replica.node.clone()).collect();
        let mut changed = false;
        for (workload, ruled) in situation.workloads.iter().zip(ruled.iter_mut()) {
            let there = workload.replicas.iter().find(|replica| closed.contains(&replica.node));
            if let (Some(replica), false) = (there, ruled.ways.is_empty()) {
                ruled.ways.clear();
                ruled.keeps = Some(Reason {
                    rule: "beside-parts".to_owned(),
                    words: format!(
                        "{} also has pods of whose parts too little is known to move them",
                        replica.node
                    ),
                });
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// The cheapest of some ways to serve everybody; the present one where none is cheaper.
fn best(situation: &Situation, ruled: &[Ruled], nodes: &BTreeMap<&str, &Node>) -> Outcome {
    let present = Outcome {
        fits: ruled.iter().map(|ruled| ruled.now.clone()).collect(),
        items: Vec::new(),
        places: Vec::new(),
        kept: vec![true; situation.nodes.len()],
    };
    let price = |outcome: &Outcome| {
        let kept = situation.nodes.iter().zip(&outcome.kept).filter(|(_, kept)| **kept);
        let micros =
            kept.clone().map(|(node, _)| node.price.as_ref().map_or(0, |price| price.per_hour.micros()));
        (micros.sum::<u64>(), kept.count())
    };
    let changes =
        |outcome: &Outcome| outcome.fits.iter().zip(ruled).filter(|(fit, ruled)| **fit != ruled.now).count();
    let keep = ruled.iter().map(|ruled| ruled.now.clone()).collect();
    let preferred = [
        None,
        Some(Mechanism::Mig),
        Some(Mechanism::Mps),
        Some(Mechanism::Limiter),
        Some(Mechanism::TimeSlicing),
    ];
    let chosen = preferred.into_iter().map(|first| choose(situation, ruled, nodes, first));
    let mut best = present;
    for fits in [keep].into_iter().chain(chosen) {
        let Some(outcome) = packed(situation, fits) else { continue };
        if (price(&outcome), changes(&outcome)) < (price(&best), changes(&best)) {
            best = outcome;
        }
    }
    spared(situation, ruled, best)
}

/// What each workload gets if one mechanism is used wherever it may; without one, the lightest way for each.
fn choose(
    situation: &Situation,
    ruled: &[Ruled],
    nodes: &BTreeMap<&str, &Node>,
    first: Option<Mechanism>,
) -> Vec<Fit> {
    let mut fits: Vec<Fit> = ruled
        .iter()
        .map(|ruled| {
            let preferred = ruled.ways.iter().find(|way| Some(way.mechanism) == first);
            preferred.or(ruled.ways.first()).map_or_else(|| ruled.now.clone(), |way| way.fit.clone())
        })
        .collect();
    take_turns(situation, ruled, nodes, &mut fits);
    fits
}

/// Replicas of a GPU that take turns are all alike, and whoever comes gets any of them; so each must hold the largest of those who may come.
fn take_turns(situation: &Situation, ruled: &[Ruled], nodes: &BTreeMap<&str, &Node>, fits: &mut [Fit]) {
    let mut groups: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, (workload, fit)) in situation.workloads.iter().zip(fits.iter()).enumerate() {
        if let (Fit::Shared { sharing: Sharing::TimeSlicing, .. }, Ok(product)) =
            (fit, product_of(workload, nodes))
        {
            groups.entry((product.key, workload.domain.as_str())).or_default().push(index);
        }
    }
    for (_, mut members) in groups {
        let size = |fit: &Fit| match fit {
            Fit::Shared { compute, memory, .. } => (*compute, *memory),
            _ => (0, Mebibytes(0)),
        };
        while let Some(first) = members.first() {
            let product = product_of(&situation.workloads[*first], nodes).ok();
            let total = product.and_then(|product| product.memory()).map_or(Mebibytes(0), |fact| fact.value);
            let compute = members.iter().map(|index| size(&fits[*index]).0).max().unwrap_or(1000);
            let memory = members.iter().map(|index| size(&fits[*index]).1).max().unwrap_or(total);
            let sensitive = members.iter().any(|index| situation.workloads[*index].is_sensitive());
            let replicas = turns(compute, memory, total, sensitive);
            if replicas >= 2 {
                for index in &members {
                    let share = (1000 / replicas).min(1000) as u16;
                    fits[*index] =
                        Fit::Shared { sharing: Sharing::TimeSlicing, compute: share, memory, most: replicas };
                }
                break;
            }
            // The largest, and among light ones whoever waits for answers, goes another way.
            let heaviest = |index: &&usize| {
                let (compute, memory) = size(&fits[**index]);
                let waits =
                    situation.workloads[**index].is_sensitive() && u32::from(compute) * 2 > LIGHT_LOAD;
                (waits, u64::from(compute) * usable(total).0.max(1) / 1000 + memory.0, **index)
            };
            let Some(largest) = members.iter().max_by_key(heaviest).copied() else { break };
            members.retain(|index| *index != largest);
            let other = ruled[largest].ways.iter().find(|way| way.mechanism != Mechanism::TimeSlicing);
            fits[largest] = other.map_or_else(|| ruled[largest].now.clone(), |way| way.fit.clone());
        }
    }
}

/// Everybody's place, where there is one.
fn packed(situation: &Situation, fits: Vec<Fit>) -> Option<Outcome> {
    let at: BTreeMap<&str, usize> =
        situation.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect();
    // A machine with something that stays as it is stays as it is.
    let mut closed: BTreeSet<usize> = BTreeSet::new();
    for (workload, _) in situation.workloads.iter().zip(&fits).filter(|(_, fit)| **fit == Fit::Pinned) {
        closed.extend(workload.replicas.iter().filter_map(|replica| at.get(replica.node.as_str())));
    }
    let known = |node: &Node| node.product.filter(|product| product.memory().is_some());
    closed.extend((0..situation.nodes.len()).filter(|index| {
        let node = &situation.nodes[*index];
        let used = situation
            .workloads
            .iter()
            .flat_map(|workload| &workload.replicas)
            .any(|one| one.node == node.name);
        known(node).is_none() && used
    }));
    let mut items = Vec::new();
    for (index, (workload, fit)) in situation.workloads.iter().zip(&fits).enumerate() {
        let need = match fit {
            Fit::Pinned => continue,
            Fit::Whole { gpus } => Need::Whole(*gpus),
            Fit::Mig { profile, .. } => Need::Mig(profile.clone()),
            Fit::Shared { sharing, compute, memory, most } => {
                Need::Share { sharing: *sharing, compute: *compute, memory: *memory, most: *most }
            }
        };
        for replica in &workload.replicas {
            let at = *at.get(replica.node.as_str())?;
            if closed.contains(&at) {
                // It stays beside what can not move, and so as it is.
                if !matches!(fit, Fit::Whole { .. }) {
                    return None;
                }
                continue;
            }
            items.push(Item {
                workload: Some(index),
                pod: replica.pod.clone(),
                at,
                need: need.clone(),
                domain: workload.domain.clone(),
                cpu: workload.cpu_milli,
                memory: workload.memory.0,
            });
        }
    }
    let machines: Vec<Machine> =
        situation.nodes.iter().map(|node| machine(node, situation)).collect::<Option<_>>()?;
    for one in situation.beside.iter().filter(|one| !one.every_node) {
        let Some(at) = at.get(one.node.as_str()).copied().filter(|at| !closed.contains(at)) else { continue };
        items.push(Item {
            workload: None,
            pod: one.pod.clone(),
            at,
            need: Need::Nothing,
            domain: String::new(),
            cpu: one.cpu_milli,
            memory: one.memory.0,
        });
    }
    let takes = |index: &usize| {
        let node = &situation.nodes[*index];
        !closed.contains(index) && !node.cordoned && known(node).is_some()
    };
    let open: Vec<usize> = (0..situation.nodes.len()).filter(takes).collect();
    let places = Packer::new(&machines, &items).pack(&open)?;
    let used = |index: usize| closed.contains(&index) || places.iter().any(|place| place.machine == index);
    let kept = (0..situation.nodes.len()).map(used).collect();
    Some(Outcome { fits, items, places, kept })
}

/// A machine as the packer sees it; of GPUs that nobody knows nothing is packed, so that any product will do for them.
fn machine(node: &Node, situation: &Situation) -> Option<Machine> {
    let product = node.product.or(carve_gpu_model::products::CATALOGUE.first())?;
    let daemons = || situation.beside.iter().filter(|one| one.every_node && one.node == node.name);
    let memory = product.memory().map_or(Mebibytes(0), |fact| fact.value);
    Some(Machine {
        product: product.key,
        gpus: node.gpus,
        gpu_memory: usable(memory),
        cpu: node.cpu_milli.saturating_sub(daemons().map(|one| one.cpu_milli).sum()),
        memory: node.memory.0.saturating_sub(daemons().map(|one| one.memory.0).sum()),
        price: node.price.as_ref().map_or(0, |price| price.per_hour.micros()),
    })
}

/// Whoever is alone on its GPUs anyway keeps them: a change that frees nothing is no advice.
fn spared(situation: &Situation, ruled: &[Ruled], outcome: Outcome) -> Outcome {
    let mut fits = outcome.fits.clone();
    for (index, fit) in outcome.fits.iter().enumerate().filter(|(index, fit)| **fit != ruled[*index].now) {
        let Fit::Whole { .. } = ruled[index].now else { continue };
        let alone = |place: &Place| {
            let others = outcome
                .places
                .iter()
                .filter(|other| other.machine == place.machine && other.gpus == place.gpus);
            others.count() == 1
        };
        let mine = || outcome.places.iter().filter(|place| outcome.items[place.item].workload == Some(index));
        if mine().all(alone) && *fit != ruled[index].now {
            fits[index] = ruled[index].now.clone();
        }
    }
    let cost = |outcome: &Outcome| {
        let kept = situation.nodes.iter().zip(&outcome.kept).filter(|(_, kept)| **kept);
        kept.map(|(node, _)| node.price.as_ref().map_or(0, |price| price.per_hour.micros())).sum::<u64>()
    };
    match packed(situation, fits) {
        Some(fewer) if cost(&fewer) <= cost(&outcome) && !outcome.places.is_empty() => fewer,
        _ => outcome,
    }
}

/// What is on the machines that stay.
fn kept(situation: &Situation, outcome: &Outcome) -> Vec<NodeThen> {
    let nodes = situation.nodes.iter().enumerate().filter(|(index, _)| outcome.kept[*index]);
    nodes
        .map(|(index, node)| {
            let mut gpus =
                vec![GpuThen { mechanism: "free".to_owned(), parts: Vec::new() }; usize::from(node.gpus)];
            let mut any = false;
            for place in outcome.places.iter().filter(|place| place.machine == index) {
                let item = &outcome.items[place.item];
                let Some(workload) = item.workload else { continue };
                any = true;
                for gpu in &place.gpus {
                    let Some(gpu) = gpus.get_mut(usize::from(*gpu)) else { continue };
                    let (mechanism, part) =
                        part(&situation.workloads[workload], item, &outcome.fits[workload]);
                    gpu.mechanism = mechanism;
                    gpu.parts.push(part);
                }
            }
            let gpus = if any { gpus } else { Vec::new() };
            NodeThen { name: node.name.clone(), machine: node.machine.clone(), gpus }
        })
        .collect()
}

fn part(workload: &Workload, item: &Item, fit: &Fit) -> (String, PartThen) {
    let advised = advised(fit, false);
    let part = PartThen {
        workload: workload.title(),
        pod: item.pod.clone(),
        profile: advised.profile,
        compute_percent: advised.compute_percent,
        memory_mib: advised.memory_mib,
    };
    (advised.mechanism, part)
}

/// What is on each machine that stays and whose pods are known to have a place there.
fn loads(situation: &Situation, outcome: &Outcome) -> Vec<Option<Load>> {
    let mut loads: Vec<Option<Load>> = vec![None; situation.nodes.len()];
    let mut gpus: BTreeSet<(usize, u8)> = BTreeSet::new();
    for place in &outcome.places {
        let item = &outcome.items[place.item];
        let load = loads[place.machine].get_or_insert_default();
        load.cpu += item.cpu;
        load.memory += item.memory;
        load.gpus += place.gpus.iter().filter(|gpu| gpus.insert((place.machine, **gpu))).count() as u8;
    }
    for (node, load) in situation.nodes.iter().zip(&mut loads) {
        let Some(load) = load else { continue };
        for one in situation.beside.iter().filter(|one| one.every_node && one.node == node.name) {
            load.cpu += one.cpu_milli;
            load.memory += one.memory.0;
        }
    }
    loads
}

/// A fit as it is told.
pub(crate) fn advised(fit: &Fit, change: bool) -> Advised {
    let told = |mechanism: &str, words: String| Advised {
        change,
        mechanism: mechanism.to_owned(),
        gpus: None,
        profile: None,
        compute_percent: None,
        memory_mib: None,
        replicas: None,
        words,
    };
    match fit {
        Fit::Pinned => told("as it is", "as it is".to_owned()),
        Fit::Whole { gpus } => {
            let words = if *gpus == 1 { "a whole GPU".to_owned() } else { format!("{gpus} whole GPUs") };
            Advised { gpus: Some(*gpus), ..told(Mechanism::Exclusive.name(), words) }
        }
        Fit::Mig { profile, memory } => Advised {
            profile: Some(profile.to_string()),
            memory_mib: Some(memory.0),
            ..told(Mechanism::Mig.name(), format!("MIG {profile}"))
        },
        Fit::Shared { sharing: Sharing::TimeSlicing, memory, most, .. } => Advised {
            memory_mib: Some(memory.0),
            replicas: Some(*most),
            ..told(Mechanism::TimeSlicing.name(), format!("time-slicing, 1 of {most}"))
        },
        Fit::Shared { sharing, compute, memory, .. } => Advised {
            compute_percent: Some(compute / 10),
            memory_mib: Some(memory.0),
            ..told(sharing.name(), format!("{} {}%, {memory}", sharing.name(), compute / 10))
        },
    }
}

fn told(
    index: usize,
    workload: &Workload,
    ruled: &Ruled,
    outcome: &Outcome,
    nodes: &BTreeMap<&str, &Node>,
    settings: &Settings,
) -> WorkloadAdvice {
    let fit = &outcome.fits[index];
    let change = *fit != ruled.now;
    let mut reasons = Vec::new();
    match (&ruled.keeps, change) {
        (Some(why), _) => reasons.push(why.clone()),
        (None, false) => reasons.push(Reason {
            rule: "no-gain".to_owned(),
            words: "it would do with less, and no machine would become free by that".to_owned(),
        }),
        (None, true) => reasons.extend(why(workload, ruled, fit, settings)),
    }
    let product = product_of(workload, nodes).ok();
    WorkloadAdvice {
        namespace: workload.namespace.clone(),
        kind: workload.kind.clone(),
        name: workload.name.clone(),
        pods: workload.replicas.len() as u32,
        waiting: workload.waiting,
        today: workload.today.clone(),
        observed: ruled.observed.clone(),
        basis: ruled.basis,
        advised: advised(fit, change),
        reasons,
        refused: ruled.refused.clone(),
        risks: if change { risks(workload, ruled, fit) } else { Vec::new() },
        remedies: remedies::remedies(workload, ruled, fit, product, settings),
    }
}

/// Why a workload gets what it gets.
fn why(workload: &Workload, ruled: &Ruled, fit: &Fit, settings: &Settings) -> Vec<Reason> {
    let Some(observed) = &ruled.observed else { return Vec::new() };
    let needed = observed.memory_needed(settings).unwrap_or_default();
    let peak = observed.peak_memory.unwrap_or_default();
    let grown = match observed.memory_growth.0 {
        0 => String::new(),
        _ => format!(" and {} by which it grew", observed.memory_growth),
    };
    let mut reasons = vec![Reason {
        rule: "size".to_owned(),
        words: format!(
            "95 of 100 samples are at or below {} of a GPU, and the peak of {peak} is {needed} with {}% margin{grown}",
            observed.p95, settings.margin_percent
        ),
    }];
    let way = ruled.ways.iter().find(|way| way.mechanism == mechanism(fit));
    reasons.extend(way.map(|way| Reason { rule: "mechanism".to_owned(), words: way.because.clone() }));
    let turns = matches!(fit, Fit::Shared { sharing: Sharing::TimeSlicing, .. });
    if workload.is_sensitive() {
        let words = match turns {
            true => "somebody waits for its answers, and those who take turns load a GPU to 50% at most",
            false => "somebody waits for its answers, and turns make it wait as soon as a GPU is loaded",
        };
        reasons.push(Reason { rule: "latency".to_owned(), words: words.to_owned() });
    }
    if let Fit::Shared { sharing: Sharing::TimeSlicing, memory, most, .. } = fit {
        reasons.push(Reason {
            rule: "sum-of-peaks".to_owned(),
            words: format!(
                "nothing limits memory where pods take turns, so that {most} times the largest need ({memory}) must fit"
            ),
        });
    }
    reasons
}

fn mechanism(fit: &Fit) -> Mechanism {
    match fit {
        Fit::Pinned | Fit::Whole { .. } => Mechanism::Exclusive,
        Fit::Mig { .. } => Mechanism::Mig,
        Fit::Shared { sharing, .. } => sharing.mechanism(),
    }
}

fn risks(workload: &Workload, ruled: &Ruled, fit: &Fit) -> Vec<String> {
    let mut risks: Vec<String> = Vec::new();
    match mechanism(fit) {
        Mechanism::Mps => risks.push("a fault of one MPS client ends all clients of its GPU".to_owned()),
        Mechanism::TimeSlicing => risks.push(
            "nothing is limited: who takes more memory than was seen makes the others run out of it, and load of others makes it wait".to_owned(),
        ),
        Mechanism::Limiter => risks.push("the limiter runs in the process that it limits: it holds programs that are not out to get around it".to_owned()),
        Mechanism::Mig => risks.push("the size is fixed: another one needs a device that is cut anew, and a pod that is started anew".to_owned()),
        Mechanism::Exclusive => {}
    }
    let Some(observed) = &ruled.observed else { return risks };
    let share = match fit {
        Fit::Shared { compute, .. } => u32::from(*compute) * 1000,
        _ => u32::MAX,
    };
    if observed.max.0 > share {
        let word = if workload.is_sensitive() { "answers take longer then" } else { "it takes longer then" };
        risks.push(format!("at its peak it used {} of a GPU, more than its share: {word}", observed.max));
    }
    if observed.memory_growth.0 > 0 {
        risks.push(format!(
            "its memory grew by {} while it was watched, and may go on",
            observed.memory_growth
        ));
    }
    if observed.preallocated {
        risks.push("its memory never changed and is most of the GPU: a framework that takes it in advance hides what is needed".to_owned());
    }
    risks
}

/// What was left out, and what would tell more.
fn notes(situation: &Situation, workloads: &[WorkloadAdvice]) -> Vec<String> {
    let mut notes = situation.notes.clone();
    let waiting: u32 = workloads.iter().map(|workload| workload.waiting).sum();
    if waiting > 0 {
        let who = if waiting == 1 {
            "1 pod waits for a node; it is".to_owned()
        } else {
            format!("{waiting} pods wait for a node; they are")
        };
        notes.push(format!("{who} not planned, and may need machines that are called free here"));
    }
    if !workloads.is_empty() && workloads.iter().all(|workload| workload.observed.is_none()) {
        notes.push(
            "nothing was measured: with --prometheus URL or --metrics FILE sizes, machines and money are told from what pods use".to_owned(),
        );
    }
    notes
}
