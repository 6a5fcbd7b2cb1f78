//! The states of a node and the configurations that both plugins are tried on.

use serde_json::json;

/// One state of the node, what it offers, and the pods that ask for it.
#[derive(Debug)]
pub(crate) struct Case {
    /// As the table of intended differences knows it.
    pub(crate) name: &'static str,
    /// MIG devices: GPU and profile.
    pub(crate) cuts: &'static [(u32, &'static str)],
    strategy: &'static str,
    lists: &'static [&'static str],
    nodes: bool,
    sharing: &'static str,
    pub(crate) offers: &'static [(&'static str, u64)],
    /// Pods that run at once, then the next ones. Together those of one wave take everything of what they ask for, so
    /// that no choice of a plugin makes one run differ from the next.
    pub(crate) waves: &'static [Wave],
}

/// Pods that run at once: the resource that each asks for, and how much of it.
pub(crate) type Wave = &'static [(&'static str, u64)];

const GPU: &str = "nvidia.com/gpu";
const TWO: &[(&str, u64)] = &[(GPU, 2)];
const EACH: Wave = &[(GPU, 1), (GPU, 1)];
const BOTH: Wave = &[(GPU, 2)];

/// Two whole GPUs, named by an environment variable.
const PLAIN: Case = Case {
    name: "two H200",
    cuts: &[],
    strategy: "none",
    lists: &["envvar"],
    nodes: false,
    sharing: "{}",
    offers: TWO,
    waves: &[EACH],
};

pub(crate) const CASES: &[Case] = &[
    Case { name: "nodes", nodes: true, waves: &[EACH, BOTH], ..PLAIN },
    Case { name: "mounts", lists: &["volume-mounts"], waves: &[BOTH], ..PLAIN },
    Case { name: "CDI request", lists: &["cdi-cri"], waves: &[EACH], ..PLAIN },
    Case { name: "CDI annotations", lists: &["cdi-annotations"], waves: &[BOTH], ..PLAIN },
    Case {
        name: "time-slicing, nodes",
        nodes: true,
        sharing: "{timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}",
        offers: &[(GPU, 4)],
        waves: &[&[(GPU, 1), (GPU, 1), (GPU, 1), (GPU, 1)], &[(GPU, 4)]],
        ..PLAIN
    },
    Case {
        name: "several sizes, mixed, nodes",
        cuts: &[(0, "3g.71gb"), (0, "2g.35gb"), (0, "1g.18gb"), (0, "1g.18gb")],
        strategy: "mixed",
        nodes: true,
        offers: &[
            (GPU, 1),
            ("nvidia.com/mig-1g.18gb", 2),
            ("nvidia.com/mig-2g.35gb", 1),
            ("nvidia.com/mig-3g.71gb", 1),
        ],
        waves: &[&[
            (GPU, 1),
            ("nvidia.com/mig-1g.18gb", 1),
            ("nvidia.com/mig-1g.18gb", 1),
            ("nvidia.com/mig-2g.35gb", 1),
            ("nvidia.com/mig-3g.71gb", 1),
        ]],
        ..PLAIN
    },
    Case {
        name: "one size, single, nodes",
        cuts: &[(0, "3g.71gb"), (1, "3g.71gb")],
        strategy: "single",
        nodes: true,
        ..PLAIN
    },
];

impl Case {
    /// The configuration, in the format of both.
    pub(crate) fn config(&self) -> String {
        let Case { strategy, lists, nodes, sharing, .. } = self;
        let lists = lists.join(", ");
        // v0.19 of NVIDIA's plugin switches these three on unless told otherwise.
        format!(
            "version: v1
flags:
  migStrategy: {strategy}
  gdrcopyEnabled: false
  gdsEnabled: false
  mofedEnabled: false
  plugin: {{passDeviceSpecs: {nodes}, deviceListStrategy: [{lists}]}}
sharing: {sharing}
"
        )
    }

    /// A name that labels and ConfigMaps take.
    pub(crate) fn key(&self) -> String {
        self.name.to_lowercase().replace([',', ' '], "-").replace("--", "-")
    }
}

/// The configurations of all cases.
pub(crate) fn config_map() -> String {
    let data: serde_json::Map<String, serde_json::Value> =
        CASES.iter().map(|case| (case.key(), case.config().into())).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cases"}, "data": data}).to_string()
}
