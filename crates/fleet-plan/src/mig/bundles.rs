//! Pods of several MIG devices, and pods for which the planner's devices were on the wrong machine: one after another.

use super::bench::{Bench, sum};
use super::ledger::Taken;
use super::{Counts, Cutting, wants};

impl Cutting<'_, '_> {
    /// Places pods of several devices where they fit first.
    pub(super) fn bundles(&mut self) {
        let several = |cutting: &Self, job: usize| super::devices_of(&cutting.jobs[job]) > 1;
        self.one_by_one(several);
    }

    /// Places what is left wherever there is room for it, a pod at a time.
    pub(super) fn leftovers(&mut self) {
        self.one_by_one(|cutting, job| super::devices_of(&cutting.jobs[job]) == 1);
    }

    fn one_by_one(&mut self, chosen: impl Fn(&Self, usize) -> bool) {
        let jobs: Vec<usize> = (0..self.jobs.len()).filter(|job| chosen(self, *job)).collect();
        for bench in 0..self.benches.len() {
            for job in &jobs {
                self.fill(*job, bench);
            }
        }
    }

    /// As many pods of a job on one machine as fit there.
    fn fill(&mut self, index: usize, at: usize) {
        let (job, bench) = (&mut self.jobs[index], &mut self.benches[at]);
        let Some((devices, together)) = wants(job, bench.pool) else { return };
        let Some(product) = self.products.get(bench.pool).and_then(Option::as_ref) else { return };
        let Some(wanted) = product.counts(devices) else { return };
        if job.follows.as_ref().is_some_and(|claim| self.draft.held.get(claim) != Some(&bench.node)) {
            return;
        }
        let parts = if job.pod.same_gpu { vec![wanted] } else { one_by_one(&wanted) };
        let mut landed = 0;
        while job.pods > 0 {
            let pods = u64::from(job.pods.min(together)).min(bench.host_room(&job.pod)) as u32;
            let mut tried = bench.gpus.clone();
            let mut taken: Vec<(usize, &Counts)> = Vec::new();
            for part in &parts {
                let Some(gpu) = Bench::place_for(&tried, part, product).filter(|_| pods > 0) else { break };
                tried[gpu] = sum(&tried[gpu], part);
                taken.push((gpu, part));
            }
            if pods == 0 || taken.len() < parts.len() {
                break;
            }
            for (gpu, part) in taken {
                for (slot, count) in part.iter().enumerate() {
                    for _ in 0..*count {
                        self.ledger.take(Taken { job: index, bench: at, gpu, slot });
                    }
                }
            }
            bench.gpus = tried;
            bench.take_host(&job.pod, u64::from(pods));
            job.pods -= pods;
            landed += pods;
        }
        if landed > 0 {
            super::singles::land(job, bench, self.draft, landed);
        }
    }
}

/// Each device by itself, the largest first.
fn one_by_one(wanted: &Counts) -> Vec<Counts> {
    let mut parts = Vec::new();
    for (slot, count) in wanted.iter().enumerate().rev() {
        for _ in 0..*count {
            let mut part = vec![0; wanted.len()];
            part[slot] = 1;
            parts.push(part);
        }
    }
    parts
}
