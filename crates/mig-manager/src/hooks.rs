//! Runs the programs of a hooks file before and after a change.

use crate::{Progress, Step};
use carve_formats::mig_hooks::{Hook, MigHooks};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use thiserror::Error;

/// Programs to run at named moments, and what they are told.
#[derive(Debug, Clone, Default)]
pub struct HookRunner {
    hooks: MigHooks,
    /// Added to each hook's own environment. Nothing else is inherited, as with mig-parted.
    environment: BTreeMap<String, String>,
    show_output: bool,
}

/// A hook that failed.
#[derive(Debug, Error)]
pub enum HookError {
    /// It could not be started.
    #[error("{name} hook '{command}' can not be started")]
    Start {
        /// When it runs.
        name: String,
        /// The program.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// It ended badly.
    #[error("{name} hook '{command}' failed ({status}){}", Output(.output))]
    Failed {
        /// When it runs.
        name: String,
        /// The program.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        output: String,
    },
}

struct Output<'a>(&'a str);

impl std::fmt::Display for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; it printed:\n{}", self.0) }
    }
}

impl HookRunner {
    /// Hooks of a file, with the environment they get.
    pub fn new(hooks: MigHooks, environment: BTreeMap<String, String>, show_output: bool) -> Self {
        HookRunner { hooks, environment, show_output }
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.hooks.hooks.values().all(Vec::is_empty)
    }

    /// Runs the hooks of one moment in order; the first failure ends it.
    pub(crate) fn run(&self, name: &str, progress: &mut dyn Progress) -> Result<(), HookError> {
        let hooks = self.hooks.hooks.get(name).map_or(&[][..], Vec::as_slice);
        if !hooks.is_empty() {
            progress.step(&Step::Hook(name.to_owned()));
        }
        hooks.iter().try_for_each(|hook| self.run_one(name, hook))
    }

    fn run_one(&self, name: &str, hook: &Hook) -> Result<(), HookError> {
        let mut command = Command::new(found_in_path(&hook.command));
        command.args(&hook.args).env_clear().envs(&hook.envs).envs(&self.environment).stdin(Stdio::null());
        if !hook.workdir.is_empty() {
            command.current_dir(&hook.workdir);
        }
        let start =
            |source| HookError::Start { name: name.to_owned(), command: hook.command.clone(), source };
        let (status, printed) = if self.show_output {
            (command.status().map_err(start)?, Vec::new())
        } else {
            let output = command.output().map_err(start)?;
            (output.status, [output.stdout, output.stderr].concat())
        };
        if status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let lines: Vec<&str> = printed.lines().collect();
        let output = lines[lines.len().saturating_sub(10)..].join("\n");
        Err(HookError::Failed { name: name.to_owned(), command: hook.command.clone(), status, output })
    }
}

/// A bare program name is looked up in our own PATH, since the hook gets none.
fn found_in_path(command: &str) -> PathBuf {
    if command.contains('/') {
        return PathBuf::from(command);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(command)).find(|file| is_file(file));
    found.unwrap_or_else(|| PathBuf::from(command))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}
