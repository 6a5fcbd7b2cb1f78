//! What the API server writes down of every call: who, which verb, which object; for whoever compares it with what is granted.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Kubernetes' own callers are left out, and so is what is no object: the records stay small.
const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [\"system:kube-controller-manager\", \"system:kube-scheduler\", \"system:apiserver\"]
- level: None
  userGroups: [\"system:nodes\", \"system:serviceaccounts:kube-system\"]
- level: None
  nonResourceURLs: [\"*\"]
# Of a fleet without kubelets, whose nodes are kept alive by the administrator.
- level: None
  namespaces: [kube-node-lease]
  resources: [{group: coordination.k8s.io}]
- level: Metadata
";

/// Writes what the API server reads, and answers how it is told.
pub(crate) fn write(folder: &Path) -> Result<()> {
    Ok(fs::write(folder.join("audit-policy.yaml"), POLICY)?)
}

/// How the API server is told. Without a largest size there is one file.
pub(crate) fn arguments(folder: &Path) -> [String; 3] {
    let folder = folder.display();
    [
        format!("--audit-policy-file={folder}/audit-policy.yaml"),
        format!("--audit-log-path={folder}/{RECORDS}"),
        "--audit-log-maxsize=0".to_owned(),
    ]
}

const RECORDS: &str = "audit.jsonl";

/// Shows every record so far, one JSON object each.
pub(crate) fn read(folder: &Path, mut show: impl FnMut(&str)) -> Result<()> {
    let path = folder.join(RECORDS);
    let file = File::open(&path).with_context(|| path.display().to_string())?;
    for line in BufReader::new(file).lines() {
        show(&line.with_context(|| path.display().to_string())?);
    }
    Ok(())
}
