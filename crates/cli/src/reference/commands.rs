//! `docs/reference/cli.md`: a section for every command, with a table for every group of its options.

use super::{below, built, cell, help, shown, takes_value};
use carve_test_support::reference::check_page;
use clap::{Arg, Command};
use std::fmt::Write;

const HEAD: &str = "# Commands

Made of the program's own words: `carve help COMMAND` prints them, and `carve completion SHELL` lets a shell complete them. What is typed wins over a [variable](environment.md), and that over the default.

Data goes to standard output, talk to standard error. Exit codes: 0 done or yes, 1 refused, failed or no, 2 could not be read.

";

/// How it is typed.
fn typed(arg: &Arg) -> String {
    let names = arg.get_value_names().into_iter().flatten().map(ToString::to_string);
    let value = names.collect::<Vec<_>>().join(" ");
    let value = if takes_value(arg) { value } else { String::new() };
    if arg.is_positional() {
        let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
        return format!("`{value}{}`", if many { "…" } else { "" });
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let others = arg.get_visible_aliases().into_iter().flatten().map(|alias| format!("--{alias}"));
    let flags: Vec<String> = short.into_iter().chain(long).chain(others).collect();
    let (last, before) = flags.split_last().map_or_else(Default::default, |(last, all)| (last.clone(), all));
    let optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let value = match (value.is_empty(), optional) {
        (true, _) => String::new(),
        (false, true) => format!("[={value}]"),
        (false, false) => format!(" {value}"),
    };
    let before: String = before.iter().map(|flag| format!("`{flag}`, ")).collect();
    format!("{before}`{last}{value}`")
}

/// What it is for; below that, what it may be, what it is otherwise, and which variable says it.
fn about(arg: &Arg) -> String {
    let mut lines = vec![help(arg)];
    let values = arg.get_possible_values();
    let all: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if takes_value(arg) && !is_truth(arg) {
        if all.iter().any(|value| value.get_help().is_some()) {
            lines.extend(all.iter().map(|value| {
                let words = value.get_help().map(|help| cell(&help.to_string())).unwrap_or_default();
                format!("`{}`: {words}", value.get_name())
            }));
        } else if !all.is_empty() {
            let names: Vec<String> = all.iter().map(|value| format!("`{}`", value.get_name())).collect();
            lines.push(format!("One of {}", names.join(", ")));
        }
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let mut last = Vec::new();
    if takes_value(arg) && defaults.iter().any(|default| !default.is_empty()) {
        last.push(format!("Default `{}`", defaults.join(",")));
    }
    last.extend(arg.get_env().map(|name| format!("Variable `{}`", name.to_string_lossy())));
    if !last.is_empty() {
        lines.push(last.join(" · "));
    }
    lines.join("<br>")
}

/// Yes or no needs no list of what it may be.
fn is_truth(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "BOOL"))
}

/// Options in the order in which they are declared, by their headings; words that are typed without an option first.
fn groups(command: &Command, global: bool) -> Vec<(String, Vec<&Arg>)> {
    let mut groups: Vec<(String, Vec<&Arg>)> = Vec::new();
    let (words, options): (Vec<&Arg>, Vec<&Arg>) = shown(command)
        .into_iter()
        .filter(|arg| arg.is_global_set() == global)
        .partition(|arg| arg.is_positional());
    for arg in words.into_iter().chain(options) {
        let heading = match (arg.is_positional(), arg.get_help_heading()) {
            (true, _) => "argument",
            (false, Some(heading)) => heading,
            (false, None) => "option",
        };
        match groups.iter_mut().find(|(known, _)| known == heading) {
            Some((_, args)) => args.push(arg),
            None => groups.push((heading.to_owned(), vec![arg])),
        }
    }
    groups
}

fn tables(groups: Vec<(String, Vec<&Arg>)>, text: &mut String) {
    for (heading, args) in groups {
        let _ = writeln!(text, "| {heading} | |\n|---|---|");
        for arg in args {
            let _ = writeln!(text, "| {} | {} |", typed(arg), about(arg));
        }
        text.push('\n');
    }
}

fn section(command: &Command, path: &str, text: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string);
    let about = cell(about.unwrap_or_default().trim_end_matches('.'));
    let _ = writeln!(text, "## {path}\n\n{about}.\n");
    let mut own = command.clone();
    let usage = own.render_usage().to_string();
    let _ = writeln!(text, "```text\n{}\n```\n", usage.trim_start_matches("Usage:").trim());
    let verbs: Vec<String> = below(command)
        .map(|one| format!("[`{}`](#{}-{})", one.get_name(), path.replace(' ', "-"), one.get_name()))
        .collect();
    if !verbs.is_empty() && path != "carve" {
        let _ = writeln!(text, "Commands: {}.\n", verbs.join(", "));
    }
    tables(groups(command, false), text);
    for one in below(command) {
        section(one, &format!("{path} {}", one.get_name()), text);
    }
}

fn page() -> String {
    let command = built();
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "| command | |\n|---|---|");
    for one in below(&command) {
        let about = one.get_about().map(|about| cell(&about.to_string())).unwrap_or_default();
        let _ = writeln!(text, "| [`carve {}`](#carve-{}) | {about} |", one.get_name(), one.get_name());
    }
    text.push_str("\n## Every command\n\nThese may stand behind any command.\n\n");
    tables(groups(&command, true), &mut text);
    for one in below(&command) {
        section(one, &format!("carve {}", one.get_name()), &mut text);
    }
    format!("{}\n", text.trim_end())
}

#[test]
fn commands_are_those_of_the_reference() {
    let page = page();
    // A page of nothing would be current as well.
    for line in ["## carve agent\n", "`--config-file FILE`", "Variable `CARVE_DRA`", "## carve mig apply\n"] {
        assert!(page.contains(line), "{line}");
    }
    check_page("cli.md", &page);
}
