//! `carve gpus --watch` beside a machine that changes: what a pipe gets, what a terminal shows, and how it ends.

use carve_test_support::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const MACHINE: &str = "h200-141gb:2";

/// carve on a simulated machine in a folder.
fn carve(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carve"));
    command.env_clear().env("PATH", "/usr/bin:/bin").args(["--machine", MACHINE, "--state-dir"]).arg(state);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// A watch whose standard output is read.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let out = child.stdout.take().expect("a pipe");
        let (send, lines) = channel();
        // Ends when the other end of the channel is gone, and closes the pipe with that.
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Watching { child, lines }
    }

    /// The next line.
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// The next so many lines.
    fn block(&self, lines: usize) -> Vec<String> {
        (0..lines).map(|_| self.line()).collect()
    }
}

fn ended(child: &mut Child) -> ExitStatus {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // It would outlive the test.
    let _ = child.kill();
    panic!("it did not end");
}

fn signal(id: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(id).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("a signal");
}

fn apply(state: &Path, config: &str) {
    let file = "tests/sessions/layouts.yaml";
    let applied =
        carve(state).args(["mig", "apply", "-f", file, "-c", config]).stdout(Stdio::null()).status();
    assert!(applied.expect("it runs").success());
}

/// The UUID of the second GPU.
fn second_gpu(state: &Path) -> String {
    let output = carve(state).args(["gpus", "-o", "json"]).output().expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["gpus"][1]["uuid"].as_str().expect("a UUID").to_owned()
}

/// Writes the record of a claim as an agent does.
fn record(state: &Path, uid: &str, boot: &str, gpu: &str) {
    let folder = state.join("dra/claims");
    std::fs::create_dir_all(&folder).expect("a folder");
    let record = serde_json::json!({
        "boot": boot, "namespace": "team", "name": "train", "uid": uid, "stage": "ready",
        "devices": [{"request": "gpu", "device": "gpu-1", "gpu": gpu, "part": gpu, "usage": "alone"}],
    });
    let (new, path) = (folder.join(format!("{uid}.json.new")), folder.join(format!("{uid}.json")));
    std::fs::write(&new, record.to_string()).expect("a record");
    std::fs::rename(new, path).expect("a record");
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot").trim().to_owned()
}

#[test]
fn a_pipe_gets_a_table_for_every_change_and_none_without() {
    let state = tempfile::tempdir().expect("a folder");
    let mut command = carve(state.path());
    command.args(["gpus", "--watch", "--interval", "0.1"]);
    let mut watching = Watching::start(command);
    let first = watching.block(4);
    assert!(first[0].ends_with(" UTC") && first[0].len() == "00:00:00 UTC".len(), "{first:?}");
    assert_eq!(first[1], "GPU   NAME              MEMORY   MIG   PROCESSES");
    assert!(first[2].contains(" off ") && first[3].contains(" off "), "{first:?}");

    apply(state.path(), "balanced");
    // A change of the layout takes several steps, each of which may be seen; what is seen last is the end.
    let geometry = "2× 1g.18gb, 1× 2g.35gb, 1× 3g.71gb";
    let mut seen = Vec::new();
    while !seen.last().is_some_and(|line: &String| line.starts_with('1') && line.contains(geometry)) {
        seen.push(watching.line());
    }
    assert!(seen.iter().all(|line| !line.contains("USED")), "no claims, no column: {seen:?}");
    assert!(seen[0].is_empty(), "a blank line between two tables: {seen:?}");

    let gpu = second_gpu(state.path());
    // Left over from before the machine was switched on: nothing of it is there, and nothing changes.
    record(state.path(), "old-1", "another-boot", &gpu);
    record(state.path(), "new-1", &boot(), &gpu);
    let with = watching.block(5);
    assert!(with[2].contains("MIG") && with[2].contains("   USED"), "{with:?}");
    assert!(with[3].contains("   -   ") && with[4].contains("   alone: team/train   "), "{with:?}");
    std::fs::remove_file(state.path().join("dra/claims/new-1.json")).expect("a record");
    let without = watching.block(5);
    assert!(!without[2].contains("USED"), "{without:?}");

    signal(watching.child.id(), Signal::INT);
    assert_eq!(ended(&mut watching.child).code(), Some(0));
}

