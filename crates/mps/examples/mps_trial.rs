//! Tries MPS limits on a real GPU: a daemon in a private directory, limits, a command as its client, and the end.
//!
//! ```text
//! cargo run -p carve-mps --example mps_trial -- [--part UUID] [--memory MIB] [--percent P] [--control PROGRAM] [-- COMMAND …]
//! ```
//!
//! Without `--part` it takes the first GPU that `nvidia-smi -L` lists. It changes nothing of the GPU's settings.

use carve_gpu_model::Mebibytes;
use carve_mps::{Control, IdleDaemons, Mps, MpsSettings, PartDirectories, PartState};
use carve_slicing::PartId;
use carve_slicing::mps::MpsLimits;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What was typed.
struct Trial {
    part: PartId,
    limits: MpsLimits,
    control: PathBuf,
    command: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let trial = parse(std::env::args().skip(1).collect())?;
    tokio::runtime::Runtime::new()?.block_on(run(trial))
}

fn parse(mut arguments: Vec<String>) -> Result<Trial, Box<dyn Error>> {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let command = arguments.split_off(end).into_iter().skip(1).collect();
    let mut given = BTreeMap::new();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0]).into()) };
        if !["--part", "--memory", "--percent", "--control"].contains(&name.as_str()) {
            return Err(format!("{name} is not known; see the head of this example").into());
        }
        given.insert(name.clone(), value.clone());
    }
    let control = given.get("--control").map_or("nvidia-cuda-mps-control", String::as_str);
    let search_path = std::env::var("PATH").unwrap_or_default();
    let number = |name: &str, otherwise: u32| given.get(name).map_or(Ok(otherwise), |text| text.parse());
    Ok(Trial {
        limits: MpsLimits {
            pinned_memory: Mebibytes(number("--memory", 4_500)?.into()),
            active_thread_percentage: number("--percent", 25)?,
        },
        control: MpsSettings::find(Path::new(control), &search_path)
            .ok_or(format!("there is no {control}"))?,
        part: given.get("--part").map_or_else(first_gpu, |part| Ok(PartId::new(part.clone())))?,
        command,
    })
}

fn first_gpu() -> Result<PartId, Box<dyn Error>> {
    let list = String::from_utf8(Command::new("nvidia-smi").arg("-L").output()?.stdout)?;
    let uuid = list.split_once("UUID: ").and_then(|(_, rest)| rest.split_once(')'));
    Ok(PartId::new(uuid.ok_or("nvidia-smi -L lists no GPU; give --part")?.0))
}

async fn run(trial: Trial) -> Result<(), Box<dyn Error>> {
    let root = tempfile::tempdir()?;
    let settings = MpsSettings {
        mount_shm: false,
        look_interval: Duration::from_secs(1),
        ..MpsSettings::new(root.path(), trial.control)
    };
    let directories = PartDirectories::new(root.path(), &trial.part)?;
    let control = Control::new(&settings, &trial.part, &directories);
    let mut mps = Mps::new(settings, None);
    let mut statuses = mps.status();
    mps.ensure(&BTreeMap::from([(trial.part.clone(), trial.limits)]));
    let settled = statuses
        .wait_for(|statuses| {
            let state = statuses.get(&trial.part).map(|status| &status.state);
            matches!(state, Some(PartState::Ready | PartState::Failed(_)))
        })
        .await?
        .get(&trial.part)
        .cloned();
    let state = settled.map(|status| status.state).unwrap_or(PartState::Starting);
    println!("{}: {state}", trial.part);
    let failed = state != PartState::Ready;
    if !failed {
        tell(&control, &trial.part).await?;
        if let Some((program, arguments)) = trial.command.split_first() {
            let mut client = tokio::process::Command::new(program);
            client.args(arguments).envs(control.environment());
            let status = client.status().await?;
            println!("{program} ended with {status}");
            tell(&control, &trial.part).await?;
        }
        if let Some(status) = statuses.borrow().get(&trial.part) {
            println!("users {:?}, remarks {:?}", status.users, status.remarks);
        }
    }
    mps.shutdown(IdleDaemons::Quit).await;
    println!("the daemon's log:\n{}", std::fs::read_to_string(directories.control_log()).unwrap_or_default());
    if failed { Err("the part did not become ready".into()) } else { Ok(()) }
}

/// Everything the daemon says of itself.
async fn tell(control: &Control, part: &PartId) -> Result<(), Box<dyn Error>> {
    let mut questions = vec![
        "get_default_active_thread_percentage".to_owned(),
        format!("get_default_device_pinned_mem_limit {part}"),
        "get_server_list".to_owned(),
    ];
    for server in control.servers().await? {
        questions.push(format!("get_client_list {server}"));
        questions.push(format!("get_active_thread_percentage {server}"));
        questions.push(format!("get_device_pinned_mem_limit {server} {part}"));
    }
    for question in questions {
        println!("{question}: {}", control.ask(&question).await?.trim().replace('\n', " "));
    }
    Ok(())
}
