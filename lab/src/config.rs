//! The configuration files of kubelet, containerd and CNI for one node.

use crate::lab::Node;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// Name of the image every pod's sandbox runs.
pub(crate) const PAUSE: &str = "localhost/pause:1";

/// Writes what a node's programs read.
pub(crate) fn write(folder: &Path, node: &Node, debian: &Path) -> Result<()> {
    let home = node.folder(folder);
    for part in ["cni", "cdi", "kubelet", "containerd", "pods"] {
        fs::create_dir_all(home.join(part))?;
    }
    fs::write(home.join("kubelet.yaml"), kubelet(&home, node, &node.cgroup(folder)))?;
    fs::write(home.join("containerd.toml"), containerd(&home, debian))?;
    fs::write(home.join("cni/10-lab.conflist"), cni(&home, node))?;
    Ok(())
}

fn kubelet(home: &Path, node: &Node, cgroup: &str) -> String {
    let home = home.display();
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {address}
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{home}/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
# These machines mount the first version of cgroups.
failCgroupV1: false
failSwapOn: false
# The capability to lower a score is missing in a sandboxed machine.
oomScoreAdj: 0
enforceNodeAllocatable: [pods]
# A full disk is for the tests to report; kubelet would delete their images, which nobody can pull again.
evictionHard: {{memory.available: 100Mi, nodefs.available: 0%, imagefs.available: 0%}}
imageGCHighThresholdPercent: 100
podLogsDir: {home}/pods
# The tests wait for devices to appear; the usual 10 s would be most of their time.
nodeStatusUpdateFrequency: 1s
# Tests kill containers again and again; kubelet would make them wait minutes.
featureGates: {{KubeletCrashLoopBackOffMax: true}}
crashLoopBackOff: {{maxContainerRestartPeriod: 1s}}
# Where a claim could not be made ready, kubelet tries again with its next look at the pod, after 60 to 90 s if it is not told otherwise.
syncFrequency: 10s
resolvConf: \"\"
",
        address = node.address,
    )
}

fn containerd(home: &Path, debian: &Path) -> String {
    let (home, debian) = (home.display(), debian.display());
    format!(
        "version = 2
root = \"{home}/containerd/root\"
state = \"{home}/containerd/state\"
[grpc]
  address = \"{home}/containerd.sock\"
[plugins.\"io.containerd.grpc.v1.cri\"]
  sandbox_image = \"{PAUSE}\"
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = [\"{home}/cdi\", \"/etc/cdi\", \"/var/run/cdi\"]
  [plugins.\"io.containerd.grpc.v1.cri\".cni]
    bin_dir = \"{debian}/lib/cni\"
    conf_dir = \"{home}/cni\"
  [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]
    runtime_type = \"io.containerd.runc.v2\"
    [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]
      BinaryName = \"{debian}/sbin/runc\"
      SystemdCgroup = false
"
    )
}

fn cni(home: &Path, node: &Node) -> String {
    let home = home.display();
    format!(
        "{{\"cniVersion\": \"1.0.0\", \"name\": \"lab\", \"plugins\": [{{\"type\": \"bridge\", \"bridge\": \"cni0\",
  \"isGateway\": true, \"ipam\": {{\"type\": \"host-local\", \"dataDir\": \"{home}/ipam\",
  \"ranges\": [[{{\"subnet\": \"{pods}\"}}]], \"routes\": [{{\"dst\": \"0.0.0.0/0\"}}]}}}}]}}
",
        pods = node.pods,
    )
}
