//! The test programs that cargo builds, run from a queue instead of one after another.

use crate::queue::Job;
use crate::root;
use crate::run::{cargo, forget_ourselves};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tells tests where everything is built already: each would ask cargo for one package alone, with other features, and replace under the
/// feet of the others what they run.
pub(crate) const BUILT: &str = "CARVE_TEST_ALL_IS_BUILT";

/// Which cases properties are tried with.
pub(crate) const SEED: &str = "PROPTEST_RNG_SEED";

/// Programs that want the machine for themselves, or leave a lab another one. They run after all others with nothing beside them, those
/// that need a lab in this order.
pub(crate) const ALONE: &[&str] = &[
    // Holds GPU time against time that passes, of programs that must get a processor when they want one.
    "cluster-tests/tests/usage_told.rs",
    // Karpenter brings another machine where a pod is not bound within seconds of the machine that came for it.
    "cluster-tests/tests/karpenter_overlays.rs",
    // A thousand nodes, which stay until the lab ends.
    "cluster-tests/tests/schedule_fleet.rs",
    // Holds shares of a GPU against time that passes.
    "crates/limiter/tests/time/main.rs",
];

/// Programs and libraries of the whole workspace.
fn built() -> PathBuf {
    root().join("target/debug")
}

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// The file it is made of, seen from the repository.
    pub(crate) source: PathBuf,
    executable: PathBuf,
    /// The package's folder, in which its tests run.
    folder: PathBuf,
}

/// Builds every test program of the workspace, or only those of files in a `tests` folder that have these names. The features are those of
/// the workspace either way.
pub(crate) fn build(only: &[String]) -> Result<Vec<TestProgram>> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(only.iter().flat_map(|name| ["--test", name.as_str()]));
    let output = command.stderr(Stdio::inherit()).output().context("can not start cargo")?;
    if !output.status.success() {
        bail!("{command:?} failed ({})", output.status);
    }
    let programs = read(&String::from_utf8_lossy(&output.stdout), &root())?;
    if programs.is_empty() {
        bail!("cargo named no test program");
    }
    Ok(programs)
}

/// The test programs among cargo's messages.
fn read(messages: &str, root: &Path) -> Result<Vec<TestProgram>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).with_context(|| format!("cargo says {line}"))?;
        // Whatever is run by tests is built as well, and is no test.
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            continue;
        }
        let Some(executable) = message["executable"].as_str() else { continue };
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let source = path(&message["target"]["src_path"]).context("a program has a source")?;
        let manifest = path(&message["manifest_path"]).context("a package has a manifest")?;
        found.push(TestProgram {
            source: source.strip_prefix(root).unwrap_or(&source).to_owned(),
            executable: PathBuf::from(executable),
            folder: manifest.parent().context("a manifest is in a folder")?.to_owned(),
        });
    }
    Ok(found)
}

impl TestProgram {
    /// The file or the folder with all its tests.
    pub(crate) fn sources(&self) -> PathBuf {
        let source = root().join(&self.source);
        if source.parent().is_some_and(|folder| folder.ends_with("tests")) {
            return source;
        }
        source.parent().map_or_else(root, Path::to_path_buf)
    }

    /// Runs it as cargo would, with the same cases each time: a run that fails fails again, and other cases have a task of their own.
    pub(crate) fn job(&self) -> Job {
        let mut command = Command::new(&self.executable);
        forget_ourselves(&mut command);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env(BUILT, built());
        if std::env::var_os(SEED).is_none() {
            command.env(SEED, "1");
        }
        let alone = ALONE.iter().any(|alone| self.source == Path::new(alone));
        Job { name: self.source.display().to_string(), command, alone }
    }
}

/// The examples in documentation, which no program of cargo's contains.
pub(crate) fn documentation() -> Job {
    let mut command = cargo();
    command.args(["test", "--workspace", "--doc", "--no-fail-fast"]).env(BUILT, built());
    Job { name: "examples in documentation".to_owned(), command, alone: false }
}

#[cfg(test)]
mod tests {
    use super::{ALONE, read};
    use std::path::Path;

    #[test]
    fn programs_that_run_alone_exist() {
        for program in ALONE {
            assert!(crate::root().join(program).is_file(), "{program} is no test program any more");
        }
    }

    #[test]
    fn test_programs_are_told_from_everything_else_that_is_built() {
        let artifact = |name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/planner/Cargo.toml","target":{{"src_path":"/r/crates/planner/{name}"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            r#"{"reason":"build-script-executed"}"#.to_owned(),
            artifact("src/lib.rs", false, "null"),
            artifact("examples/tool.rs", false, "\"/r/target/debug/examples/tool\""),
            artifact("tests/verify.rs", true, "\"/r/target/debug/deps/verify-1\""),
        ];
        let found = read(&messages.join("\n"), Path::new("/r")).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].source, Path::new("crates/planner/tests/verify.rs"));
        assert_eq!(found[0].folder, Path::new("/r/crates/planner"));
        let job = found[0].job();
        assert_eq!(job.command.get_program(), "/r/target/debug/deps/verify-1");
        assert_eq!(job.command.get_current_dir(), Some(Path::new("/r/crates/planner")));
        assert!(read("what is this", Path::new("/r")).is_err());
    }
}
