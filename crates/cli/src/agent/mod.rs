//! `carve agent`: the process on every GPU node.

pub(crate) mod args;
mod options;

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome};
use crate::machine;
use args::{AgentArgs, AgentVerb};
use carve_node_agent::{AgentOptions, OpenHost};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Runs the agent, or one of its verbs.
pub(crate) fn agent(machine: &MachineArgs, args: &AgentArgs) -> Outcome {
    let options = options::options(machine, args)?;
    let open = opener(machine, &options);
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false).init();
    // Before there are threads: each has its own. Whoever has no right to give rights up works with those it has.
    let _ = carve_node_agent::give_up_capabilities(options.mig.reboot);
    match args.verb {
        None => {
            let runtime = runtime()?;
            let ended = runtime
                .block_on(carve_node_agent::run(options, open))
                .map_err(|error| Failure::of(&error))?;
            // Whatever still runs in the background ends here.
            runtime.shutdown_timeout(ENDING);
            self::runtime()?.block_on(ended.leave_if_over());
            Ok(())
        }
        Some(AgentVerb::Validate) => runtime()?.block_on(validate(options, open)),
    }
}

/// How long work that can not be interrupted may take to end.
const ENDING: Duration = Duration::from_secs(2);

/// Most of the work is waiting; two threads keep answering kubelet while one of them computes.
fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::new(format!("can not start: {error}")))
}

/// Opens the GPUs that the arguments mean, as often as it takes.
fn opener(machine: &MachineArgs, options: &AgentOptions) -> OpenHost {
    let (machine, driver_root) = (machine.clone(), options.container_driver_root.clone());
    let links = options.driver_links();
    Arc::new(move || machine::open_for_agent(&machine, &driver_root, &links))
}

async fn validate(options: AgentOptions, open: OpenHost) -> Outcome {
    let report = carve_node_agent::validate(&options, &open).await.map_err(|error| Failure::of(&error))?;
    for step in &report.steps {
        println!("{step}");
    }
    if report.passed() { Ok(()) } else { Err(Failure::silent()) }
}
