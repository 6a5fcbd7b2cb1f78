//! Plays kubelet to a driver: makes claims ready and takes them back, one after another, and tells how long each call took.
//!
//! `claim_rounds KUBECONFIG NODE NAMESPACE SOCKET ROUNDS`: the claims are real ones on the API server, whose status says what a
//! scheduler would have written; there are no pods. Prints one line of JSON with the milliseconds of every call, or what went wrong.

use anyhow::{Context, Result, bail};
use carve_cluster_api::NodeApi;
use carve_kubelet_api::dial::dial;
use carve_kubelet_api::dra::{
    Claim, DRAPluginClient, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest,
};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

const DRIVER: &str = "gpu.carve.dev";

/// What a scheduler would give, in turns: a fraction, an instance, a share of an instance, a whole GPU; now and then a share by MPS.
fn result(round: usize, node: &str) -> (&'static str, Value) {
    let amounts = json!({"memory": "4Gi", "compute": "25"});
    let share = format!("00000000-0000-4000-8000-{round:012}");
    let (way, device, shared) = match round % 4 {
        0 if round % 20 == 4 => ("mps", "gpu-0-mps", true),
        0 => ("fraction", "gpu-0-frac", true),
        1 => ("mig", "gpu-1-mig-1g18gb-19-6", false),
        2 => ("mig-fraction", "gpu-2-mig-2g35gb-14-4-frac", true),
        _ => ("whole", "gpu-3", false),
    };
    let mut result = json!({"request": "gpu", "driver": DRIVER, "pool": node, "device": device});
    if shared {
        result["shareID"] = share.into();
        result["consumedCapacity"] = amounts;
    }
    (way, result)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // Whoever runs it on a node hears what it prints, and nothing else.
    match rounds().await {
        Ok(times) => println!("{}", Value::from(times)),
        Err(error) => println!("{error:#}"),
    }
}

async fn rounds() -> Result<Vec<Value>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, node, namespace, socket, rounds] = &arguments[..] else {
        bail!("usage: claim_rounds KUBECONFIG NODE NAMESPACE SOCKET ROUNDS")
    };
    let api = NodeApi::connect_as(Some(Path::new(kubeconfig)), node, "carve-suites").await?;
    let claims: Api<ResourceClaim> = Api::namespaced(api.client(), namespace);
    let mut driver = DRAPluginClient::new(dial(Path::new(socket)).await?);
    let mut times: Vec<Value> = Vec::new();
    for round in 0..rounds.parse()? {
        let name = format!("round-{round}");
        let (way, result) = result(round, node);
        let object: ResourceClaim = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.carve.dev"}}]}},
        }))?;
        let made = claims.create(&PostParams::default(), &object).await?;
        let mut allocated = serde_json::to_value(&made)?;
        allocated["status"] = json!({"allocation": {"devices": {"results": [result]}}});
        let allocated: ResourceClaim = serde_json::from_value(allocated)?;
        claims.replace_status(&name, &PostParams::default(), &allocated).await.context("allocate it")?;
        let uid = made.metadata.uid.context("a uid")?;
        let asked = Claim { namespace: namespace.clone(), uid: uid.clone(), name: name.clone() };

        let begin = Instant::now();
        let request = NodePrepareResourcesRequest { claims: vec![asked.clone()] };
        let answer = driver.node_prepare_resources(request).await?.into_inner();
        let prepared = begin.elapsed().as_secs_f64() * 1_000.0;
        let answer = answer.claims.get(&uid).context("an answer for the claim")?;
        if !answer.error.is_empty() {
            bail!("{name}: {}", answer.error);
        }
        let begin = Instant::now();
        let request = NodeUnprepareResourcesRequest { claims: vec![asked] };
        let answer = driver.node_unprepare_resources(request).await?.into_inner();
        let unprepared = begin.elapsed().as_secs_f64() * 1_000.0;
        let answer = answer.claims.get(&uid).context("an answer for the claim")?;
        if !answer.error.is_empty() {
            bail!("{name}: {}", answer.error);
        }
        times.push(json!([way, prepared, unprepared]));
        // Without a version: the driver may be telling about the claim at this moment.
        let freed = json!({"status": {"allocation": null, "devices": null}});
        claims.patch_status(&name, &PatchParams::default(), &Patch::Merge(freed)).await.context("free it")?;
        claims.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(times)
}
