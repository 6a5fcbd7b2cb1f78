//! What a namespace may ask for, and what becomes of pods that would get around it.

use crate::wire::MECHANISMS;
use carve_formats::workloads::{Dialect, Mechanism};
use carve_gpu_model::{Mebibytes, Mechanisms};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use thiserror::Error;

/// The rules of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PolicyFields", into = "PolicyFields")]
pub struct Policy {
    /// Whose words may be used.
    pub dialects: BTreeSet<Dialect>,
    /// What GPUs may be divided by.
    pub mechanisms: Mechanisms,
    /// The most memory of GPUs for one container, all its parts together.
    pub most_memory: Option<Mebibytes>,
    /// The most percent of compute for one container, all its parts together: 150 is one GPU and a half.
    pub most_compute: Option<u32>,
    /// The most GPUs, or parts of GPUs, that a pod holds at once.
    pub most_gpus: Option<u32>,
    /// What becomes of the device plugin's words.
    pub whole_gpus: WholeGpus,
    /// Privileged containers, and capabilities that come to the same.
    pub privileged: Conduct,
    /// Folders of the host that are ours, kubelet's, CDI's or the container runtime's, and mounts over what holds a container to its part.
    pub host_path: Conduct,
    /// `hostPID` and `hostIPC`.
    pub host_namespaces: Conduct,
    /// `nodeName`, which goes past every scheduler.
    pub node_name: Conduct,
    /// `schedulerName` of somebody else.
    pub scheduler_name: Conduct,
    /// Environment that names devices or widens limits.
    pub device_env: Conduct,
}

/// What becomes of something that would get around the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WholeGpus {
    /// They are the device plugin's.
    Leave,
    /// They are placed like parts.
    Convert,
}

/// Why a policy can not be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// A word that nobody knows.
    #[error("{field}: '{written}' is not one of {known}")]
    UnknownWord {
        /// The list it stands in.
        field: &'static str,
        /// The word.
        written: String,
        /// Those that are known.
        known: String,
    },
    /// A limit of nothing.
    #[error(
        "{field}: a limit of 0 forbids everything; leave it out for no limit, or empty 'dialects' to forbid all"
    )]
    NothingAllowed {
        /// The limit.
        field: &'static str,
    },
    /// There is nothing sensible to take out.
    #[error("hostPath: volumes can not be taken out of a pod that mounts them; write refuse or allow")]
    HostPathNeutralised,
}

/// A policy as it is written; what is left out is the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct PolicyFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    dialects: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mechanisms: Option<Vec<String>>,
    #[serde(rename = "mostMemoryMiB", skip_serializing_if = "Option::is_none")]
    most_memory: Option<u64>,
    #[serde(rename = "mostComputePercent", skip_serializing_if = "Option::is_none")]
    most_compute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most_gpus: Option<u32>,
    whole_gpus: WholeGpus,
    privileged: Conduct,
    host_path: Conduct,
    host_namespaces: Conduct,
    node_name: Conduct,
    scheduler_name: Conduct,
    device_env: Conduct,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            dialects: Dialect::ALL.into_iter().collect(),
            mechanisms: Mechanisms::ANY,
            most_memory: None,
            most_compute: None,
            most_gpus: None,
            whole_gpus: WholeGpus::Leave,
            privileged: Conduct::Refuse,
            host_path: Conduct::Refuse,
            host_namespaces: Conduct::Refuse,
            node_name: Conduct::Refuse,
            scheduler_name: Conduct::Neutralise,
            device_env: Conduct::Refuse,
        }
    }
}

impl Policy {
    /// The same where nothing can be taken out: what would be is refused.
    pub(crate) fn strictly(&self) -> Policy {
        let strict = |conduct| if conduct == Conduct::Neutralise { Conduct::Refuse } else { conduct };
        Policy {
            privileged: strict(self.privileged),
            host_path: strict(self.host_path),
            host_namespaces: strict(self.host_namespaces),
            node_name: strict(self.node_name),
            scheduler_name: strict(self.scheduler_name),
            device_env: strict(self.device_env),
            ..self.clone()
        }
    }
}

impl Default for PolicyFields {
    fn default() -> Self {
        Policy::default().into()
    }
}

impl From<Policy> for PolicyFields {
    fn from(policy: Policy) -> Self {
        let all = policy.dialects.len() == Dialect::ALL.len();
        let word = |mechanism: Mechanism| {
            MECHANISMS.iter().find(|(_, one)| *one == mechanism).map(|(word, _)| (*word).to_owned())
        };
        PolicyFields {
            dialects: (!all).then(|| policy.dialects.iter().map(|one| one.word().to_owned()).collect()),
            mechanisms: Mechanism::ALL
                .iter()
                .any(|one| !policy.mechanisms.contains(*one))
                .then(|| policy.mechanisms.iter().filter_map(word).collect()),
            most_memory: policy.most_memory.map(|memory| memory.0),
            most_compute: policy.most_compute,
            most_gpus: policy.most_gpus,
            whole_gpus: policy.whole_gpus,
            privileged: policy.privileged,
            host_path: policy.host_path,
            host_namespaces: policy.host_namespaces,
            node_name: policy.node_name,
            scheduler_name: policy.scheduler_name,
            device_env: policy.device_env,
        }
    }
}

