//! `carve up`: the whole thing on one machine.

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::input;
use crate::machine::state_home;
use crate::service::serve;
use crate::webhook::address;
use carve_local_cluster::Fleet;
use carve_up::{Place, Up, UpError, UpOptions};
use clap::Args;
use std::path::PathBuf;

/// What there is to see where nobody asked for anything else.
const USUAL: &str = "p4d.24xlarge=1,g5.2xlarge=4";

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Machines to simulate: TYPE=COUNT,… such as p4d.24xlarge=1,g5.2xlarge=4, or a YAML file; those from the last time without it
    #[arg(long, value_name = "FLEET")]
    fleet: Option<String>,
    /// Open without the demo
    #[arg(long)]
    empty: bool,
    /// Where the page is served; others than this machine's may look only with --token-file
    #[arg(long, env = "CARVE_UP_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    listen: String,
    /// Let the page change things: apply, scale, delete, cut
    #[arg(long)]
    allow_changes: bool,
    /// File with a token that whoever looks must know
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Keep nothing: everything is gone when it ends
    #[arg(long)]
    forget: bool,
}

fn fleet(text: &str) -> Result<Fleet, Failure> {
    let is_file = text.contains('/') || text.ends_with(".yaml") || text.ends_with(".yml");
    let wrong = |error: &dyn std::error::Error| {
        let failure = Failure::of(error);
        Failure { code: UNREADABLE, message: format!("--fleet: {}", failure.message), ..failure }
    };
    match is_file {
        true => {
            let text = input::read(std::path::Path::new(text))?;
            Fleet::from_yaml(&text).map_err(|error| wrong(&error))
        }
        false => Fleet::parse(text).map_err(|error| wrong(&error)),
    }
}

fn options(machine: &MachineArgs, args: &UpArgs) -> Result<UpOptions, Failure> {
    let token = match &args.token_file {
        None => None,
        Some(file) => {
            let text = input::read(file)?.trim().to_owned();
            if text.len() < 16 {
                let words = format!("{}: a token has at least 16 letters", input::shown(file));
                return Err(Failure { code: UNREADABLE, ..Failure::new(words) });
            }
            Some(text)
        }
    };
    Ok(UpOptions {
        listen: address("--listen", &args.listen)?,
        place: if args.forget { None } else { Some(Place::new(&state_home(machine)?)) },
        fleet: args.fleet.as_deref().map(fleet).transpose()?,
        usual: fleet(USUAL)?,
        empty: args.empty,
        may_change: args.allow_changes,
        token,
    })
}

/// Runs until it is told to end.
pub(crate) fn up(machine: &MachineArgs, args: &UpArgs) -> Outcome {
    let options = options(machine, args)?;
    let place = options.place.clone();
    serve(|stop| async move {
        let up = Up::start(options).await.map_err(|error| {
            let hint = match &error {
                UpError::Listen(..) => {
                    "another carve up may run here; choose another address with --listen 127.0.0.1:0"
                }
                UpError::Open(_) => "or listen on this machine alone, which is the default",
                UpError::Cluster(_) => "--state-dir chooses another folder, and --forget needs none",
                _ => "see the message above",
            };
            Failure::of(&error).hint(hint)
        })?;
        let (machines, gpus) = up.size();
        let few = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        eprintln!(
            "{} with {}, simulated; nothing real is read or changed",
            few(machines, "machine"),
            few(gpus, "GPU")
        );
        eprintln!("  page     http://{}", up.address());
        if let Some(place) = &place {
            eprintln!(
                "  objects  carve get pods -A, or kubectl --kubeconfig {} get pods -A",
                place.kubeconfig().display()
            );
            eprintln!("  stop     Ctrl-C; everything is there again next time");
        }
        up.run(stop).await.map_err(|error| Failure::of(&error))
    })
}
