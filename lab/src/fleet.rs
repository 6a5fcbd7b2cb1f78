//! Many nodes without kubelets: Node objects with GPUs whose leases are renewed, so that the real scheduler sees a fleet.
//!
//! Pods that land there are bound and never run. A taint keeps everybody else away.

use crate::pki::SERVER;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// Label and taint of these nodes.
pub const FLEET: &str = "carve.lab/fleet";

/// Well below the 40 s after which a node counts as lost.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Keeps so many nodes alive until the lab ends or this process does.
pub fn fleet(folder: &Path, nodes: usize) -> Result<()> {
    let api = Api::connect(folder)?;
    // The API server answers several at once faster than one after the other.
    std::thread::scope(|scope| {
        let hands: Vec<_> = (0..HANDS)
            .map(|hand| {
                let api = &api;
                scope.spawn(move || (hand..nodes).step_by(HANDS).try_for_each(|number| make(api, number)))
            })
            .collect();
        hands.into_iter().try_for_each(|hand| match hand.join() {
            Ok(made) => made,
            Err(_) => bail!("a thread that makes nodes panicked"),
        })
    })?;
    fs::write(folder.join("fleet-ready"), nodes.to_string())?;
    loop {
        let start = Instant::now();
        for number in 0..nodes {
            api.patch(&format!("{LEASES}/{}", name(number)), &json!({"spec": {"renewTime": now()}}))?;
        }
        std::thread::sleep(HEARTBEAT.saturating_sub(start.elapsed()));
    }
}

/// How many nodes are made at once.
const HANDS: usize = 8;

fn make(api: &Api, number: usize) -> Result<()> {
    let name = name(number);
    api.create("/api/v1/nodes", &node(&name))?;
    api.patch(&format!("/api/v1/nodes/{name}/status"), &status())?;
    api.create(LEASES, &lease(&name))
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn name(number: usize) -> String {
    format!("fleet-{number:04}")
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {FLEET: "true", "kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": FLEET, "effect": "NoSchedule"}]},
    })
}

/// The size of a p4d.24xlarge.
fn status() -> Value {
    let size = json!({"cpu": "96", "memory": "1152Gi", "pods": "110", "nvidia.com/gpu": "8"});
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Lab", "message": "kept alive by the lab",
               "lastHeartbeatTime": now(), "lastTransitionTime": now()})
    };
    json!({"status": {"capacity": size, "allocatable": size, "conditions": [
        condition("Ready", "True"), condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"), condition("PIDPressure", "False"),
    ]}})
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()},
    })
}

/// This moment as the API server writes it.
fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    timestamp(since.as_secs(), since.subsec_micros())
}

/// Seconds since 1970 as a date: days to civil date by the usual arithmetic of 400-year eras.
fn timestamp(seconds: u64, microseconds: u32) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{microseconds:06}Z")
}

/// The API server, over one connection that stays open.
struct Api {
    agent: Agent,
}

impl Api {
    fn connect(folder: &Path) -> Result<Self> {
        let authority = fs::read(folder.join("pki/apiserver.crt")).context("the API server's certificate")?;
        let mut roots = Vec::new();
        for part in ureq::tls::parse_pem(&authority) {
            if let ureq::tls::PemItem::Certificate(certificate) = part? {
                roots.push(certificate);
            }
        }
        let roots: Vec<Certificate<'static>> = roots;
        let tls =
            TlsConfig::builder().provider(TlsProvider::Rustls).root_certs(RootCerts::from(roots)).build();
        let config = Agent::config_builder().tls_config(tls).http_status_as_error(false).build();
        Ok(Api { agent: config.into() })
    }

    /// Creates an object; one that is there already is fine.
    fn create(&self, path: &str, object: &Value) -> Result<()> {
        let request =
            self.agent.post(format!("{SERVER}{path}")).header("Authorization", "Bearer admin-token");
        check(path, request.send_json(object)?, &[200, 201, 409])
    }

    fn patch(&self, path: &str, change: &Value) -> Result<()> {
        let request = self
            .agent
            .patch(format!("{SERVER}{path}"))
            .header("Authorization", "Bearer admin-token")
            .header("Content-Type", "application/merge-patch+json");
        check(path, request.send(serde_json::to_vec(change)?)?, &[200])
    }
}

fn check(path: &str, mut response: ureq::http::Response<ureq::Body>, fine: &[u16]) -> Result<()> {
    let code = response.status().as_u16();
    // Read to the end, or the connection can not be used again.
    let text = response.body_mut().read_to_string()?;
    if !fine.contains(&code) {
        bail!("{path}: the API server answers {code}: {text}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn dates_are_right_at_the_edges() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(timestamp(951_782_400, 5), "2000-02-29T00:00:00.000005Z");
        assert_eq!(timestamp(1_767_225_599, 0), "2025-12-31T23:59:59.000000Z");
        assert_eq!(timestamp(4_102_444_800, 0), "2100-01-01T00:00:00.000000Z");
    }
}
