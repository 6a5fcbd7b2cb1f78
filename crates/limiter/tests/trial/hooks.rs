//! Every hook is called in a program under the limiter, and passes on, counts and refuses what it must; one that is left out fails here.

use crate::object::{exported, hooks};
use crate::stage::{LIMIT, MIB, Running, Stage, memory_limits, programs};
use carve_cuda_symbols::{Does, SYMBOLS};
use carve_limiter_abi::{Limits, Trouble};
use std::collections::{BTreeMap, BTreeSet};

/// What `hooks.c` takes a context to be.
const CONTEXT: u64 = 4 * MIB;

/// A call, as the program tells it and as the test sees it.
#[derive(Debug)]
struct Call {
    name: String,
    code: i32,
    /// MiB and pieces of work that it should add to the container's count, and those that it added.
    due: (i64, i64),
    added: (i64, i64),
    /// What the driver was asked meanwhile, and how it answered.
    record: String,
}

impl Call {
    /// Whether a function of the driver was called and went well.
    fn reached(&self, name: &str) -> bool {
        let called = format!("{name} -> 0");
        self.record.lines().any(|line| line == called)
    }

    /// Whether the driver's function of the same name was.
    fn is_passed_on(&self) -> bool {
        self.reached(&self.name)
    }
}

fn stage() -> Stage {
    Stage::new(Limits { context: CONTEXT, compute: 10_000, ..memory_limits() })
}

/// Runs the program call after call, until it ends or fails where it should not.
fn calls(stage: &Stage, how: &str, fault: &str) -> Vec<Call> {
    let trace = stage.path().join("trace");
    let mut command = stage.command(&programs().join("hooks"));
    command.arg(how).env("CARVE_SIM_TRACE", &trace).env("CARVE_SIM_CUDA_FAULT", fault);
    let mut running = Running::start(command);
    let region = stage.region();
    let (mut before, mut recorded) = ((0, 0), 0);
    let mut calls: Vec<Call> = Vec::new();
    loop {
        let line = running.line();
        if line.is_empty() {
            assert!(running.child.wait().unwrap().success(), "it ended after {:?}", calls.last());
            return calls;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let [name, code, library, memory, work] = words[..] else {
            panic!("{line}, after {:?}", calls.last())
        };
        // Without limits work is started by the driver's own functions.
        let hooked = !name.starts_with("cuLaunch") || stage.path().join("limits").exists();
        assert!(!hooked || library == "libcarve_limiter.so", "{line}, after {:?}", calls.last());
        let usage = region.usage();
        let now = (usage.held as i64, usage.launches as i64);
        let record = std::fs::read_to_string(&trace).unwrap();
        calls.push(Call {
            name: name.to_owned(),
            code: code.parse().unwrap(),
            due: (memory.parse().unwrap(), work.parse().unwrap()),
            added: ((now.0 - before.0) / MIB as i64, now.1 - before.1),
            record: record[recorded..].to_owned(),
        });
        (before, recorded) = (now, record.len());
        if code != "0" && how == "all" {
            running.kill();
            return calls;
        }
        running.go();
    }
}

/// What functions are that take memory by themselves when they are called.
fn takes_memory(name: &str) -> bool {
    // The memory of a graph comes with its launch, and another user of a context adds nothing.
    let known = SYMBOLS.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.does);
    name == "cuCtxSetLimit"
        || matches!(known, Some(Does::Allocates | Does::MakesContext))
            && !["cuGraphAddMemAllocNode", "cuCtxAttach"].contains(&name)
}

#[test]
fn every_hook_is_called_passes_on_and_counts() {
    let stage = stage();
    let calls = calls(&stage, "all", "");
    for call in &calls {
        assert!(call.code == 0 && call.is_passed_on() && call.added == call.due, "{call:?}");
    }
    assert_eq!(stage.region().usage().trouble, None);
    let mut most: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for call in &calls {
        let (memory, work) = most.entry(call.name.clone()).or_default();
        (*memory, *work) = ((*memory).max(call.added.0), (*work).max(call.added.1));
    }
    let hooks: BTreeSet<String> = hooks().into_iter().collect();
    let missing: Vec<_> = hooks.iter().filter(|name| !most.contains_key(*name)).collect();
    assert!(missing.is_empty(), "hooks.c does not call {missing:?}");
    // What the program says that a call adds is no answer to what it should add.
    for (name, (memory, work)) in most {
        let launches =
            SYMBOLS.iter().any(|symbol| symbol.name == name && matches!(symbol.does, Does::Launches));
        assert_eq!(launches, work > 0, "{name} adds {work} pieces of work");
        assert!(memory > 0 || !takes_memory(&name), "{name} adds no memory");
    }
}