impl TryFrom<PolicyFields> for Policy {
    type Error = PolicyError;

    fn try_from(fields: PolicyFields) -> Result<Self, PolicyError> {
        let limits = [
            ("mostMemoryMiB", fields.most_memory),
            ("mostComputePercent", fields.most_compute.map(u64::from)),
            ("mostGpus", fields.most_gpus.map(u64::from)),
        ];
        if let Some((field, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(PolicyError::NothingAllowed { field });
        }
        if fields.host_path == Conduct::Neutralise {
            return Err(PolicyError::HostPathNeutralised);
        }
        let dialects: Vec<(&str, Dialect)> = Dialect::ALL.iter().map(|one| (one.word(), *one)).collect();
        let dialects = known("dialects", fields.dialects, &dialects)?;
        let mechanisms = known("mechanisms", fields.mechanisms, &MECHANISMS)?;
        let all = Policy::default();
        Ok(Policy {
            dialects: dialects.map_or(all.dialects, |written| written.into_iter().collect()),
            mechanisms: mechanisms.map_or(all.mechanisms, |written| {
                written.into_iter().fold(Mechanisms::NONE, Mechanisms::with)
            }),
            most_memory: fields.most_memory.map(Mebibytes),
            most_compute: fields.most_compute,
            most_gpus: fields.most_gpus,
            whole_gpus: fields.whole_gpus,
            privileged: fields.privileged,
            host_path: fields.host_path,
            host_namespaces: fields.host_namespaces,
            node_name: fields.node_name,
            scheduler_name: fields.scheduler_name,
            device_env: fields.device_env,
        })
    }
}

/// What the words of a list mean.
fn known<T: Copy>(
    field: &'static str,
    written: Option<Vec<String>>,
    words: &[(&str, T)],
) -> Result<Option<Vec<T>>, PolicyError> {
    let meaning = |written: String| {
        let found = words.iter().find(|(word, _)| *word == written).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| PolicyError::UnknownWord {
            field,
            written: written.chars().take(60).collect(),
            known: words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
        })
    };
    written.map(|words| words.into_iter().map(meaning).collect()).transpose()
}

#[cfg(test)]
mod tests {
    use super::{Conduct, Policy, WholeGpus};
    use carve_formats::workloads::{Dialect, Mechanism};
    use serde_json::{Value, from_value, json, to_value};

    fn read(value: Value) -> Result<Policy, String> {
        from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_is_the_default_and_everything_reads_back() {
        assert_eq!(read(json!({})), Ok(Policy::default()));
        let written = json!({
            "dialects": ["hami", "tensor-fusion"], "mechanisms": ["mig", "limiter"], "mostMemoryMiB": 8192,
            "mostComputePercent": 150, "mostGpus": 2, "wholeGpus": "convert", "privileged": "neutralise",
            "hostPath": "allow", "hostNamespaces": "allow", "nodeName": "neutralise",
            "schedulerName": "refuse", "deviceEnv": "neutralise"
        });
        let policy = read(written.clone()).expect("a policy");
        assert_eq!(policy.dialects.into_iter().collect::<Vec<_>>(), [Dialect::Hami, Dialect::TensorFusion]);
        assert!(policy.mechanisms.contains(Mechanism::Mig) && !policy.mechanisms.contains(Mechanism::Mps));
        assert_eq!((policy.whole_gpus, policy.node_name), (WholeGpus::Convert, Conduct::Neutralise));
        let policy = read(written.clone()).expect("a policy");
        assert_eq!(to_value(policy).expect("JSON"), written);
    }

    #[test]
    fn what_can_not_be_is_refused_with_the_field() {
        for (value, part) in [
            (json!({"dialects": ["hamy"]}), "dialects: 'hamy' is not one of nvidia, hami"),
            (json!({"mechanisms": ["MIG"]}), "exclusive, mig, mps"),
            (json!({"mostGpus": 0}), "mostGpus: a limit of 0"),
            (json!({"hostPath": "neutralise"}), "write refuse or allow"),
            (json!({"privilege": "allow"}), "unknown field `privilege`"),
            (json!({"nodeName": "forbid"}), "unknown variant `forbid`"),
        ] {
            let said = read(value).expect_err("no policy");
            assert!(said.contains(part), "'{part}' in '{said}'");
        }
    }
}
