//! The README's first five minutes, to the letter: its commands are run as they stand there, in a terminal, against the demo of `carve up`. With
//! `UPDATE_RECORDING=1` what they print becomes the recording that the README shows.

mod film;

use film::{COLUMNS, ROWS, Scene, cast, picture};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CARVE: &str = env!("CARGO_BIN_EXE_carve");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of the section, without what is said about them.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let section = readme.split("## First five minutes").nth(1).expect("the section");
    let block =
        section.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).expect("commands");
    let lines = block.lines().filter_map(|line| line.strip_prefix("$ "));
    lines.map(|line| line.split("  #").next().unwrap_or(line).trim().to_owned()).collect()
}

struct Up {
    state: TempDir,
    child: Child,
}

impl Up {
    fn shell(&self, command: &str) -> Command {
        // A function where people have an alias, which shells know only when they are used by people.
        let script = format!("stty cols {COLUMNS} rows {ROWS}; carve() {{ {CARVE} \"$@\"; }}; {command}");
        let mut shell = Command::new("script");
        shell
            .args(["--quiet", "--flush", "--return", "--command"])
            .arg(format!("bash -c '{}'", script.replace('\'', "'\\''")));
        shell.arg("/dev/null").env("XDG_STATE_HOME", self.state.path()).env("TERM", "xterm-256color");
        shell.env_remove("KUBECONFIG").env_remove("CARVE_STATE_DIR").env_remove("NO_COLOR");
        shell
    }

    fn scene(&self, command: &str) -> Scene {
        let mut shell = self.shell(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().expect("a terminal");
        let mut keys = child.stdin.take().expect("a keyboard");
        if command == "carve top" {
            std::thread::sleep(Duration::from_secs(3));
            keys.write_all(b"q").expect("a key");
        }
        let output = child.wait_with_output().expect("its end");
        drop(keys);
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command}: {words}");
        assert!(words.trim().len() > 20, "{command}: {words}");
        Scene { command: command.to_owned(), printed: output.stdout }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_first_five_minutes_are_as_the_readme_says() {
    if !Path::new("/usr/bin/script").exists() {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "script is not installed, and CI must not skip"
        );
        eprintln!("SKIPPED: script (of bsdutils) is not installed, so there is no terminal to try");
        return;
    }
    let commands = commands();
    assert!(commands[0].starts_with("cargo build --release"), "{}", commands[0]);
    assert_eq!(commands[1], "carve up");
    let state = tempfile::tempdir().expect("a folder");
    let told = state.path().join("told");
    let mut command = Command::new(CARVE);
    command.arg("up").env("XDG_STATE_HOME", state.path()).env("CARVE_UP_LISTEN", "127.0.0.1:0");
    let child = command
        .stdout(Stdio::null())
        .stderr(File::create(&told).expect("a file"))
        .spawn()
        .expect("it starts");
    let up = Up { state, child };
    // Until somebody has got something to wait for, and somebody something to pay for.
    let start = Instant::now();
    let waits = |up: &Up| {
        let mut asked = Command::new(CARVE);
        asked
            .args(["get", "pods", "-n", "lab", "-l", "app=pretrain"])
            .env("XDG_STATE_HOME", up.state.path())
            .env_remove("KUBECONFIG");
        let output = asked.output().expect("an answer");
        String::from_utf8_lossy(&output.stdout).contains("Pending")
    };
    while !waits(&up) {
        assert!(start.elapsed() < Duration::from_secs(90), "the demo does not begin");
        std::thread::sleep(Duration::from_millis(300));
    }
    std::thread::sleep(Duration::from_secs(3));
    let printed = std::fs::read_to_string(&told).expect("what it said").replace('\n', "\r\n");
    let printed = printed.replace(&up.state.path().display().to_string(), "~/.local/state");
    let mut scenes = vec![Scene { command: commands[1].clone(), printed: printed.into_bytes() }];
    scenes.extend(commands[2..].iter().map(|command| up.scene(command)));
    let (film, recording) = (
        root().join("docs/images/first-five-minutes.svg"),
        root().join("docs/images/first-five-minutes.cast"),
    );
    if std::env::var_os("UPDATE_RECORDING").is_some() {
        std::fs::write(&film, picture(&scenes)).expect("a picture");
        std::fs::write(&recording, cast(&scenes)).expect("a recording");
    }
    let shown = std::fs::read_to_string(&film).expect("the picture");
    let title =
        shown.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).expect("a title");
    let of = commands[1..].join("; ").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    assert!(
        title.ends_with(&of),
        "the recording is of other commands than the README's; write it anew with UPDATE_RECORDING=1"
    );
}
