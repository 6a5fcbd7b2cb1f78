//! The slice of a command from the `carve up` that runs here: a pod of its own, for as long as the command lives.

use super::args::RunArgs;
use crate::args::MachineArgs;
use crate::asked_of::wait;
use crate::failure::Failure;
use crate::machine::state_home;
use carve_bookings::Slices;
use carve_controller::cluster_names::COMMAND_LINE;
use carve_controller::connect;
use carve_local_cluster::{PROCESSES, RUN_BY, this_process};
use carve_up::{Place, Running};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, Error};
use serde_json::json;
use std::time::{Duration, Instant};

/// How often to look whether there is a place.
const GLANCE: Duration = Duration::from_millis(30);
/// One that says nothing for longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a command got.
pub(crate) struct Slice {
    running: Running,
    name: String,
    /// The GPU.
    pub(crate) gpu: String,
    /// Bytes of its memory.
    pub(crate) memory: u64,
}

/// Why there is none.
enum Refusal {
    /// There is no room.
    Full(String),
    Failed(Failure),
}

fn failed(error: Error) -> Failure {
    match error {
        Error::Api(status) => Failure::new(format!("carve up refuses: {}", status.message)),
        error => Failure::new(format!("carve up does not answer: {error}"))
            .hint("take the share without it: --apart"),
    }
}

/// Takes a slice where a `carve up` has the GPUs of this machine. `left` says how much memory there is for who asks for none.
pub(crate) fn take(
    machine: &MachineArgs,
    args: &RunArgs,
    left: impl FnOnce() -> Result<u64, Failure>,
) -> Result<Option<Slice>, Failure> {
    // What is cut by MIG or taken twice is not given out there.
    let beside =
        args.apart || args.overcommit || args.gpu.as_deref().is_some_and(|gpu| gpu.starts_with("MIG-"));
    let running =
        if beside { None } else { state_home(machine).ok().and_then(|home| Place::new(&home).running()) };
    let Some(running) = running else {
        return match args.wait {
            true => Err(Failure::new(
                "--wait needs a carve up that has the GPUs of this machine, and none runs here",
            )
            .hint("start one in another terminal: carve up")),
            false => Ok(None),
        };
    };
    wait(async {
        let client =
            connect(Some(&running.kubeconfig), COMMAND_LINE).await.map_err(|error| Failure::of(&error))?;
        let nodes: Api<Node> = Api::all(client.clone());
        let nodes = nodes.list(&ListParams::default()).await.map_err(failed)?;
        let is_real = |node: &Node| {
            let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            info.is_some_and(|info| info.container_runtime_version == PROCESSES)
        };
        if !nodes.items.iter().any(is_real) {
            return Ok(None);
        }
        let memory = match args.memory {
            Some(memory) => memory,
            None => left()?,
        };
        let gpu = gpu_asked(args, &nodes.items);
        let name = make(&client, args, gpu.as_deref(), memory).await?;
        match given(&client, &name, args).await {
            Ok((gpu, memory)) => Ok(Some(Slice { running: running.clone(), name, gpu, memory })),
            Err(refusal) => {
                let pods: Api<Pod> = Api::default_namespaced(client);
                let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
                Err(match refusal {
                    Refusal::Failed(failure) => failure,
                    Refusal::Full(why) => Failure::new(why)
                        .hint("ask for less, wait for room with --wait, or see who has it: carve top"),
                })
            }
        }
    })
}

/// The UUID of a GPU that was named by its place in the driver's order.
fn gpu_asked(args: &RunArgs, nodes: &[Node]) -> Option<String> {
    let asked = args.gpu.clone()?;
    let Ok(place) = asked.parse::<usize>() else { return Some(asked) };
    let annotations = nodes.first()?.metadata.annotations.as_ref()?;
    let offer = carve_bookings::Offer::from_annotation(annotations.get("carve.dev/gpus")?).ok()?;
    offer.gpus.get(place).map(|gpu| gpu.uuid.0.clone()).or(Some(asked))
}

/// Makes the pod; its name.
async fn make(client: &Client, args: &RunArgs, gpu: Option<&str>, memory: u64) -> Result<String, Failure> {
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default().to_lowercase();
    let plain: String = program.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    let name = format!("run-{plain}{}{}", if plain.is_empty() { "" } else { "-" }, std::process::id());
    let mut limits = json!({"carve.dev/gpu-memory": (memory >> 20).to_string()});
    if let Some(compute) = args.compute {
        limits["carve.dev/gpu-compute"] = compute.div_ceil(100).to_string().into();
    }
    let mut annotations = json!({RUN_BY: this_process()});
    if args.burst {
        annotations["carve.dev/burst"] = "true".into();
    }
    if let Some(gpu) = gpu {
        annotations["nvidia.com/use-gpuuuid"] = gpu.into();
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 10,
            "containers": [{"name": "main", "image": "command", "command": words, "resources": {"limits": limits}}],
        },
    });
    let pod: Pod = serde_json::from_value(pod).map_err(|error| Failure::of(&error))?;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod).await.map_err(failed)?;
    Ok(name)
}

/// Waits for what the pod is given.
async fn given(client: &Client, name: &str, args: &RunArgs) -> Result<(String, u64), Refusal> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let (begun, mut told) = (Instant::now(), false);
    loop {
        let pod = pods.get(name).await.map_err(|error| Refusal::Failed(failed(error)))?;
        let annotations = pod.metadata.annotations.unwrap_or_default();
        if let Some(text) = annotations.get(carve_admission::keys::SLICES) {
            let slices =
                Slices::from_annotation(text).map_err(|error| Refusal::Failed(Failure::of(&error)))?;
            let first = slices.parts().next().map(|(_, slice)| (slice.gpu.0.clone(), slice.memory.0 << 20));
            return first.ok_or_else(|| Refusal::Failed(Failure::new("carve up gave no part of a GPU")));
        }
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let why = conditions.into_iter().find(|one| one.type_ == "PodScheduled" && one.status == "False");
        let why = why.and_then(|one| one.message).unwrap_or_default();
        match (why.is_empty(), args.wait) {
            (false, false) => return Err(Refusal::Full(why)),
            (false, true) => {
                if !told && !args.quiet {
                    eprintln!("carve: waits for room: {why}");
                    told = true;
                }
            }
            (true, _) if begun.elapsed() > PATIENCE && !told => {
                let silent =
                    Failure::new("carve up gave no answer").hint("take the share without it: --apart");
                return Err(Refusal::Failed(silent));
            }
            (true, _) => {}
        }
        tokio::time::sleep(GLANCE).await;
    }
}

impl Slice {
    /// The same command, with what it got.
    pub(crate) fn narrow(&self, args: &RunArgs) -> RunArgs {
        RunArgs { gpu: Some(self.gpu.clone()), memory: Some(self.memory), ..args.clone() }
    }

    /// Gives it back. A `carve up` that is gone by now sees when it comes back that the command is, too.
    pub(crate) fn give_back(self) {
        let gone = wait(async {
            let client = connect(Some(&self.running.kubeconfig), COMMAND_LINE)
                .await
                .map_err(|error| Failure::of(&error))?;
            let pods: Api<Pod> = Api::default_namespaced(client);
            let deleted = pods.delete(&self.name, &DeleteParams::default().grace_period(0)).await;
            deleted.map(drop).map_err(failed)
        });
        drop(gone);
    }
}
