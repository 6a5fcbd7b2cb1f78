//! What a namespace may ask for, in the words of `carve_admission::Policy`, with a schema that the API server checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of something that would get around the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Conduct {
    /// The pod is refused.
    Refuse,
    /// It is taken out of the pod, and the user is told.
    Neutralise,
    /// It stays.
    Allow,
}

/// What becomes of `nvidia.com/gpu` and `nvidia.com/mig-*` where a pod asks for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WholeGpus {
    /// They are the device plugin's.
    Leave,
    /// They are placed like parts.
    Convert,
}

/// What pods of a namespace may ask for. What is left out is not limited, or is the default of `carve`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.hostPath) || self.hostPath != 'neutralise'",
    "message": "hostPath: volumes can not be taken out of a pod that mounts them; write refuse or allow",
}]))]
pub struct Limits {
    /// Whose words may be used: `hami`, `kai`, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialects: Option<Vec<String>>,
    /// What GPUs may be divided by: `exclusive`, `mig`, `mps`, `limiter`, `time-slicing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanisms: Option<Vec<String>>,
    /// The most memory for one container, all its parts together.
    #[serde(rename = "mostMemoryMiB", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub most_memory: Option<u64>,
    /// The most percent of compute for one container, all its parts together.
    #[serde(rename = "mostComputePercent", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub most_compute: Option<u32>,
    /// The most GPUs and parts of GPUs that a pod holds at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub most_gpus: Option<u32>,
    /// What becomes of the device plugin's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_gpus: Option<WholeGpus>,
    /// Privileged containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privileged: Option<Conduct>,
    /// Folders of the host that are ours or the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<Conduct>,
    /// `hostPID` and `hostIPC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_namespaces: Option<Conduct>,
    /// `nodeName`, which goes past every scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Conduct>,
    /// `schedulerName` of somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<Conduct>,
    /// Environment that names devices or widens limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_env: Option<Conduct>,
}

impl Limits {
    /// The same as admission holds pods to, or which word it does not know.
    pub fn to_admission(&self) -> Result<carve_admission::Policy, String> {
        let written = serde_json::to_value(self).map_err(|error| error.to_string())?;
        serde_json::from_value(written).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;
    use carve_admission::Policy;
    use std::collections::BTreeSet;

    #[test]
    fn nothing_said_is_the_default_of_admission() {
        assert_eq!(Limits::default().to_admission(), Ok(Policy::default()));
    }

    #[test]
    fn every_field_of_admission_can_be_written_and_means_the_same() {
        let mut all = serde_json::to_value(Policy::default()).expect("a policy");
        all["mostMemoryMiB"] = 4096.into();
        all["mostComputePercent"] = 150.into();
        all["mostGpus"] = 2.into();
        all["deviceEnv"] = "neutralise".into();
        let limits: Limits = serde_json::from_value(all.clone()).expect("every field is known here");
        let again = serde_json::to_value(limits.to_admission().expect("every word is known there"));
        let keys = |value: &serde_json::Value| -> BTreeSet<String> {
            value.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
        };
        let again = again.expect("a policy");
        assert_eq!(keys(&again), keys(&all));
        assert_eq!(again, all);
    }

    #[test]
    fn an_unknown_word_is_told() {
        let limits = Limits { mechanisms: Some(vec!["magic".to_owned()]), ..Limits::default() };
        assert!(limits.to_admission().expect_err("nobody knows magic").contains("magic"));
    }
}
