//! On a terminal, a change shows its steps on one line that goes away; elsewhere it shows none.

use std::path::Path;
use std::process::Command;

const LAYOUT: &str = "tests/sessions/layouts.yaml";

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let script = Path::new("/usr/bin/script");
    if !script.exists() {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "script is not installed, and CI must not skip"
        );
        eprintln!("SKIPPED: script (of bsdutils) is not installed, so there is no terminal to try");
        return;
    }
    let state = tempfile::tempdir().expect("a temporary folder");
    let carve =
        format!("{} --state-dir {} --machine h200", env!("CARGO_BIN_EXE_carve"), state.path().display());
    let apply = |config: &str| format!("{carve} mig apply -f {LAYOUT} -c {config}");
    let run = |program: &Path, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let shown = run(script, &["-qec", &apply("balanced"), "/dev/null"]);
    assert!(shown.contains("[1/6] GPU 0: switching MIG on"), "{shown}");
    assert!(shown.contains("[6/6] verifying"), "{shown}");
    assert!(shown.contains("\r\u{1b}[K"), "the line goes away: {shown:?}");
    let simulate =
        format!("{carve} simulate ../../examples/simulate/pods.csv --seeds 1-3 --policy fgd --no-bounds");
    let bar = run(script, &["-qec", &simulate, "/dev/null"]);
    assert!(bar.contains("/3 fgd, seed "), "a bar counts the runs: {bar:?}");
    let plain = run(Path::new("/bin/sh"), &["-c", &simulate]);
    assert!(!plain.contains("/3 fgd") && !plain.contains('\u{1b}'), "{plain}");
    let plain = run(Path::new("/bin/sh"), &["-c", &apply("small")]);
    assert!(!plain.contains("[1/") && !plain.contains('\u{1b}'), "{plain}");
}
