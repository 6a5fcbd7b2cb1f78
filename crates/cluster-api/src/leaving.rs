//! What was said of a Node is taken back: labels, annotations, conditions, sums and slices of ours, and nobody else's.

use crate::names;
use crate::node::{ApiError, NodeApi};
use crate::resource_slices::SliceOwner;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::collections::BTreeSet;

/// How the names of all our field managers begin.
const OURS: &str = "carve-";

/// Field managers of ours in a list of them, and whether they hold fields of the status.
fn managers_of_ours(fields: &[ManagedFieldsEntry]) -> BTreeSet<(String, bool)> {
    let applied = fields.iter().filter(|entry| entry.operation.as_deref() == Some("Apply"));
    applied
        .filter_map(|entry| Some((entry.manager.clone()?, entry.subresource.as_deref() == Some("status"))))
        .filter(|(manager, _)| manager.starts_with(OURS))
        .collect()
}

/// Takes back what agents and controller have written on a Node; says under which field managers there was something.
///
/// Everything of ours is applied under a field manager of its own, so that applying nothing under the same name takes away what nobody else
/// holds as well.
pub async fn take_back_words(client: &Client, node: &str) -> Result<BTreeSet<String>, ApiError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(found) = nodes.get_metadata_opt(node).await? else { return Ok(BTreeSet::new()) };
    let managers = managers_of_ours(found.metadata.managed_fields.as_deref().unwrap_or_default());
    let nothing = json!({"apiVersion": "v1", "kind": "Node"});
    for (manager, is_status) in &managers {
        let params = PatchParams::apply(manager).force();
        if *is_status {
            nodes.patch_status(node, &params, &Patch::Apply(&nothing)).await?;
        } else {
            nodes.patch_metadata(node, &params, &Patch::Apply(&nothing)).await?;
        }
    }
    Ok(managers.into_iter().map(|(manager, _)| manager).collect())
}

/// Deletes the ResourceSlices that agents have published for a node, or for all of them; says how many there were.
///
/// Another driver may have the same name, so only slices that are called as ours are go.
pub async fn take_back_slices(client: &Client, driver: &str, node: Option<&str>) -> Result<usize, ApiError> {
    let api: Api<ResourceSlice> = Api::all(client.clone());
    let mut params = ListParams::default().fields(&format!("spec.driver={driver}"));
    if let Some(node) = node {
        params = params.fields(&format!("spec.driver={driver},spec.nodeName={node}"));
    }
    let listed = match api.list(&params).await {
        // A cluster without claims has none.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(0),
        listed => listed?,
    };
    let mut deleted = 0;
    for slice in &listed.items {
        let Some(node) = &slice.spec.node_name else { continue };
        let owner = SliceOwner { driver: driver.to_owned(), node: node.clone(), node_uid: None };
        let name = slice.name_any();
        if !owner.has_named(&name) {
            continue;
        }
        unless_gone(api.delete(&name, &DeleteParams::default()).await.map(drop))?;
        deleted += 1;
    }
    Ok(deleted)
}

/// Nothing is wrong where it was gone already.
fn unless_gone(answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer,
    }
}

impl NodeApi {
    /// Whether the DaemonSet that has made a pod of this node is gone, or about to go. One of the same name that came after it is another.
    pub async fn maker_is_gone(&self, namespace: &str, pod_uid: &str) -> Result<bool, ApiError> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.node()));
        let pods = pods.list_metadata(&here).await?.items;
        let Some(own) = pods.into_iter().find(|pod| pod.metadata.uid.as_deref() == Some(pod_uid)) else {
            return Ok(false);
        };
        let owners = own.metadata.owner_references.unwrap_or_default();
        let Some(owner) =
            owners.into_iter().find(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true))
        else {
            return Ok(false);
        };
        let sets: Api<DaemonSet> = Api::namespaced(self.client(), namespace);
        let there = sets.get_metadata_opt(&owner.name).await?;
        Ok(is_gone(there.map(|there| there.metadata).as_ref(), &owner.uid))
    }

    /// Deletes the NodeFeature of this node, if it is ours; says whether it was.
    pub async fn take_back_node_feature(&self, namespace: &str, name: &str) -> Result<bool, ApiError> {
        if !self.has_node_features().await {
            return Ok(false);
        }
        let kind = GroupVersionKind::gvk("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(), namespace, &resource);
        let Some(found) = api.get_opt(name).await? else { return Ok(false) };
        let managers = managers_of_ours(found.metadata.managed_fields.as_deref().unwrap_or_default());
        if !managers.contains(&(names::LABELS_MANAGER.to_owned(), false)) {
            return Ok(false);
        }
        unless_gone(api.delete(name, &DeleteParams::default()).await.map(drop))?;
        Ok(true)
    }
}

/// Whether an owner is gone, by what is there under its name.
fn is_gone(there: Option<&ObjectMeta>, owner_uid: &str) -> bool {
    there.is_none_or(|there| there.uid.as_deref() == Some(owner_uid) && there.deletion_timestamp.is_some())
}

#[cfg(test)]
mod tests {
    use super::{is_gone, managers_of_ours};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
    use k8s_openapi::jiff::Timestamp;
    use kube::api::ObjectMeta;

    #[test]
    fn only_what_was_applied_by_us_is_ours() {
        let entry = |manager: &str, operation: &str, subresource: Option<&str>| ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            subresource: subresource.map(str::to_owned),
            ..ManagedFieldsEntry::default()
        };
        let fields = [
            entry("carve-labels", "Apply", None),
            entry("carve-agent-CarveConfigured", "Apply", Some("status")),
            entry("kubelet", "Update", Some("status")),
            entry("kubectl-label", "Update", None),
            entry("gpu-feature-discovery", "Apply", None),
            // Taints of new machines, which the controller takes away itself.
            entry("carve-provision", "Update", None),
        ];
        let ours: Vec<_> = managers_of_ours(&fields).into_iter().collect();
        let expected = [("carve-agent-CarveConfigured".to_owned(), true), ("carve-labels".to_owned(), false)];
        assert_eq!(ours, expected);
    }

    #[test]
    fn a_maker_is_gone_when_it_is_not_there_or_ends_and_not_when_another_took_its_name() {
        let set = |uid: &str, ends: bool| ObjectMeta {
            uid: Some(uid.to_owned()),
            deletion_timestamp: ends.then_some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        assert!(is_gone(None, "one"));
        assert!(is_gone(Some(&set("one", true)), "one"));
        assert!(!is_gone(Some(&set("one", false)), "one"), "it is updated");
        assert!(!is_gone(Some(&set("two", false)), "one"), "its successor goes on");
    }
}
