//! What was typed. Nothing here acts; what it means is decided where it is used.

use crate::advise::args::AdviseArgs;
use crate::agent::args::AgentArgs;
use crate::bench::args::BenchArgs;
use crate::completion::CompletionArgs;
use crate::controller::ControllerArgs;
use crate::cost::args::CostArgs;
use crate::doctor::DoctorArgs;
use crate::explain::ExplainVerb;
use crate::karpenter::KarpenterVerb;
use crate::leave::LeaveArgs;
use crate::objects::{ApplyObjectsArgs, DeleteArgs, GetArgs, LabelArgs, ScaleArgs};
use crate::plan::args::PlanArgs as FleetPlanArgs;
use crate::policy::PolicyVerb;
use crate::run::args::RunArgs;
use crate::simulate::args::SimulateArgs;
use crate::top::TopArgs;
use crate::up::UpArgs;
use crate::webhook::WebhookArgs;
use carve_gpu_model::ProfileName;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// GPU slicing for Kubernetes, in one binary.
#[derive(Debug, Parser)]
#[command(name = "carve", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Which GPUs to talk to.
#[derive(Debug, Clone, Args)]
pub(crate) struct MachineArgs {
    /// Simulate a machine: a preset (p4d.24xlarge, h200, mixed, …), PRODUCT:COUNT, or a YAML file
    #[arg(long, global = true, env = "CARVE_MACHINE", value_name = "MACHINE")]
    pub(crate) machine: Option<String>,
    /// Driver library to load instead of libnvidia-ml.so.1
    #[arg(long, global = true, env = "CARVE_NVML", value_name = "LIBRARY")]
    pub(crate) nvml: Option<PathBuf>,
    /// Where journals, checkpoints and simulated machines are kept
    #[arg(long, global = true, env = "CARVE_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the whole thing on this machine: simulated machines, their objects, and a dashboard
    Up(UpArgs),
    /// Show GPUs and their slices in the terminal: what was promised, and what is used
    Top(TopArgs),
    /// List objects of carve up or of a cluster
    Get(GetArgs),
    /// Make objects what manifests say
    Apply(ApplyObjectsArgs),
    /// Change how many pods a workload has
    Scale(ScaleArgs),
    /// Set and take away labels of an object
    Label(LabelArgs),
    /// Delete objects
    Delete(DeleteArgs),
    /// List the GPUs of this machine
    Gpus(GpusArgs),
    /// Cut GPUs into MIG devices
    #[command(subcommand)]
    Mig(MigVerb),
    /// Show where the pods of manifests would land on given machines, and what that costs
    Plan(FleetPlanArgs),
    /// Say which workloads need less of a GPU than they have, by what was measured, and what that saves
    Advise(Box<AdviseArgs>),
    /// Show what machines with GPUs cost, and who pays for it: used, held idle, idle, fragmented; the sum is the price
    Cost(CostArgs),
    /// Say in words why something in the cluster is as it is
    #[command(subcommand)]
    Explain(ExplainVerb),
    /// Run a command with a share of a GPU, on this machine and without Kubernetes
    Run(RunArgs),
    /// Measure ways to share a GPU of this machine, and say which is right for which work
    Bench(Box<BenchArgs>),
    /// Check configuration files of the device plugin and of mig-parted; bring Karpenter's old ones up to date
    Validate(ValidateArgs),
    /// Say what keeps GPUs of this machine from being shared: driver, permissions, runtime, kubelet, known weaknesses; and what to do
    Doctor(DoctorArgs),
    /// Print what dynamic resource allocation needs beside the agent
    #[command(subcommand)]
    Dra(DraVerb),
    /// Print what autoscalers must be told so that machines come for parts of GPUs
    #[command(subcommand)]
    Karpenter(KarpenterVerb),
    /// Turn ConfigMaps of NVIDIA's device plugin and MIG manager into SlicePolicies, and back
    #[command(subcommand)]
    Policy(PolicyVerb),
    /// Run on a GPU node: offer devices to kubelet, label, cut by MIG, share by MPS, watch health
    Agent(Box<AgentArgs>),
    /// Run once for a cluster: admit pods that ask for GPUs in any dialect, and place those with parts of GPUs
    Controller(Box<ControllerArgs>),
    /// Take carve off a cluster: nothing of it stays but what is in use, and that is named
    Leave(LeaveArgs),
    /// Let the claims of a trace arrive at a simulated fleet, and compare how policies place them
    Simulate(Box<SimulateArgs>),
    /// Answer the API server: refuse claims with configs that could never be served
    Webhook(WebhookArgs),
    /// Print what a shell needs to complete commands
    Completion(CompletionArgs),
    /// Called by carve bench: a process of tenants
    #[command(hide = true)]
    BenchTenant(PassedOn),
    /// Called by container runtimes when a container with a GPU starts
    #[command(hide = true)]
    CdiHook(PassedOn),
    /// Called by the agent to see what a CUDA program sees
    #[command(hide = true)]
    CudaProbe(PassedOn),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DraVerb {
    /// Print the DeviceClasses that claims name, for kubectl apply -f -
    Classes(ClassesArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ClassesArgs {
    /// Name of the driver whose devices the classes have, as the agent was given it
    #[arg(long, value_name = "NAME", default_value = "gpu.carve.dev")]
    pub(crate) driver_name: String,
    /// Also a class for this MIG profile, which serves pods that ask for nvidia.com/mig-PROFILE; several times for several
    #[arg(long, value_name = "PROFILE")]
    pub(crate) mig: Vec<ProfileName>,
}

/// Arguments that another library reads.
#[derive(Debug, Args)]
pub(crate) struct PassedOn {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct GpusArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Look again and again: a terminal shows the newest, anything else gets every change; Ctrl-C ends it
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, requires = "watch")]
    pub(crate) interval: Duration,
}

/// Seconds between two looks, such as 0.5.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.1..=86_400.0).contains(&number) {
        Ok(Duration::from_secs_f64(number))
    } else {
        Err("between 0.1 and 86400 seconds".to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A short table
    Table,
    /// A table with everything that fits
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataOutput {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigVerb {
    /// Make the GPUs what a config says, keeping every instance it also wants
    Apply(ApplyArgs),
    /// Say whether the GPUs are what a config says (exit code 0 or 1)
    Assert(AssertArgs),
    /// Print the current layout as a config file
    Export(ExportArgs),
    /// Save the current layout, slots included
    Checkpoint(CheckpointArgs),
    /// Bring a saved layout back, slot by slot
    Restore(RestoreArgs),
    /// List what the GPUs can be cut into
    Profiles(ListArgs),
    /// List where instances may sit, and draw what sits there
    Placements(ListArgs),
    /// Show what apply would do, and change nothing
    Plan(PlanArgs),
}

/// Which config of which file.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Config file (mig-parted's format); - reads standard input
    #[arg(short = 'f', long, env = "MIG_PARTED_CONFIG_FILE", value_name = "FILE")]
    pub(crate) config_file: PathBuf,
    /// Name of the config in the file; may be left out if it holds only one
    #[arg(short = 'c', long, env = "MIG_PARTED_SELECTED_CONFIG", value_name = "NAME")]
    pub(crate) selected_config: Option<String>,
}

/// What to run around a change.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// Programs to run before and after (mig-parted's hooks format)
    #[arg(short = 'k', long, env = "MIG_PARTED_HOOKS_FILE", value_name = "FILE")]
    pub(crate) hooks_file: Option<PathBuf>,
    /// Show what hooks print
    #[arg(short = 'd', long, env = "MIG_PARTED_DEBUG")]
    pub(crate) debug: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) hooks: HookArgs,
    /// Leave a GPU whose new MIG mode needs a reset waiting for it
    #[arg(short = 's', long, env = "MIG_PARTED_SKIP_RESET")]
    pub(crate) skip_reset: bool,
    /// Change MIG modes only, no instances
    #[arg(short = 'm', long, env = "MIG_PARTED_MODE_CHANGE_ONLY")]
    pub(crate) mode_only: bool,
    /// Show the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Change MIG modes only, no instances
    #[arg(short = 'm', long, env = "MIG_PARTED_MODE_CHANGE_ONLY")]
    pub(crate) mode_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AssertArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Compare MIG modes only
    #[arg(short = 'm', long, env = "MIG_PARTED_MODE_CHANGE_ONLY")]
    pub(crate) mode_only: bool,
    /// Only say whether the config can be applied here
    #[arg(short = 'a', long, env = "MIG_PARTED_VALID_CONFIG")]
    pub(crate) valid_config: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = DataOutput::Yaml, env = "MIG_PARTED_OUTPUT_FORMAT")]
    pub(crate) output_format: DataOutput,
    /// Name of the config in the printed file
    #[arg(
        short = 'l',
        long,
        default_value = "current",
        env = "MIG_PARTED_CONFIG_LABEL",
        value_name = "NAME"
    )]
    pub(crate) config_label: String,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// File to write; - writes standard output
    #[arg(short = 'f', long, env = "MIG_PARTED_CHECKPOINT_FILE", value_name = "FILE")]
    pub(crate) checkpoint_file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// File to read; without one, the checkpoint taken before the last apply
    #[arg(short = 'f', long, env = "MIG_PARTED_CHECKPOINT_FILE", value_name = "FILE")]
    pub(crate) checkpoint_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) hooks: HookArgs,
    /// Change MIG modes only, no instances
    #[arg(short = 'm', long, env = "MIG_PARTED_MODE_CHANGE_ONLY")]
    pub(crate) mode_only: bool,
    /// Show the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Print what Karpenter's documents of v1alpha5 are in v1, and on standard error what was dropped or guessed
    #[arg(long)]
    pub(crate) fix: bool,
    /// Files to check; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}
