//! `carve bench`: measures ways to share a GPU, writes the pages, compares studies.

pub(crate) mod args;
mod pages;
mod progress;
mod stop;

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::machine::{self, Chosen};
use crate::run::place;
use crate::{input, print};
use args::{BenchArgs, BenchVerb, CellsArgs, CompareArgs, RunStudyArgs};
use carve_bench::{Bench, Ended, Programs, clear_left_behind, run};
use carve_cuda::Probe;
use carve_gpu_host::Gpu;
use carve_mig_manager::write_whole;
use carve_mps::MpsSettings;
use carve_study::{Card, Cell, Scope, Study, compare, simulate};
use jiff::Timestamp;
use progress::Progress;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Of a simulated card whose number of them is not known.
const USUAL_MULTIPROCESSORS: u32 = 108;

/// Of a simulated machine; enough that tenants do not wait for them.
const USUAL_PROCESSORS: u32 = 16;

/// The study in its folder.
const STUDY: &str = "study.json";

/// Does what was typed.
pub(crate) fn bench(machine: &MachineArgs, args: &BenchArgs) -> Outcome {
    match &args.verb {
        None => measure(machine, &args.run),
        Some(BenchVerb::Compare(args)) => compared(args),
        Some(BenchVerb::Render(args)) => {
            let study = read(&args.study)?;
            told(&study, &args.dir, &args.name)
        }
        Some(BenchVerb::Cells(args)) => cells(args),
    }
}

fn cells(args: &CellsArgs) -> Outcome {
    let scope = match (args.quick, args.full) {
        (true, _) => Scope::Quick,
        (false, true) => Scope::Full,
        (false, false) => Scope::Default,
    };
    let lines: Vec<String> = scope.cells().iter().map(|cell| format!("{cell}\n")).collect();
    print::out(&lines.concat())
}

fn compared(args: &CompareArgs) -> Outcome {
    let comparison = compare(&read(&args.first)?, &read(&args.second)?);
    match (args.json, args.all) {
        (true, _) => print::json(&comparison),
        (false, true) => print::out(&format!("{comparison:#}")),
        (false, false) => print::out(&comparison.to_string()),
    }
}

/// Writes the pages, says what follows, and where more is to be read.
fn told(study: &Study, folder: &Path, name: &str) -> Outcome {
    let page = pages::write(study, folder, name)?;
    print::out(&pages::answer(study))?;
    eprintln!("carve: {} has all of it", page.display());
    Ok(())
}

/// Makes the study's folder.
fn make(folder: &Path) -> Outcome {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("{}: can not make it: {error}", folder.display())))
}

/// A study of a simulated card, by a model: nothing is run.
fn simulated(chosen: &Chosen, args: &RunStudyArgs) -> Outcome {
    let gpu = gpu(chosen, args.gpu.as_deref())?;
    let file = args.dir.join(STUDY);
    make(&args.dir)?;
    kept(&file, args.resume)?;
    let driver = chosen.host.driver().map_err(|error| chosen.failure(&error))?;
    let table = chosen.host.profile_table(gpu.index).ok();
    let most = table.and_then(|table| {
        table.profiles().iter().filter_map(|profile| profile.multiprocessors).map(|fact| fact.value).max()
    });
    let card = Card {
        name: gpu.name.clone(),
        memory_mib: gpu.memory.0 >> 20,
        multiprocessors: most.map_or(USUAL_MULTIPROCESSORS, u32::from),
        driver: driver.version,
        cuda: format!("{}.{}", driver.cuda.0, driver.cuda.1),
        mig: gpu.mig_capable.then_some(false),
        processors: USUAL_PROCESSORS,
        simulated: true,
    };
    let study = simulate(card, args.scope(), args.seed, now(), env!("CARGO_PKG_VERSION"));
    write_whole(&file, study.json().as_bytes())
        .map_err(|error| Failure::new(format!("{}: can not write it: {error}", file.display())))?;
    told(&study, &args.dir, pages::NAME)
}

