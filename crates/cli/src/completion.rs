//! `carve completion`: what a shell needs to complete commands.

use crate::args::Cli;
use crate::failure::Outcome;
use crate::print;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints it, for `source <(carve completion bash)`.
pub(crate) fn completion(args: &CompletionArgs) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "carve", &mut text);
    print::out(&String::from_utf8_lossy(&text))
}
