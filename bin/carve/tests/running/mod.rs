//! A `carve up` for tests, and how it is talked to.
#![allow(dead_code, reason = "every suite uses a part of it")]

use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CARVE: &str = env!("CARGO_BIN_EXE_carve");

/// A `carve up`, and everything of it.
pub(crate) struct Up {
    state: TempDir,
    child: Child,
    pub(crate) url: String,
}

fn carve(state: &Path) -> Command {
    let mut command = Command::new(CARVE);
    command.env("XDG_STATE_HOME", state).env_remove("KUBECONFIG").env_remove("CARVE_STATE_DIR");
    command
}

impl Up {
    pub(crate) fn start(state: TempDir, words: &[&str]) -> Self {
        let told = state.path().join("told");
        let at = state.path().to_owned();
        Up::start_at(state, &at, &told, words)
    }

    /// Keeps its state in `at`, and what it says in `told`.
    pub(crate) fn start_at(state: TempDir, at: &Path, told: &Path, words: &[&str]) -> Self {
        let log = File::create(told).expect("a file");
        let mut command = carve(at);
        command.args(["up", "--listen", "127.0.0.1:0"]).args(words);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let url = until("it says where its page is", || {
            let text = std::fs::read_to_string(told).ok()?;
            let line = text.lines().find(|line| line.trim_start().starts_with("page"))?;
            Some(line.split_whitespace().last()?.to_owned())
        });
        Up { state, child, url }
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut answer = agent.get(format!("{}{path}", self.url)).call().expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) fn post(&self, path: &str, kind: &str, body: &str) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let sent = agent.post(format!("{}{path}", self.url)).header("content-type", kind).send(body);
        let mut answer = sent.expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) fn run(&self, words: &[&str], input: &str) -> Output {
        let mut command = carve(self.state.path());
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        // A verb that reads nothing may be gone already.
        let _ = child.stdin.take().expect("stdin").write_all(input.as_bytes());
        child.wait_with_output().expect("it ends")
    }

    pub(crate) fn said(&self, words: &[&str], input: &str) -> String {
        let output = self.run(words, input);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "carve {}: {err}", words.join(" "));
        out.into_owned()
    }

    /// The same, of one that keeps its state elsewhere.
    pub(crate) fn said_at(&self, at: &Path, words: &[&str]) -> String {
        let output = carve(at).args(words).output().expect("it starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "carve {}: {err}", words.join(" "));
        out.into_owned()
    }

    pub(crate) fn refused(&self, words: &[&str], input: &str) -> (i32, String) {
        let output = self.run(words, input);
        assert!(!output.status.success(), "carve {} was not refused", words.join(" "));
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Kills it without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it is gone");
    }

    /// Kills it without a word, and starts it again on the same state.
    pub(crate) fn kill_and_start(mut self, words: &[&str]) -> Self {
        self.kill();
        let state = std::mem::replace(&mut self.state, tempfile::tempdir().expect("a folder"));
        drop(self);
        Up::start(state, words)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

pub(crate) fn deployment(name: &str, replicas: u32, limits: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      containers:\n      - {{name: main, image: i, resources: {{limits: {{{limits}}}}}}}\n"
    )
}
