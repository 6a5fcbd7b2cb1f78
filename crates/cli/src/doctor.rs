//! `carve doctor`: what keeps GPUs of this machine from being shared, and what to do about it.

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome};
use crate::print;
use carve_doctor::{Driver, Facts, Finding, Places, Verdict, judge, look};
use carve_gpu_host::{GpuHost, HostFailure};
use carve_nvml::{Nvml, OpenError};
use clap::{Args, ValueEnum};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = DoctorOutput::Table)]
    output: DoctorOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DoctorOutput {
    /// A line for each thing, and what to do below it
    Table,
    /// JSON
    Json,
}

/// The driver, or why there is none; nothing where none is installed.
fn driver(machine: &MachineArgs) -> Option<Result<Driver, String>> {
    let host = match Nvml::open(machine.nvml.as_deref()) {
        Ok(host) => host,
        Err(OpenError::LibraryNotFound { .. }) => return None,
        Err(error) => return Some(Err(Failure::of(&error).message)),
    };
    Some(read(&host).map_err(|error| error.to_string()))
}

fn read(host: &dyn GpuHost) -> Result<Driver, carve_gpu_host::HostError> {
    let (driver, gpus) = (host.driver()?, host.gpus()?);
    let is_lost = |gpu: &carve_gpu_host::Gpu| matches!(host.memory(gpu.index), Err(error) if error.failure == HostFailure::GpuLost);
    Ok(Driver {
        version: driver.version,
        cuda: driver.cuda,
        lost: gpus.iter().filter(|gpu| is_lost(gpu)).count(),
        mig_capable: gpus.iter().filter(|gpu| gpu.mig_capable).count(),
        gpus: gpus.len(),
    })
}

fn shown(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let word = match finding.verdict {
            Verdict::Well => "well",
            Verdict::Absent => "absent",
            Verdict::Doubtful => "doubtful",
            Verdict::Wrong => "wrong",
        };
        text.push_str(&format!("{word:<8}  {:<width$}  {}\n", finding.about, finding.words));
        if let Some(todo) = &finding.todo {
            text.push_str(&format!("{:8}  {:width$}  → {todo}\n", "", ""));
        }
    }
    text
}

/// Looks, and says. What is wrong ends it with 1.
pub(crate) fn doctor(machine: &MachineArgs, args: &DoctorArgs) -> Outcome {
    let facts = Facts { driver: driver(machine), ..look(&Places::default()) };
    let findings = judge(&facts);
    match args.output {
        DoctorOutput::Table => print::out(&shown(&findings))?,
        DoctorOutput::Json => print::json(&json!({"findings": findings}))?,
    }
    match findings.iter().any(|finding| finding.verdict == Verdict::Wrong) {
        true => Err(Failure::silent()),
        false => Ok(()),
    }
}
