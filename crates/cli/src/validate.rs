//! `carve validate`: checks configuration files and says what NVIDIA's programs would not.

use crate::args::ValidateArgs;
use crate::failure::{FAILED, Failure, Outcome, UNREADABLE};
use crate::input;
use crate::print;
use carve_formats::{Diagnostic, Severity, kubernetes_yaml, lint};
use carve_gpu_host::Machine;
use carve_karpenter::Translation;
use serde_json::Value;
use std::path::Path;

/// Checks every file. The worst one decides the exit code: 0 fine, 1 invalid, 2 unreadable.
pub(crate) fn validate(args: &ValidateArgs) -> Outcome {
    let mut code = 0;
    for file in &args.files {
        match input::read(file) {
            Ok(text) => code = code.max(look(file, &text, args.fix)?),
            Err(failure) => {
                eprintln!("error: {}", failure.message);
                code = code.max(UNREADABLE);
            }
        }
    }
    match code {
        0 => Ok(()),
        code => Err(Failure { code, ..Failure::new("") }),
    }
}

/// One file: Karpenter's old documents are brought up to date or named, everything else is checked.
fn look(file: &Path, text: &str, fix: bool) -> Result<u8, Failure> {
    let (nodes, error) = kubernetes_yaml::parse_stream(text);
    if error.is_some() {
        return check(file, text);
    }
    let documents: Vec<Value> =
        nodes.iter().filter_map(|node| serde_json::from_str(&node.to_json()).ok()).collect();
    let Some(translation) = carve_karpenter::translate(&documents) else { return check(file, text) };
    let shown = input::shown(file);
    if fix {
        let translation = match translation {
            Ok(translation) => translation,
            Err(refusal) => {
                // What is printed may be on its way to the API server.
                eprintln!("error: {shown}: {refusal}");
                return Ok(FAILED);
            }
        };
        // Beside the documents, so that these can be applied as they come.
        translation.notes.iter().for_each(|note| eprintln!("note: {note}"));
        print::out(&translated(&translation)?)?;
        return Ok(0);
    }
    let old = "documents of v1alpha5, which no release of Karpenter since 0.33 reads";
    print::out(&format!(
        "{shown}: {old}: 1 error\n    hint: 'carve validate --fix {shown}' prints what they are in v1\n"
    ))?;
    Ok(FAILED)
}

/// Documents one after the other.
fn translated(translation: &Translation) -> Result<String, Failure> {
    let mut text = String::new();
    for document in &translation.documents {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(document).map_err(|error| Failure::of(&error))?);
    }
    Ok(text)
}

fn check(file: &Path, text: &str) -> Result<u8, Failure> {
    let report = lint(text);
    let shown = input::shown(file);
    if report.has_errors() && report.documents.iter().all(|document| document.format.is_none()) {
        // Our own format, which the linter of foreign ones does not know.
        if let Ok(machine) = Machine::parse(text) {
            print::out(&format!("{shown}: machine description '{}': ok\n", machine.name()))?;
            return Ok(0);
        }
    }
    for document in &report.documents {
        let name = if document.name.is_empty() { String::new() } else { format!(" ({})", document.name) };
        let count = |severity| document.diagnostics.iter().filter(|found| found.severity == severity).count();
        let verdict = match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => "ok".to_owned(),
            (0, warnings) => format!("ok, {warnings} warning{}", plural(warnings)),
            (errors, 0) => format!("{errors} error{}", plural(errors)),
            (errors, warnings) => {
                format!("{errors} error{}, {warnings} warning{}", plural(errors), plural(warnings))
            }
        };
        let format = document.format.map_or(String::new(), |format| format!("{}: ", format.title()));
        print::out(&format!("{shown}{name}: {format}{verdict}\n"))?;
        for found in &document.diagnostics {
            print::out(&finding(&shown, found))?;
        }
    }
    Ok(if report.has_errors() { FAILED } else { 0 })
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

/// `file:line:column: error: message (in path)`, with the hint on its own line.
fn finding(file: &str, found: &Diagnostic) -> String {
    let place = found.at.map_or(String::new(), |at| format!(":{}:{}", at.line, at.column));
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let path = if found.path.is_empty() { String::new() } else { format!(" (in {})", found.path) };
    let hint = found.hint.as_ref().map_or(String::new(), |hint| format!("    hint: {hint}\n"));
    format!("  {file}{place}: {severity}: {}{path}\n{hint}", found.message)
}
