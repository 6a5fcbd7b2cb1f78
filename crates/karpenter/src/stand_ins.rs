//! Pods that stand in for those that wait for slices: they want whole GPUs, which every autoscaler understands, and go when nodes are cut.

use crate::{Compiled, Cut, GPU, Refusal};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Resources by name, in thousandths, as Kubernetes counts them at its finest. What is not named is zero.
pub type Amounts = BTreeMap<String, u64>;

/// A pod that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its name, by which pods that want the same are kept in order.
    pub name: String,
    /// Everything it wants of a node.
    pub wants: Amounts,
}

/// Where a stand-in is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It waits for a machine.
    Nowhere,
    /// On a node that has whole GPUs.
    Whole,
    /// On a node that is about to be cut, or was.
    Cut,
}

/// A pod that stands in for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    /// Its name; stand-ins of one policy are taken in this order.
    pub name: String,
    /// Whole GPUs that it wants.
    pub gpus: u64,
    /// What the pods for which it stands want beside slices.
    pub besides: Amounts,
    /// Where it is.
    pub place: Place,
}

/// What is decided from, for one policy.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The policy.
    pub policy: &'a str,
    /// Slices that one GPU of the pool is sure to give.
    pub each_gpu: &'a Amounts,
    /// The most GPUs that a machine of the pool may have.
    pub largest: u64,
    /// The fewest.
    pub smallest: u64,
    /// Pods that no node has room for, and for which nodes of this pool would do.
    pub waiting: &'a [Waiting],
    /// What nodes of the pool that are cut, or are about to be, have left of everything.
    pub rooms: &'a [Amounts],
    /// Stand-ins that are there.
    pub stand_ins: &'a [StandIn],
    /// GPUs of all nodes of the pool.
    pub gpus: u64,
    /// The most there may be.
    pub most_gpus: Option<u64>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Stand-ins to make.
    pub create: Vec<StandIn>,
    /// Stand-ins that go, by name.
    pub delete: Vec<String>,
    /// Pods that are cared for, by name: there is room for them, or a stand-in.
    pub served: BTreeSet<String>,
    /// Pods for which there may be no more GPUs.
    pub beyond_limit: usize,
    /// Pods that want more slices than the largest machine has.
    pub too_large: usize,
}

/// Something that pods are put into: a node's room, or a stand-in.
struct Bin<'a> {
    stand_in: Option<StandIn>,
    /// The same as it is now; none where it is new.
    now: Option<&'a StandIn>,
    left: Amounts,
    used: bool,
}

/// Whether machines for this cut can be asked for by stand-ins.
pub(crate) fn check(cut: &Cut) -> Result<(), Refusal> {
    match cut {
        Cut::Shared { renamed: true, .. } | Cut::Mig(_) => Ok(()),
        Cut::Shared { renamed: false, .. } => {
            let reason = format!(
                "shares would be called {GPU}, and autoscalers bring a whole GPU for each of them by themselves"
            );
            let remedy = "write renamed: true, or mode Karpenter with its gate NodeOverlay on";
            Err(Refusal::new("sharing.renamed", reason, remedy))
        }
        Cut::Parts => {
            let reason = format!("nodes that give out parts never have a whole {GPU} for a stand-in");
            let remedy =
                "write mode Karpenter with its gate NodeOverlay on, or cut by sharing or provision.mig";
            Err(Refusal::new("provision.parts", reason, remedy))
        }
    }
}

/// Slices that one GPU is sure to give, whichever of its machines a pool gets.
pub fn least_of_each_gpu(pool: &Compiled) -> Amounts {
    let mut least: Option<Amounts> = None;
    for machine in &pool.overlays {
        let gpus = u64::from(machine.gpus.max(1));
        let of_one = |(name, amount): (&String, &u64)| (name.clone(), amount / gpus * 1000);
        let each: Amounts = machine.promise.resources().iter().map(of_one).collect();
        least = Some(match least {
            None => each,
            Some(known) => known
                .into_iter()
                .map(|(name, amount)| {
                    let other = each.get(&name).copied().unwrap_or(0);
                    (name, amount.min(other))
                })
                .collect(),
        });
    }
    least.unwrap_or_default().into_iter().filter(|(_, amount)| *amount > 0).collect()
}

