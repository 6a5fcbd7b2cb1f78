//! The hooks file of mig-parted, version v1: commands to run around a change.
//!
//! mig-parted checks almost nothing here: any version passes, and a hook with a misspelled name simply never runs.

use crate::diagnostic::{At, Finding, Parsed, Place, Report};
use crate::go_json;
use crate::kubernetes_yaml::{self, Node};
use crate::suggestion::{did_you_mean, nearest};
use crate::yaml_print::{Context, flow_list, scalar};
use std::collections::BTreeMap;

/// The hooks that mig-parted runs, in the order in which it runs them.
pub const HOOK_NAMES: [&str; 4] = ["apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit"];

const TOP_FIELDS: &[&str] = &["version", "hooks"];
const HOOK_FIELDS: &[&str] = &["command", "args", "envs", "workdir"];

/// Commands by the name of the hook.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigHooks {
    /// Also hooks with names that are never run.
    pub hooks: BTreeMap<String, Vec<Hook>>,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hook {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, to which mig-parted adds only its own `MIG_PARTED_*` variables.
    pub envs: BTreeMap<String, String>,
    /// Its working directory; empty for that of mig-parted.
    pub workdir: String,
    /// Where it stands.
    pub at: At,
}

impl MigHooks {
    /// Reads the text of a hooks file.
    pub fn parse(text: &str) -> Parsed<Self> {
        match kubernetes_yaml::parse(text) {
            Ok(node) => Self::from_node(&node),
            Err(error) => {
                let mut report = Report::default();
                report.syntax(error);
                report.finish(None)
            }
        }
    }

    /// Reads a document that was parsed already.
    pub fn from_node(node: &Node) -> Parsed<Self> {
        let mut report = Report::default();
        let mut hooks = MigHooks::default();
        read_file(&Place::root(node), &mut hooks, &mut report);
        report.finish(Some(hooks))
    }

    /// The hooks as YAML. Reading it gives the same hooks.
    pub fn to_yaml(&self) -> String {
        let mut text = "version: v1\n".to_owned();
        text.push_str(if self.hooks.is_empty() { "hooks: {}\n" } else { "hooks:\n" });
        for (name, hooks) in &self.hooks {
            let empty = if hooks.is_empty() { " []" } else { "" };
            text.push_str(&format!("  {}:{empty}\n", scalar(name, Context::Key)));
            for hook in hooks {
                push_hook(hook, &mut text);
            }
        }
        text
    }
}

fn push_hook(hook: &Hook, text: &mut String) {
    text.push_str(&format!("  - command: {}\n", scalar(&hook.command, Context::Block)));
    if !hook.args.is_empty() {
        let items: Vec<String> = hook.args.iter().map(|arg| scalar(arg, Context::Flow)).collect();
        text.push_str(&format!("    args: {}\n", flow_list(&items, 10, 6)));
    }
    if !hook.envs.is_empty() {
        text.push_str("    envs:\n");
    }
    for (name, value) in &hook.envs {
        text.push_str(&format!("      {}: {}\n", scalar(name, Context::Key), scalar(value, Context::Block)));
    }
    if !hook.workdir.is_empty() {
        text.push_str(&format!("    workdir: {}\n", scalar(&hook.workdir, Context::Block)));
    }
}

fn read_file(place: &Place<'_>, file: &mut MigHooks, report: &mut Report) {
    let Some(object) = go_json::object(place, "Go value of type v1.Spec", report) else { return };
    let mut version = String::new();
    for (field, key, value) in object.struct_entries(TOP_FIELDS) {
        match field {
            Some("version") => {
                let into = "Go struct field Spec.version of type string";
                version = go_json::coerced_text(&value, into, report).unwrap_or_default();
            }
            Some("hooks") => read_hooks(&value, file, report),
            _ => warn_unknown(place, &key.text, TOP_FIELDS).at(key.at).report(report),
        }
    }
    if version != "v1" && !place.is_null() {
        Finding::warning(
            place,
            format!("mig-parted does not look at the version, which is '{version}' here"),
        )
        .hint("write 'version: v1'")
        .report(report);
    }
}

fn read_hooks(place: &Place<'_>, file: &mut MigHooks, report: &mut Report) {
    let into = "Go struct field Spec.hooks of type v1.HooksMap";
    let Some(object) = go_json::object(place, into, report) else { return };
    for (key, value) in object.entries() {
        if !HOOK_NAMES.contains(&key.text.as_str()) {
            Finding::warning(&value, format!("'{}' is no hook, so mig-parted never runs it", key.text))
                .at(key.at)
                .hint(
                    did_you_mean(&key.text, HOOK_NAMES)
                        .unwrap_or_else(|| format!("the hooks are {}", HOOK_NAMES.join(", "))),
                )
                .report(report);
        }
        let into = "Go struct field Spec.hooks of type []v1.HookSpec";
        let Some(items) = go_json::items(&value, into, report) else { continue };
        let hooks = items.iter().filter_map(|item| read_hook(item, report)).collect();
        file.hooks.insert(key.text.clone(), hooks);
    }
}

fn read_hook(place: &Place<'_>, report: &mut Report) -> Option<Hook> {
    let object = go_json::object(place, "Go struct field Spec.hooks of type v1.HookSpec", report)?;
    let mut hook = Hook { at: place.node.at.into(), ..Hook::default() };
    for (field, key, value) in object.struct_entries(HOOK_FIELDS) {
        match field {
            Some("command") => hook.command = read_text(&value, "command", report),
            Some("workdir") => hook.workdir = read_text(&value, "workdir", report),
            Some("args") => {
                let into = "Go struct field HookSpec.hooks.args of type []string";
                let items = go_json::items(&value, into, report).unwrap_or_default();
                hook.args = items.iter().map(|item| read_text(item, "args", report)).collect();
            }
            Some("envs") => {
                let into = "Go struct field HookSpec.hooks.envs of type v1.EnvsMap";
                if let Some(envs) = go_json::object(&value, into, report) {
                    let texts = envs
                        .entries()
                        .map(|(key, value)| (key.text.clone(), read_text(&value, "envs", report)));
                    hook.envs.extend(texts.collect::<Vec<_>>());
                }
            }
            _ => warn_unknown(place, &key.text, HOOK_FIELDS).at(key.at).report(report),
        }
    }
    if hook.command.is_empty() {
        Finding::warning(place, "this hook has no command, so running it fails")
            .hint("add 'command:' or remove the hook")
            .report(report);
    }
    Some(hook)
}

fn read_text(place: &Place<'_>, field: &str, report: &mut Report) -> String {
    let into = format!("Go struct field HookSpec.hooks.{field} of type string");
    go_json::coerced_text(place, &into, report).unwrap_or_default()
}

fn warn_unknown(place: &Place<'_>, name: &str, known: &'static [&'static str]) -> Finding {
    let near = nearest(name, known.iter().copied());
    Finding::warning(place, format!("'{name}' is not read here, so it has no effect")).hint(near.map_or_else(
        || format!("known here: {}", known.join(", ")),
        |near| format!("did you mean '{near}'?"),
    ))
}
