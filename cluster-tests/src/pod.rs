//! Manifests of pods that do nothing but be there.

use crate::Cluster;
use serde_json::{Value, json};

/// A pod under construction; it sleeps in the probe image unless told otherwise.
#[derive(Debug, Clone)]
pub struct Pod {
    manifest: Value,
}

impl Pod {
    /// A pod that sleeps.
    pub fn sleeping(cluster: &Cluster, name: &str) -> Self {
        let container = json!({
            "name": "main",
            "image": cluster.probe_image(),
            "imagePullPolicy": "Never",
            "command": ["/bin/sleep", "infinity"],
        });
        Pod {
            manifest: json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            }),
        }
    }

    /// What its container may use at most of a resource.
    pub fn limit(mut self, resource: &str, amount: &str) -> Self {
        self.manifest["spec"]["containers"][0]["resources"]["limits"][resource] = amount.into();
        self
    }

    /// A field of the container.
    pub fn container(mut self, field: &str, value: Value) -> Self {
        self.manifest["spec"]["containers"][0][field] = value;
        self
    }

    /// So many containers, all like the one it has now.
    pub fn containers(mut self, number: usize) -> Self {
        let one = self.manifest["spec"]["containers"][0].clone();
        let numbered = |place: usize| {
            let mut container = one.clone();
            container["name"] = format!("main-{place}").into();
            container
        };
        self.manifest["spec"]["containers"] = (0..number).map(numbered).collect();
        self
    }

    /// A field of the specification.
    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.manifest["spec"][field] = value;
        self
    }

    /// The manifest, as `apply` takes it.
    pub fn manifest(&self) -> String {
        self.manifest.to_string()
    }

    /// A Deployment of this pod.
    pub fn deployment(&self, replicas: usize) -> String {
        let name = self.manifest["metadata"]["name"].clone();
        let spec = &self.manifest["spec"];
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            },
        })
        .to_string()
    }
}
