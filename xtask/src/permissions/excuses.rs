//! Where grants and calls differ for a reason: short, and checked, so that no line outlives its reason.

use super::compare::Excuse;

const fn template(verb: &'static str) -> Excuse {
    Excuse {
        who: "carve-controller",
        verb,
        group: "resource.k8s.io",
        resource: "resourceclaimtemplates",
        why: "templates that no pod names are looked for every ten minutes and deleted after an hour: suites are shorter, as a rule",
        sometimes: true,
    }
}

const fn node_feature(verb: &'static str) -> Excuse {
    Excuse {
        who: "carve-agent",
        verb,
        group: "nfd.k8s-sigs.io",
        resource: "nodefeatures",
        why: "an agent that leaves its node takes its NodeFeature back: no suite uninstalls where Node Feature Discovery is",
        sometimes: false,
    }
}

/// Granted, and used by no suite.
pub(crate) const UNUSED: &[Excuse] = &[
    template("list"),
    template("patch"),
    template("delete"),
    node_feature("get"),
    node_feature("delete"),
    Excuse {
        who: "carve-leave",
        verb: "delete",
        group: "",
        resource: "pods",
        why: "pods that stand in for others: no suite uninstalls while there are some",
        sometimes: false,
    },
];

/// Called in suites, and not granted by the chart.
pub(crate) const NOT_GRANTED: &[Excuse] = &[];
