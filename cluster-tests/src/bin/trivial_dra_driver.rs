//! The least a driver of dynamic resources can be: it registers, and tells each container which claim it was given.
//!
//! Arguments: name of the node, name of the driver, and what tells it apart from another instance, if there may be one. How its devices are
//! is read from a file, `/run/DRIVER.health`, a line for each: device, `healthy` or `unhealthy`, and what is wrong with it.

use anyhow::{Context, Result, ensure};
use carve_dra_driver::{Registered, SocketPlaces, serve};
use carve_kubelet_api::dra::{Claim, Device};
use carve_kubelet_api::dra_health::{DeviceHealth, DeviceIdentifier, HealthStatus};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

const KUBELET: &str = "/var/lib/kubelet";
const SPECS: &str = "/var/run/cdi";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(node), Some(name)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: trivial_dra_driver NODE DRIVER [INSTANCE]");
    };
    // Whoever started it may be killed, and then nobody else is there to end it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    fs::create_dir_all(SPECS).with_context(|| format!("can not create {SPECS}"))?;
    eprintln!("{name} serves {node} as process {}", std::process::id());
    let places = SocketPlaces::below(Path::new(KUBELET), &name, arguments.next());
    let (registered, mut told) = watch::channel(Registered::No);
    tokio::spawn(async move {
        while told.changed().await.is_ok() {
            match &*told.borrow_and_update() {
                Registered::No => eprintln!("not registered any more"),
                Registered::Yes => eprintln!("registered"),
                Registered::Refused(error) => eprintln!("not registered: {error}"),
            }
        }
    });
    let (health, devices) = watch::channel(Vec::new());
    tokio::spawn(look_after(format!("/run/{name}.health"), node, health));
    serve(places, Arc::new(Driver { name }), devices, registered, stopped()).await?;
    eprintln!("ended");
    Ok(())
}

/// Reads how the devices are, again and again.
async fn look_after(path: String, node: String, health: watch::Sender<Vec<DeviceHealth>>) {
    loop {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let of_line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let device_name = words.next()?.to_owned();
            let health = match words.next()? {
                "healthy" => HealthStatus::Healthy,
                "unhealthy" => HealthStatus::Unhealthy,
                _ => HealthStatus::Unknown,
            };
            Some(DeviceHealth {
                device: Some(DeviceIdentifier { pool_name: node.clone(), device_name }),
                health: health.into(),
                last_updated_time: i64::try_from(now).unwrap_or_default(),
                health_check_timeout_seconds: 0,
                message: words.next().unwrap_or_default().to_owned(),
            })
        };
        let devices: Vec<DeviceHealth> = text.lines().filter_map(of_line).collect();
        health.send_if_modified(|known| {
            let same = |(a, b): (&DeviceHealth, &DeviceHealth)| {
                (&a.device, a.health, &a.message) == (&b.device, b.health, &b.message)
            };
            let news = known.len() != devices.len() || !known.iter().zip(&devices).all(same);
            *known = devices;
            news
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Done when somebody wants the driver to end.
async fn stopped() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => drop(terminate.recv().await),
        Err(error) => eprintln!("can not wait for SIGTERM: {error}"),
    }
}

#[derive(Debug)]
struct Driver {
    name: String,
}

impl Driver {
    /// Where the container runtime reads about a claim.
    fn spec(&self, uid: &str) -> PathBuf {
        PathBuf::from(format!("{SPECS}/{}-{uid}.json", self.name))
    }

    async fn prepare_one(&self, claim: &Claim) -> Result<Vec<Device>> {
        let object = claim_object(claim).await?;
        let kind = format!("{}/claim", self.name);
        let results = object["status"]["allocation"]["devices"]["results"].as_array();
        let devices: Vec<Device> = results
            .into_iter()
            .flatten()
            .filter(|result| text(&result["driver"]) == self.name)
            .map(|result| {
                let (request, share) = (text(&result["request"]), result["shareID"].as_str());
                let device = text(&result["device"]);
                // A name is never used again: the runtime may still hold what it meant before.
                let cdi_name = [Some(claim.uid.as_str()), Some(device), share];
                let cdi_name = cdi_name.into_iter().flatten().collect::<Vec<_>>().join("-");
                Device {
                    // Of a request with alternatives kubelet knows only the part before the slash.
                    request_names: vec![request.split('/').next().unwrap_or(request).to_owned()],
                    pool_name: text(&result["pool"]).to_owned(),
                    device_name: device.to_owned(),
                    cdi_device_ids: vec![format!("{kind}={cdi_name}")],
                    share_id: share.map(str::to_owned),
                }
            })
            .collect();
        ensure!(!devices.is_empty(), "nothing of {} is allocated to it", self.name);

        let names =
            devices.iter().flat_map(|device| &device.cdi_device_ids).filter_map(|id| id.split_once('='));
        let spec = json!({
            "cdiVersion": "0.6.0",
            "kind": kind,
            "devices": names
                .map(|(_, name)| json!({
                    "name": name,
                    "containerEdits": {"env": [format!("TRIVIAL_CLAIM={}", claim.uid)]},
                }))
                .collect::<Vec<_>>(),
        });
        // Under another name first: the runtime reads every .json as soon as it is there.
        let (path, beside) = (self.spec(&claim.uid), self.spec(&claim.uid).with_extension("new"));
        fs::write(&beside, spec.to_string())
            .with_context(|| format!("can not write {}", beside.display()))?;
        fs::rename(&beside, &path).with_context(|| format!("can not write {}", path.display()))?;
        Ok(devices)
    }

    fn unprepare_one(&self, claim: &Claim) -> Result<()> {
        let path = self.spec(&claim.uid);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("can not remove {}", path.display()))
            }
            // Undone before: kubelet asks until it has heard the answer.
            _ => Ok(()),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The claim as the API server has it, if it is still the one that is meant.
async fn claim_object(claim: &Claim) -> Result<Value> {
    let words = ["get", "resourceclaim", "-n", &claim.namespace, &claim.name, "-o", "json"];
    let output = Command::new("kubectl").args(words).output().await.context("can not run kubectl")?;
    ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr).trim());
    let object: Value = serde_json::from_slice(&output.stdout).context("what kubectl printed is no JSON")?;
    let uid = text(&object["metadata"]["uid"]);
    ensure!(uid == claim.uid, "another claim, {uid}, has taken its name");
    Ok(object)
}

/// One line for each claim of a call; the error, if there is one, is for kubelet as well.
fn log<T>(verb: &str, claim: &Claim, outcome: Result<T>) -> Result<T, String> {
    let shown = format!("{verb} {} ({}/{})", claim.uid, claim.namespace, claim.name);
    outcome.inspect(|_| eprintln!("{shown}: done")).map_err(|error| {
        eprintln!("{shown}: {error:#}");
        format!("{error:#}")
    })
}

impl carve_dra_driver::Driver for Driver {
    async fn prepare(&self, claims: Vec<Claim>) -> BTreeMap<String, Result<Vec<Device>, String>> {
        let mut outcomes = BTreeMap::new();
        for claim in claims {
            let outcome = log("prepare", &claim, self.prepare_one(&claim).await);
            outcomes.insert(claim.uid, outcome);
        }
        outcomes
    }

    async fn unprepare(&self, claims: Vec<Claim>) -> BTreeMap<String, Result<(), String>> {
        let one = |claim: Claim| {
            let outcome = log("unprepare", &claim, self.unprepare_one(&claim));
            (claim.uid, outcome)
        };
        claims.into_iter().map(one).collect()
    }
}
