//! The simulation itself: events in order of time, and after each the queue is asked.

use super::jobs::{Job, PROFILES};
use super::places::{Gpus, InstanceNumber, OnGpu, Place, Waiting};
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

/// A decision: a job gets a place. Moves that come later are not written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// When it was decided, in milliseconds.
    pub decided_ms: u64,
    /// When the job starts, its instance made, in milliseconds.
    pub start_ms: u64,
    /// The job, by its place in the trace.
    pub job: usize,
    /// The GPU.
    pub gpu: usize,
    /// The first memory slot of the instance.
    pub slot: u8,
}

/// How long everybody waited.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// For each job, in the order of the trace, from its arrival to its start, in milliseconds.
    pub waits_ms: Vec<u64>,
    /// All decisions, in their order.
    pub starts: Vec<Start>,
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
    /// A job has waited as long as the policy lets it wait for a better place, so the queue is asked again.
    Impatient,
}

/// Runs all jobs on so many H100s. Nothing where a job can not run at all.
pub fn simulate(jobs: &[Job], gpus: usize, policy: Policy, costs: Costs) -> Option<Outcome> {
    let arrivals = jobs.iter().enumerate().map(|(job, of)| Reverse((of.arrival_ms, Event::Arrived(job))));
    let mut run = Run {
        jobs,
        policy,
        costs,
        gpus: Gpus::new(gpus)?,
        events: arrivals.collect(),
        queue: Vec::new(),
        waiting: [0; PROFILES.len()],
        next_number: 0,
        outcome: Outcome {
            waits_ms: vec![0; jobs.len()],
            starts: Vec::with_capacity(jobs.len()),
            makespan_ms: 0,
            made: 0,
            profiles: jobs.iter().map(|job| job.profile).collect(),
        },
    };
    while let Some(Reverse((now, event))) = run.events.pop() {
        run.happens(now, event);
        if run.events.peek().is_some_and(|Reverse((time, _))| *time == now) {
            continue;
        }
        // Who held back for somebody who has a place now is asked again.
        while run.ask(now) && policy.patience_ms > 0 {}
    }
    run.queue.is_empty().then_some(run.outcome)
}

/// A simulation on its way. Run times are read in two places only: to know when a running job ends, and for [`Order::Short`].
struct Run<'a> {
    jobs: &'a [Job],
    policy: Policy,
    costs: Costs,
    gpus: Gpus,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Jobs that wait, by their places in the trace, in the order of the policy.
    queue: Vec<usize>,
    /// How many of each profile wait.
    waiting: [usize; PROFILES.len()],
    next_number: InstanceNumber,
    outcome: Outcome,
}

impl Run<'_> {
    fn happens(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrived(job) => {
                let rank = |job: usize| match self.policy.order {
                    Order::Arrival => 0,
                    Order::Small => self.jobs[job].profile as u64,
                    Order::Short => self.jobs[job].run_ms,
                };
                let place = self.queue.partition_point(|other| rank(*other) <= rank(job));
                self.queue.insert(place, job);
                self.waiting[self.jobs[job].profile] += 1;
                if self.policy.patience_ms > 0 {
                    self.events.push(Reverse((now + self.policy.patience_ms, Event::Impatient)));
                }
            }
            Event::Ended(number) => {
                self.outcome.makespan_ms = self.outcome.makespan_ms.max(now);
                if self.policy.reuse && self.policy.moves == Moves::None {
                    if let Some(instance) = self.gpus.get_mut(number) {
                        instance.idle = true;
                    }
                } else {
                    self.events.push(Reverse((now + self.costs.destroy_ms, Event::Gone(number))));
                }
            }
            Event::Gone(number) => self.gpus.remove(number),
            Event::Impatient => {}
        }
    }

    /// Asks everybody in the queue once, and says whether anybody got a place.
    fn ask(&mut self, now: u64) -> bool {
        let before = self.queue.len();
        // Nothing is given back meanwhile, so who does not fit once is not asked for again; patient and impatient jobs apart.
        let mut fits = [[true; 2]; PROFILES.len()];
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|job| {
            let profile = self.jobs[*job].profile;
            let waited_ms = now - self.jobs[*job].arrival_ms;
            let fits = &mut fits[profile][usize::from(waited_ms >= self.policy.patience_ms)];
            if !*fits {
                return true;
            }
            match self.gpus.find(Waiting { profile, waited_ms, queue: self.waiting }, self.policy) {
                Some(place) => self.start(now, *job, &place),
                None => *fits = false,
            }
            !*fits
        });
        self.queue = queue;
        self.queue.len() < before
    }

    fn start(&mut self, now: u64, job: usize, place: &Place) {
        let profile = self.jobs[job].profile;
        let mut start_ms = now;
        let number = place.taken.unwrap_or(self.next_number);
        if place.taken.is_some() {
            if let Some(instance) = self.gpus.get_mut(number) {
                instance.idle = false;
            }
        } else {
            for gone in &place.destroyed {
                self.gpus.remove(*gone);
            }
            start_ms += self.costs.destroy_ms * place.destroyed.len() as u64 + self.costs.create_ms;
            self.gpus.add(place.gpu, OnGpu { number, profile, placed: place.placed, idle: false });
            self.next_number += 1;
            self.outcome.made += 1;
        }
        self.waiting[profile] -= 1;
        self.outcome.waits_ms[job] = start_ms - self.jobs[job].arrival_ms;
        let slot = place.placed.start;
        self.outcome.starts.push(Start { decided_ms: now, start_ms, job, gpu: place.gpu, slot });
        self.events.push(Reverse((start_ms + self.jobs[job].run_ms, Event::Ended(number))));
    }
}
