//! The README's test command: every check the project has, in order, with the time each took.

use crate::run::{cargo, run, run_tests};
use crate::tidy::manifests;
use crate::{cuda_symbols, fuzz, incumbents, lab, limiter, tidy};
use anyhow::{Context, Result, bail};
use carve_lab::{Lab, Places, Wanted};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Everything under CI=true, where a skipped test is a failed one.
pub(crate) fn ci() -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    run(command.arg("test").env("CI", "true"))
}

/// Everything.
pub(crate) fn test() -> Result<()> {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut step = |name: &'static str, act: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        eprintln!("── {name}");
        let start = Instant::now();
        act().with_context(|| format!("step '{name}' failed"))?;
        times.push((name, start.elapsed()));
        Ok(())
    };
    let mut programs: Option<PathBuf> = None;
    step("tidy", &mut tidy::tidy)?;
    step("format", &mut || run(cargo().args(["fmt", "--all", "--check"])))?;
    step("lints", &mut || {
        run(cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))
    })?;
    // A manifest that only works because another crate switches a feature on is found here.
    step("each crate alone", &mut || {
        manifests()?
            .iter()
            .try_for_each(|manifest| run(cargo().args(["check", "--quiet", "--manifest-path"]).arg(manifest)))
    })?;
    step("CUDA's functions", &mut cuda_symbols::for_tests)?;
    step("incumbents", &mut || {
        programs = incumbents::for_tests()?;
        Ok(())
    })?;
    // The conformance suites run the binary and the simulated driver, which `cargo test` alone does not build.
    step("build", &mut || run(cargo().args(["build", "--workspace", "--quiet"])))?;
    let (mut library, mut allocator) = (None, None);
    step("limiter", &mut || {
        library = Some(limiter::build_both()?);
        allocator = limiter::allocator()?;
        Ok(())
    })?;
    step("tests", &mut || {
        let mut command = cargo();
        command.args(["test", "--workspace", "--exclude", "carve-cluster-tests", "--no-fail-fast"]);
        if let Some(programs) = &programs {
            command.env("CARVE_INCUMBENTS", programs).env("CARVE_ORACLE", programs.join(incumbents::ORACLE));
        }
        if let Some(allocator) = &allocator {
            command.env("CARVE_JEMALLOC", allocator);
        }
        run(&mut command)
    })?;
    step("cluster suites", &mut || cluster_suites(programs.as_deref(), library.as_deref()))?;
    step("fuzz targets", &mut || fuzz::fuzz(fuzz::RUNS))?;
    times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    eprintln!("── all passed; slowest first:");
    for (name, time) in times {
        eprintln!("   {:>7.1} s  {name}", time.as_secs_f64());
    }
    Ok(())
}

/// Suites on a real Kubernetes, which is started for them and ended after them. They need root.
fn cluster_suites(programs: Option<&Path>, library: Option<&Path>) -> Result<()> {
    let lab = Lab::new(Places::usual());
    if !lab::is_possible() {
        if std::env::var("CI").as_deref() == Ok("true") {
            bail!("the cluster suites need root on Linux, and CI must not skip");
        }
        eprintln!("SKIPPED: the cluster suites start a real Kubernetes, which needs root on Linux");
        return Ok(());
    }
    // Whatever an interrupted run left.
    lab.down()?;
    let before = lab::footprint()?;
    lab.up(&Wanted::usual(2), &lab::images(&lab)?)?;
    let mut command = cargo();
    command.args(["test", "--package", "carve-cluster-tests", "--no-fail-fast"]);
    command.env("CARVE_SIMULATED_DRIVER", crate::root().join("target/debug/libcarve_nvml_sim.so"));
    if let Some(library) = library {
        command.env("CARVE_LIMITER_LIBRARY", library);
    }
    if let Some(programs) = programs {
        command.env("CARVE_INCUMBENTS", programs);
    }
    let result = run_tests(&mut command, || eprintln!("{}", lab.last_lines()));
    lab.down()?;
    result?;
    // A second run right after the first.
    lab.up(&Wanted::usual(1), &[])?;
    lab.down()?;
    let after = lab::footprint()?;
    if before != after {
        bail!("the lab left something behind:\n{}", lab::difference(&before, &after));
    }
    Ok(())
}
