//! What only the replica that leads knows for certain, encoded when it is asked for; a replica that does not lead says nothing of it, so that
//! sums over replicas count once.

use crate::repartition::now;
use crate::waiting::{Group, Waiting};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is known of a policy that wants machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Whether machines can come; unknown before it was looked at.
    pub(crate) provisioned: Option<bool>,
    /// How many nodes are something else than was promised.
    pub(crate) broken: u64,
}

#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) waiting: Mutex<Waiting>,
    leads: AtomicBool,
    done: AtomicU64,
    failed: AtomicU64,
    policies: Mutex<BTreeMap<String, Policy>>,
}

impl Told {
    pub(super) fn lead(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    pub(super) fn cut(&self, done: bool) {
        let counter = if done { &self.done } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_policies(&self, policies: BTreeMap<String, Policy>) {
        *self.policies.lock().unwrap_or_else(PoisonError::into_inner) = policies;
    }
}

type Rows<L> = Vec<(L, u64)>;

fn gauges<L: prometheus_client::encoding::EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: &Rows<L>,
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(*value).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Counted from the start, or nobody could see the first one as one more.
        let help = "Plans for MIG that came to an end, by what came of them";
        let mut family = encoder.encode_descriptor("cuts", help, None, MetricType::Counter)?;
        for (outcome, count) in [("done", &self.done), ("failed", &self.failed)] {
            let count = ConstCounter::new(count.load(Ordering::Relaxed));
            count.encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        if !self.leads.load(Ordering::Relaxed) {
            return Ok(());
        }
        let groups = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).groups(now());
        let rows = |value: fn(&(u64, u64)) -> u64| -> Rows<[(&str, String); 2]> {
            let row = |(Group { namespace, road }, found): (&Group, &(u64, u64))| {
                ([("namespace", namespace.clone()), ("road", road.clone())], value(found))
            };
            groups.iter().map(row).collect()
        };
        let help = "Pods that ask for GPUs and have no node";
        gauges(&mut encoder, "pods_waiting", help, &rows(|(pods, _)| *pods))?;
        let help = "Time that the oldest pod which asks for GPUs has waited for a node";
        gauges(&mut encoder, "pods_waiting_oldest_seconds", help, &rows(|(_, oldest)| *oldest))?;
        let policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = |value: fn(&Policy) -> Option<u64>| -> Rows<[(&str, String); 1]> {
            let known = policies.iter().filter_map(|(name, policy)| Some((name, value(policy)?)));
            known.map(|(name, value)| ([("policy", name.clone())], value)).collect()
        };
        let help = "Whether machines can come for a SlicePolicy that wants them";
        gauges(&mut encoder, "policy_provisioned", help, &rows(|one| one.provisioned.map(u64::from)))?;
        let help = "Nodes of a SlicePolicy that offer something else than was promised of them";
        gauges(&mut encoder, "nodes_promise_broken", help, &rows(|one| Some(one.broken)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Policy, Told};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn text(told: &Arc<Told>) -> String {
        let mut registry = Registry::with_prefix("carve_controller");
        registry.register_collector(Box::new(Arc::clone(told)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn who_does_not_lead_tells_what_it_did_and_nothing_else() {
        let told = Arc::new(Told::default());
        told.cut(false);
        let broken = Policy { provisioned: Some(false), broken: 2 };
        told.set_policies(BTreeMap::from([("a".to_owned(), broken), ("b".to_owned(), Policy::default())]));
        let cuts = [
            r#"carve_controller_cuts_total{outcome="done"} 0"#,
            r#"carve_controller_cuts_total{outcome="failed"} 1"#,
        ];
        let alone = text(&told);
        assert!(cuts.iter().all(|line| alone.contains(line)) && !alone.contains("policy"), "{alone}");
        told.lead(true);
        let leading = text(&told);
        let policies = [
            r#"carve_controller_policy_provisioned{policy="a"} 0"#,
            r#"carve_controller_nodes_promise_broken{policy="a"} 2"#,
            r#"carve_controller_nodes_promise_broken{policy="b"} 0"#,
        ];
        assert!(cuts.iter().chain(&policies).all(|line| leading.contains(line)), "{leading}");
        assert!(!leading.contains(r#"provisioned{policy="b"}"#), "{leading}");
    }
}
