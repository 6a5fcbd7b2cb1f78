//! A GPU node whose agent serves claims, and pods that come with claims of their own.

use crate::{AgentOnNode, Cluster, GpuNode, Namespace, Pod};
use serde_json::{Value, json};

/// The driver's name in these suites.
pub const DRIVER: &str = "gpu.carve.dev";

/// What a pod asks for with a claim of its own: a class and, where it is shared, how much.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The request, as a claim has it under `exactly`.
    exactly: Value,
    config: Option<Value>,
}

impl Ask {
    /// One device of a class.
    pub fn of(class: &str) -> Self {
        Ask { exactly: json!({"deviceClassName": format!("{class}.carve.dev")}), config: None }
    }

    /// So much memory and percent of compute.
    pub fn share(mut self, memory: &str, compute: &str) -> Self {
        self.exactly["capacity"] = json!({"requests": {"memory": memory, "compute": compute}});
        self
    }

    /// A MIG device of a profile.
    pub fn profile(class: &str, profile: &str) -> Self {
        let mut ask = Ask::of(class);
        let expression = format!("device.attributes['{DRIVER}'].profile == '{profile}'");
        ask.exactly["selectors"] = json!([{"cel": {"expression": expression}}]);
        ask
    }

    /// On one GPU, by its UUID.
    pub fn on(mut self, gpu: &str) -> Self {
        let expression = format!("device.attributes['{DRIVER}'].parentUUID == '{gpu}'");
        let selector = json!({"cel": {"expression": expression}});
        match self.exactly["selectors"].as_array_mut() {
            Some(selectors) => selectors.push(selector),
            None => self.exactly["selectors"] = json!([selector]),
        }
        self
    }

    /// With an opaque config.
    pub fn config(mut self, parameters: Value) -> Self {
        self.config = Some(parameters);
        self
    }

    /// The claim.
    pub fn claim(&self, name: &str) -> Value {
        let mut devices = json!({"requests": [{"name": "gpu", "exactly": self.exactly}]});
        if let Some(parameters) = &self.config {
            devices["config"] = json!([{"opaque": {"driver": DRIVER, "parameters": parameters}}]);
        }
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name}, "spec": {"devices": devices},
        })
    }
}

impl GpuNode {
    /// Starts the agent so that it serves claims, with the classes they name.
    pub fn serve_claims<'a>(
        &'a self,
        namespace: &'a Namespace,
        environment: &[(&str, &str)],
    ) -> AgentOnNode<'a> {
        apply_classes(self.cluster());
        let mut all = vec![("CARVE_DRA", "true")];
        all.extend(environment);
        self.start_agent(namespace, &all)
    }

    /// A pod with a claim of its own, both under one name; it can look at what it has.
    pub fn claiming_pod(&self, name: &str, ask: &Ask) -> String {
        let pod = self.claimant(name, name);
        json!({"apiVersion": "v1", "kind": "List", "items": [ask.claim(name), pod]}).to_string()
    }

    /// A pod that uses a claim.
    pub fn claimant(&self, name: &str, claim: &str) -> Value {
        let pod = self
            .looker(Pod::sleeping(self.cluster(), name))
            .spec("resourceClaims", json!([{"name": "gpu", "resourceClaimName": claim}]))
            .container("resources", json!({"claims": [{"name": "gpu"}]}));
        serde_json::from_str(&pod.manifest()).unwrap_or_default()
    }
}

/// The label of classes that go with the agent: one of them answers to `nvidia.com/gpu`, which would mislead the next suite.
pub(crate) const OUR_CLASSES: &str = "carve.dev/test=classes";

/// The classes that claims name.
pub fn apply_classes(cluster: &Cluster) {
    let classes = carve_dra::classes(DRIVER, &[]).unwrap_or_else(|error| panic!("{error}"));
    let labelled = |class: &carve_dra::DeviceClass| {
        let (label, value) = OUR_CLASSES.split_once('=').unwrap_or_default();
        let mut class = class.manifest();
        class["metadata"]["labels"] = json!({label: value});
        class
    };
    let items: Vec<Value> = classes.iter().map(labelled).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&list));
    applied.unwrap_or_else(|error| panic!("{error}"));
}

/// The device that a claim was given, empty while it has none.
pub fn device_of(namespace: &Namespace, claim: &str) -> String {
    let claim = namespace.get(&["resourceclaim", claim]);
    claim["status"]["allocation"]["devices"]["results"][0]["device"].as_str().unwrap_or_default().to_owned()
}
