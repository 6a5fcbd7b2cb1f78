//! Pods, as far as MIG is about them: what they ask for, where they may go, since when they wait.

use crate::{Amounts, Seconds, Whereabouts};
use serde_json::Value;
use std::collections::BTreeMap;

/// How resources of MIG devices begin; the rest is the profile.
pub const RESOURCES: &str = "nvidia.com/mig-";

/// A pod that the scheduler can not place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingPod {
    /// `namespace/name`.
    pub name: String,
    /// How many of which profile, by the form that resources have: `1g.5gb.me`.
    pub wants: BTreeMap<String, u32>,
    /// What it asks for besides.
    pub besides: Amounts,
    /// Where it may go.
    pub whereabouts: Whereabouts,
    /// Higher ones are served first.
    pub priority: i32,
    /// Since when the scheduler says that it can not be placed.
    pub since: Seconds,
}

/// A pod that was bound to a node and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPod {
    /// `namespace/name`.
    pub name: String,
    /// How many of which profile.
    pub wants: BTreeMap<String, u32>,
    /// What it asks for besides.
    pub besides: Amounts,
    /// Where it may go.
    pub whereabouts: Whereabouts,
    /// Its priority.
    pub priority: i32,
    /// Whether somebody makes it anew when it is evicted.
    pub comes_back: bool,
}

/// How many MIG devices of which profile a pod asks for: all its containers together, or one that runs before them if that is more.
pub fn mig_wants(spec: &Value) -> BTreeMap<String, u32> {
    let asked = |container: &Value| -> BTreeMap<String, u32> {
        let limits = container["resources"]["limits"].as_object().into_iter().flatten();
        let each = limits.filter_map(|(resource, amount)| {
            let text = amount.as_str().map(str::to_owned).unwrap_or_else(|| amount.to_string());
            Some((resource.strip_prefix(RESOURCES)?.to_owned(), text.parse().ok()?))
        });
        each.filter(|(_, count)| *count > 0).collect()
    };
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let sidecar = |container: &&Value| container["restartPolicy"].as_str() == Some("Always");
    let mut wants: BTreeMap<String, u32> = BTreeMap::new();
    for container in list("containers").chain(list("initContainers").filter(sidecar)) {
        for (profile, count) in asked(container) {
            *wants.entry(profile).or_default() += count;
        }
    }
    for container in list("initContainers").filter(|container| !sidecar(container)) {
        for (profile, count) in asked(container) {
            let most = wants.entry(profile).or_default();
            *most = count.max(*most);
        }
    }
    wants
}

#[cfg(test)]
mod tests {
    use super::mig_wants;
    use serde_json::json;

    #[test]
    fn containers_add_up_and_those_before_them_do_not() {
        let limits = |profile: &str, count: &str| json!({"resources": {"limits": {format!("nvidia.com/mig-{profile}"): count}}});
        let mut sidecar = limits("1g.5gb", "1");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({
            "containers": [limits("1g.5gb", "1"), limits("1g.5gb", "1"), limits("2g.10gb", "0"), {}],
            "initContainers": [sidecar, limits("1g.5gb", "2"), limits("3g.20gb", "1")],
        });
        let wants = mig_wants(&spec);
        assert_eq!(
            wants.into_iter().collect::<Vec<_>>(),
            [("1g.5gb".to_owned(), 3), ("3g.20gb".to_owned(), 1)]
        );
        assert!(
            mig_wants(&json!({"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]})).is_empty()
        );
    }
}
