//! `carve up`: the whole thing on one machine.

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::input;
use crate::machine::{driver, state_home};
use crate::run::place::root;
use crate::service::serve;
use crate::webhook::address;
use carve_economics::InstanceType;
use carve_gpu_host::GpuHost;
use carve_local_cluster::{Fleet, Here, Runner};
use carve_up::{Place, Up, UpError, UpOptions, Wanted};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What there is to see where nobody asked for anything else.
const USUAL: &str = "p4d.24xlarge=1,g5.2xlarge=4";

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Machines to simulate: TYPE=COUNT,… such as p4d.24xlarge=1,g5.2xlarge=4, or a YAML file; without it the GPUs of this machine, and where it has
    /// none those simulated the last time
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
    /// Let MIG mode and instances of this machine's GPUs be changed, as labels and policies ask
    #[arg(long, conflicts_with = "fleet")]
    manage_mig: bool,
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

/// What this machine is: a type of a cloud where its firmware says so, otherwise its GPUs.
fn kind(host: &dyn GpuHost) -> Result<String, Failure> {
    let product = std::fs::read_to_string("/sys/class/dmi/id/product_name").unwrap_or_default();
    if InstanceType::named(product.trim()).is_some() {
        return Ok(product.trim().to_owned());
    }
    let gpus = host.gpus().map_err(|error| Failure::of(&error))?;
    let name = gpus.first().map_or_else(|| "none".to_owned(), |gpu| gpu.name.replace(' ', "-"));
    Ok(format!("{name}:{}", gpus.len()))
}

/// What this machine is called, in letters that nodes may have.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_lowercase();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
    let name: String = name.chars().map(plain).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// This machine, if it has a driver.
fn here(machine: &MachineArgs, args: &UpArgs, state: Option<&Place>) -> Result<Option<Here>, Failure> {
    let Some(nvml) = driver(machine).map_err(|failure| {
        failure.hint("to see carve up without these GPUs, simulate others: --fleet p4d.24xlarge=1")
    })?
    else {
        return Ok(None);
    };
    let program = std::env::current_exe().map_err(|error| Failure::new(format!("carve itself: {error}")))?;
    let mut carve_run: Vec<OsString> = vec![program.into(), "run".into()];
    if let Some(library) = &machine.nvml {
        carve_run.extend([OsString::from("--nvml"), library.into()]);
    }
    let named = std::env::var_os("CARVE_RUN_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    let logs = state.map_or_else(
        || std::env::temp_dir().join(format!("carve-up-{}", std::process::id())),
        |place| place.folder().to_owned(),
    );
    Ok(Some(Here {
        kind: kind(&nvml)?,
        host: Box::new(nvml),
        name: host_name(),
        may_cut: args.manage_mig,
        runner: Runner { carve_run, runs: root(named.as_deref().map(Path::new))?, logs: logs.join("logs") },
    }))
}

fn wanted(machine: &MachineArgs, args: &UpArgs, state: Option<&Place>) -> Result<Wanted, Failure> {
    let simulated = |fleet| Ok(Wanted::Simulated { fleet, usual: self::fleet(USUAL)? });
    match (&args.fleet, &machine.machine) {
        (Some(text), _) => simulated(Some(fleet(text)?)),
        (None, Some(one)) => simulated(Some(fleet(&format!("{one}=1"))?)),
        (None, None) => match here(machine, args, state)? {
            Some(here) => Ok(Wanted::Here(Box::new(here))),
            None => simulated(None),
        },
    }
}

fn options(machine: &MachineArgs, args: &UpArgs) -> Result<UpOptions, Failure> {
    let token = args.token_file.as_deref().map(input::token).transpose()?;
    let place = if args.forget { None } else { Some(Place::new(&state_home(machine)?)) };
    Ok(UpOptions {
        listen: address("--listen", &args.listen)?,
        machines: wanted(machine, args, place.as_ref())?,
        place,
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
                UpError::Programs => {
                    "the page without --allow-changes needs none, and carve apply works in any case"
                }
                UpError::Open(_) => "or listen on this machine alone, which is the default",
                UpError::Cluster(_) => "--state-dir chooses another folder, and --forget needs none",
                _ => "see the message above",
            };
            Failure::of(&error).hint(hint)
        })?;
        let (machines, gpus) = up.size();
        let few = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        match up.is_simulated() {
            true => eprintln!(
                "{} with {}, simulated; nothing real is read or changed",
                few(machines, "machine"),
                few(gpus, "GPU")
            ),
            false => {
                eprintln!("this machine with {}; carve run takes its shares here", few(gpus, "real GPU"))
            }
        }
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
