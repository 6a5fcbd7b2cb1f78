//! The kernels of the tenants that are measured: all are found and take their time, and one of them ends what it is near.

mod support;

use std::ffi::{CString, c_char};
use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::ptr::null_mut;
use support::{C, Pointer, c, ready};

const PROGRAMS: [&str; 2] =
    [include_str!("../../workload/kernels/tenants.ptx"), include_str!("../../workload/kernels/burn.ptx")];
const ILLEGAL_ADDRESS: u32 = 700;

/// A kernel of one of the programs.
fn kernel(c: &C, program: &str, name: &str) -> Pointer {
    let (program, name) = (CString::new(program).unwrap(), CString::new(name).unwrap());
    let (mut module, mut function) = (null_mut(), null_mut());
    assert_eq!(c!(c, cuModuleLoadData(&mut module => *mut Pointer, program.as_ptr() => *const c_char)), 0);
    let found = c!(c, cuModuleGetFunction(
        &mut function => *mut Pointer, module => Pointer, name.as_ptr() => *const c_char,
    ));
    assert_eq!(found, 0, "{name:?}");
    function
}

fn launch(c: &C, function: Pointer, stream: Pointer, blocks: u32) -> u32 {
    // What they are called with is not looked at.
    c!(c, cuLaunchKernel(
        function => Pointer, blocks => u32, 2 => u32, 1 => u32, 256 => u32, 1 => u32, 1 => u32, 0 => u32,
        stream => Pointer, null_mut() => Pointer, null_mut() => Pointer,
    ))
}

fn synchronise(c: &C, stream: Pointer) -> u32 {
    c!(c, cuStreamSynchronize(stream => Pointer))
}

#[test]
fn every_kernel_takes_its_time_and_one_ends_the_context() {
    support::run("child_works", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_works() {
    let Some(c) = ready() else { return };
    let stream = c.stream(1);
    let mut found = 0;
    for program in PROGRAMS {
        let names = program.split(".entry").skip(1).filter_map(|rest| rest.split('(').next()).map(str::trim);
        for name in names.filter(|name| *name != "fault") {
            let function = kernel(&c, program, name);
            let took = |blocks| {
                let begun = c.recorded(stream);
                assert_eq!(launch(&c, function, stream, blocks), 0, "{name}");
                let ended = c.recorded(stream);
                assert_eq!(synchronise(&c, stream), 0, "{name}");
                c.elapsed(begun, ended)
            };
            assert!(took(1) > 0.0, "{name} takes no time");
            // A thousand blocks of whatever size take microseconds, but for that which only begins and ends.
            assert!(took(1000) > 5_000.0 || name == "empty", "{name}");
            found += 1;
        }
    }
    assert_eq!(found, 10);
    // More than the host has is filled by a kernel at once, as nothing is touched.
    let memory = c.allocate(120 << 30).unwrap();
    assert_eq!(launch(&c, kernel(&c, PROGRAMS[0], "fill_halves"), stream, 1056), 0);
    assert_eq!((synchronise(&c, stream), c.release(memory)), (0, 0));

    let fault = kernel(&c, PROGRAMS[0], "fault");
    assert_eq!(launch(&c, fault, stream, 1), 0, "waiting tells, not the launch");
    assert_eq!(synchronise(&c, stream), ILLEGAL_ADDRESS);
    assert_eq!(c.allocate(1), Err(ILLEGAL_ADDRESS));
}

/// A child that says a word whenever it has come so far, and goes on when it is told.
struct Client(Child);

impl Client {
    fn start(test: &str, folder: &tempfile::TempDir, pipe: &str) -> Self {
        let (clock, pipe) = (folder.path().join("clock"), folder.path().join(pipe));
        let variables = [
            ("CARVE_SIM_CUDA_CLOCK", clock.to_str().unwrap()),
            ("CUDA_MPS_PIPE_DIRECTORY", pipe.to_str().unwrap()),
        ];
        let mut client = Client(support::start(test, &variables));
        client.hear("ready");
        client
    }

    fn hear(&mut self, word: &str) {
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with(word)), "the child died before it was {word}");
    }

    fn go_on(mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        support::finish(self.0);
    }
}

fn pause() {
    let mut out = std::io::stdout();
    writeln!(out, "ready").unwrap();
    out.flush().unwrap();
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

#[test]
fn clients_of_one_mps_daemon_die_together() {
    let folder = tempfile::tempdir().unwrap();
    for pipe in ["one", "other"] {
        std::fs::create_dir(folder.path().join(pipe)).unwrap();
        std::fs::write(folder.path().join(pipe).join("nvidia-cuda-mps-control.pid"), "1").unwrap();
    }
    let neighbour = Client::start("child_dies", &folder, "one");
    let elsewhere = Client::start("child_lives", &folder, "other");
    let without = Client::start("child_lives", &folder, "nowhere");
    Client::start("child_faults", &folder, "one").go_on();
    let later = Client::start("child_lives", &folder, "one");
    for client in [neighbour, elsewhere, without, later] {
        client.go_on();
    }
}

#[test]
#[ignore = "run as a child process"]
fn child_faults() {
    let Some(c) = ready() else { return };
    let (stream, fault) = (c.stream(1), kernel(&c, PROGRAMS[0], "fault"));
    pause();
    assert_eq!((launch(&c, fault, stream, 1), synchronise(&c, stream)), (0, ILLEGAL_ADDRESS));
}

#[test]
#[ignore = "run as a child process"]
fn child_dies() {
    let Some(c) = ready() else { return };
    let (stream, empty) = (c.stream(1), kernel(&c, PROGRAMS[0], "empty"));
    assert_eq!((launch(&c, empty, stream, 1), synchronise(&c, stream)), (0, 0));
    let event = c.recorded(stream);
    pause();
    assert_eq!(c.allocate(1), Err(ILLEGAL_ADDRESS));
    assert_eq!([launch(&c, empty, stream, 1), synchronise(&c, stream)], [ILLEGAL_ADDRESS; 2]);
    assert_eq!(c!(c, cuEventQuery(event => Pointer)), ILLEGAL_ADDRESS);
}

#[test]
#[ignore = "run as a child process"]
fn child_lives() {
    let Some(c) = ready() else { return };
    let (stream, empty) = (c.stream(1), kernel(&c, PROGRAMS[0], "empty"));
    pause();
    assert_eq!((launch(&c, empty, stream, 1), synchronise(&c, stream)), (0, 0));
}
