//! `docs/reference/metrics.md`: what the controller can tell, made of what it answers when it knows everything.

use super::{AskedAbout, Metrics, Policy, Verb};
use carve_test_support::reference::{check_section, series_table, untold};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn series_are_those_of_the_reference() {
    let metrics = Metrics::default();
    drop(metrics.answers.get_or_create(&Verb { verb: "filter".to_owned() }));
    metrics.note("filter", AskedAbout { pod: "a".to_owned(), settled: true }, Duration::ZERO);
    metrics.policies(BTreeMap::from([("a".to_owned(), Policy { provisioned: Some(true), broken: 0 })]));
    let pod = json!({
        "metadata": {"uid": "a", "namespace": "n", "creationTimestamp": "1970-01-01T00:01:00Z"},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    });
    metrics.waiting().lock().unwrap().seen(&pod);
    metrics.told.lead(true);
    let answer = metrics.text();
    for source in [include_str!("../metrics.rs"), include_str!("told.rs")] {
        assert_eq!(
            untold(source, &answer),
            Vec::<&str>::new(),
            "this test does not make the controller tell these"
        );
    }
    check_section("metrics.md", "The controller", &series_table(&answer, |_| true));
}
