//! As much of Node Feature Discovery as programs see that hand it their labels.

use crate::{Cluster, PATIENCE};

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodefeatures.nfd.k8s-sigs.io}
spec:
  group: nfd.k8s-sigs.io
  scope: Namespaced
  names: {kind: NodeFeature, plural: nodefeatures, singular: nodefeature}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// The API for labels; it goes when this is dropped.
#[derive(Debug)]
pub struct NodeFeatures<'a> {
    cluster: &'a Cluster,
}

impl<'a> NodeFeatures<'a> {
    /// Has the API server serve it.
    pub fn serve(cluster: &'a Cluster) -> Self {
        let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(DEFINITION));
        applied.unwrap_or_else(|error| panic!("{error}"));
        let served = || cluster.try_kubectl(&["get", "nodefeatures", "-A"], None).is_ok();
        cluster.until("the API for node features is served", PATIENCE, served);
        NodeFeatures { cluster }
    }
}

impl Drop for NodeFeatures<'_> {
    fn drop(&mut self) {
        let _ = self.cluster.try_kubectl(&["delete", "crd", "nodefeatures.nfd.k8s-sigs.io"], None);
    }
}
