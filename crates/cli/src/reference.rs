//! The reference of commands and of variables, made of what the command line itself knows; `cargo xtask reference` writes it.

mod commands;
mod variables;

use crate::args::Cli;
use carve_test_support::reference::cell;
use clap::{Arg, Command, CommandFactory};

/// The whole command line, as it is when something is typed.
fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// What people are told of; `help` and `version` are everywhere.
fn shown(command: &Command) -> Vec<&Arg> {
    let own = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    command.get_arguments().filter(own).collect()
}

fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

/// Whether a value stands behind it.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// What it is for, in its own words.
fn help(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    cell(&help)
}
