//! `carve mig apply`, `restore` and `plan`.

use super::config;
use super::progress::ProgressLine;
use super::show::{self, Counts};
use crate::args::{ApplyArgs, ConfigArgs, HookArgs, MachineArgs, RestoreArgs};
use crate::failure::{Failure, Outcome};
use crate::machine::{self, Chosen};
use crate::{input, print};
use carve_mig_manager::{
    Applied, ApplyError, ApplyOptions, HookRunner, Layout, Plan, PlanError, Recovered, inventory, plan,
    plan_layouts, resolve,
};
use std::collections::BTreeMap;

/// Makes the GPUs what a config says.
pub(crate) fn apply(machine: &MachineArgs, args: &ApplyArgs) -> Outcome {
    if args.dry_run {
        return plan_only(machine, &args.config, args.mode_only);
    }
    let (name, entries) = config::load(&args.config)?;
    let environment = hook_environment(&[
        ("MIG_PARTED_CONFIG_FILE", args.config.config_file.display().to_string()),
        ("MIG_PARTED_SELECTED_CONFIG", name.clone()),
        ("MIG_PARTED_SKIP_RESET", args.skip_reset.to_string()),
        ("MIG_PARTED_MODE_CHANGE_ONLY", args.mode_only.to_string()),
    ]);
    let hooks = hooks(&args.hooks, environment)?;
    let mut chosen = machine::open(machine)?;
    let options = ApplyOptions { mode_only: args.mode_only, skip_reset: args.skip_reset };
    // The plan is made again under the lock; this one is only counted, for the progress line.
    let steps = inventory(chosen.host.as_ref())
        .ok()
        .and_then(|gpus| plan(&resolve(&name, &entries, &gpus).ok()?, &gpus, args.mode_only).ok())
        .map_or(0, |plan| Counts::steps(&plan));
    let mut line = ProgressLine::new(steps);
    let applied = carve_mig_manager::apply(
        chosen.host.as_mut(),
        &chosen.state_dir,
        (&name, &entries),
        options,
        &hooks,
        &mut line,
    );
    line.clear();
    let applied = applied.map_err(|error| failed(&chosen, &error))?;
    report(&chosen, &format!("config '{name}'"), &applied)
}

/// Brings a checkpoint back.
pub(crate) fn restore(machine: &MachineArgs, args: &RestoreArgs) -> Outcome {
    let environment = hook_environment(&[
        (
            "MIG_PARTED_CHECKPOINT_FILE",
            args.checkpoint_file.as_ref().map_or(String::new(), |file| file.display().to_string()),
        ),
        ("MIG_PARTED_MODE_CHANGE_ONLY", args.mode_only.to_string()),
    ]);
    let hooks = hooks(&args.hooks, environment)?;
    let mut chosen = machine::open(machine)?;
    let file = args.checkpoint_file.clone().unwrap_or_else(|| chosen.state_dir.last_checkpoint());
    let text = input::read(&file)?;
    let layouts = Layout::from_checkpoint(&text)
        .map_err(|error| Failure::new(format!("{} is not a checkpoint: {error}", input::shown(&file))))?;
    if args.dry_run {
        let gpus = inventory(chosen.host.as_ref()).map_err(|error| chosen.failure(&error))?;
        let plan =
            plan_layouts(&layouts, &gpus, args.mode_only).map_err(|errors| no_way(&chosen, &errors))?;
        return print::out(&planned(&plan));
    }
    let mut line = ProgressLine::new(0);
    let options = ApplyOptions { mode_only: args.mode_only, skip_reset: false };
    let applied = carve_mig_manager::restore(
        chosen.host.as_mut(),
        &chosen.state_dir,
        &layouts,
        options,
        &hooks,
        &mut line,
    );
    line.clear();
    let applied = applied.map_err(|error| failed(&chosen, &error))?;
    report(&chosen, "the checkpoint", &applied)
}

/// Shows what apply would do.
pub(crate) fn plan_only(machine: &MachineArgs, args: &ConfigArgs, mode_only: bool) -> Outcome {
    let (name, entries) = config::load(args)?;
    let chosen = machine::open(machine)?;
    if chosen.state_dir.has_journal() {
        eprintln!("warning: an earlier run was interrupted; apply would finish or undo it first");
    }
    let gpus = inventory(chosen.host.as_ref()).map_err(|error| chosen.failure(&error))?;
    let target = resolve(&name, &entries, &gpus)
        .map_err(|refusals| failed(&chosen, &ApplyError::Refused(refusals)))?;
    let plan = plan(&target, &gpus, mode_only).map_err(|errors| no_way(&chosen, &errors))?;
    print::out(&planned(&plan))
}

fn planned(plan: &Plan) -> String {
    let text = show::plan(plan);
    if plan.is_empty() { text } else { format!("{text}would change {}\n", Counts::of(plan)) }
}

fn report(chosen: &Chosen, what: &str, applied: &Applied) -> Outcome {
    match applied.recovered {
        Recovered::Nothing => {}
        Recovered::Finished => {
            eprintln!("an earlier run had been interrupted; its change was finished first")
        }
        Recovered::RolledBack => {
            eprintln!("an earlier run had been interrupted; its change was undone first")
        }
    }
    if applied.plan.is_empty() {
        return print::out(&format!(
            "{}{what} is already in place, nothing changed\n",
            show::plan(&applied.plan)
        ));
    }
    print::out(&show::plan(&applied.plan))?;
    let counts = Counts::of(&applied.plan);
    print::out(&format!("{what} is in place on {counts}; verified\n"))?;
    eprintln!("the layout before is saved in {}", chosen.state_dir.last_checkpoint().display());
    Ok(())
}

fn failed(chosen: &Chosen, error: &ApplyError) -> Failure {
    match error {
        ApplyError::Refused(_) | ApplyError::NoWay(_) => Failure::of(error)
            .hint("nothing was changed; 'carve mig profiles' lists what the GPUs can be cut into"),
        ApplyError::Read(_)
        | ApplyError::Journal(_)
        | ApplyError::Checkpoint(_)
        | ApplyError::Hook(_)
        | ApplyError::RolledBack { .. }
        | ApplyError::Stuck { .. }
        | ApplyError::Unrecoverable { .. } => chosen.failure(error),
    }
}

fn no_way(chosen: &Chosen, errors: &[PlanError]) -> Failure {
    failed(chosen, &ApplyError::NoWay(errors.to_vec()))
}

fn hooks(args: &HookArgs, mut environment: BTreeMap<String, String>) -> Result<HookRunner, Failure> {
    let file = args.hooks_file.as_ref();
    let named = file.map_or(String::new(), |file| file.display().to_string());
    environment.insert("MIG_PARTED_HOOKS_FILE".to_owned(), named);
    let hooks = file.map(|file| config::load_hooks(file)).transpose()?.unwrap_or_default();
    Ok(HookRunner::new(hooks, environment, args.debug))
}

/// What hooks written for mig-parted expect to be told.
fn hook_environment(values: &[(&str, String)]) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}
