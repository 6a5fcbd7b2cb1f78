//! The suites on a real Kubernetes: labs side by side, and one queue of suites for all of them.

use crate::lab;
use crate::permissions;
use crate::programs::{ALONE, TestProgram};
use crate::queue::{Job, Place, run_all};
use crate::run::is_ci;
use crate::times::Times;
use anyhow::{Result, bail};
use carve_lab::{Lab, NAMED, Places, Wanted};
use std::fs;
use std::path::Path;

/// Names of the labs. Most of a suite is waiting for kubelets, so two cores carry more than one lab.
const LABS: &[&str] = &["first", "second", "third"];

/// As many labs as are worth starting beside compilers: three were slower than two.
pub(crate) const BESIDE_COMPILERS: usize = 2;

/// As many as are worth starting where nothing else runs.
pub(crate) const ON_THEIR_OWN: usize = LABS.len();

/// Where the suites are.
const FOLDER: &str = "cluster-tests";

/// Whether a program needs a lab.
pub(crate) fn is_suite(program: &TestProgram) -> bool {
    program.source.starts_with(Path::new(FOLDER).join("tests"))
}

/// Names of all suites.
pub(crate) fn names() -> Result<Vec<String>> {
    let files = fs::read_dir(crate::root().join(FOLDER).join("tests"))?;
    let paths = files.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let suites = paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let mut names: Vec<String> =
        suites.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// What the suites are told.
#[derive(Debug, Default)]
pub(crate) struct Told<'a> {
    /// NVIDIA's programs.
    pub(crate) incumbents: Option<&'a Path>,
    /// The limiter's library.
    pub(crate) limiter: Option<&'a Path>,
    /// The release before this one.
    pub(crate) previous: Option<&'a Path>,
}

/// Runs the suites in that many labs, which are started for them and ended after them. They need root. `quiet` waits until nothing else uses the
/// machine, for those that run alone.
pub(crate) fn run_suites(
    most: usize,
    programs: &[TestProgram],
    told: &Told<'_>,
    times: &mut Times,
    quiet: impl FnOnce(),
) -> Result<()> {
    if !lab::is_possible() {
        if is_ci() {
            bail!("the cluster suites need root on Linux, and CI must not skip");
        }
        eprintln!("SKIPPED: the cluster suites start a real Kubernetes, which needs root on Linux");
        return Ok(());
    }
    let mut labs: Vec<(&str, Lab)> = LABS.iter().map(|name| (*name, Lab::new(Places::named(name)))).collect();
    // Whatever an interrupted run left.
    end(&labs)?;
    labs.truncate(most.min(programs.len()));
    let before = lab::footprint()?;
    let result = within(&labs, programs, told, times, quiet);
    let rights = check_rights(&labs, programs, told);
    end(&labs)?;
    result?;
    rights?;
    // A second run right after the first.
    for (_, lab) in labs.iter().take(1) {
        lab.up(&Wanted::usual(1), &[])?;
        lab.down()?;
    }
    let after = lab::footprint()?;
    let left = lab::left_behind(&before, &after);
    if !left.is_empty() {
        bail!("the lab left something behind:\n{}", left.join("\n"));
    }
    Ok(())
}

/// Compares what the suites have called with what is granted. Whoever failed has not called everything.
fn check_rights(labs: &[(&str, Lab)], programs: &[TestProgram], told: &Told<'_>) -> Result<()> {
    let Some(programs_of_others) = told.incumbents else {
        eprintln!("SKIPPED: Helm was not built, so the chart's roles are not compared with what was called");
        return Ok(());
    };
    let labs: Vec<&Lab> = labs.iter().map(|(_, lab)| lab).collect();
    let ran = |name: &String| {
        let source = Path::new(FOLDER).join("tests").join(name).with_extension("rs");
        programs.iter().any(|program| program.source == source)
    };
    let all = names()?.iter().all(ran);
    permissions::check_labs(&labs, &programs_of_others.join("helm"), all)
}

fn end(labs: &[(&str, Lab)]) -> Result<()> {
    labs.iter().try_for_each(|(_, lab)| lab.down())
}

fn within(
    labs: &[(&str, Lab)],
    programs: &[TestProgram],
    told: &Told<'_>,
    times: &mut Times,
    quiet: impl FnOnce(),
) -> Result<()> {
    // All labs take them from one folder.
    let images =
        labs.iter().take(1).map(|(_, lab)| lab::images_of_built(lab)).collect::<Result<Vec<_>>>()?.concat();
    for (_, lab) in labs {
        lab.up(&Wanted::usual(2), &images)?;
    }
    let complaints: Vec<_> = labs.iter().map(|(_, lab)| move || lab.last_lines()).collect();
    let places: Vec<(String, &_)> =
        labs.iter().zip(&complaints).map(|((name, _), said)| (format!("the {name} lab"), said)).collect();
    let places: Vec<Place<'_>> = places
        .iter()
        .zip(labs)
        .map(|((title, said), (name, _))| Place {
            name: title,
            environment: vec![(NAMED.to_owned(), (*name).to_owned())],
            complaint: *said,
        })
        .collect();
    let all = programs.iter().map(|program| suite(program, told));
    let (mut alone, others): (Vec<Job>, Vec<Job>) = all.partition(|job| job.alone);
    // All of them, whatever becomes of the first.
    let tried = run_all(others, &places, times);
    quiet();
    alone.sort_by_key(|job| ALONE.iter().position(|name| job.name == *name));
    alone.into_iter().fold(tried, |tried, job| tried.and(run_all(vec![job], &places, times)))
}

fn suite(program: &TestProgram, told: &Told<'_>) -> Job {
    let mut job = program.job();
    job.command.env("CARVE_SIMULATED_DRIVER", crate::root().join("target/debug/libcarve_nvml_sim.so"));
    if let Some(library) = told.limiter {
        job.command.env("CARVE_LIMITER_LIBRARY", library);
    }
    if let Some(folder) = told.previous {
        job.command.env("CARVE_PREVIOUS_RELEASE", folder);
    }
    if let Some(programs) = told.incumbents {
        job.command.env("CARVE_INCUMBENTS", programs);
    }
    job
}
