//! What an agent says to the API server about dynamic resources, word by word: for suites, which can not reach the server themselves.
//!
//! ```text
//! dra_api publish KUBECONFIG NODE DRIVER NAMESPACE CONFIGMAP   publishes what the ConfigMap's `offer` asks for, until it is killed
//! dra_api withdraw KUBECONFIG NODE DRIVER                      takes everything back
//! dra_api version KUBECONFIG NODE                              prints the version of the server
//! dra_api claim KUBECONFIG NODE NAMESPACE NAME                 prints a claim
//! dra_api tell KUBECONFIG NODE NAMESPACE NAME UID MESSAGE      tells an event about a claim
//! dra_api status KUBECONFIG NODE NAMESPACE NAME UID DEVICES    tells about the devices of a claim; DEVICES is JSON
//! ```
//! An offer is `{"machine": "h100-sxm-80gb:4", "gpus": [0, 1], "mode": "all", "taints": {"0": ["unhealthy"]}}`.

use anyhow::{Context, Result, bail};
use carve_cluster_api::{ClaimDeviceStatus, NodeApi, SlicePublisher, Tone};
use carve_dra::{GpuFacts, Mode, Slice, Taint, TaintEffect, layout, slices};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // Whoever started it may be killed, and then nobody else is there to end it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [verb, kubeconfig, node, rest @ ..] = &arguments[..] else {
        bail!("usage: dra_api VERB KUBECONFIG NODE …")
    };
    let api = NodeApi::connect_as(Some(Path::new(kubeconfig)), node, "carve-suites").await?;
    match (*verb, rest) {
        ("publish", [driver, namespace, config_map]) => publish(&api, driver, namespace, config_map).await?,
        ("withdraw", [driver]) => SlicePublisher::new(&api, (*driver).to_owned()).withdraw().await?,
        ("version", []) => println!("{}", api.server_version().await?),
        ("claim", [namespace, name]) => println!("{:#?}", api.claim(namespace, name).await?),
        ("tell", [namespace, name, uid, message]) => {
            api.tell_about_claim(namespace, name, uid, Tone::Warning, "NotPrepared", message).await?;
        }
        ("status", [namespace, name, uid, devices]) => {
            let devices: Vec<Value> = serde_json::from_str(devices)?;
            let devices: Vec<ClaimDeviceStatus> = devices.iter().map(device).collect();
            match api.apply_claim_devices(namespace, name, uid, &devices).await {
                Ok(()) => println!("told"),
                Err(error) => println!("refused: {error}"),
            }
        }
        _ => bail!("no such verb, or not its arguments: {verb}"),
    }
    Ok(())
}

/// Keeps the offer of a ConfigMap published, and tells each report on a line.
async fn publish(api: &NodeApi, driver: &str, namespace: &str, config_map: &str) -> Result<()> {
    let mut publisher = SlicePublisher::new(api, driver.to_owned());
    let mut changes = publisher.changes();
    let mut texts = api.follow_config_map(namespace, config_map);
    loop {
        let text = match &*texts.borrow_and_update() {
            Some(Ok(data)) => data.get("offer").cloned(),
            _ => None,
        };
        if let Some(text) = text {
            match publisher.reconcile(&offer(driver, &text)?).await {
                Ok(report) => {
                    let dropped: Vec<String> = report.dropped.iter().map(ToString::to_string).collect();
                    eprintln!(
                        "generation {} written {} deleted {} withheld {} dropped [{}]",
                        report.generation,
                        report.written,
                        report.deleted,
                        report.withheld,
                        dropped.join(" | ")
                    );
                }
                Err(error) => {
                    eprintln!("again soon: {error}");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    continue;
                }
            }
        }
        tokio::select! {
            changed = texts.changed() => changed.context("the ConfigMap is followed for ever")?,
            changed = changes.changed() => {
                changed.context("slices are watched for ever")?;
                eprintln!("somebody else changed slices");
            }
        }
    }
}

/// The slices of an offer.
fn offer(driver: &str, text: &str) -> Result<Vec<Slice>> {
    let offer: Value = serde_json::from_str(text)?;
    let host = SimulatedHost::new(Machine::named(offer["machine"].as_str().context("a machine")?)?);
    let mode: Mode = offer["mode"].as_str().context("a mode")?.parse()?;
    let chosen = offer["gpus"].as_array().context("GPUs")?;
    let mut gpus = Vec::new();
    for gpu in host.gpus()? {
        let number = gpu.index.0;
        if !chosen.iter().any(|chosen| chosen.as_u64() == Some(u64::from(number))) {
            continue;
        }
        let taint = |key: &Value| Taint {
            key: format!("{driver}/{}", key.as_str().unwrap_or_default()),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
        };
        let taints =
            offer["taints"][number.to_string()].as_array().into_iter().flatten().map(taint).collect();
        let table = host.profile_table(gpu.index).ok().filter(|table| !table.profiles().is_empty());
        let reserved = host.memory(gpu.index)?.reserved;
        gpus.push(GpuFacts { gpu, reserved, table, pcie_root: None, taints, mig_taints: BTreeMap::new() });
    }
    // In the order of GPUs, so that what changes about one GPU changes one slice.
    Ok(slices(&layout(&host.driver()?, &gpus, &mode.ways())))
}

fn device(told: &Value) -> ClaimDeviceStatus {
    let text = |field: &str| told[field].as_str().unwrap_or_default().to_owned();
    ClaimDeviceStatus {
        driver: text("driver"),
        pool: text("pool"),
        device: text("device"),
        share: told["share"].as_str().map(str::to_owned),
        ready: told["ready"] == true,
        message: text("message"),
        data: told["data"].clone(),
    }
}
