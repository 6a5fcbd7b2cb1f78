//! The least a driver of dynamic resources can be: it registers, and tells each container which claim it was given.
//!
//! Arguments: name of the node, name of the driver.

use anyhow::{Context, Result, ensure};
use carve_kubelet_api::dra::{
    self, Claim, DRAPlugin, DRAPluginServer, Device, NodePrepareResourceResponse,
    NodePrepareResourcesRequest, NodePrepareResourcesResponse, NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse,
};
use carve_kubelet_api::registration::{
    DRA_PLUGIN, InfoRequest, PluginInfo, Registration, RegistrationServer, RegistrationStatus,
    RegistrationStatusResponse,
};
use carve_kubelet_api::serve::Socket;
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;
use tonic::{Request, Response, Status, async_trait};

const KUBELET: &str = "/var/lib/kubelet";
const SPECS: &str = "/var/run/cdi";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(node), Some(name)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: trivial_dra_driver NODE DRIVER");
    };
    // Whoever started it may be killed, and then nobody else is there to end it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let folder = format!("{KUBELET}/plugins/{name}");
    for folder in [&folder, SPECS] {
        fs::create_dir_all(folder).with_context(|| format!("can not create {folder}"))?;
    }
    let driver = Driver { name };
    // Kubelet dials the second as soon as it has read of it on the first.
    let service = Socket::bind(driver.endpoint())?;
    let registration = Socket::bind(format!("{KUBELET}/plugins_registry/{}-reg.sock", driver.name))?;
    eprintln!("{} serves {node}", driver.name);
    let routes = Server::builder().add_service(DRAPluginServer::new(driver.clone()));
    let registration_routes = Server::builder().add_service(RegistrationServer::new(driver));
    tokio::try_join!(service.serve(routes, stopped()), registration.serve(registration_routes, stopped()),)?;
    Ok(())
}

/// Done when somebody wants the driver to end.
async fn stopped() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => drop(terminate.recv().await),
        Err(error) => eprintln!("can not wait for SIGTERM: {error}"),
    }
}

#[derive(Debug, Clone)]
struct Driver {
    name: String,
}

impl Driver {
    fn endpoint(&self) -> String {
        format!("{KUBELET}/plugins/{}/dra.sock", self.name)
    }

    /// Where the container runtime reads about a claim.
    fn spec(&self, uid: &str) -> PathBuf {
        PathBuf::from(format!("{SPECS}/{}-{uid}.json", self.name))
    }

    async fn prepare(&self, claim: &Claim) -> Result<Vec<Device>> {
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

    fn unprepare(&self, claim: &Claim) -> Result<()> {
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

#[async_trait]
impl Registration for Driver {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        eprintln!("kubelet asks who this is");
        Ok(Response::new(PluginInfo {
            r#type: DRA_PLUGIN.to_owned(),
            name: self.name.clone(),
            endpoint: self.endpoint(),
            supported_versions: vec![dra::VERSION.to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        match status.into_inner() {
            RegistrationStatus { plugin_registered: true, .. } => eprintln!("registered"),
            RegistrationStatus { error, .. } => eprintln!("not registered: {error}"),
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

#[async_trait]
impl DRAPlugin for Driver {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, Status> {
        let mut answer = NodePrepareResourcesResponse::default();
        for claim in request.into_inner().claims {
            let one = match log("prepare", &claim, self.prepare(&claim).await) {
                Ok(devices) => NodePrepareResourceResponse { devices, error: String::new() },
                Err(error) => NodePrepareResourceResponse { devices: Vec::new(), error },
            };
            answer.claims.insert(claim.uid, one);
        }
        Ok(Response::new(answer))
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, Status> {
        let mut answer = NodeUnprepareResourcesResponse::default();
        for claim in request.into_inner().claims {
            let error = log("unprepare", &claim, self.unprepare(&claim)).err().unwrap_or_default();
            answer.claims.insert(claim.uid, NodeUnprepareResourceResponse { error });
        }
        Ok(Response::new(answer))
    }
}
