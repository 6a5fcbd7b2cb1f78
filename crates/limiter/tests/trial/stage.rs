//! A container as the limiter finds it: its shared object, limits and usage in one folder, and a program to run there.

#[path = "../../../nvml-sim/tests/support/built.rs"]
mod built;

use carve_limiter_abi::{Limits, Region};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::CString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;

/// The limit that most tests have.
pub(crate) const LIMIT: u64 = 64 * MIB;

/// The shared object, as `cargo xtask limiter` built it.
pub(crate) fn limiter() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/limiter/release/libcarve_limiter.so");
    assert!(path.exists(), "{} is not there: run `cargo xtask limiter` first", path.display());
    path
}

/// One that ends processes at the points that a test names, as `cargo xtask limiter` built it beside the other.
#[allow(dead_code, reason = "not every suite ends processes there")]
pub(crate) fn limiter_with_faults() -> PathBuf {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/limiter-faults/release/libcarve_limiter.so");
    assert!(path.exists(), "{} is not there: run `cargo xtask limiter` first", path.display());
    path
}

/// A folder with the simulated driver as `libcuda.so.1`, and programs beside it.
pub(crate) fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(concat!("limiter-", env!("CARGO_CRATE_NAME")));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let driver = built::package("carve-cuda-sim").join("libcarve_cuda_sim.so");
        std::os::unix::fs::symlink(driver, folder.join("libcuda.so.1")).unwrap();
        let operators = built::library();
        std::os::unix::fs::symlink(operators, folder.join("libnvidia-ml.so.1")).unwrap();
        let driver = folder.join("libcuda.so.1").display().to_string();
        compile(&folder, "program.c", "program", &["-ldl", "-pthread"]);
        compile(&folder, "program.c", "linked", &["-DLINKED", &driver, "-ldl", "-pthread"]);
        compile(&folder, "rare.c", "rare", &["-ldl"]);
        compile(&folder, "hooks.c", "hooks", &["-ldl"]);
        compile(&folder, "graphs.c", "graphs", &["-ldl", "-pthread"]);
        compile(&folder, "interposer.c", "libinterposer.so", &["-shared", "-fPIC", "-ldl"]);
        compile(&folder, "wrapper.c", "libwrapper.so", &["-shared", "-fPIC", "-ldl"]);
        compile(&folder, "user.c", "libuser.so", &["-shared", "-fPIC", &driver]);
        compile(&folder, "host.c", "host", &["-ldl"]);
        folder
    })
}

fn compile(folder: &Path, source: &str, result: &str, more: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trial").join(source);
    let mut command = Command::new("gcc");
    command.args(["-O1", "-Wall", "-Werror", "-o"]).arg(folder.join(result)).arg(&source).args(more);
    let output = command.output().expect("gcc is there");
    assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What most tests limit: memory only.
pub(crate) fn memory_limits() -> Limits {
    Limits { memory: LIMIT, compute: 0, context: 0, burst: false, pass: false, mps: false }
}

/// A program on one simulated H200, without a limiter.
pub(crate) fn on_simulated_gpu(program: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in ["LD_PRELOAD", "CARVE_SIM_STATE", "CARVE_SIM_CUDA_CLOCK", "CARVE_SIM_CUDA_FAULT"] {
        command.env_remove(variable);
    }
    command.env("CARVE_SIM_MACHINE", "h200").env("LD_LIBRARY_PATH", programs());
    command
}

/// The UUID of the simulated GPU.
fn uuid() -> &'static str {
    static UUID: OnceLock<String> = OnceLock::new();
    UUID.get_or_init(|| first_uuid(on_simulated_gpu(&programs().join("program"))))
}

/// The UUID of the first GPU that the test program sees.
fn first_uuid(mut program: Command) -> String {
    let output = program.args(["dlsym", "uuid"]).output().unwrap();
    format!("GPU-{}", String::from_utf8(output.stdout).unwrap().trim())
}

/// The folder.
pub(crate) struct Stage {
    folder: TempDir,
    /// The GPU whose share it is.
    uuid: String,
}

