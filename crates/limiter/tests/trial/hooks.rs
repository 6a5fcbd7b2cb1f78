//! Every hook is called in a program under the limiter, passes the call on, and counts what it must; one that is left out fails here.

use crate::object::{exported, hooks};
use crate::stage::{LIMIT, MIB, Running, Stage, memory_limits, programs};
use carve_cuda_symbols::{Does, SYMBOLS};
use carve_limiter_abi::Limits;
use std::collections::{BTreeMap, BTreeSet};

/// What `hooks.c` takes a context to be.
const CONTEXT: u64 = 4 * MIB;

/// A call, as the program tells it and as the test sees it.
#[derive(Debug)]
struct Step {
    name: String,
    /// MiB and pieces of work that it must add to the count.
    adds: (i64, i64),
}

/// Runs the program call after call, and checks each against what the container's count and the driver's record say of it.
fn steps() -> Vec<Step> {
    let stage = Stage::new(Limits { context: CONTEXT, compute: 10_000, ..memory_limits() });
    let trace = stage.path().join("trace");
    let mut command = stage.command(&programs().join("hooks"));
    command.env("CARVE_SIM_TRACE", &trace);
    let mut running = Running::start(command);
    let region = stage.region();
    let (mut before, mut recorded) = ((0, 0), 0);
    let mut steps = Vec::new();
    loop {
        let line = running.line();
        if line.is_empty() {
            break;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let [name, "0", "libcarve_limiter.so", memory, work] = words[..] else {
            panic!("{line}, after {:?}", steps.last())
        };
        let adds: (i64, i64) = (memory.parse().unwrap(), work.parse().unwrap());
        let now = (region.usage().held as i64, region.usage().launches as i64);
        let added = ((now.0 - before.0) / MIB as i64, now.1 - before.1);
        assert_eq!(added, adds, "MiB and pieces of work that {name} adds, after {:?}", steps.last());
        let record = std::fs::read_to_string(&trace).unwrap();
        let passed_on = record[recorded..].lines().any(|called| called == format!("{name} -> 0"));
        assert!(passed_on, "{name} is not passed on: {}", &record[recorded..]);
        (before, recorded) = (now, record.len());
        steps.push(Step { name: name.to_owned(), adds });
        running.go();
    }
    assert!(running.child.wait().unwrap().success(), "it ended after {:?}", steps.last());
    assert_eq!(region.usage().trouble, None);
    assert!(region.usage().held <= LIMIT);
    steps
}

#[test]
fn every_hook_is_called_and_counts() {
    let steps = steps();
    let mut most: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for step in &steps {
        let (memory, work) = most.entry(&step.name).or_default();
        (*memory, *work) = ((*memory).max(step.adds.0), (*work).max(step.adds.1));
    }
    let hooks: BTreeSet<String> = hooks().into_iter().collect();
    let called: BTreeSet<String> = most.keys().map(|&name| name.to_owned()).collect();
    let missing: Vec<_> = hooks.difference(&called).collect();
    assert!(missing.is_empty(), "hooks.c calls none of these, or they are no hooks: {missing:?}");
    assert_eq!(called, hooks, "all that it calls so is hooked");
    // What the program says that a call adds is no answer to what it should add.
    for symbol in SYMBOLS.iter().filter(|symbol| hooks.contains(symbol.name)) {
        let (memory, work) = most[symbol.name];
        let counts = match symbol.does {
            Does::Launches => work > 0,
            // The memory of a graph comes with its launch.
            Does::Allocates => memory > 0 || symbol.name == "cuGraphAddMemAllocNode",
            // Another user of a context adds nothing.
            Does::MakesContext => memory > 0 || symbol.name == "cuCtxAttach",
            _ => true,
        };
        assert!(counts, "{} ({:?}) adds {memory} MiB and {work} pieces of work", symbol.name, symbol.does);
    }
}

#[test]
fn the_simulated_driver_has_every_function_that_is_hooked() {
    let of_driver = ["libcuda.so.1", "libnvidia-ml.so.1"].map(|name| exported(&programs().join(name)));
    let known: BTreeSet<&String> = of_driver.iter().flatten().collect();
    let hooks = hooks();
    let missing: Vec<_> = hooks.iter().filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "no test can call these, so the simulated driver needs them: {missing:?}");
}
