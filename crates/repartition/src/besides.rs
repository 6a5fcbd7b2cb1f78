//! What pods ask for besides MIG devices, and what a node has left of it: processors, memory, places for pods, everything else that it counts.

use crate::pod::RESOURCES;
use carve_formats::workloads::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// Amounts of resources, in thousandths. What is not named is zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amounts(BTreeMap<String, u64>);

fn amount(value: &Value) -> Option<u64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse::<Quantity>().ok().map(Quantity::thousandths)
}

impl Amounts {
    /// A list of resources, as a Node's `allocatable`. MIG devices are counted by themselves.
    pub fn of(list: &Value) -> Self {
        let entries = list.as_object().into_iter().flatten();
        let entries = entries.filter(|(resource, _)| !resource.starts_with(RESOURCES));
        Amounts(entries.filter_map(|(resource, value)| Some((resource.clone(), amount(value)?))).collect())
    }

    /// What the scheduler counts for a pod: all its containers together, or those that run at once before them if that is more.
    pub fn asked_by(spec: &Value) -> Self {
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let mut mains = Amounts::default();
        list("containers").for_each(|container| mains.add(&Amounts::of_container(container)));
        let (mut sidecars, mut before) = (Amounts::default(), Amounts::default());
        for container in list("initContainers") {
            let asked = Amounts::of_container(container);
            if container["restartPolicy"].as_str() == Some("Always") {
                sidecars.add(&asked);
                before = before.most(&sidecars);
            } else {
                let mut together = sidecars.clone();
                together.add(&asked);
                before = before.most(&together);
            }
        }
        mains.add(&sidecars);
        let mut all = mains.most(&before);
        // What a pod says as a whole counts instead of what its containers come to.
        all.0.extend(Amounts::of_container(spec).0);
        all.add(&Amounts::of(&spec["overhead"]));
        all.0.insert("pods".to_owned(), 1000);
        all
    }

    /// Who says only how much it may have asks for that.
    fn of_container(container: &Value) -> Self {
        let mut asked = Amounts::of(&container["resources"]["limits"]);
        asked.0.extend(Amounts::of(&container["resources"]["requests"]).0);
        asked
    }

    /// Each resource with its thousandths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(resource, amount)| (resource.as_str(), *amount))
    }

    /// Whether this is enough.
    pub fn cover(&self, asked: &Amounts) -> bool {
        self.lacking(asked).next().is_none()
    }

    /// Resources of which this is not enough.
    pub fn lacking<'a>(&'a self, asked: &'a Amounts) -> impl Iterator<Item = &'a str> {
        let has = |resource: &str| self.0.get(resource).copied().unwrap_or(0);
        let lacks = asked.0.iter().filter(move |(resource, amount)| has(resource) < **amount);
        lacks.map(|(resource, _)| resource.as_str())
    }

    /// Resources of which too little is left of this beside what others have.
    pub fn lacking_beside<'a>(
        &'a self,
        taken: &'a Amounts,
        asked: &'a Amounts,
    ) -> impl Iterator<Item = &'a str> {
        let of = |amounts: &Amounts, resource: &str| amounts.0.get(resource).copied().unwrap_or(0);
        let left = move |resource: &str| of(self, resource).saturating_sub(of(taken, resource));
        let lacks = asked.0.iter().filter(move |(resource, amount)| left(resource) < **amount);
        lacks.map(|(resource, _)| resource.as_str())
    }

    /// Adds to it.
    pub fn add(&mut self, more: &Amounts) {
        for (resource, amount) in &more.0 {
            let sum = self.0.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Takes away from it, as far as there is something.
    pub fn take(&mut self, less: &Amounts) {
        for (resource, amount) in &less.0 {
            if let Some(left) = self.0.get_mut(resource) {
                *left = left.saturating_sub(*amount);
            }
        }
    }

    fn most(&self, other: &Amounts) -> Amounts {
        let mut most = self.clone();
        for (resource, amount) in &other.0 {
            let known = most.0.entry(resource.clone()).or_default();
            *known = (*amount).max(*known);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::Amounts;
    use serde_json::{Value, json};

    fn container(requests: Value) -> Value {
        json!({"resources": {"requests": requests}})
    }

    #[test]
    fn a_pod_is_counted_as_the_scheduler_counts_it() {
        let mut sidecar = container(json!({"cpu": "100m"}));
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({
            "containers": [
                container(json!({"cpu": "500m", "memory": "1Gi"})),
                {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/mig-1g.5gb": "1"}}},
            ],
            "initContainers": [container(json!({"cpu": "1600m"})), sidecar, container(json!({"cpu": "1550m"}))],
            "overhead": {"memory": "64Mi"},
        });
        let asked = Amounts::asked_by(&spec);
        // 1550m beside the sidecar is more than both main containers beside it.
        let same = json!({"cpu": "1650m", "memory": "2112Mi", "pods": "1"});
        assert_eq!(asked, Amounts::of(&same));
        let whole =
            json!({"containers": [container(json!({"cpu": "3"}))], "resources": {"requests": {"cpu": "1"}}});
        assert_eq!(Amounts::asked_by(&whole), Amounts::of(&json!({"cpu": "1", "pods": "1"})));
    }

    #[test]
    fn what_is_lacking_is_named() {
        let mut node = Amounts::of(
            &json!({"cpu": "3920m", "memory": "16Gi", "pods": "2", "nvidia.com/mig-1g.5gb": "7"}),
        );
        let pod = |more: Value| Amounts::asked_by(&json!({"containers": [container(more)]}));
        assert!(node.cover(&pod(json!({"cpu": "3920m", "memory": "16Gi"}))));
        assert!(node.cover(&pod(json!({"example.com/card": "0"}))));
        let large = pod(json!({"cpu": "3921m", "memory": "16Gi", "example.com/card": "1"}));
        assert_eq!(node.lacking(&large).collect::<Vec<_>>(), ["cpu", "example.com/card"]);
        node.take(&pod(json!({"cpu": "1"})));
        node.take(&pod(json!({"cpu": "10"})));
        assert_eq!(node.lacking(&pod(json!({"cpu": "1m"}))).collect::<Vec<_>>(), ["cpu", "pods"]);
        node.add(&pod(json!({"cpu": "1"})));
        assert!(node.cover(&pod(json!({"cpu": "1"}))));
    }
}
