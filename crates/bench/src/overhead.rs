//! What the harness itself costs.

use crate::board::Sampler;
use crate::tenants::Tenants;
use crate::{Bench, CellError};
use carve_study::{Overhead, Spread, Strategy, Timing, Workload};
use carve_workload::{Command as Told, Spec};

/// Rounds of the loop that does nothing.
const ROUNDS: u64 = 200_000;

/// Seconds of hard work before anything is measured.
const WAKE_UP: f64 = 1.0;
/// Memory of that work.
const ROOM: u64 = 1 << 30;

impl Bench<'_> {
    /// Lets the card work, so that its clocks are up and the first cell is no worse off than the others. What goes wrong here goes wrong in
    /// the cells, too, and is told there.
    pub(crate) fn wake(&mut self) {
        let Ok(stage) = self.stage(Strategy::Dedicated, 1) else { return };
        let mut tenants = Tenants::none();
        let spec = Spec { memory: Some(ROOM), ..stage.spec(Workload::Burn, 0) };
        let mut sampler = Sampler::new(self.gpu.index);
        let started = tenants.start(self.command(&stage, 0, &spec));
        let ready = started.and_then(|_| tenants.ready(&mut self.meanwhile(&mut sampler)));
        let _ = ready
            .and_then(|()| tenants.all(Told::Window(WAKE_UP), WAKE_UP, &mut self.meanwhile(&mut sampler)));
    }

    pub(crate) fn overhead(&mut self, timing: &Timing) -> Result<Overhead, CellError> {
        let (mut rounds, mut launches) = (Vec::new(), Vec::new());
        let stage = self.stage(Strategy::Dedicated, 1)?;
        let mut tenants = Tenants::none();
        tenants.start(self.command(&stage, 0, &stage.spec(Workload::Empty, 0)))?;
        let mut sampler = Sampler::new(self.gpu.index);
        tenants.ready(&mut self.meanwhile(&mut sampler))?;
        tenants.all(Told::Window(timing.warm_up), timing.warm_up, &mut self.meanwhile(&mut sampler))?;
        for _ in 0..timing.windows.max(3) {
            for done in tenants.all(Told::Job(ROUNDS), 1.0, &mut self.meanwhile(&mut sampler))? {
                rounds.push(done.seconds / done.pieces.max(1) as f64 * 1e9);
            }
            for done in
                tenants.all(Told::Window(timing.window), timing.window, &mut self.meanwhile(&mut sampler))?
            {
                launches.push(done.seconds / done.pieces.max(1) as f64 * 1e6);
            }
        }
        let nothing = || CellError::Tenant { which: 1, why: "it measured nothing".to_owned() };
        Ok(Overhead {
            round_ns: Spread::of(&rounds).ok_or_else(nothing)?,
            launch_us: Spread::of(&launches).ok_or_else(nothing)?,
        })
    }

    /// What is done while tenants work: look at the board, and whether the run is to end.
    pub(crate) fn meanwhile<'s>(
        &'s self,
        sampler: &'s mut Sampler,
    ) -> impl FnMut() -> Result<(), CellError> + 's {
        move || {
            sampler.look(&*self.host);
            if self.is_stopped() { Err(CellError::Stopped) } else { Ok(()) }
        }
    }
}
