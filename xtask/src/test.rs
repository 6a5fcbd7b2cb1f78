//! The README's test command: every check the project has, with the time each took.
//!
//! ```text
//!  build programs, suites ─▶ suites in two labs, which mostly wait ────▶ test programs, two at a time ─▶ the page, its API, packages
//!                         └▶ build test programs, lints, each crate     ┘
//!                            alone, dependencies, book, fuzz targets, with
//!                            what the labs leave of the processors
//! ```

use crate::passed::{Sources, unless_passed};
use crate::programs::{self, TestProgram};
use crate::queue::{Place, SILENT, run_all};
use crate::run::{cargo, forget_earlier_clones, run};
use crate::suites::{self, Told};
use crate::times::Times;
use crate::{
    alone, api, book, cuda_symbols, deny, dist, fuzz, incumbents, limiter, page, permissions, previous,
    properties, suite_runs, tidy,
};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Everything under CI=true, where a skipped test is a failed one.
pub(crate) fn ci() -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    run(command.arg("test").env("CI", "true"))
}

/// The steps that were done, and how long each took.
#[derive(Default)]
struct Steps(Mutex<Vec<(&'static str, Duration)>>);

impl Steps {
    fn step<T>(&self, name: &'static str, act: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("── {name}");
        let start = Instant::now();
        let done = act().with_context(|| format!("step '{name}' failed"));
        let time = start.elapsed();
        if let Err(error) = &done {
            // Said at once, because another lane may go on for long.
            eprintln!("── {error:#}");
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, time));
        done
    }

    fn tell(self, times: &Times) -> String {
        let mut steps = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        steps.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let line = |(name, time): (&str, Duration)| format!("\n   {:>7.1} s  {name}", time.as_secs_f64());
        let steps: String = steps.into_iter().map(line).collect();
        let programs: String = times.slowest().into_iter().map(line).collect();
        let told =
            format!("── steps, slowest first:{steps}\n── slowest suites and test programs:{programs}\n");
        eprint!("{told}");
        told
    }
}

/// What is built before anything is tried.
struct Built {
    incumbents: Option<PathBuf>,
    /// The limiter's library.
    limiter: PathBuf,
    /// The release before this one, where suites are built.
    previous: Option<PathBuf>,
    /// Another allocator, beside which the limiter is tried.
    allocator: Option<PathBuf>,
    suites: Vec<TestProgram>,
    programs: Vec<TestProgram>,
}

impl Built {
    fn told(&self) -> Told<'_> {
        Told {
            incumbents: self.incumbents.as_deref(),
            limiter: Some(&self.limiter),
            previous: self.previous.as_deref(),
        }
    }
}

/// Everything.
pub(crate) fn test() -> Result<()> {
    let (steps, mut times) = (Steps::default(), Times::remembered());
    let start = Instant::now();
    let result = everything(&steps, &mut times);
    let told = steps.tell(&times);
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let passed = if result.is_ok() { "all passed" } else { "failed" };
    // A clone of CI is gone when its run is.
    fs::write(crate::cache().join("last-test"), format!("{told}── {passed} in {minutes:.1} min\n"))?;
    result?;
    eprintln!("── all passed in {minutes:.1} min");
    Ok(())
}

/// Suites on a real Kubernetes alone: all of them, or those with these names; with `--times N` that often, and each run is
/// written down.
pub(crate) fn suites(words: &[&str]) -> Result<()> {
    let (times, names) = match words {
        ["--times", times, names @ ..] => (Some(times.parse().context("--times takes a number")?), names),
        names => (None, names),
    };
    let all = suites::names()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|known| known == *name)) {
        bail!("no suite is called {unknown}; there are {}", all.join(", "));
    }
    let wanted = if names.is_empty() { all } else { names.iter().map(|name| (*name).to_owned()).collect() };
    let built = build(&Steps::default(), &wanted)?;
    let mut failed = Ok(());
    for _ in 0..times.unwrap_or(1) {
        let (steps, mut remembered, start) = (Steps::default(), Times::remembered(), Instant::now());
        let labs = suites::ON_THEIR_OWN;
        let act = || suites::run_suites(labs, &built.suites, &built.told(), &mut remembered, || ());
        let done = steps.step("cluster suites", act);
        steps.tell(&remembered);
        if names.is_empty() {
            suite_runs::remember(built.suites.len(), &done, start.elapsed())?;
        }
        if times.is_some() {
            suite_runs::write_down()?;
        }
        failed = failed.and(done);
    }
    failed
}

/// Test programs that need no cluster alone.
pub(crate) fn programs() -> Result<()> {
    let (steps, mut times) = (Steps::default(), Times::remembered());
    let built = build(&steps, &[])?;
    let result = steps.step("tests", || run_programs(&built, &built.programs, &mut times));
    steps.tell(&times);
    result
}

/// Properties with other cases, for so many minutes.
pub(crate) fn properties(minutes: u64) -> Result<()> {
    let built = build(&Steps::default(), &[])?;
    properties::properties(&built.programs, Duration::from_secs(minutes * 60))
}

