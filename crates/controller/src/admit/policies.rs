//! The policies of namespaces, as SlicePolicies say them.

use carve_admission::Policy;
use carve_slice_policy::{SlicePolicySpec, limits_of};
use serde_json::Value;
use std::collections::BTreeMap;

/// Policies, and what is known of namespaces.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    specs: BTreeMap<String, SlicePolicySpec>,
    /// Policies that do not read, and why.
    unread: BTreeMap<String, String>,
    policies_known: bool,
}

/// The labels of namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    labels: BTreeMap<String, BTreeMap<String, String>>,
    known: bool,
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

impl Policies {
    /// A policy is there, or has changed.
    pub(crate) fn seen(&mut self, policy: &Value) {
        let name = name_of(policy);
        self.gone(policy);
        match serde_json::from_value(policy["spec"].clone()) {
            Ok(spec) => drop(self.specs.insert(name, spec)),
            Err(error) => {
                tracing::error!(policy = name, %error, "this SlicePolicy does not read");
                self.unread.insert(name, error.to_string());
            }
        }
    }

    /// A policy is gone.
    pub(crate) fn gone(&mut self, policy: &Value) {
        let name = name_of(policy);
        self.specs.remove(&name);
        self.unread.remove(&name);
    }

    /// All policies were listed: these are there, and no others.
    pub(crate) fn listed(&mut self, policies: &[Value]) {
        let is_there =
            |name: &String| policies.iter().any(|policy| policy["metadata"]["name"] == name.as_str());
        self.specs.retain(|name, _| is_there(name));
        self.unread.retain(|name, _| is_there(name));
        self.policies_known = true;
    }

    /// Whether all of them were seen once.
    pub(crate) fn is_known(&self) -> bool {
        self.policies_known
    }

    /// What pods of a namespace are held to, or why that can not be known: then nobody may ask for anything.
    pub(crate) fn of(&self, namespace: &str, namespaces: &Namespaces) -> Result<Policy, String> {
        if let Some((name, error)) = self.unread.first_key_value() {
            return Err(format!(
                "the SlicePolicy {name} does not read, and may be about this namespace: {error}"
            ));
        }
        let none = BTreeMap::new();
        let labels = namespaces.labels.get(namespace).unwrap_or(&none);
        let specs = self.specs.iter().map(|(name, spec)| (name.as_str(), spec));
        match limits_of(specs, namespace, labels) {
            None => Ok(Policy::default()),
            Some(limits) => limits
                .to_admission()
                .map_err(|error| format!("the SlicePolicy for this namespace does not read: {error}")),
        }
    }
}

impl Namespaces {
    /// A namespace is there, or has changed.
    pub(crate) fn seen(&mut self, namespace: &Value) {
        let labels = serde_json::from_value(namespace["metadata"]["labels"].clone()).unwrap_or_default();
        self.labels.insert(name_of(namespace), labels);
    }

    /// A namespace is gone.
    pub(crate) fn gone(&mut self, namespace: &Value) {
        self.labels.remove(&name_of(namespace));
    }

    /// All namespaces were listed: these are there, and no others.
    pub(crate) fn listed(&mut self, namespaces: &[Value]) {
        let is_there = |name: &String| namespaces.iter().any(|one| one["metadata"]["name"] == name.as_str());
        self.labels.retain(|name, _| is_there(name));
        self.known = true;
    }

    /// Whether all of them were seen once.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::{Namespaces, Policies};
    use carve_admission::Policy;
    use carve_gpu_model::Mebibytes;
    use serde_json::{Value, json};

    fn policy(name: &str, namespaces: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"namespaces": namespaces}})
    }

    #[test]
    fn a_namespace_is_held_to_the_policy_that_names_or_selects_it() {
        let (mut policies, mut namespaces) = (Policies::default(), Namespaces::default());
        assert!(!policies.is_known() && !namespaces.is_known());
        let small = json!({"mostMemoryMiB": 4096});
        let first = policy("first", json!([{"selector": {"tier": "small"}, "limits": small}]));
        policies.seen(&first);
        policies.listed(std::slice::from_ref(&first));
        namespaces.seen(&json!({"metadata": {"name": "team", "labels": {"tier": "small"}}}));
        namespaces.listed(&[json!({"metadata": {"name": "team"}})]);
        assert!(policies.is_known() && namespaces.is_known());
        let most = |policies: &Policies, name: &str| policies.of(name, &namespaces).unwrap().most_memory;
        assert_eq!(most(&policies, "team"), Some(Mebibytes(4096)));
        assert_eq!(policies.of("other", &namespaces), Ok(Policy::default()));
        policies.gone(&first);
        assert_eq!(most(&policies, "team"), None);
    }

    #[test]
    fn what_does_not_read_lets_nobody_in() {
        let (mut policies, namespaces) = (Policies::default(), Namespaces::default());
        let wrong = policy("wrong", json!([{"names": ["team"], "limits": {"mechanisms": ["magic"]}}]));
        policies.seen(&wrong);
        assert!(policies.of("team", &namespaces).unwrap_err().contains("magic"));
        assert_eq!(policies.of("other", &namespaces), Ok(Policy::default()), "others are not concerned");
        policies.seen(&json!({"metadata": {"name": "newer"}, "spec": {"namespaces": "everyone"}}));
        assert!(policies.of("other", &namespaces).unwrap_err().contains("newer"));
        policies.listed(std::slice::from_ref(&wrong));
        assert_eq!(policies.of("other", &namespaces), Ok(Policy::default()));
    }
}