#[test]
fn a_reader_that_goes_ends_it_although_nothing_changes() {
    let state = tempfile::tempdir().expect("a folder");
    let mut command = carve(state.path());
    // No second look comes into this: only the reader can end it.
    command.args(["gpus", "--watch", "--interval", "86400"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut out = child.stdout.take().expect("a pipe");
    let mut first = [0; 100];
    out.read_exact(&mut first).expect("a table");
    assert!(child.try_wait().expect("a child").is_none(), "it goes on while somebody reads");
    drop(out);
    assert_eq!(ended(&mut child).code(), Some(0));
}

#[test]
fn signals_end_it_cleanly() {
    for which in [Signal::INT, Signal::TERM] {
        let state = tempfile::tempdir().expect("a folder");
        let mut command = carve(state.path());
        command.args(["gpus", "--watch", "-o", "wide", "--interval", "86400"]);
        let mut watching = Watching::start(command);
        watching.block(5);
        signal(watching.child.id(), which);
        assert_eq!(ended(&mut watching.child).code(), Some(0), "{which:?}");
        assert!(watching.lines.recv().is_err(), "nothing is printed in the end");
    }
}

#[test]
fn json_is_one_object_a_line() {
    let state = tempfile::tempdir().expect("a folder");
    let mut command = carve(state.path());
    command.args(["gpus", "--watch", "-o", "json", "--interval", "0.1"]);
    let mut watching = Watching::start(command);
    let object = |line: String| -> serde_json::Value {
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let first = object(watching.line());
    assert!(first["at"].as_str().is_some_and(|at| at.ends_with('Z') && at.len() == 20), "{first:#}");
    assert!(first["gpus"][1].get("claims").is_none(), "{first:#}");
    record(state.path(), "new-1", &boot(), &second_gpu(state.path()));
    let second = object(watching.line());
    assert_eq!(second["gpus"][1]["usedAs"], "alone: team/train");
    assert_eq!(second["gpus"][1]["claims"][0]["usage"], "alone");
    assert_eq!(second["gpus"][0]["claims"], serde_json::json!([]));
    signal(watching.child.id(), Signal::INT);
    assert_eq!(ended(&mut watching.child).code(), Some(0));
}

#[test]
fn a_terminal_is_drawn_over() {
    let script = Path::new("/usr/bin/script");
    if !script.exists() {
        let ci = std::env::var("CI");
        assert_ne!(ci.as_deref(), Ok("true"), "script is not installed, and CI must not skip");
        eprintln!("SKIPPED: script (of bsdutils) is not installed, so there is no terminal to try");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let pid = state.path().join("pid");
    let line = format!(
        "stty cols 60 rows 20; echo $$ > {}; exec {} --machine {MACHINE} --state-dir {} gpus --watch --interval 0.1",
        pid.display(),
        env!("CARGO_BIN_EXE_carve"),
        state.path().display()
    );
    let mut command = Command::new(script);
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut out = child.stdout.take().expect("a pipe");
    let (mut shown, mut piece) = (String::new(), [0; 4096]);
    let mut read_until = |wanted: &str, shown: &mut String| {
        while !shown.contains(wanted) {
            let count = out.read(&mut piece).expect("a terminal");
            assert_ne!(count, 0, "it ended before {wanted:?}: {shown:?}");
            shown.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    };
    // Four lines: when, the header, two GPUs; back over them and everything below goes.
    read_until("\x1b[4F\x1b[J", &mut shown);
    assert!(shown.contains(" UTC, every 0.1 s; Ctrl-C ends\r\n"), "{shown:?}");
    record(state.path(), "new-1", &boot(), &second_gpu(state.path()));
    read_until("alone", &mut shown);
    // What stderr had to say came first.
    let (_, drawn) = shown.split_once('\n').expect("lines");
    let widest = drawn.split(['\n', '\r', '\x1b']).map(|line| line.chars().count()).max();
    assert!(widest <= Some(60 + "[4F".len()), "lines end where the terminal does: {shown:?}");
    let id = std::fs::read_to_string(&pid).expect("a pid").trim().parse().expect("a pid");
    signal(id, Signal::INT);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the rest");
    assert_eq!(ended(&mut child).code(), Some(0));
    assert!(rest.ends_with("\r\n"), "the prompt begins on a line of its own: {rest:?}");
}