fn measure(machine: &MachineArgs, args: &RunStudyArgs) -> Outcome {
    let begun = Instant::now();
    let mut chosen = machine::open_for_programs(machine)?;
    if chosen.simulated.is_some() {
        return simulated(&chosen, args);
    }
    let gpu = gpu(&chosen, args.gpu.as_deref())?;
    let file = args.dir.join(STUDY);
    make(&args.dir)?;
    let mut study = kept(&file, args.resume)?;
    let programs = programs(args)?;
    let left = clear_left_behind(&std::env::temp_dir(), programs.mps_control.as_deref().ok());
    let stop = stop::listen()?;
    let multiprocessors = multiprocessors(&gpu)?;
    let mut bench = Bench::new(
        chosen.host.as_mut(),
        gpu,
        programs,
        (left.own, &chosen.state_dir),
        args.change_settings,
        stop,
    );
    for folder in &left.changed {
        match bench.put_back_left_behind(folder) {
            Ok(words) => eprintln!("carve: a run that was killed had changed settings of the card; {words}"),
            Err(why) => {
                return Err(Failure::new(format!("what a killed run changed can not be put back: {why}"))
                    .hint(format!(
                        "{} has what was; carve mig restore -f takes its checkpoint",
                        folder.display()
                    )));
            }
        }
    }
    let scope = args.scope();
    let card = bench.card(multiprocessors);
    let mut study = study
        .take()
        .unwrap_or_else(|| Study::new(env!("CARGO_PKG_VERSION"), now(), card.clone(), scope, scope.timing()));
    if study.card.name != card.name || study.card.simulated {
        return Err(Failure::new(format!("{} is of another card ({})", file.display(), study.card.name))
            .hint("give another folder with --dir"));
    }
    // Who goes on with more than was begun gets more; what was measured stays.
    study.scope = study.scope.max(scope);
    let cells = chosen_cells(args, study.scope);
    let mut progress = Progress::new(file.clone());
    let until = args.time.map(|time| begun + time);
    let ended = run(&mut bench, &mut study, &cells, until, &mut progress);
    progress.clear();
    match ended {
        Ended::Complete => {}
        Ended::OutOfTime => {
            let left = match cells.iter().filter(|cell| study.outcome(cell).is_none()).count() {
                0 => "some cells were not measured as often as they should".to_owned(),
                left => format!("{left} cells are left"),
            };
            eprintln!("carve: the time is up; {left}; --resume goes on");
        }
        Ended::Stopped => {
            eprintln!("carve: stopped; what was measured is kept, and --resume goes on");
        }
        Ended::NotKept(error) => {
            return Err(Failure::new(format!("{}: can not write it: {error}", file.display())));
        }
    }
    told(&study, &args.dir, pages::NAME)
}

/// The cells that are meant: those of the scope, or what was named.
fn chosen_cells(args: &RunStudyArgs, scope: Scope) -> Vec<Cell> {
    let all = if args.cells.is_empty() { scope.cells() } else { args.cells.clone() };
    let is_meant = |cell: &Cell| {
        let strategy =
            cell.strategy().is_none_or(|one| args.strategies.is_empty() || args.strategies.contains(&one));
        let workloads =
            args.workloads.is_empty() || cell.workloads().iter().all(|one| args.workloads.contains(one));
        strategy && workloads
    };
    all.into_iter().filter(is_meant).collect()
}

/// The study that is in the folder, where it is to go on.
fn kept(file: &Path, resume: bool) -> Result<Option<Study>, Failure> {
    match (file.exists(), resume) {
        (false, _) => Ok(None),
        (true, true) => read(file).map(Some),
        (true, false) => Err(Failure::new(format!("{} is there already", file.display()))
            .hint("go on with it by --resume, or give another folder with --dir")),
    }
}

/// A study that was kept.
pub(crate) fn read(file: &Path) -> Result<Study, Failure> {
    Study::read(&input::read_recorded(file)?).map_err(|error| Failure {
        code: UNREADABLE,
        ..Failure::new(format!("{}: {error}", input::shown(file)))
    })
}

fn gpu(chosen: &Chosen, asked: Option<&str>) -> Result<Gpu, Failure> {
    let gpus = chosen.host.gpus().map_err(|error| chosen.failure(&error))?;
    let found = match asked {
        None => gpus.into_iter().next(),
        Some(asked) => gpus.into_iter().find(|gpu| gpu.uuid.0 == asked || gpu.index.to_string() == asked),
    };
    found.ok_or_else(|| {
        let what = asked.map_or_else(
            || "this machine has no GPUs".to_owned(),
            |asked| format!("--gpu {asked}: there is no such GPU"),
        );
        Failure::new(what).hint("carve gpus lists them")
    })
}

fn programs(args: &RunStudyArgs) -> Result<Programs, Failure> {
    let carve = std::env::current_exe()
        .map_err(|error| Failure::new(format!("carve can not find itself: {error}")))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let find = |name: &str| MpsSettings::find(Path::new(name), &path);
    Ok(Programs {
        carve,
        limiter: place::library(args.limiter.as_deref()).map_err(|failure| failure.message),
        mps_control: find("nvidia-cuda-mps-control")
            .ok_or_else(|| "nvidia-cuda-mps-control is not on the search path".to_owned()),
        nvidia_smi: find("nvidia-smi").unwrap_or_else(|| PathBuf::from("nvidia-smi")),
        packages: Programs::packages_of(&args.python),
        python: args.python.clone(),
    })
}

/// As a CUDA program sees them.
fn multiprocessors(gpu: &Gpu) -> Result<u32, Failure> {
    let mut probe = Probe::new("/proc/self/exe");
    probe.env.insert("CUDA_VISIBLE_DEVICES".into(), gpu.uuid.0.clone().into());
    let seen = probe
        .look()
        .map_err(|error| Failure::of(&error).hint("carve doctor looks what keeps programs from the GPU"))?;
    Ok(seen.multiprocessors)
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