/// Which stand-ins to make, and which go. Pods are put, the largest first, into what there is room for, then into stand-ins that are there,
/// then into new ones; a stand-in that nobody was put into goes. One that has no machine yet and asks for too little besides slices is made anew
/// under its name. Who looks again finds everything in its place.
pub fn changes(at: Situation<'_>) -> Changes {
    let mut changes = Changes::default();
    let room = |left: &Amounts| Bin { stand_in: None, now: None, left: left.clone(), used: false };
    let mut bins: Vec<Bin<'_>> = at.rooms.iter().map(room).collect();
    let mut there: Vec<&StandIn> = at.stand_ins.iter().collect();
    there.sort_by(|a, b| a.name.cmp(&b.name));
    for now in there {
        if now.place == Place::Cut {
            changes.delete.push(now.name.clone());
        } else {
            let stand_in = StandIn { besides: Amounts::new(), ..now.clone() };
            let left = slices(at.each_gpu, now.gpus);
            bins.push(Bin { stand_in: Some(stand_in), now: Some(now), left, used: false });
        }
    }
    let nowhere = at.stand_ins.iter().filter(|one| one.place == Place::Nowhere);
    let mut asked: u64 = nowhere.map(|one| one.gpus).sum();
    let mut names = names(at);
    for pod in in_order(at) {
        if let Some(bin) = bins.iter_mut().find(|bin| bin.takes(&pod.wants, at.each_gpu)) {
            bin.put(&pod.wants, at.each_gpu);
            changes.served.insert(pod.name.clone());
            continue;
        }
        let gpus = gpus_for(&pod.wants, at.each_gpu);
        if gpus > at.largest {
            changes.too_large += 1;
            continue;
        }
        // A machine comes as a whole.
        let with_it = (asked + gpus).next_multiple_of(at.smallest.max(1));
        if at.most_gpus.is_some_and(|most| at.gpus + with_it > most) {
            changes.beyond_limit += 1;
            continue;
        }
        asked += gpus;
        let name = names.next().unwrap_or_default();
        let stand_in = StandIn { name, gpus, besides: Amounts::new(), place: Place::Nowhere };
        let left = slices(at.each_gpu, gpus);
        let mut bin = Bin { stand_in: Some(stand_in), now: None, left, used: false };
        bin.put(&pod.wants, at.each_gpu);
        bins.push(bin);
        changes.served.insert(pod.name.clone());
    }
    for bin in bins {
        let Some(stand_in) = bin.stand_in else { continue };
        match bin.now {
            None => changes.create.push(stand_in),
            Some(now) if !bin.used => changes.delete.push(now.name.clone()),
            Some(now) if now.place == Place::Nowhere && asks_for_too_little(now, &stand_in.besides) => {
                changes.delete.push(now.name.clone());
                changes.create.push(stand_in);
            }
            Some(_) => {}
        }
    }
    changes
}

fn asks_for_too_little(now: &StandIn, needed: &Amounts) -> bool {
    needed.iter().any(|(name, amount)| now.besides.get(name).copied().unwrap_or(0) < *amount)
}

/// Those who want the largest part of a GPU first.
fn in_order<'a>(at: Situation<'a>) -> Vec<&'a Waiting> {
    let share = |pod: &Waiting| {
        let of = |(name, each): (&String, &u64)| {
            pod.wants.get(name).copied().unwrap_or(0).saturating_mul(1 << 20) / (*each).max(1)
        };
        at.each_gpu.iter().map(of).sum::<u64>()
    };
    let mut pods: Vec<&Waiting> = at.waiting.iter().filter(|pod| share(pod) > 0).collect();
    pods.sort_by_cached_key(|pod| (Reverse(share(pod)), pod.name.clone()));
    pods
}

/// Names that no stand-in has. They follow from what is there, so that who does not know that one was made already makes the same again,
/// which the API server refuses; and they come after those that are there, so that everybody takes stand-ins in the order of their making.
fn names(at: Situation<'_>) -> impl Iterator<Item = String> {
    let prefix = format!("carve-stand-in-{}-", at.policy);
    let number = |one: &StandIn| one.name.strip_prefix(&prefix)?.parse::<u64>().ok();
    let first = at.stand_ins.iter().filter_map(number).max().map_or(0, |last| last + 1);
    (first..).map(move |number| format!("{prefix}{number:06}"))
}

fn slices(each_gpu: &Amounts, gpus: u64) -> Amounts {
    each_gpu.iter().map(|(name, each)| (name.clone(), each * gpus)).collect()
}

/// Whole GPUs that a pod needs on one machine.
fn gpus_for(wants: &Amounts, each_gpu: &Amounts) -> u64 {
    let of = |(name, each): (&String, &u64)| wants.get(name).copied().unwrap_or(0).div_ceil((*each).max(1));
    each_gpu.iter().map(of).max().unwrap_or(0)
}

impl Bin<'_> {
    /// A node has what it has. Of a stand-in only slices are certain: what its pods need besides is asked for with it, and if its machine
    /// has too little of that, they wait, and another one comes.
    fn takes(&self, wants: &Amounts, each_gpu: &Amounts) -> bool {
        let counts = |name: &String| self.stand_in.is_none() || each_gpu.contains_key(name);
        let mut counted = wants.iter().filter(|(name, _)| counts(name));
        counted.all(|(name, amount)| self.left.get(name).copied().unwrap_or(0) >= *amount)
    }

    fn put(&mut self, wants: &Amounts, each_gpu: &Amounts) {
        self.used = true;
        for (name, amount) in wants {
            if let Some(left) = self.left.get_mut(name) {
                *left = left.saturating_sub(*amount);
            }
            // A node counts pods, and a stand-in is one, whatever it stands for.
            if let Some(stand_in) = &mut self.stand_in
                && !each_gpu.contains_key(name)
                && name != "pods"
            {
                *stand_in.besides.entry(name.clone()).or_default() += amount;
            }
        }
    }
}
