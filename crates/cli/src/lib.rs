//! The command line: what was typed, which library answers it, and how the answer looks.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done or yes, 1 refused, failed or no, 2 could not be read.

mod advise;
mod agent;
mod agents;
mod args;
mod asked_of;
mod bench;
mod called;
mod completion;
mod controller;
mod cost;
mod doctor;
mod dra;
mod explain;
mod failure;
mod gpus;
mod input;
mod karpenter;
mod leave;
mod looks;
mod machine;
mod mig;
mod objects;
mod output;
mod picture;
mod plan;
mod policy;
mod print;
#[cfg(test)]
mod reference;
mod run;
mod service;
mod simulate;
mod table;
mod top;
mod up;
mod validate;
mod webhook;

use args::{Cli, Verb};
use clap::Parser;
use failure::Outcome;
use std::process::ExitCode;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match answer(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("error: {}", failure.message);
            }
            if let Some(hint) = &failure.hint {
                eprintln!("\nhint: {hint}");
            }
            ExitCode::from(failure.code)
        }
    }
}

fn answer(cli: &Cli) -> Outcome {
    match &cli.verb {
        Verb::Up(args) => up::up(&cli.machine, args),
        Verb::Top(args) => top::top(&cli.machine, args),
        Verb::Get(args) => objects::get(&cli.machine, args),
        Verb::Apply(args) => objects::apply_objects(&cli.machine, args),
        Verb::Scale(args) => objects::scale_object(&cli.machine, args),
        Verb::Label(args) => objects::label_object(&cli.machine, args),
        Verb::Delete(args) => objects::delete_objects(&cli.machine, args),
        Verb::Gpus(args) => gpus::gpus(&machine::open(&cli.machine)?, args),
        Verb::Mig(verb) => mig::mig(&cli.machine, verb),
        Verb::Plan(args) => plan::answer(args),
        Verb::Advise(args) => advise::answer(&cli.machine, args),
        Verb::Cost(args) => cost::answer(&cli.machine, args),
        Verb::Validate(args) => validate::validate(args),
        Verb::Run(args) => run::run(&cli.machine, args),
        Verb::Doctor(args) => doctor::doctor(&cli.machine, args),
        Verb::Dra(verb) => dra::dra(verb),
        Verb::Karpenter(verb) => karpenter::karpenter(verb),
        Verb::Policy(verb) => policy::policy(verb),
        Verb::Explain(verb) => explain::explain(&cli.machine, verb),
        Verb::Agent(args) => agent::agent(&cli.machine, args),
        Verb::Simulate(args) => simulate::simulate(args),
        Verb::Controller(args) => controller::controller(args),
        Verb::Leave(args) => leave::leave(args),
        Verb::Webhook(args) => webhook::webhook(args),
        Verb::Completion(args) => completion::completion(args),
        Verb::Bench(args) => bench::bench(&cli.machine, args),
        Verb::BenchTenant(passed) => called::bench_tenant(&passed.words),
        Verb::CdiHook(passed) => called::cdi_hook(&passed.words),
        Verb::CudaProbe(passed) => called::cuda_probe(&passed.words),
    }
}
