//! GPUs that are offered several times: what a configuration of the device plugin says of sharing, as a policy says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The resource of whole GPUs.
pub(crate) const GPU: &str = "nvidia.com/gpu";

/// What GPUs are shared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mechanism {
    /// CUDA's time slices: nothing is limited.
    TimeSlicing,
    /// CUDA's multi-process service: memory and compute are limited.
    #[serde(rename = "MPS")]
    Mps,
}

const fn once() -> u32 {
    1
}

/// How many pods share a GPU, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.replicas > 1 || has(self.resources)",
    "message": "nothing is shared: say in replicas by how many pods each whole GPU is, or in resources what else is",
}]))]
pub struct Sharing {
    /// By what: `TimeSlicing` lets pods take turns and limits nothing, so that one may take all memory; `MPS` runs them at once and gives each its part of the memory and of
    /// the compute. Neither keeps a fault of one from the others.
    pub mechanism: Mechanism,
    /// How often each whole GPU is offered. With 4, a node with two GPUs offers `nvidia.com/gpu: 8`. With 1 whole GPUs are not shared.
    #[serde(default = "once")]
    #[schemars(range(min = 1, max = 48))]
    pub replicas: u32,
    /// Whether shares are called `nvidia.com/gpu.shared`, so that nobody takes one for a whole GPU.
    #[serde(default)]
    pub renamed: bool,
    /// Whether a pod that asks for more than one share is refused: two shares may be of one GPU, and are not twice as fast. Unset means no with `TimeSlicing` and yes with
    /// `MPS`, as with NVIDIA's device plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_share_each: Option<bool>,
    /// What else is shared: MIG devices, by the names of their resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    pub resources: Vec<SharedResource>,
}

/// A resource that is offered several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedResource {
    /// Its name, such as `nvidia.com/mig-3g.20gb`. Whole GPUs are shared by `replicas` beside this list.
    #[schemars(regex(pattern = r"^nvidia\.com/mig-[a-z0-9.]+$"))]
    pub name: String,
    /// How often each of them is offered.
    #[schemars(range(min = 2, max = 48))]
    pub replicas: u32,
}

impl Sharing {
    /// The same as a device-plugin configuration.
    pub fn to_config(&self) -> String {
        let way = match self.mechanism {
            Mechanism::TimeSlicing => "timeSlicing",
            Mechanism::Mps => "mps",
        };
        let whole = Some((GPU, self.replicas)).filter(|(_, replicas)| *replicas > 1);
        let others = self.resources.iter().map(|one| (one.name.as_str(), one.replicas));
        let resources: Vec<_> = whole
            .into_iter()
            .chain(others)
            .map(|(name, replicas)| serde_json::json!({"name": name, "replicas": replicas}))
            .collect();
        let mut shared = serde_json::json!({"resources": resources});
        if self.renamed {
            shared["renameByDefault"] = true.into();
        }
        if let Some(one) = self.one_share_each {
            shared["failRequestsGreaterThanOne"] = one.into();
        }
        serde_json::json!({"version": "v1", "sharing": {way: shared}}).to_string()
    }
}
