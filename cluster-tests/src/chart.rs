//! The chart in the lab: a release that Helm installs, changes and takes away, and everything that a cluster and a node have before and after.

use crate::{Cluster, GpuNode, PATIENCE, Previous};
use carve_conformance::helm;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Name of the release, and of its namespace.
const NAME: &str = "carve";
/// Folders of a node in which anything of carve's may be.
pub const FOLDERS: [&str; 7] = [
    "/var/run/cdi",
    "/var/lib/carve",
    "/run/carve",
    "/run/nvidia",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/plugins",
    "/var/lib/kubelet/plugins_registry",
];
/// How lines of objects begin that come and go without anybody's doing.
const RESTLESS: [&str; 2] = ["Event ", "Lease coordination.k8s.io/v1 kube-node-lease "];

/// A release on a node with simulated GPUs. Whatever becomes of the test, the next one finds the cluster without it.
#[derive(Debug)]
pub struct Release<'a> {
    cluster: &'a Cluster,
    helm: PathBuf,
    values: PathBuf,
}

impl<'a> Release<'a> {
    /// A release that is not installed yet. `None` (said aloud) where Helm was not built.
    pub fn new(cluster: &'a Cluster, node: &GpuNode) -> Option<Self> {
        let helm = helm()?;
        let values = node.files("helm").join("values.json");
        std::fs::write(&values, cluster.chart_values(node).to_string())
            .unwrap_or_else(|error| panic!("{}: {error}", values.display()));
        let release = Release { cluster, helm, values };
        release.forget();
        // Those that another suite has applied by hand are not Helm's to change.
        for (_, definition) in carve_slice_policy::definitions() {
            let name = definition.metadata.name.unwrap_or_default();
            let _ = cluster.try_kubectl(&["delete", "crd", &name, "--ignore-not-found"], None);
        }
        cluster.not_leaving(NAME);
        let made = cluster.try_kubectl(&["create", "namespace", NAME], None);
        assert!(made.as_ref().map_or_else(|error| error.contains("exists"), |_| true), "{made:?}");
        Some(release)
    }

    /// The namespace of the release.
    pub fn namespace(&self) -> &'static str {
        NAME
    }

    /// What Helm prints, or what it complains about.
    pub fn helm(&self, words: &[&str]) -> Result<String, String> {
        let program = self.helm.display().to_string();
        self.cluster.try_program(&[&[program.as_str()], words].concat(), None)
    }

    /// Everything that Helm says, whether it did what it was told or not.
    fn told_by_helm(&self, words: &[&str]) -> Result<String, String> {
        let program = self.helm.display().to_string();
        let script = "said=$(\"$0\" \"$@\" 2>&1); ended=$?; echo \"$said\"; echo \"$said\" >&2; exit $ended";
        self.cluster.try_program(&[&["sh", "-c", script, program.as_str()], words].concat(), None)
    }

    /// The manifests that Helm would send with these values and otherwise its own.
    pub fn manifests(&self, settings: &[&str]) -> Result<String, String> {
        let chart = chart();
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let words: Vec<&str> = ["template", NAME, &chart, "-n", NAME].into_iter().chain(settings).collect();
        self.helm(&words)
    }

    /// Installs it and waits until everything is ready.
    pub fn install(&self, settings: &[&str]) {
        let values = self.values.display().to_string();
        self.change("install", &chart(), &["-f", &values], settings);
    }

    /// Installs the release before this one and waits until everything is ready.
    pub fn install_previous(&self, previous: &Previous, settings: &[&str]) {
        let (values, tag) = (self.values.display().to_string(), previous.tag());
        self.change("install", &previous.chart(), &["-f", &values, "--set", &tag], settings);
    }

    /// Goes from the release before to this one, with the values that were set, and waits until everything is ready. Values that only this one has are its own.
    pub fn upgrade_to_this(&self) {
        self.change("upgrade", &chart(), &["--reset-then-reuse-values"], &["image.tag=test"]);
    }

    /// Changes values and waits until everything is ready.
    pub fn upgrade(&self, settings: &[&str]) {
        self.change("upgrade", &chart(), &["--reuse-values"], settings);
    }

    fn change(&self, verb: &str, chart: &str, more: &[&str], settings: &[&str]) {
        let words = [verb, NAME, chart, "-n", NAME, "--wait", "--timeout", "8m"];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let words: Vec<&str> = words.into_iter().chain(more.iter().copied()).chain(settings).collect();
        self.helm(&words)
            .unwrap_or_else(|error| panic!("helm {}: {error}\n{}", words.join(" "), self.logs()));
    }

    /// Goes back to the values before, and waits until everything is ready.
    pub fn roll_back(&self) {
        let words = ["rollback", NAME, "-n", NAME, "--wait", "--timeout", "8m"];
        self.helm(&words).unwrap_or_else(|error| panic!("helm rollback: {error}\n{}", self.logs()));
    }

    /// Takes it away, and answers what was said about that, or why it does not go.
    pub fn uninstall(&self) -> Result<String, String> {
        self.told_by_helm(&["uninstall", NAME, "-n", NAME, "--wait", "--timeout", "8m"])
    }

    /// Pods of an app that are ready and not about to go.
    pub fn ready(&self, app: &str) -> Vec<Value> {
        let label = format!("app={app}");
        let pods = self.cluster.get(&["pods", "-n", NAME, "-l", &label]);
        let is_ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            pod["metadata"]["deletionTimestamp"].is_null()
                && conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        pods["items"].as_array().cloned().unwrap_or_default().into_iter().filter(is_ready).collect()
    }

    /// What agents, controllers and whoever ends them have said.
    pub fn logs(&self) -> String {
        let of = |app: &str| {
            let label = format!("app={app}");
            let words = ["logs", "-n", NAME, "-l", &label, "--tail=40", "--prefix"];
            self.cluster.try_kubectl(&words, None).unwrap_or_else(|error| error)
        };
        ["carve-agent", "carve-controller", "carve-leave"].map(of).join("\n")
    }

    /// Waits until something holds, and tells what everybody said where it never does.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        self.cluster.until_or(what, PATIENCE, holds, || self.logs());
    }

    /// Takes away whatever is there, by force: for a test that has failed.
    fn forget(&self) {
        if self.helm(&["status", NAME, "-n", NAME]).is_err() {
            return;
        }
        if self.uninstall().is_ok() {
            return;
        }
        let _ = self.helm(&["uninstall", NAME, "-n", NAME, "--no-hooks"]);
        for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let _ = self.cluster.try_kubectl(&["delete", kind, NAME, "--ignore-not-found"], None);
        }
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The chart.
fn chart() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    root.join("charts/carve").display().to_string()
}

