//! What light inference has of a neighbour with whom something goes wrong.

use crate::board::Sampler;
use crate::stage::Stage;
use crate::tenants::{PATIENCE, Tenants};
use crate::{Bench, CellError};
use carve_study::{Happened, Mishap, Strategy, Workload};
use carve_workload::{Command as Told, Done, Offence, Reply, Spec};
use std::thread::sleep;
use std::time::Duration;

/// How long the neighbour is looked at.
const SECONDS: f64 = 2.4;
/// When it happens.
const WHEN: f64 = 1.0;
/// Tenths of a second that count as before, and as after it is over.
const BEFORE: std::ops::Range<usize> = 1..9;
const AFTER: std::ops::Range<usize> = 21..23;
/// How long memory is kept from others.
const HELD: f64 = 1.0;
/// Memory of the tenant that is killed while it works.
const KILLED_WITH: u64 = 1 << 30;
const WARM_UP: f64 = 0.3;
/// How often a new tenant may try to start afterwards, and the time between.
const TRIES: u32 = 2;
const BETWEEN: Duration = Duration::from_secs(1);

/// What became of both.
struct Came {
    offender: String,
    victim: Result<Done, String>,
}

impl Bench<'_> {
    pub(crate) fn mishap(&mut self, mishap: Mishap, strategy: Strategy) -> Result<Happened, CellError> {
        let stage = self.stage(strategy, 2)?;
        let came = if strategy.is_one_process() {
            self.in_one_process(mishap, &stage)?
        } else {
            self.between_processes(mishap, &stage)?
        };
        let next_works = self.next_works(&stage)?;
        let (done, error) = match came.victim {
            Ok(done) => (Some(done.clone()), done.error),
            Err(why) => (None, Some(why)),
        };
        let rate = |range: std::ops::Range<usize>| {
            let tenths = done.as_ref().map(|done| done.tenths.as_slice()).unwrap_or_default();
            let seconds = range.len() as f64 / 10.0;
            range.filter_map(|tenth| tenths.get(tenth)).sum::<u32>() as f64 / seconds
        };
        Ok(Happened {
            offender: came.offender,
            survived: error.is_none(),
            before: rate(BEFORE),
            after: if error.is_none() { rate(AFTER) } else { 0.0 },
            error,
            longest_gap_ms: done.as_ref().map_or(0.0, |done| done.longest_gap_ms),
            next_works,
        })
    }

    fn victim(&self, mishap: Mishap, stage: &Stage) -> Spec {
        // Who never asks for memory does not notice that there is none.
        Spec { takes_memory: mishap == Mishap::OutOfMemory, ..stage.spec(Workload::Light, 1) }
    }

    fn between_processes(&self, mishap: Mishap, stage: &Stage) -> Result<Came, CellError> {
        let mut sampler = Sampler::new(self.gpu.index);
        let (mut victim, mut offender) = (Tenants::none(), Tenants::none());
        victim.start(self.command(stage, 0, &self.victim(mishap, stage)))?;
        let spec = match mishap {
            Mishap::Kill => Spec { memory: Some(KILLED_WITH), ..stage.spec(Workload::Burn, 2) },
            Mishap::Fault | Mishap::OutOfMemory => stage.spec(Workload::Batch, 2),
        };
        offender.start(self.command(stage, 1, &spec))?;
        victim.ready(&mut self.meanwhile(&mut sampler))?;
        offender.ready(&mut self.meanwhile(&mut sampler))?;
        victim.all(Told::Window(WARM_UP), WARM_UP, &mut self.meanwhile(&mut sampler))?;
        if mishap == Mishap::Kill {
            offender.tell(0, Told::Window(SECONDS * 2.0))?;
        }
        victim.tell(0, Told::Window(SECONDS))?;
        sleep(Duration::from_secs_f64(WHEN));
        let offended = match mishap {
            Mishap::Kill => {
                offender.kill(0);
                "was killed while a kernel of it ran".to_owned()
            }
            Mishap::Fault | Mishap::OutOfMemory => {
                offender.tell(0, Told::Offend { offence: offence(mishap), seconds: HELD })?;
                let replies = offender.replies(HELD + PATIENCE, &mut self.meanwhile(&mut sampler));
                met(replies)?
            }
        };
        let victim = match victim.replies(SECONDS + PATIENCE, &mut self.meanwhile(&mut sampler)) {
            Ok(replies) => replies
                .into_iter()
                .find_map(|(_, reply, _)| match reply {
                    Reply::Done(done) => done.into_iter().next(),
                    _ => None,
                })
                .ok_or_else(|| "it said nothing".to_owned()),
            Err(CellError::Stopped) => return Err(CellError::Stopped),
            Err(error) => Err(error.to_string()),
        };
        Ok(Came { offender: offended, victim })
    }

    fn in_one_process(&self, mishap: Mishap, stage: &Stage) -> Result<Came, CellError> {
        let mut sampler = Sampler::new(self.gpu.index);
        let mut both = Tenants::none();
        both.start(self.command(stage, 0, &self.victim(mishap, stage)))?;
        both.ready(&mut self.meanwhile(&mut sampler))?;
        both.all(Told::Window(WARM_UP), WARM_UP, &mut self.meanwhile(&mut sampler))?;
        if mishap == Mishap::Kill {
            both.tell(0, Told::Window(SECONDS))?;
            sleep(Duration::from_secs_f64(WHEN));
            both.kill(0);
            let offender = "was killed while a kernel of it ran".to_owned();
            return Ok(Came { offender, victim: Err("it is the same process".to_owned()) });
        }
        both.tell(0, Told::Together { offence: offence(mishap), after: WHEN, seconds: SECONDS })?;
        match both.replies(SECONDS + PATIENCE, &mut self.meanwhile(&mut sampler)) {
            Ok(replies) => {
                let both = replies.into_iter().find_map(|(_, reply, _)| match reply {
                    Reply::Both { done, offended } => Some(Came { offender: offended, victim: Ok(done) }),
                    _ => None,
                });
                both.ok_or_else(|| CellError::Tenant { which: 1, why: "it said nothing".to_owned() })
            }
            Err(CellError::Stopped) => Err(CellError::Stopped),
            Err(error) => Ok(Came { offender: error.to_string(), victim: Err(error.to_string()) }),
        }
    }

    /// Whether a new tenant can start and work.
    fn next_works(&self, stage: &Stage) -> Result<bool, CellError> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                sleep(BETWEEN);
            }
            let mut sampler = Sampler::new(self.gpu.index);
            let mut tenants = Tenants::none();
            tenants.start(self.command(stage, 0, &stage.spec(Workload::Light, 3)))?;
            let ready = tenants.ready(&mut self.meanwhile(&mut sampler));
            let worked = ready.and_then(|()| {
                tenants.all(Told::Window(WARM_UP), WARM_UP, &mut self.meanwhile(&mut sampler))
            });
            match worked {
                Ok(_) => return Ok(true),
                Err(CellError::Stopped) => return Err(CellError::Stopped),
                Err(_) => {}
            }
        }
        Ok(false)
    }
}

fn offence(mishap: Mishap) -> Offence {
    match mishap {
        Mishap::OutOfMemory => Offence::OutOfMemory,
        Mishap::Fault | Mishap::Kill => Offence::Fault,
    }
}

/// What an offender met. That it ends at once is what may come of it.
fn met(replies: Result<Vec<(usize, Reply, std::time::Instant)>, CellError>) -> Result<String, CellError> {
    match replies {
        Ok(replies) => Ok(replies
            .into_iter()
            .find_map(|(_, reply, _)| match reply {
                Reply::Offended(met) => Some(met),
                _ => None,
            })
            .unwrap_or_else(|| "it said nothing".to_owned())),
        Err(CellError::Stopped) => Err(CellError::Stopped),
        Err(error) => Ok(error.to_string()),
    }
}
