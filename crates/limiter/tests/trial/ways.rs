//! Every way in which a program reaches the driver leads through the limiter.

use crate::object::hooks;
use crate::stage::{Running, Stage, memory_limits, on_simulated_gpu, programs};
use carve_limiter_abi::Limits;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn the_same_limit_holds_on_every_way() {
    for way in ["linked", "dlsym", "v1", "v2", "v2-legacy", "v2-thread"] {
        let stage = Stage::new(memory_limits());
        let lines =
            stage.run(way, &["open", "fill:0:8388608", "free", "fill:3:8388608", "free", "fill:0:8388608"]);
        let expected = ["open 0 0", "plain 8 2", "free 0 0", "async 8 2", "free 0 0", "plain 8 2"];
        assert_eq!(lines, expected, "{way}");
        assert_eq!(stage.region().usage().denials, 3, "{way}");
    }
}

/// A name without its version and its stream, as `cuGetProcAddress` wants it.
fn base(name: &str) -> &str {
    let name = name.trim_end_matches("_ptsz").trim_end_matches("_ptds");
    match name.rsplit_once("_v") {
        Some((base, version)) if version.parse::<u32>().is_ok() => base,
        _ => name,
    }
}

/// For every function that is hooked: where each way leads, as (way, library, function).
fn doors(mut command: Command) -> Vec<(String, String, String)> {
    let mut child =
        command.args(["dlsym", "doors"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let names: String = hooks().iter().map(|name| format!("{name} {}\n", base(name))).collect();
    child.stdin.take().unwrap().write_all(names.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[..3].join(" "), words[3].to_owned(), words[4].to_owned())
    };
    String::from_utf8(output.stdout).unwrap().lines().map(line).collect()
}

#[test]
fn every_hook_is_reached_through_dlsym_and_cu_get_proc_address() {
    let program = programs().join("program");
    let stage = Stage::new(memory_limits());
    // A driver that knows the newest of them.
    let machine = stage.path().join("machine.yaml");
    std::fs::write(&machine, "name: newest\ncuda: '13.5'\ngpus: [{product: h200-141gb}]\n").unwrap();
    let on_it = |mut command: Command| {
        command.env("CARVE_SIM_MACHINE", &machine);
        command
    };
    let bare = doors(on_it(on_simulated_gpu(&program)));
    let timed = Stage::new(Limits { compute: 5_000, ..memory_limits() });
    let limited = doors(on_it(timed.command(&program)));
    let untimed = doors(on_it(stage.command(&program)));
    assert_eq!((bare.len(), bare.len()), (limited.len(), untimed.len()));
    let hooks: BTreeSet<String> = hooks().into_iter().collect();
    // Where time is not limited, nothing is to be done when work starts.
    for ((way, library, function), (_, untimed_library, _)) in bare.iter().zip(&untimed) {
        let hooked = hooks.contains(function) && !function.starts_with("cuLaunch");
        let expected = if hooked { "libcarve_limiter.so" } else { library };
        assert_eq!(untimed_library, expected, "{way} leads to {function}");
    }
    let mut reached = BTreeSet::new();
    for ((way, library, function), (_, limited_library, limited_function)) in bare.iter().zip(&limited) {
        assert!(
            library.starts_with("libcuda.so") || library.starts_with("libcarve_cuda_sim"),
            "{way}: {library}"
        );
        assert_eq!(function, limited_function, "{way}");
        let expected = if hooks.contains(function) { "libcarve_limiter.so" } else { library };
        assert_eq!(limited_library, expected, "{way} leads to {function}");
        reached.insert((way.starts_with("0 "), function.clone()));
    }
    for by_name in [true, false] {
        let of_cuda = hooks.iter().filter(|name| name.starts_with("cu"));
        let missing: Vec<_> = of_cuda.filter(|name| !reached.contains(&(by_name, (*name).clone()))).collect();
        assert!(missing.is_empty(), "by name {by_name}: no way leads to {missing:?}");
    }
}

#[test]
fn libraries_may_be_closed_and_opened_again() {
    let stage = Stage::new(memory_limits());
    let lines = stage.run("dlsym", &["open", "fill:0:8388608", "close", "info", "free", "fill:0:8388608"]);
    assert_eq!(lines[1], "plain 8 2");
    assert_eq!(lines[5], "plain 8 2");
    let lines = crate::stage::finish(stage.command(&programs().join("host")));
    assert_eq!(lines, ["8"; 5], "through a library that is linked to the driver");
}

#[test]
fn other_interposers_work_beside_it_in_either_order() {
    let stage = Stage::new(memory_limits());
    let names = ["libinterposer.so", "libwrapper.so"];
    let orders = names
        .map(|name| programs().join(name))
        .into_iter()
        .flat_map(|other| [[stage.library(), other.clone()], [other, stage.library()]]);
    for order in orders {
        let preload = order.map(|path| path.display().to_string()).join(":");
        for way in ["linked", "dlsym", "v2"] {
            let mut command =
                stage.program(way, &["open", "fill:0:8388608", "free", "fill:5:8388608", "free"]);
            command.env("LD_PRELOAD", &preload);
            let lines = crate::stage::finish(command);
            assert_eq!(lines[1], "plain 8 2", "{way} {preload}");
            assert_eq!(lines[3], "created 8 2", "{way} {preload}");
        }
    }
}

/// Where jemalloc is: as the variable says, or as the machine has it.
fn allocator() -> Option<String> {
    if let Ok(path) = std::env::var("CARVE_JEMALLOC") {
        return Some(path);
    }
    let installed = "ldconfig -p | sed -n 's/.*libjemalloc.so.2.* => //p'";
    let found = Command::new("sh").args(["-c", installed]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().next().map(str::to_owned)
}

#[test]
fn another_allocator_works_beside_it() {
    let Some(allocator) = allocator() else {
        let missing = "no libjemalloc.so.2: `cargo xtask test` fetches it and names it in CARVE_JEMALLOC";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{missing}, and CI must not skip");
        eprintln!("SKIPPED: {missing}");
        return;
    };
    let stage = Stage::new(memory_limits());
    for preload in [
        format!("{}:{allocator}", stage.library().display()),
        format!("{allocator}:{}", stage.library().display()),
    ] {
        let mut command = stage.program("dlsym", &["open", "fill:0:8388608", "pause"]);
        command.env("LD_PRELOAD", &preload);
        let mut running = Running::start(command);
        assert_eq!(running.until_pause()[1], "plain 8 2", "{preload}");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", running.child.id())).unwrap();
        assert!(maps.contains("libjemalloc"), "{preload}: it is not loaded");
        running.kill();
    }
}

#[test]
fn threads_of_python_are_limited_too() {
    let script = "import ctypes,threading
cuda=ctypes.CDLL('libcuda.so.1')
context=ctypes.c_void_p()
assert cuda.cuInit(0)==0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context),0)==0
assert cuda.cuCtxSetCurrent(context)==0
taken=[]
lock=threading.Lock()
def work():
    assert cuda.cuCtxSetCurrent(context)==0
    while True:
        pointer=ctypes.c_uint64()
        code=cuda.cuMemAlloc_v2(ctypes.byref(pointer),ctypes.c_size_t(2<<20))
        if code: assert code==2; return
        with lock: taken.append(pointer)
threads=[threading.Thread(target=work) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
print(len(taken))
for pointer in taken: assert cuda.cuMemFree_v2(pointer)==0
";
    let stage = Stage::new(memory_limits());
    let mut command = stage.command("python3".as_ref());
    command.args(["-c", script]);
    assert_eq!(crate::stage::finish(command), ["32"]);
}
