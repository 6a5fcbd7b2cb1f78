//! A process of tenants: makes them ready, tells each of them what it is told, and says how it went.

use crate::kernels::{Kernels, Programs};
use crate::offend::offend;
use crate::pace::{self, Random};
use crate::spec::{Command, Done, Inside, Reply, Spec};
use crate::work::{Place, prepare};
use carve_cuda::{Attribute, Cuda, CudaError, OpenError};
use carve_study::Workload;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Why a process of tenants can not go on.
#[derive(Debug, Error)]
enum TenantError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error("{0}")]
    Told(String),
}

/// What a tenant says.
enum Said {
    Ready { memory: u64 },
    Done(Done),
    Offended(String),
    Failed(String),
}

/// Does what a process of tenants is told: the spec as JSON first, then commands, one a line, until there are no more. Answers the exit code.
pub fn tenant_main(spec: &str, commands: impl BufRead, data: &mut dyn Write) -> io::Result<u8> {
    let spec: Spec = match serde_json::from_str(spec) {
        Ok(spec) => spec,
        Err(error) => {
            say(data, &Reply::Failed(format!("the spec is none: {error}")))?;
            return Ok(2);
        }
    };
    match Cuda::open(None) {
        Ok(cuda) => thread::scope(|scope| {
            let (say_back, said) = channel();
            let mut orders = Vec::new();
            for which in 0..spec.tenants {
                let (order, ordered) = channel();
                orders.push(order);
                let (cuda, spec, say_back) = (&cuda, &spec, say_back.clone());
                scope.spawn(move || live(cuda, spec, which, &ordered, &say_back));
            }
            drop(say_back);
            talk(commands, data, orders, &said)
        }),
        Err(error) => {
            say(data, &Reply::Failed(error.to_string()))?;
            Ok(1)
        }
    }
}

fn say(data: &mut dyn Write, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_string(reply)?;
    line.push('\n');
    data.write_all(line.as_bytes())?;
    data.flush()
}

/// Passes commands on and collects what comes back. Ends when there are no more commands or a tenant can not go on.
fn talk(
    commands: impl BufRead,
    data: &mut dyn Write,
    orders: Vec<Sender<Command>>,
    said: &Receiver<(u32, Said)>,
) -> io::Result<u8> {
    if let Some(failure) = answer(data, &orders, said)? {
        return Ok(failure);
    }
    for line in commands.lines() {
        let line = line?;
        let command: Command = match serde_json::from_str(&line) {
            Ok(command) => command,
            Err(error) => {
                say(data, &Reply::Failed(format!("'{line}' is no command: {error}")))?;
                return Ok(2);
            }
        };
        for order in &orders {
            // One that has gone says so itself.
            let _ = order.send(command);
        }
        if let Some(failure) = answer(data, &orders, said)? {
            return Ok(failure);
        }
    }
    Ok(0)
}

/// Waits until every tenant has said something, and says it together.
fn answer(
    data: &mut dyn Write,
    orders: &[Sender<Command>],
    said: &Receiver<(u32, Said)>,
) -> io::Result<Option<u8>> {
    let (mut memory, mut done) = (vec![None; orders.len()], vec![None; orders.len()]);
    let mut offended = None;
    for _ in orders {
        let Ok((which, said)) = said.recv() else {
            say(data, &Reply::Failed("a tenant has gone without a word".to_owned()))?;
            return Ok(Some(1));
        };
        match said {
            Said::Ready { memory: bytes } => memory[which as usize] = Some(bytes >> 20),
            Said::Done(did) => done[which as usize] = Some(did),
            Said::Offended(met) => offended = Some(met),
            Said::Failed(why) => {
                say(data, &Reply::Failed(why))?;
                return Ok(Some(1));
            }
        }
    }
    let mut done: Vec<Done> = done.into_iter().flatten().collect();
    let reply = match (offended, done.len()) {
        (Some(offended), 1) => Reply::Both { done: done.remove(0), offended },
        (Some(offended), _) => Reply::Offended(offended),
        (None, 0) => Reply::Ready { memory_mib: memory.into_iter().flatten().collect() },
        (None, _) => Reply::Done(done),
    };
    say(data, &reply)?;
    Ok(None)
}

/// One tenant from its beginning to its end.
fn live(cuda: &Cuda, spec: &Spec, which: u32, ordered: &Receiver<Command>, say_back: &Sender<(u32, Said)>) {
    if let Err(error) = work(cuda, spec, which, ordered, say_back) {
        // Nobody listens any more where the process is about to end.
        let _ = say_back.send((which, Said::Failed(error.to_string())));
    }
}

fn work(
    cuda: &Cuda,
    spec: &Spec,
    which: u32,
    ordered: &Receiver<Command>,
    say_back: &Sender<(u32, Said)>,
) -> Result<(), TenantError> {
    let device = cuda.device(0)?;
    let context = match spec.inside {
        Inside::GreenContexts => device.green_context(which, spec.tenants)?,
        Inside::Streams => device.context()?,
    };
    let multiprocessors = match context.own_multiprocessors() {
        Some(own) => own,
        None => device.attribute(Attribute::Multiprocessors)?,
    };
    let programs = Programs::load(&context, device)?;
    let (stream, kernels) = (context.stream()?, Kernels::find(&programs)?);
    let place = Place { context: &context, stream: &stream, kernels: &kernels, multiprocessors };
    let room = spec.memory.map(|memory| memory / u64::from(spec.tenants));
    let mut work = prepare(&place, spec, room)?;
    let mut random = Random::new(spec.seed.wrapping_add(u64::from(which)));
    let gone = || TenantError::Told("the process is about to end".to_owned());
    say_back.send((which, Said::Ready { memory: work.memory() })).map_err(|_| gone())?;
    for command in ordered {
        let said = match command {
            Command::Window(seconds) if spec.workload == Workload::Empty => {
                Said::Done(launches(&place, seconds))
            }
            Command::Window(seconds) => Said::Done(pace::window(seconds, || work.piece())),
            Command::Job(pieces) => Said::Done(pace::job(pieces, || work.piece())),
            Command::Open { rate, seconds } => {
                Said::Done(pace::open(rate, seconds, &mut random, || work.piece()))
            }
            Command::Together { seconds, .. } if which == 0 => {
                Said::Done(pace::window(seconds, || work.piece()))
            }
            Command::Together { offence, after, seconds } => {
                thread::sleep(Duration::from_secs_f64(after));
                Said::Offended(offend(&place, offence, (seconds - after) / 2.0))
            }
            Command::Offend { offence, seconds } => Said::Offended(offend(&place, offence, seconds)),
        };
        say_back.send((which, said)).map_err(|_| gone())?;
    }
    Ok(())
}

/// Launches of a kernel that does nothing, one after the other.
fn launches(place: &Place<'_>, seconds: f64) -> Done {
    pace::window(seconds, || {
        place.kernels.empty(place.stream)?;
        place.stream.synchronise()?;
        Ok::<f64, CudaError>(1.0)
    })
}
