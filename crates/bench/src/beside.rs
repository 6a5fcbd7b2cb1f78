//! What one tenant has of a neighbour that does something else.

use crate::board::Sampler;
use crate::tenants::Tenants;
use crate::{Bench, CellError};
use carve_study::{Beside, Spread, Strategy, Timing, Victim, Workload};
use carve_workload::{Command as Told, Done};
use std::thread::sleep;
use std::time::Duration;

/// Until the neighbour is under way.
const UNDER_WAY: f64 = 0.2;

impl Bench<'_> {
    pub(crate) fn beside(
        &mut self,
        (victim, aggressor): (Workload, Workload),
        strategy: Strategy,
        (pass, timing): (u32, &Timing),
    ) -> Result<Beside, CellError> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let seed = u64::from(pass) * 1000;
        let stage = self.stage(strategy, 2)?;
        let mut sampler = Sampler::new(self.gpu.index);
        let mut tenants = Tenants::none();
        tenants.start(self.command(&stage, 0, &stage.spec(victim, seed + 1)))?;
        tenants.ready(&mut self.meanwhile(&mut sampler))?;
        tenants.all(Told::Window(timing.warm_up), timing.warm_up, &mut self.meanwhile(&mut sampler))?;
        self.windows(&mut tenants, timing, &mut sampler, &mut alone)?;

        let mut neighbour = Tenants::none();
        neighbour.start(self.command(&stage, 1, &stage.spec(aggressor, seed + 2)))?;
        neighbour.ready(&mut self.meanwhile(&mut sampler))?;
        let seconds = UNDER_WAY * 2.0 + timing.window * f64::from(timing.windows);
        neighbour.tell(0, Told::Window(seconds))?;
        sleep(Duration::from_secs_f64(UNDER_WAY));
        self.windows(&mut tenants, timing, &mut sampler, &mut beside)?;
        neighbour.done(seconds, &mut self.meanwhile(&mut sampler))?;
        let nothing = || CellError::Tenant { which: 1, why: "it measured nothing".to_owned() };
        Ok(Beside {
            alone: looked_at(victim, &alone).ok_or_else(nothing)?,
            beside: looked_at(victim, &beside).ok_or_else(nothing)?,
        })
    }

    fn windows(
        &self,
        tenants: &mut Tenants,
        timing: &Timing,
        sampler: &mut Sampler,
        into: &mut Vec<Done>,
    ) -> Result<(), CellError> {
        for _ in 0..timing.windows {
            into.extend(tenants.all(
                Told::Window(timing.window),
                timing.window,
                &mut self.meanwhile(sampler),
            )?);
        }
        Ok(())
    }
}

fn looked_at(workload: Workload, windows: &[Done]) -> Option<Victim> {
    let rates: Vec<f64> = windows.iter().map(|done| done.amount / done.seconds.max(1e-9)).collect();
    let p99: Vec<f64> = windows.iter().map(|done| done.p99_ms).collect();
    let p99_ms = if workload.is_inference() { Spread::of(&p99) } else { None };
    Some(Victim { rate: Spread::of(&rates)?, p99_ms })
}
