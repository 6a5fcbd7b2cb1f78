//! The simulation itself: events in order of time, and after each the queue is asked.

use super::jobs::{Job, PROFILES};
use super::places::{Gpus, InstanceNumber, OnGpu};
use super::{Moves, Order, Policy};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What changing a GPU costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Making an instance, in milliseconds.
    pub create_ms: u64,
    /// Destroying one, in milliseconds.
    pub destroy_ms: u64,
}

impl Costs {
    /// Those of the published benchmark.
    pub const PUBLISHED: Costs = Costs { create_ms: 250, destroy_ms: 100 };
}

/// How long everybody waited.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// For each job, in the order of the trace, from its arrival to its start, in milliseconds.
    pub waits_ms: Vec<u64>,
    /// When the last job ended, in milliseconds.
    pub makespan_ms: u64,
    /// Instances made.
    pub made: u64,
    profiles: Vec<usize>,
}

impl Outcome {
    /// Mean wait, in milliseconds.
    pub fn mean_wait_ms(&self) -> f64 {
        self.waits_ms.iter().sum::<u64>() as f64 / self.waits_ms.len().max(1) as f64
    }

    /// The wait that 95 percent of the jobs stay below.
    pub fn p95_wait_ms(&self) -> u64 {
        let mut sorted = self.waits_ms.clone();
        sorted.sort_unstable();
        let place = sorted.len() * 95 / 100;
        sorted.get(place).copied().unwrap_or(0)
    }

    /// The longest wait of the jobs of a profile of the benchmark.
    pub fn worst_wait_ms(&self, profile: &str) -> u64 {
        let of = self.waits_ms.iter().zip(&self.profiles);
        of.filter(|(_, known)| PROFILES[**known].name == profile).map(|(wait, _)| *wait).max().unwrap_or(0)
    }
}

/// What happens. Ends come before arrivals of the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The job in an instance ends.
    Ended(InstanceNumber),
    /// An instance is gone.
    Gone(InstanceNumber),
    /// A job arrives, by its place in the trace.
    Arrived(usize),
}

/// Runs all jobs on so many H100s. Nothing where a job can not run at all.
pub fn simulate(jobs: &[Job], gpus: usize, policy: Policy, costs: Costs) -> Option<Outcome> {
    let mut gpus = Gpus::new(gpus)?;
    let arrivals = jobs.iter().enumerate().map(|(job, of)| Reverse((of.arrival_ms, Event::Arrived(job))));
    let mut events: BinaryHeap<Reverse<(u64, Event)>> = arrivals.collect();
    let mut queue: Vec<usize> = Vec::new();
    let mut outcome = Outcome {
        waits_ms: vec![0; jobs.len()],
        makespan_ms: 0,
        made: 0,
        profiles: jobs.iter().map(|job| job.profile).collect(),
    };
    let mut next_number = 0;
    while let Some(Reverse((now, event))) = events.pop() {
        match event {
            Event::Arrived(job) => {
                let rank = |job: usize| match policy.order {
                    Order::Arrival => 0,
                    Order::Small => jobs[job].profile as u64,
                    Order::Short => jobs[job].run_ms,
                };
                let place = queue.partition_point(|other| rank(*other) <= rank(job));
                queue.insert(place, job);
            }
            Event::Ended(number) => {
                outcome.makespan_ms = outcome.makespan_ms.max(now);
                if policy.reuse && policy.moves == Moves::None {
                    if let Some(instance) = gpus.get_mut(number) {
                        instance.idle = true;
                    }
                } else {
                    events.push(Reverse((now + costs.destroy_ms, Event::Gone(number))));
                }
            }
            Event::Gone(number) => gpus.remove(number),
        }
        if events.peek().is_some_and(|Reverse((time, _))| *time == now) {
            continue;
        }
        // Nothing is given back while the queue is asked, so a profile that does not fit once is not asked for again.
        let mut fits = [true; PROFILES.len()];
        queue.retain(|job| {
            let profile = jobs[*job].profile;
            if !fits[profile] {
                return true;
            }
            let Some(place) = gpus.find(profile, policy.placing, policy.moves) else {
                fits[profile] = false;
                return true;
            };
            let mut start = now;
            let number = place.taken.unwrap_or(next_number);
            if place.taken.is_some() {
                if let Some(instance) = gpus.get_mut(number) {
                    instance.idle = false;
                }
            } else {
                for gone in &place.destroyed {
                    gpus.remove(*gone);
                }
                start += costs.destroy_ms * place.destroyed.len() as u64 + costs.create_ms;
                gpus.add(place.gpu, OnGpu { number, profile, placed: place.placed, idle: false });
                next_number += 1;
                outcome.made += 1;
            }
            outcome.waits_ms[*job] = start - jobs[*job].arrival_ms;
            events.push(Reverse((start + jobs[*job].run_ms, Event::Ended(number))));
            false
        });
    }
    queue.is_empty().then_some(outcome)
}
