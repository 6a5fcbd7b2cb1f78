//! Pods of one MIG device each: planned over all machines together, and again where a machine ran out of CPU or memory.

use super::bench::Bench;
use super::fewest::Offer;
use super::ledger::Taken;
use super::{Cutting, devices_of, wants};
use crate::demand::Served;
use crate::plan::{Draft, Job};
use carve_planner::{ClaimName, Demand, PendingClaim, Wants};
use std::collections::BTreeMap;

/// How often what machines had no CPU or memory for is planned again; after that pods go one by one.
const ROUNDS: usize = 12;

/// A claim for one device: the job it is for, and how many of its pods use the device.
#[derive(Debug, Clone, Copy)]
struct Asked {
    job: usize,
    pods: u32,
}

impl Cutting<'_, '_> {
    /// Plans until everything is served or nothing more can be.
    pub(super) fn singles(&mut self) {
        let mut short_of_host = false;
        for round in 0..ROUNDS {
            let (asked, demand) = self.asked();
            if asked.is_empty() {
                break;
            }
            let useful: Vec<bool> = self.benches.iter().map(|bench| self.is_useful(bench)).collect();
            let Some(offer) = Offer::of(&self.products, &self.benches, &useful, self.order, &demand) else {
                break;
            };
            let found = offer.best(&demand);
            if round == 0 && found.all_looked_at {
                self.ledger.looked_at_all(asked.len(), found.served.len());
            }
            let mut landed: BTreeMap<(usize, usize), u32> = BTreeMap::new();
            let mut missed = false;
            let mut served = found.served;
            // Where a machine has too little CPU or memory for all, most pods are served if those that take least of it come first.
            served.sort_by_key(|one| {
                let pod = &self.jobs[asked[one.claim].job].pod;
                (pod.cpu_milli, pod.memory, one.claim)
            });
            for served in &served {
                let Asked { job: index, pods } = asked[served.claim];
                let (job, bench) = (&mut self.jobs[index], &mut self.benches[served.bench]);
                let pods = u64::from(pods).min(bench.host_room(&job.pod)) as u32;
                missed |= pods < asked[served.claim].pods;
                if pods == 0 {
                    continue;
                }
                bench.take_host(&job.pod, u64::from(pods));
                bench.gpus[served.gpu][served.slot] += 1;
                self.ledger.take(Taken {
                    job: index,
                    bench: served.bench,
                    gpu: served.gpu,
                    slot: served.slot,
                });
                job.pods -= pods;
                *landed.entry((index, served.bench)).or_default() += pods;
            }
            for ((job, bench), pods) in &landed {
                land(&self.jobs[*job], &self.benches[*bench], self.draft, *pods);
            }
            short_of_host |= missed;
            if !missed || landed.is_empty() {
                break;
            }
        }
        let follows = |job: &Job| job.pods > 0 && job.follows.is_some() && devices_of(job) == 1;
        if short_of_host || self.jobs.iter().any(follows) {
            self.leftovers();
        }
    }

    /// One claim for every device that is still wanted, no more for each job than machines have CPU and memory for.
    fn asked(&self) -> (Vec<Asked>, Demand) {
        let (mut asked, mut demand) = (Vec::new(), Demand::default());
        for (index, job) in self.jobs.iter().enumerate() {
            if job.pods == 0 || job.follows.is_some() || devices_of(job) != 1 {
                continue;
            }
            let mut names = BTreeMap::new();
            let mut share = 1;
            for (pool, product) in self.products.iter().enumerate() {
                let (Some(product), Some((devices, together))) = (product, wants(job, pool)) else {
                    continue;
                };
                let slot = devices.keys().find_map(|name| product.table.by_name(name).ok());
                let Some((_, profile)) = slot else { continue };
                names.insert(product.name.clone(), profile.name.clone());
                share = together;
            }
            let mut left = u64::from(job.pods).min(self.ledger.host_room(job, &self.benches));
            let wants = Wants::InPools(names);
            while left > 0 {
                let pods = left.min(u64::from(share));
                left -= pods;
                let name = ClaimName(format!("{:07}", asked.len()));
                demand.pending.push(PendingClaim { name, wants: wants.clone() });
                asked.push(Asked { job: index, pods: pods as u32 });
            }
        }
        (asked, demand)
    }

    /// Whether a machine has CPU and memory for any pod that waits for a device of its GPUs.
    fn is_useful(&self, bench: &Bench) -> bool {
        let waits = |job: &&Job| job.pods > 0 && job.follows.is_none() && wants(job, bench.pool).is_some();
        self.jobs.iter().filter(waits).any(|job| bench.host_room(&job.pod) > 0)
    }
}

/// Notes that pods have landed.
pub(super) fn land(job: &Job, bench: &Bench, draft: &mut Draft<'_>, pods: u32) {
    if let Some(Served::Mig { choice, .. }) = job.served.get(bench.pool) {
        draft.land(job, bench.node, choice, pods);
    }
}