#[test]
fn every_hook_that_takes_memory_is_refused_before_the_driver_is_asked_when_nothing_is_left() {
    let stage = stage();
    let calls = calls(&stage, "full", "");
    assert_eq!(stage.held(), LIMIT);
    let mut refused = BTreeSet::new();
    for call in calls.into_iter().filter(|call| call.code != 0) {
        assert!(call.code == 2 && !call.is_passed_on() && call.added == (0, 0), "{call:?}");
        refused.insert(call.name);
    }
    let hooks = hooks();
    let missing: Vec<_> =
        hooks.iter().filter(|name| takes_memory(name) && !refused.contains(*name)).collect();
    assert!(missing.is_empty(), "hooks.c does not try {missing:?}");
}

/// What takes back what a function has made.
fn undoes(name: &str) -> &'static str {
    match name {
        "cuMemAlloc" | "cuMemAllocPitch" => "cuMemFree",
        "cuMemCreate" => "cuMemRelease",
        "cuMipmappedArrayCreate" => "cuMipmappedArrayDestroy",
        "cuDevicePrimaryCtxRetain" => "cuDevicePrimaryCtxRelease_v2",
        "cuGreenCtxCreate" => "cuGreenCtxDestroy",
        array if array.contains("Array") => "cuArrayDestroy",
        context if context.contains("CtxCreate") => "cuCtxDestroy_v2",
        _ => "cuMemFree_v2",
    }
}

#[test]
fn what_a_hook_can_not_note_is_taken_back() {
    let stage = stage();
    let calls = calls(&stage, "starved", "");
    assert_eq!(stage.region().usage().trouble, Some(Trouble::Ledger));
    let mut undone = BTreeSet::new();
    for call in calls.into_iter().filter(|call| call.code != 0) {
        let taken_back = call.is_passed_on() && call.reached(undoes(&call.name));
        assert!(call.code == 2 && taken_back && call.added == (0, 0), "{call:?}");
        undone.insert(call.name);
    }
    // Pools are noted elsewhere; what a context takes for itself is the driver's to give back.
    let elsewhere =
        |name: &str| name.ends_with("Async") || name.ends_with("Async_ptsz") || name == "cuCtxSetLimit";
    let hooks = hooks();
    let missing: Vec<_> = hooks
        .iter()
        .filter(|name| takes_memory(name) && !elsewhere(name) && !undone.contains(*name))
        .collect();
    assert!(missing.is_empty(), "hooks.c does not try {missing:?}");
}

#[test]
fn what_the_driver_refuses_is_not_counted() {
    let mut refused = BTreeSet::new();
    for place in 1.. {
        let stage = stage();
        let calls = calls(&stage, "all", &format!("alloc-fails:{place}"));
        let last = calls.last().unwrap();
        if last.code == 0 {
            break;
        }
        assert!(last.code == 2 && last.added.0 == 0, "{last:?}");
        refused.insert(last.name.clone());
    }
    let hooks = hooks();
    let of_memory = |name: &str| takes_memory(name) && (name.contains("Mem") || name.contains("Array"));
    let missing: Vec<_> = hooks.iter().filter(|name| of_memory(name) && !refused.contains(*name)).collect();
    assert!(missing.is_empty(), "the driver never refused {missing:?}");
}

#[test]
fn without_limits_every_hook_only_passes_on() {
    let stage = stage();
    std::fs::remove_dir_all(stage.path().join("limits")).unwrap();
    let calls = calls(&stage, "all", "");
    assert!(calls.len() > 100);
    for call in calls {
        assert!(call.code == 0 && call.is_passed_on() && call.added == (0, 0), "{call:?}");
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
