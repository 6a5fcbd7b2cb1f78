//! Tenants that do the same.

use crate::board::Sampler;
use crate::tenants::Tenants;
use crate::{Bench, CellError};
use carve_study::{Shared, Spread, Strategy, Study, Tenant, Timing, Workload};
use carve_workload::{Command as Told, Done};
use std::time::Instant;

/// Open loops get this part of what one tenant answers that has the card to itself.
const LOAD: f64 = 0.3;

/// What was seen of one tenant, window by window.
#[derive(Debug, Default)]
struct Seen {
    rate: Vec<f64>,
    p50: Vec<f64>,
    p95: Vec<f64>,
    p99: Vec<f64>,
    completion: Vec<f64>,
    start_up: Vec<f64>,
    memory_mib: u64,
}

/// What tenants are told in each window.
#[derive(Debug, Clone, Copy)]
enum Pace {
    Window,
    /// So many pieces, which are so many products.
    Job(u64, f64),
    Open(f64),
}

impl Pace {
    /// Jobs are as long as a tenant with the card to itself needs a window for; requests are a part of what it answers.
    fn of(workload: Workload, study: &Study, timing: &Timing, warm_up: &[Done]) -> Result<Pace, CellError> {
        if let Some(closed) = workload.closed() {
            let alone = study.dedicated(closed).map(|shared| shared.total.median * LOAD);
            return alone.map(Pace::Open).ok_or_else(|| {
                CellError::NotHere(format!(
                    "how many requests to send is told by {closed}/dedicated/1, which has no figures"
                ))
            });
        }
        if !workload.is_job() {
            return Ok(Pace::Window);
        }
        let Some(done) = warm_up.first() else { return Ok(Pace::Window) };
        let (rate, products) =
            (done.pieces as f64 / done.seconds.max(1e-9), done.amount / done.pieces.max(1) as f64);
        let known = study.dedicated(workload).and_then(|shared| shared.tenants.first()?.job);
        let pieces = known.map(|job| (job as f64 / products.max(1.0)).round() as u64);
        Ok(Pace::Job(pieces.unwrap_or((rate * timing.window) as u64).max(1), products))
    }

    fn told(self, timing: &Timing) -> Told {
        match self {
            Pace::Window => Told::Window(timing.window),
            Pace::Job(pieces, _) => Told::Job(pieces),
            Pace::Open(rate) => Told::Open { rate, seconds: timing.window },
        }
    }

    /// Of which the amount a second is counted. A job's time is its own; requests count for the time in which they came.
    fn seconds(self, timing: &Timing, done: &Done) -> f64 {
        match self {
            Pace::Open(_) => timing.window.max(done.seconds),
            Pace::Window | Pace::Job(..) => done.seconds.max(1e-9),
        }
    }
}

impl Bench<'_> {
    pub(crate) fn share(
        &mut self,
        (workload, strategy, count): (Workload, Strategy, u32),
        (pass, timing): (u32, Timing),
        study: &Study,
    ) -> Result<Shared, CellError> {
        let mut seen: Vec<Seen> = (0..count).map(|_| Seen::default()).collect();
        let mut totals = Vec::new();
        let mut sampler = Sampler::new(self.gpu.index);
        let begun = Instant::now();
        let stage = self.stage(strategy, count)?;
        let daemon = stage.has_daemon().then(|| begun.elapsed().as_secs_f64());
        let mut tenants = Tenants::none();
        for which in 0..stage.processes() {
            let seed = u64::from(pass) * 1000 + u64::from(which);
            tenants.start(self.command(&stage, which, &stage.spec(workload, seed)))?;
        }
        let mut unseen = Sampler::new(self.gpu.index);
        tenants.ready(&mut self.meanwhile(&mut unseen))?;
        note_start(&mut seen, &tenants);
        let warm_up = Told::Window(timing.warm_up);
        let warm = tenants.all(warm_up, timing.warm_up, &mut self.meanwhile(&mut unseen))?;
        let pace = Pace::of(workload, study, &timing, &warm)?;
        for _ in 0..timing.windows {
            let told = pace.told(&timing);
            let done = tenants.all(told, timing.window * 8.0, &mut self.meanwhile(&mut sampler))?;
            let mut total = 0.0;
            for (one, done) in seen.iter_mut().zip(&done) {
                let rate = done.amount / pace.seconds(&timing, done);
                total += rate;
                one.rate.push(rate);
                one.p50.push(done.p50_ms);
                one.p95.push(done.p95_ms);
                one.p99.push(done.p99_ms);
                one.completion.push(done.seconds);
            }
            totals.push(total);
        }
        let job = match pace {
            Pace::Job(pieces, products) => Some((pieces as f64 * products) as u64),
            _ => None,
        };
        let arrivals = match pace {
            Pace::Open(rate) => Some(rate),
            _ => None,
        };
        let tenants: Option<Vec<Tenant>> =
            seen.iter().map(|one| one.tenant(workload, job, arrivals)).collect();
        let nothing = || CellError::Tenant { which: 1, why: "it measured nothing".to_owned() };
        Ok(Shared {
            tenants: tenants.ok_or_else(nothing)?,
            total: Spread::of(&totals).ok_or_else(nothing)?,
            daemon_s: daemon.and_then(|seconds| Spread::of(&[seconds])),
            board: sampler.board(),
        })
    }
}

/// When each tenant was ready, and what it holds. Tenants of one process are ready together.
fn note_start(seen: &mut [Seen], tenants: &Tenants) {
    let each = tenants
        .processes()
        .iter()
        .flat_map(|process| process.memory_mib.iter().map(|memory| (process.start_up, *memory)));
    for (one, (start_up, memory)) in seen.iter_mut().zip(each) {
        one.start_up.push(start_up);
        one.memory_mib = memory;
    }
}

impl Seen {
    fn tenant(&self, workload: Workload, job: Option<u64>, arrivals: Option<f64>) -> Option<Tenant> {
        let latency = |all: &[f64]| if workload.is_inference() { Spread::of(all) } else { None };
        Some(Tenant {
            rate: Spread::of(&self.rate)?,
            p50_ms: latency(&self.p50),
            p95_ms: latency(&self.p95),
            p99_ms: latency(&self.p99),
            completion_s: job.and_then(|_| Spread::of(&self.completion)),
            job,
            arrivals,
            start_up_s: Spread::of(&self.start_up)?,
            memory_mib: self.memory_mib,
        })
    }
}