/// Everything that a cluster and its first node have: objects of every kind, what is said of the node, files, daemons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Everything(BTreeSet<String>);

impl Everything {
    /// Looks.
    pub fn now(cluster: &Cluster) -> Self {
        let mut found = BTreeSet::new();
        let kinds = cluster.kubectl(&["api-resources", "--verbs=list", "-o", "name"]);
        let kinds = kinds.split_whitespace().collect::<Vec<_>>().join(",");
        let columns = "custom-columns=K:.kind,V:.apiVersion,NS:.metadata.namespace,N:.metadata.name";
        // A kind whose definition is just being deleted is listed, and can not be asked for.
        let listed = cluster.try_kubectl(&["get", &kinds, "-A", "--no-headers", "-o", columns], None);
        for line in listed.unwrap_or_default().lines() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if !RESTLESS.iter().any(|begin| line.starts_with(begin)) {
                found.insert(line);
            }
        }
        let node = cluster.get(&["node", "node0"]);
        for field in ["labels", "annotations"] {
            let map = node["metadata"][field].as_object().cloned().unwrap_or_default();
            found.extend(map.iter().map(|(key, value)| format!("node {field} {key}={value}")));
        }
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        found
            .extend(list(&node["spec"]["taints"]).iter().map(|taint| format!("node taint {}", taint["key"])));
        let conditions = list(&node["status"]["conditions"]);
        found.extend(conditions.iter().map(|condition| format!("node condition {}", condition["type"])));
        // Kubelet goes on naming what a plugin offered once, with none of it for pods, until it is started anew.
        let offered = node["status"]["allocatable"].as_object().cloned().unwrap_or_default();
        let some = offered.iter().filter(|(_, value)| *value != "0");
        found.extend(some.map(|(key, _)| format!("node allocatable {key}")));
        let mut find = vec!["find"];
        find.extend(FOLDERS);
        // Kubelet's own notes on devices are made when there is a first one.
        find.extend(["-not", "-type", "d", "-not", "-name", "kubelet_internal_checkpoint"]);
        found.extend(cluster.on_node(&find).lines().map(|path| format!("file {path}")));
        let daemons = cluster.on_node(&["pgrep", "-a", "-f", "nvidia-cuda-mps"]);
        // One that has ended and whose end nobody has taken note of yet is gone.
        let alive = daemons.lines().filter(|line| !line.ends_with("<defunct>"));
        found.extend(alive.map(|line| format!("process {line}")));
        Everything(found)
    }

    /// Waits until nothing is there that was not before.
    pub fn until_back(&self, cluster: &Cluster, said: &str) {
        let unlike = || Everything::now(cluster).unlike(self);
        cluster.until_or(
            "everything is as it was before",
            PATIENCE,
            || unlike().is_empty(),
            || format!("{:#?}\n{said}", unlike()),
        );
    }

    /// What is here and not in the other.
    pub fn beyond(&self, other: &Everything) -> Vec<String> {
        self.0.difference(&other.0).cloned().collect()
    }

    /// What was not there before, and what the node has lost since. Objects of others may go at any time, and whatever an earlier suite left of
    /// carve's goes as well.
    pub fn unlike(&self, before: &Everything) -> Vec<String> {
        let of_node = |line: &String| line.starts_with("node ") || line.starts_with("file ");
        let of_carve = |line: &String| ["carve", "Carve", "nvidia"].iter().any(|word| line.contains(word));
        let lost = before.beyond(self).into_iter().filter(|line| of_node(line) && !of_carve(line));
        let left = self.beyond(before).into_iter().map(|line| format!("left: {line}"));
        left.chain(lost.map(|line| format!("lost: {line}"))).collect()
    }
}
