//! `carve run`: a command with a share of a GPU, on one machine and without Kubernetes.

pub(crate) mod args;
mod child;
mod choice;
mod context;
mod mps;
mod overhead;
pub(crate) mod place;
mod slice;

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome};
use crate::machine::{self, Chosen};
use args::{Mechanism, RunArgs};
use carve_limiter_host::{Counters, Limits, RunError, Runs};
use choice::{Part, bytes, percent};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How often to look at what is used, at least; what is held for a shorter time is not seen.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs the command, and ends as it does.
pub(crate) fn run(machine: &MachineArgs, args: &RunArgs) -> Outcome {
    let over_mps = by_mps(args)?;
    let library = match place::library(args.limiter.as_deref()) {
        // MPS can hold a share alone; then nobody counts what is used.
        Err(_) if over_mps && args.limiter.is_none() => None,
        found => Some(found?),
    };
    let chosen = machine::open_for_programs(machine)?;
    let left = || most_left(&chosen, &choice::parts(&chosen, args.gpu.as_deref())?, args);
    let slice = slice::take(machine, args, left)?;
    let own = slice.as_ref().map(|slice| slice.narrow(args));
    let ended = started(&chosen, own.as_ref().unwrap_or(args), over_mps, library.as_deref());
    if let Some(slice) = slice {
        slice.give_back();
    }
    code(ended?)
}

/// Runs the command with what it got.
fn started(
    chosen: &Chosen,
    args: &RunArgs,
    over_mps: bool,
    library: Option<&Path>,
) -> Result<ExitStatus, Failure> {
    let parts = choice::parts(chosen, args.gpu.as_deref())?;
    match library {
        None => {
            let (part, limits) = choose(&parts, args, |_| Ok(Vec::new()), |_, limits| Ok(limits))?;
            start_line(args, "MPS", &part, &limits);
            let mut environment = mps::environment(&limits);
            environment.push(mps::memory(&limits));
            environment.push(("CUDA_VISIBLE_DEVICES", part.uuid.into()));
            child::run(&args.command, &environment, || Duration::from_secs(3_600))
        }
        Some(library) => counted(chosen, args, over_mps, &parts, library),
    }
}

/// Bytes of memory of the part of which most is left.
fn most_left(chosen: &Chosen, parts: &[Part], args: &RunArgs) -> Result<u64, Failure> {
    let runs = Runs::open(&place::root(args.run_dir.as_deref())?).map_err(|error| Failure::of(&error))?;
    let entry = runs.enter().map_err(|error| Failure::of(&error))?;
    let left = |part: &Part| {
        let taken = entry.taken(&part.uuid).unwrap_or_default();
        // The driver keeps some of a whole GPU for itself.
        let reserved =
            part.gpu.and_then(|gpu| chosen.host.memory(gpu).ok()).map_or(0, |memory| memory.reserved.0);
        let all = part.memory.saturating_sub(reserved);
        taken.iter().fold(all, |left, limits| left.saturating_sub(limits.memory))
    };
    Ok(parts.iter().map(left).max().unwrap_or(0))
}

/// Runs the command with the limiter, which holds it to its share or counts what it uses where MPS does.
fn counted(
    chosen: &Chosen,
    args: &RunArgs,
    over_mps: bool,
    parts: &[Part],
    library: &Path,
) -> Result<ExitStatus, Failure> {
    let runs = Runs::open(&place::root(args.run_dir.as_deref())?).map_err(|error| Failure::of(&error))?;
    let entry = runs.enter().map_err(|error| Failure::of(&error))?;
    // Measured while nobody else can start, who would take memory meanwhile.
    let contain = |part: &Part, limits: Limits| {
        let limits = Limits { mps: over_mps && limits.compute > 0, ..limits };
        let known = context::context(chosen, &runs, part, &limits);
        if let (Err(why), false) = (&known, args.quiet) {
            eprintln!("carve: what a process's context takes is not known, so it is beside the share: {why}");
        }
        choice::contain(part, limits, known.unwrap_or(0))
    };
    let (part, limits) = choose(parts, args, |uuid| entry.taken(uuid), contain)?;
    let run = entry.take(library, &part.uuid, &limits).map_err(|error| Failure::of(&error))?;
    start_line(args, if limits.mps { "MPS and the limiter" } else { "the limiter" }, &part, &limits);
    let mut environment = vec![
        ("LD_PRELOAD", preload(run.library().into_os_string())),
        ("CUDA_VISIBLE_DEVICES", part.uuid.clone().into()),
    ];
    if over_mps {
        environment.extend(mps::environment(&limits));
    }
    let (begun, mut peak, mut arbiter) = (Instant::now(), 0, runs.arbiter(&part.uuid));
    // Under MPS contexts and code are the daemon's business.
    let mut watch = overhead::Watch::new(&*chosen.host, part.gpu.filter(|_| !limits.mps));
    let ended = child::run(&args.command, &environment, || {
        watch.look(run.share());
        peak = peak.max(run.share().counters().map_or(0, |counters| counters.memory));
        arbiter.look().min(GLANCE)
    });
    let counters = run.share().counters().unwrap_or_default();
    drop(arbiter);
    let goes_on = run.end();
    let status = ended?;
    if !args.quiet {
        eprintln!("carve: {}", summary(&counters, &limits, peak.max(counters.memory), begun.elapsed()));
        if goes_on {
            eprintln!("carve: the command left processes behind, which keep the share until they end");
        }
    }
    Ok(status)
}

