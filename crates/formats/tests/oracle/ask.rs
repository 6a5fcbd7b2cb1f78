//! The conversation with the oracle process: one line asked, one line answered.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running oracle.
#[derive(Debug)]
pub(crate) struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What the Go packages say.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whether they accept the document.
    pub(crate) ok: bool,
    /// Their sentence where they do not.
    pub(crate) error: String,
    /// Their value as JSON text where they do.
    pub(crate) json: String,
}

impl Oracle {
    /// Starts the program that `CARVE_ORACLE` names, or says that the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        let Ok(program) = std::env::var("CARVE_ORACLE") else {
            eprintln!("SKIPPED: CARVE_ORACLE names no oracle (see conformance/oracle)");
            return None;
        };
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("oracle starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Some(Oracle { child, input, output })
    }

    /// Asks how a document of a kind is read.
    pub(crate) fn ask(&mut self, kind: &str, text: &str) -> Answer {
        let question = serde_json::json!({ "kind": kind, "text": text });
        writeln!(self.input, "{question}").expect("oracle reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("oracle answers");
        let answer: serde_json::Value = serde_json::from_str(&line).expect("an answer is JSON");
        // The value is compared as text, so it is cut out of the line rather than parsed.
        let json = line.trim_end().split_once("\"json\":").map_or("", |(_, json)| json);
        Answer {
            ok: answer["ok"] == true,
            error: answer["error"].as_str().unwrap_or_default().to_owned(),
            json: json.strip_suffix('}').unwrap_or(json).to_owned(),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
