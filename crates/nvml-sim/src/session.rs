//! The one session of the process: counted initialisation, and the guard that every call goes through.

use crate::simulation::Simulation;
use crate::{settings, trace};
use carve_gpu_host::HostFailure;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What an entry answers before it becomes a return code.
pub(crate) type Answer<T = ()> = Result<T, HostFailure>;

/// NVML's code for an error it has no name for.
pub(crate) const UNKNOWN: u32 = 999;

#[derive(Debug)]
struct Session {
    initialised: u32,
    /// Outlives shutdowns: a program that initialises again finds the machine as it left it.
    simulation: Option<Simulation>,
}

static SESSION: Mutex<Session> = Mutex::new(Session { initialised: 0, simulation: None });

/// A panic while holding the lock was answered with UNKNOWN; what it left is still the best state there is.
fn session() -> MutexGuard<'static, Session> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs an entry: no panic leaves it, its failure becomes a code, and the call is recorded. (A build whose panics
/// abort ends the process instead, which is the other way of not unwinding into C.)
pub(crate) fn guard(name: &'static str, entry: impl FnOnce() -> Answer) -> u32 {
    let code = match catch_unwind(AssertUnwindSafe(entry)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => failure.code(),
        Err(_) => UNKNOWN,
    };
    trace::record(name, code);
    code
}

/// Asks the simulation, if NVML is initialised.
pub(crate) fn with<T>(ask: impl FnOnce(&mut Simulation) -> Answer<T>) -> Answer<T> {
    let mut session = session();
    if session.initialised == 0 {
        return Err(HostFailure::Uninitialized);
    }
    let simulation = session.simulation.as_mut().ok_or(HostFailure::Uninitialized)?;
    let answer = ask(simulation);
    if let Some(trouble) = simulation.take_trouble() {
        eprintln!("simulated NVML: {trouble}");
    }
    answer
}

/// One entry of the library.
pub(crate) fn answer(name: &'static str, entry: impl FnOnce(&mut Simulation) -> Answer) -> u32 {
    guard(name, || with(entry))
}

/// Counts an initialisation; the first one reads the settings.
pub(crate) fn initialise() -> Answer {
    let mut session = session();
    if session.initialised == 0 {
        let simulation = match session.simulation.take() {
            Some(known) => known.look_again(),
            None => settings::from_environment()
                .map_err(|error| error.to_string())
                .and_then(|(host, nodes)| Simulation::new(host, nodes)),
        };
        match simulation {
            Ok(simulation) => session.simulation = Some(simulation),
            Err(error) => {
                eprintln!("simulated NVML: {error}");
                return Err(HostFailure::DriverNotLoaded);
            }
        }
    }
    session.initialised += 1;
    Ok(())
}

/// Takes one initialisation back.
pub(crate) fn shut_down() -> Answer {
    let mut session = session();
    session.initialised = session.initialised.checked_sub(1).ok_or(HostFailure::Uninitialized)?;
    Ok(())
}