/// Whether MPS holds the share.
fn by_mps(args: &RunArgs) -> Result<bool, Failure> {
    match args.mechanism {
        Mechanism::Limiter => Ok(false),
        // MPS lends nothing.
        Mechanism::Auto => Ok(!args.burst && mps::ask().is_ok()),
        Mechanism::Mps if args.burst => Err(Failure::new("MPS lends no time, so --burst means nothing to it")
            .hint("leave --burst away, or take --mechanism limiter")),
        Mechanism::Mps => match mps::ask() {
            Ok(()) => Ok(true),
            Err(reason) => Err(Failure::new(reason).hint(
                "start one with nvidia-cuda-mps-control -d, name its folder in CUDA_MPS_PIPE_DIRECTORY, or take --mechanism limiter",
            )),
        },
    }
}

/// The first part with room, or why none has.
fn choose(
    parts: &[Part],
    args: &RunArgs,
    taken: impl Fn(&str) -> Result<Vec<Limits>, RunError>,
    contain: impl Fn(&Part, Limits) -> Result<Limits, String>,
) -> Result<(Part, Limits), Failure> {
    let mut refusals = Vec::new();
    let mut too_small = false;
    for part in parts {
        let taken = taken(&part.uuid).map_err(|error| Failure::of(&error))?;
        let fits = choice::fit(part, &taken, args);
        let room = fits.is_ok();
        match fits.and_then(|limits| contain(part, limits)) {
            Ok(limits) => return Ok((part.clone(), limits)),
            Err(refusal) => {
                too_small |= room;
                refusals.push(refusal);
            }
        }
    }
    Err(Failure::new(refusals.join("\n")).hint(match (too_small, args.memory) {
        (true, Some(_)) => "ask for more memory than that",
        (true, None) => "wait until another command ends",
        (false, _) => "ask for less, wait until another command ends, or go ahead with --overcommit",
    }))
}

/// Before whatever else is loaded, so that it sees the program's calls first.
fn preload(library: OsString) -> OsString {
    let mut all = library;
    if let Some(there) = std::env::var_os("LD_PRELOAD").filter(|there| !there.is_empty()) {
        all.push(":");
        all.push(there);
    }
    all
}

fn start_line(args: &RunArgs, mechanism: &str, part: &Part, limits: &Limits) {
    if args.quiet {
        return;
    }
    let time = match (limits.compute, limits.burst) {
        (0, _) => "no limit on time".to_owned(),
        (compute, _) if limits.mps => format!("{} of the multiprocessors", percent(compute)),
        (compute, false) => format!("{} of the time", percent(compute)),
        (compute, true) => format!("{} of the time (more while others are idle)", percent(compute)),
    };
    let (title, uuid, memory) = (&part.title, &part.uuid, bytes(limits.memory));
    eprintln!("carve: {memory} of memory and {time} on {title} ({uuid}), held by {mechanism}");
}

/// What was used, in one line.
fn summary(counters: &Counters, limits: &Limits, peak: u64, elapsed: Duration) -> String {
    let time = if limits.compute == 0 {
        String::new()
    } else if limits.burst || limits.mps {
        // While the limit is lifted, work is counted in pieces of some 50 ms; the last of them is not.
        let (busy, all) = (counters.gpu_time.as_secs_f64(), elapsed.as_secs_f64());
        format!("GPU time at least {busy:.1} s of {all:.1} s, ")
    } else {
        let share = counters.gpu_time.as_secs_f64() / elapsed.as_secs_f64().max(0.001) * 100.0;
        let (busy, all) = (counters.gpu_time.as_secs_f64(), elapsed.as_secs_f64());
        format!(
            "GPU time {busy:.1} s of {all:.1} s ({share:.1} %, its share is {}), ",
            percent(limits.compute)
        )
    };
    let denials = match counters.denials {
        0 => "memory never refused".to_owned(),
        1 => "memory refused once".to_owned(),
        times => format!("memory refused {times} times"),
    };
    let trouble = counters
        .trouble
        .map_or_else(String::new, |trouble| format!("; the limiter may not have held it, because {trouble}"));
    format!("{time}peak memory {} of {}, {denials}{trouble}", bytes(peak), bytes(limits.memory))
}

/// As the command ended, in the way of shells.
fn code(status: ExitStatus) -> Outcome {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    match u8::try_from(code).unwrap_or(1) {
        0 => Ok(()),
        code => Err(Failure { code, ..Failure::silent() }),
    }
}