impl Stage {
    /// One whose limits are held.
    pub(crate) fn new(limits: Limits) -> Self {
        let stage = Stage::with_files(&limits.to_bytes(), &vec![0; Region::SIZE]);
        stage.region().prepare();
        stage
    }

    /// One with whatever is in its files.
    pub(crate) fn with_files(limits: &[u8], usage: &[u8]) -> Self {
        Stage::of(uuid(), limits, usage)
    }

    /// One with a share of a GPU.
    pub(crate) fn of(uuid: &str, limits: &[u8], usage: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(limiter(), folder.path().join("libcarve_limiter.so")).unwrap();
        let stage = Stage { folder, uuid: uuid.to_owned() };
        for (kind, bytes) in [("limits", limits), ("usage", usage)] {
            let file = stage.file(kind);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, bytes).unwrap();
        }
        stage
    }

    /// The same with another shared object.
    #[allow(dead_code, reason = "not every suite has another")]
    pub(crate) fn with_library(self, library: &Path) -> Self {
        std::fs::copy(library, self.library()).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The file of limits or of usage.
    pub(crate) fn file(&self, kind: &str) -> PathBuf {
        self.path().join(kind).join(&self.uuid).join("share")
    }

    /// Lets the limits count for the first GPU of another machine.
    pub(crate) fn on_machine(&self, machine: &str) {
        let mut program = on_simulated_gpu(&programs().join("program"));
        program.env("CARVE_SIM_MACHINE", machine);
        let other = first_uuid(program);
        for kind in ["limits", "usage"] {
            std::os::unix::fs::symlink(uuid(), self.path().join(kind).join(&other)).unwrap();
        }
    }

    /// What to preload.
    pub(crate) fn library(&self) -> PathBuf {
        self.path().join("libcarve_limiter.so")
    }

    /// The memory in which use is counted, mapped for as long as the test runs.
    pub(crate) fn region(&self) -> &'static Region {
        let path = CString::new(self.file("usage").into_os_string().into_encoded_bytes()).unwrap();
        let file =
            rustix::fs::openat(CWD, path.as_c_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the file is as long as a region, all of whose fields are atomic numbers, and it is never unmapped.
        unsafe {
            let mapped =
                rustix::mm::mmap(std::ptr::null_mut(), Region::SIZE, access, MapFlags::SHARED, &file, 0);
            &*mapped.unwrap().cast::<Region>()
        }
    }

    /// Bytes that the container's processes hold.
    pub(crate) fn held(&self) -> u64 {
        self.region().usage().held
    }

    /// A program under the limiter.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = on_simulated_gpu(program);
        command.env("LD_PRELOAD", self.library());
        command
    }

    /// The test program, told what to do.
    pub(crate) fn program(&self, way: &str, steps: &[&str]) -> Command {
        let name = if way == "linked" { "linked" } else { "program" };
        let mut command = self.command(&programs().join(name));
        command.arg(way).args(steps);
        command
    }

    /// Runs it to its end and answers the lines that it printed.
    pub(crate) fn run(&self, way: &str, steps: &[&str]) -> Vec<String> {
        finish(self.program(way, steps))
    }

    /// Starts it.
    pub(crate) fn start(&self, way: &str, steps: &[&str]) -> Running {
        Running::start(self.program(way, steps))
    }
}

/// Runs a command that must succeed silently but for its lines.
pub(crate) fn finish(mut command: Command) -> Vec<String> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && trouble.is_empty(), "{command:?}: {}\n{told}{trouble}", output.status);
    told.lines().map(str::to_owned).collect()
}

/// A test program that runs beside the test.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
    input: Option<ChildStdin>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let input = child.stdin.take();
        Running { child, lines, input }
    }

    /// The next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads on until it stands at `pause`, and answers the lines before.
    pub(crate) fn until_pause(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "it ended after {lines:?}");
            if line.starts_with("pause ") {
                return lines;
            }
            lines.push(line);
        }
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) {
        use std::io::Write;
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Lets it come to its end and answers the remaining lines.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.input.take());
        let lines = self.lines.by_ref().lines().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success());
        lines
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
