//! Reads config and hooks files, and turns what is wrong with them into messages.

use crate::args::ConfigArgs;
use crate::failure::Failure;
use crate::input;
use carve_formats::mig_parted::{ConfigEntry, SelectError};
use carve_formats::{Diagnostic, MigPartedConfig, mig_hooks::MigHooks};
use std::path::Path;

/// The selected config of a file: its name and its entries.
pub(crate) fn load(args: &ConfigArgs) -> Result<(String, Vec<ConfigEntry>), Failure> {
    let text = input::read(&args.config_file)?;
    let file = input::shown(&args.config_file);
    let (config, warnings) =
        MigPartedConfig::parse(&text).into_result().map_err(|found| refused(&file, "config", &found))?;
    let (name, entries) = config.select(args.selected_config.as_deref()).map_err(|error| {
        let names: Vec<&str> = config.configs.keys().map(String::as_str).collect();
        let hint = match (&error, names.is_empty()) {
            (_, true) => "the file holds no config at all".to_owned(),
            (SelectError::Ambiguous, _) => format!("choose one with -c: {}", some(&names)),
            (SelectError::NotPresent(_), _) => format!("the file holds {}", some(&names)),
        };
        let message = match &error {
            SelectError::Ambiguous => format!("{file} holds {} configs", names.len()),
            SelectError::NotPresent(name) => format!("{file} has no config '{name}'"),
        };
        Failure::new(message).hint(hint)
    })?;
    // What is doubtful about the other configs of the file is not the matter now.
    let path = format!("mig-configs.{name}");
    let meant: Vec<Diagnostic> = warnings.into_iter().filter(|found| found.path.starts_with(&path)).collect();
    warn(&file, &meant);
    Ok((name.to_owned(), entries.to_vec()))
}

/// As many names as a person reads.
fn some(names: &[&str]) -> String {
    const MOST: usize = 12;
    match names.len() {
        more if more > MOST => format!("{} and {} more", names[..MOST].join(", "), more - MOST),
        _ => names.join(", "),
    }
}

/// The hooks of a file.
pub(crate) fn load_hooks(path: &Path) -> Result<MigHooks, Failure> {
    let text = input::read(path)?;
    let file = input::shown(path);
    let (hooks, warnings) =
        MigHooks::parse(&text).into_result().map_err(|found| refused(&file, "hooks file", &found))?;
    warn(&file, &warnings);
    Ok(hooks)
}

/// Everything that is wrong with a file, as one failure.
fn refused(file: &str, what: &str, found: &[Diagnostic]) -> Failure {
    let lines: Vec<String> = found.iter().map(|diagnostic| format!("  {}", line(file, diagnostic))).collect();
    Failure::new(format!("{file} is not a valid mig-parted {what}\n{}", lines.join("\n")))
        .hint(format!("'carve validate {file}' says more"))
}

fn warn(file: &str, warnings: &[Diagnostic]) {
    for warning in warnings {
        eprintln!("warning: {}", line(file, warning));
    }
}

/// `file:line: message`.
fn line(file: &str, diagnostic: &Diagnostic) -> String {
    let place = diagnostic.at.map_or(String::new(), |at| format!(":{}", at.line));
    format!("{file}{place}: {}", diagnostic.message)
}
