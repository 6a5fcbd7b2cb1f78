//! Scripted sessions: commands in, everything they print out, held against what was recorded.
//!
//! A session is a text file. A line `$ carve …` runs the program; what it prints follows, stderr lines with `! ` in
//! front, and `? N` where the exit code is not 0. `# …` is a comment. With `UPDATE_SESSIONS=1` the file is rewritten.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a session and compares; panics with the first difference.
#[allow(clippy::panic, reason = "a test helper: the panic is the test's failure")]
pub fn check_session(program: &Path, session: &Path, state: &Path) {
    let text =
        std::fs::read_to_string(session).unwrap_or_else(|error| panic!("{}: {error}", session.display()));
    let played = play(program, session, state, &text);
    if played == text {
        return;
    }
    if std::env::var_os("UPDATE_SESSIONS").is_some() {
        std::fs::write(session, played).unwrap_or_else(|error| panic!("{}: {error}", session.display()));
        return;
    }
    let line = played.lines().zip(text.lines()).take_while(|(now, then)| now == then).count();
    let at = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_owned();
    panic!(
        "{}:{}: the session differs\n  recorded: {}\n  now:      {}\nUPDATE_SESSIONS=1 rewrites it; the whole of now:\n{played}",
        session.display(),
        line + 1,
        at(&text),
        at(&played)
    );
}

fn play(program: &Path, session: &Path, state: &Path, text: &str) -> String {
    let mut played = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        // A blank line before a comment or command is the session's own; any other is a command's output.
        let own = line.is_empty()
            && lines.peek().is_some_and(|next| next.starts_with('#') || next.starts_with("$ "));
        if let Some(command) = line.strip_prefix("$ ") {
            let _ = writeln!(played, "{line}");
            run(program, session, state, command, &mut played);
        } else if line.starts_with('#') || own {
            let _ = writeln!(played, "{line}");
        }
    }
    played
}

/// Runs one command line through the shell, with `carve` being the program under test.
#[allow(clippy::panic, reason = "a test helper: the panic is the test's failure")]
fn run(program: &Path, session: &Path, state: &Path, command: &str, played: &mut String) {
    let script = format!("carve() {{ {} \"$@\"; }}; {command}", program.display());
    let output = Command::new("/bin/sh")
        .args(["-c", &script])
        .current_dir(session.parent().unwrap_or(Path::new(".")))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", state)
        .env("STATE", state)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("can not run {command}: {error}"));
    let clean = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&state.display().to_string(), "$STATE");
    for line in clean(&output.stdout).lines() {
        let _ = writeln!(played, "{line}");
    }
    for line in clean(&output.stderr).lines() {
        let _ = writeln!(played, "! {line}");
    }
    if let Some(code) = output.status.code().filter(|code| *code != 0) {
        let _ = writeln!(played, "? {code}");
    }
}
