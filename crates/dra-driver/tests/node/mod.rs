//! A node of two GPUs, claims as the scheduler would leave them, and a preparer between them.
#![allow(dead_code, reason = "every test binary uses another part")]

use carve_dra::{Allocated, Allocation, Claim, ClaimConfig, ConfigSource};
use carve_dra_driver::{
    ContextMemory, NodeFiles, Places, PrepareError, PreparedDevice, Preparer, PreparerSettings, SetTurns,
    Steps,
};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::GpuUuid;
use carve_mig_manager::StateDir;
use carve_slicing::cdi::HookPath;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(crate) const DRIVER: &str = "gpu.carve.dev";
pub(crate) const POOL: &str = "node0";

/// Every length of turns that was set.
#[derive(Debug, Default)]
pub(crate) struct Turns(pub(crate) Mutex<Vec<(String, u32)>>);

impl SetTurns for Turns {
    fn set(&self, gpu: &GpuUuid, interval: u32) -> Result<(), String> {
        self.0.lock().unwrap().push((gpu.0.clone(), interval));
        Ok(())
    }
}

/// A node's folders and GPUs.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    pub(crate) host: SimulatedHost,
    pub(crate) turns: Arc<Turns>,
    pub(crate) boot: String,
    pub(crate) context: ContextMemory,
    pub(crate) limiter: Option<PathBuf>,
}

impl Node {
    pub(crate) fn new(machine: &str) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let host = SimulatedHost::new(Machine::named(machine).unwrap());
        Node {
            folder,
            host,
            turns: Arc::default(),
            boot: "boot-1".to_owned(),
            context: ContextMemory::Told(0),
            limiter: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn preparer_told(&self, steps: Steps) -> Preparer {
        Preparer::new(PreparerSettings {
            driver: DRIVER.to_owned(),
            pool: POOL.to_owned(),
            boot: self.boot.clone(),
            folder: self.path("state"),
            cdi_folder: self.path("cdi"),
            mig: StateDir::new(self.path("state")),
            places: Places {
                mps_root: "/run/nvidia/mps".to_owned(),
                limits: PathBuf::from("/host/limits"),
                limiter: self.limiter.clone(),
            },
            limits_here: self.path("limits"),
            context: self.context.clone(),
            turns: Some(Arc::clone(&self.turns) as Arc<dyn SetTurns>),
            steps,
        })
    }

    pub(crate) fn preparer(&self) -> Preparer {
        self.preparer_told(Steps::default())
    }

    /// Prepares as the agent does, with daemons that are there at once.
    pub(crate) fn prepare(&mut self, claim: &Claim) -> Result<Vec<PreparedDevice>, PrepareError> {
        let preparer = self.preparer();
        preparer.begin(&mut self.host, claim)?;
        preparer.finish(&claim.uid, &files())
    }

    pub(crate) fn unprepare(&mut self, uid: &str) -> Result<(), PrepareError> {
        let preparer = self.preparer();
        if preparer.release(uid)? {
            preparer.end(&mut self.host, uid)?;
        }
        Ok(())
    }

    /// Names of all files below a folder of the node.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// What is left when nobody holds anything: no instance, MIG off, no file of a claim.
    pub(crate) fn is_clean(&self) -> Result<(), String> {
        for gpu in self.host.gpus().unwrap() {
            if self.host.mig_mode(gpu.index).unwrap().is_some_and(|mode| mode.current) {
                let instances = self.host.gpu_instances(gpu.index).unwrap();
                return Err(format!("GPU {} is cut: {instances:?}", gpu.index));
            }
        }
        let expected: &[(&str, &[&str])] = &[
            ("cdi", &["k8s.gpu.carve.dev-node.json"]),
            ("state/claims", &["lock"]),
            ("state/instances", &[]),
            // The same for all claims.
            ("limits", &["ld.so.preload"]),
        ];
        for (folder, allowed) in expected {
            let found = self.names(folder);
            if found.iter().any(|name| !allowed.contains(&name.as_str())) {
                return Err(format!("{folder} holds {found:?}"));
            }
        }
        Ok(())
    }
}

pub(crate) fn files() -> NodeFiles {
    NodeFiles {
        hook: HookPath::new("/usr/local/bin/carve"),
        dev_root: "/".to_owned(),
        ..NodeFiles::default()
    }
}

/// What the scheduler gave: request, device, share, amounts.
pub(crate) fn result(
    request: &str,
    device: &str,
    share: Option<&str>,
    consumed: &[(&str, &str)],
) -> Allocated {
    Allocated {
        request: request.to_owned(),
        driver: DRIVER.to_owned(),
        pool: POOL.to_owned(),
        device: device.to_owned(),
        share: share.map(str::to_owned),
        consumed: consumed.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect(),
        admin: false,
    }
}

pub(crate) fn claim(uid: &str, results: Vec<Allocated>) -> Claim {
    Claim {
        namespace: "team".to_owned(),
        name: format!("claim-{uid}"),
        uid: uid.to_owned(),
        allocation: Some(Allocation { results, configs: Vec::new() }),
    }
}

pub(crate) fn with_config(mut claim: Claim, requests: &[&str], parameters: Value) -> Claim {
    let config = ClaimConfig {
        source: ConfigSource::Claim,
        requests: requests.iter().map(|request| (*request).to_owned()).collect(),
        driver: DRIVER.to_owned(),
        parameters,
    };
    claim.allocation.as_mut().unwrap().configs.push(config);
    claim
}

/// A claim for each way of using a GPU.
pub(crate) fn every_way() -> Vec<(&'static str, Claim)> {
    let sharing = |kind: &str, sharing: Value| serde_json::json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing});
    let fraction = &[("memory", "4Gi"), ("compute", "25")];
    vec![
        ("alone", claim("a", vec![result("r", "gpu-0", None, &[])])),
        ("fraction", claim("b", vec![result("r", "gpu-0-frac", Some("s1"), fraction)])),
        ("mps", claim("c", vec![result("r", "gpu-0-mps", Some("s1"), fraction)])),
        (
            "turns",
            with_config(
                claim("d", vec![result("r", "gpu-0-ts", Some("s1"), &[("replicas", "1")])]),
                &["r"],
                sharing(
                    "GpuConfig",
                    serde_json::json!({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}),
                ),
            ),
        ),
        (
            "mig",
            claim(
                "e",
                vec![
                    result("x", "gpu-0-mig-1g18gb-19-6", None, &[]),
                    result("y", "gpu-0-mig-3g71gb-9-0", None, &[]),
                ],
            ),
        ),
        ("mig fraction", claim("f", vec![result("r", "gpu-0-mig-2g35gb-14-4-frac", Some("s1"), fraction)])),
        (
            "mig over MPS",
            with_config(
                claim("g", vec![result("r", "gpu-0-mig-2g35gb-14-4", None, &[])]),
                &[],
                sharing(
                    "MigDeviceConfig",
                    serde_json::json!({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}),
                ),
            ),
        ),
        (
            "alone over MPS",
            with_config(
                claim("h", vec![result("r", "gpu-0", None, &[])]),
                &[],
                sharing(
                    "GpuConfig",
                    serde_json::json!({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "10Gi"}}),
                ),
            ),
        ),
    ]
}