fn everything(steps: &Steps, times: &mut Times) -> Result<()> {
    steps.step("tidy", tidy::tidy)?;
    steps.step("format", || run(cargo().args(["fmt", "--all", "--check"])))?;
    steps.step("CUDA's functions", cuda_symbols::for_tests)?;
    steps.step("earlier clones", forget_earlier_clones)?;
    let built = build(steps, &suites::names()?)?;
    let mut programs = None;
    let in_labs = std::thread::scope(|scope| {
        let mut beside = Some(scope.spawn(|| without_hurry(steps)));
        let mut done = Ok(());
        let mut quiet = || {
            if let Some(lane) = beside.take() {
                let (others, checked) = lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (programs, done) = (others, checked);
            }
        };
        let start = Instant::now();
        let labs = suites::BESIDE_COMPILERS;
        let act = || suites::run_suites(labs, &built.suites, &built.told(), times, &mut quiet);
        let suites = steps.step("cluster suites", act);
        let kept = suite_runs::remember(built.suites.len(), &suites, start.elapsed());
        // Where no suite could begin.
        quiet();
        suites.and(done).and(kept)
    });
    // Whoever waited an hour wants to know all that failed.
    let rest = [
        programs.map_or(Ok(()), |programs| steps.step("tests", || run_programs(&built, &programs, times))),
        steps.step("page", page::page_of_built),
        steps.step("api", api::api_of_built),
        steps.step("packages", dist::quick_of_built),
    ];
    rest.into_iter().fold(in_labs, Result::and)
}

/// Builds everything, or of the test programs only those with these names.
fn build(steps: &Steps, only: &[String]) -> Result<Built> {
    let incumbents = steps.step("incumbents", incumbents::for_tests)?;
    // Tests run the binary and the simulated drivers, which `cargo test` alone does not build. With the examples they are built with the
    // features that tests have, so that nothing is built twice.
    steps.step("build", || {
        run(cargo().args(["build", "--workspace", "--lib", "--bins", "--examples", "--quiet"]))
    })?;
    if let Some(programs) = &incumbents {
        steps.step("rights", || permissions::check_written(&programs.join("helm")))?;
    }
    let (limiter, allocator) =
        steps.step("limiter", || Ok((limiter::build_both()?, limiter::allocator()?)))?;
    let previous = steps.step("the release before", previous::for_tests)?;
    let step = if only.is_empty() { "test programs" } else { "suites' programs" };
    let all = steps.step(step, || programs::build(only))?;
    let (suites, programs) = all.into_iter().partition(suites::is_suite);
    Ok(Built { incumbents, limiter, previous, allocator, suites, programs })
}

/// What only computes, for whoever waits for a kubelet goes first: the test programs that need no cluster, if they could be built, and
/// what the checks say.
fn without_hurry(steps: &Steps) -> (Option<Vec<TestProgram>>, Result<()>) {
    // Counts for this thread and for what it starts.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(19) {
        return (None, Err(error.into()));
    }
    let (programs, built) = match steps.step("test programs", || programs::build(&[])) {
        Ok(all) => (Some(all.into_iter().filter(|program| !suites::is_suite(program)).collect()), Ok(())),
        Err(error) => (None, Err(error)),
    };
    let lints = steps.step("lints", lints);
    let alone = steps.step("each crate alone", alone::each_crate);
    let dependencies = steps.step("dependencies", || deny::deny(deny::Words::Wrong));
    let book = steps.step("book", book::book);
    let fuzz = steps.step("fuzz targets", || fuzz::fuzz(fuzz::RUNS));
    (programs, built.and(lints).and(alone).and(dependencies).and(book).and(fuzz))
}

/// What clippy has to say of everything, unless it had nothing to say of it before.
fn lints() -> Result<()> {
    let words = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    let sources = Sources::committed().map(|all| all.name(|_| true));
    if unless_passed("lints", sources.as_deref(), || run(cargo().args(words)))? {
        eprintln!("everything is as it was when it passed");
    }
    Ok(())
}

/// Runs every test program that needs no cluster, as many at once as there are processors.
fn run_programs(built: &Built, programs: &[TestProgram], times: &mut Times) -> Result<()> {
    let mut jobs: Vec<_> = programs.iter().map(TestProgram::job).collect();
    jobs.push(programs::documentation());
    let told = [
        ("CARVE_INCUMBENTS", built.incumbents.clone()),
        ("CARVE_ORACLE", built.incumbents.as_deref().map(|folder| folder.join(incumbents::ORACLE))),
        ("CARVE_JEMALLOC", built.allocator.clone()),
    ];
    let shown = |path: &Path| path.display().to_string();
    let environment: Vec<(String, String)> =
        told.into_iter().filter_map(|(name, path)| Some((name.to_owned(), shown(&path?)))).collect();
    let place = || Place { name: "", environment: environment.clone(), complaint: SILENT };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    run_all(jobs, &(0..processors).map(|_| place()).collect::<Vec<_>>(), times)
}
