//! Objects that the controller has made: deleted where nobody uses them, named where somebody does.

use super::gone::delete;
use super::{LeaveError, Told};
use crate::admit::templates::{LABEL, named_by};
use carve_admission::keys;
use carve_slice_policy::SlicePolicy;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Everything of a kind, and nothing where the API server does not know the kind.
async fn list<K>(api: &Api<K>, params: &ListParams, doing: &str) -> Result<Vec<K>, LeaveError>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.list(params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => Ok(listed.map_err(LeaveError::at(doing))?.items),
    }
}

/// Deletes an object by its name; its title where it was there.
async fn remove<K>(api: &Api<K>, title: String, name: &str) -> Result<Option<String>, LeaveError>
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    let was_there = delete(api, name, &DeleteParams::default()).await;
    let was_there = was_there.map_err(LeaveError::at(&format!("{title} can not be deleted")))?;
    Ok(was_there.then_some(title))
}

/// Claims on devices of ours that pods hold.
pub(super) async fn claimed(client: &Client, driver: &str) -> Result<Vec<String>, LeaveError> {
    let api: Api<ResourceClaim> = Api::all(client.clone());
    let claims = list(&api, &ListParams::default(), "claims can not be listed").await?;
    Ok(held(claims, driver))
}

fn held(claims: Vec<ResourceClaim>, driver: &str) -> Vec<String> {
    let is_held = |claim: &&ResourceClaim| {
        let Some(status) = &claim.status else { return false };
        let devices = status.allocation.as_ref().and_then(|allocation| allocation.devices.as_ref());
        let results = devices.and_then(|devices| devices.results.as_ref());
        let ours = results.is_some_and(|results| results.iter().any(|result| result.driver == driver));
        ours && status.reserved_for.as_ref().is_some_and(|pods| !pods.is_empty())
    };
    claims.iter().filter(is_held).map(title).collect()
}

fn title(object: &impl ResourceExt) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// What makes the API server ask: without the controller it would refuse pods that ask for parts.
pub(super) async fn webhooks(client: &Client) -> Result<Vec<String>, LeaveError> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let gone = [
        remove(&mutating, "MutatingWebhookConfiguration carve".to_owned(), "carve").await?,
        remove(&validating, "ValidatingWebhookConfiguration carve".to_owned(), "carve").await?,
    ];
    Ok(gone.into_iter().flatten().collect())
}

/// Leases, Secrets and stand-ins in the release's own namespace, and the class of stand-ins.
pub(super) async fn own(client: &Client, namespace: &str) -> Result<Vec<String>, LeaveError> {
    let mut gone = Vec::new();
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    for name in ["carve-controller", "carve-scheduler"] {
        gone.push(remove(&leases, format!("Lease {namespace}/{name}"), name).await?);
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    for name in [crate::run::SECRET, crate::run::SCHEDULER_SECRET] {
        gone.push(remove(&secrets, format!("Secret {namespace}/{name}"), name).await?);
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let stand_ins = ListParams::default().labels(crate::provision::STAND_IN);
    for pod in list(&pods, &stand_ins, "stand-ins can not be listed").await? {
        gone.push(remove(&pods, format!("stand-in {}", title(&pod)), &pod.name_any()).await?);
    }
    let classes: Api<PriorityClass> = Api::all(client.clone());
    let class = crate::provision::STAND_IN_CLASS;
    gone.push(remove(&classes, format!("PriorityClass {class}"), class).await?);
    Ok(gone.into_iter().flatten().collect())
}

/// Templates that no pod names.
pub(super) async fn templates(client: &Client, tell: &mut impl FnMut(Told)) -> Result<(), LeaveError> {
    let all: Api<ResourceClaimTemplate> = Api::all(client.clone());
    let labelled = ListParams::default().labels(LABEL);
    let found = list(&all, &labelled, "ResourceClaimTemplates can not be listed").await?;
    let ours: Vec<_> = found.into_iter().filter(|one| keys::is_template_name(&one.name_any())).collect();
    if ours.is_empty() {
        return Ok(());
    }
    let pods: Api<Pod> = Api::all(client.clone());
    let admitted = ListParams::default().labels(&format!("{}=claims", keys::ADMITTED));
    let pods = list(&pods, &admitted, "pods can not be listed").await?;
    let named: BTreeSet<(String, String)> = pods.iter().flat_map(named_by).collect();
    for template in ours {
        let (namespace, name) = (template.namespace().unwrap_or_default(), template.name_any());
        let shown = format!("ResourceClaimTemplate {namespace}/{name}");
        if named.contains(&(namespace.clone(), name.clone())) {
            tell(Told::Left(shown, "a pod names it".to_owned()));
            continue;
        }
        let api: Api<ResourceClaimTemplate> = Api::namespaced(client.clone(), &namespace);
        if let Some(shown) = remove(&api, shown, &name).await? {
            tell(Told::Gone(shown));
        }
    }
    Ok(())
}

/// Karpenter's objects that were made for policies: their machines would go with them, so people decide.
pub(super) async fn machines(client: &Client, tell: &mut impl FnMut(Told)) -> Result<(), LeaveError> {
    for (version, kind, plural) in
        [("v1", "NodePool", "nodepools"), ("v1alpha1", "NodeOverlay", "nodeoverlays")]
    {
        let resource = ApiResource {
            group: "karpenter.sh".to_owned(),
            version: version.to_owned(),
            api_version: format!("karpenter.sh/{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in list(&api, &ListParams::default(), &format!("{kind}s can not be listed")).await? {
            let fields = object.metadata.managed_fields.iter().flatten();
            if fields.into_iter().any(|entry| entry.manager.as_deref() == Some(crate::provision::MANAGER)) {
                let why = format!(
                    "machines may run by it; kubectl delete {} {} when they may go",
                    plural,
                    object.name_any()
                );
                tell(Told::Left(format!("{kind} {}", object.name_any()), why));
            }
        }
    }
    Ok(())
}

/// Definitions, unless people have written a SlicePolicy: plans are the controller's own and go with them.
pub(super) async fn definitions(client: &Client, tell: &mut impl FnMut(Told)) -> Result<(), LeaveError> {
    let policies: Api<SlicePolicy> = Api::all(client.clone());
    let policies = list(&policies, &ListParams::default(), "SlicePolicies can not be listed").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in ["sliceplans.carve.dev", "slicepolicies.carve.dev"] {
        let shown = format!("CustomResourceDefinition {name}");
        if policies.is_empty() {
            if let Some(shown) = remove(&definitions, shown, name).await? {
                tell(Told::Gone(shown));
            }
            continue;
        }
        let names: Vec<String> = policies.iter().map(ResourceExt::name_any).collect();
        tell(Told::Left(shown, format!("SlicePolicies are there: {}", names.join(", "))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::held;
    use k8s_openapi::api::resource::v1::ResourceClaim;
    use serde_json::json;

    #[test]
    fn only_claims_of_ours_that_a_pod_holds_count() {
        let claim = |name: &str, driver: &str, reserved: bool| -> ResourceClaim {
            let pods =
                if reserved { json!([{"resource": "pods", "name": "p", "uid": "u"}]) } else { json!([]) };
            let result = json!({"request": "gpu", "driver": driver, "pool": "n", "device": "gpu-0"});
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "team"},
                "spec": {},
                "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": pods},
            }))
            .expect("a claim")
        };
        let claims = vec![
            claim("held", "gpu.carve.dev", true),
            claim("free", "gpu.carve.dev", false),
            claim("other", "gpu.nvidia.com", true),
        ];
        assert_eq!(held(claims, "gpu.carve.dev"), ["team/held"]);
    }
}
