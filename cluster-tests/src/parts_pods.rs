//! Pods that ask for parts of GPUs in the words of several systems, and others of the same size that need no extender.

use serde_json::{Value, json};

/// Resources by which a scheduler without extender counts what the same pods take.
const PLAIN: &str = "parts.lab";

/// More words than any ask has.
pub(crate) const MOST_WORDS: usize = 4;

/// The name of a plain resource: `slice`, `memory` or `compute`, or `word-0` and so on.
pub fn plain_name(which: &str) -> String {
    format!("{PLAIN}/{which}")
}

/// What a pod asks for.
#[derive(Debug, Clone)]
pub struct PartsAsk {
    /// What stands in its annotations.
    pub annotations: Value,
    /// What stands in its limits.
    pub limits: Value,
    /// The same as parts, MiB and percent in sum.
    pub plain: (u64, u64, u64),
}

/// Requests in the words of several systems, for GPUs of 81,920 MiB: from a twentieth of a GPU to two halves.
pub fn part_asks() -> Vec<PartsAsk> {
    let ask = |annotations: Value, limits: Value, plain| PartsAsk { annotations, limits, plain };
    vec![
        ask(
            json!({}),
            json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000", "nvidia.com/gpucores": "10"}),
            (1, 8_000, 10),
        ),
        ask(json!({"gpu-fraction": "0.5"}), json!({}), (1, 40_960, 50)),
        ask(json!({}), json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "5"}), (1, 4_096, 5)),
        ask(
            json!({}),
            json!({"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "20480", "volcano.sh/vgpu-cores": "30"}),
            (2, 40_960, 60),
        ),
        ask(
            json!({}),
            json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "30000", "nvidia.com/gpucores": "40"}),
            (1, 30_000, 40),
        ),
        ask(json!({"gpu-fraction": "0.25"}), json!({}), (1, 20_480, 25)),
        ask(
            json!({}),
            json!({"carve.dev/gpu-memory": "16384", "carve.dev/gpu-compute": "33"}),
            (1, 16_384, 33),
        ),
        ask(
            json!({}),
            json!({"koordinator.sh/gpu-core": "70", "koordinator.sh/gpu-memory-ratio": "70"}),
            (1, 57_344, 70),
        ),
    ]
}

impl PartsAsk {
    /// A pod that asks in these words, for any node.
    pub fn pod(&self, name: &str) -> Value {
        pod(name, &self.annotations, &self.limits)
    }

    /// A pod that a scheduler of this name can place alone, with as many resources for it to look at on every node, and as much written in it as
    /// in an admitted one: that is read and sent whoever places the pod.
    pub fn plain_pod(&self, name: &str, scheduler: &str) -> Value {
        let (slices, memory, compute) = self.plain;
        let mut limits = json!({
            plain_name("slice"): slices.to_string(),
            plain_name("memory"): memory.to_string(),
            plain_name("compute"): compute.to_string(),
        });
        // Words of a dialect stay in admitted pods for quotas; NVIDIA's own does not, because nodes have it.
        let words = self.limits.as_object().into_iter().flat_map(|limits| limits.keys());
        for number in 0..words.filter(|word| *word != "nvidia.com/gpu").count() {
            limits[plain_name(&format!("word-{number}"))] = "1".into();
        }
        let written = |letters: usize| "x".repeat(letters);
        let annotations = json!({
            plain_name("claim"): written(140),
            plain_name("understood-as"): written(85),
            plain_name("slices"): written(130 + 65 * (slices as usize - 1)),
        });
        let mut pod = pod(name, &annotations, &limits);
        pod["metadata"]["labels"] = json!({ plain_name("admitted"): "scheduler" });
        pod["spec"]["containers"][0]["env"] = json!([{"name": "PARTS_VISIBLE_DEVICES", "value": "void"}]);
        pod["spec"]["schedulerName"] = scheduler.into();
        pod
    }
}

fn pod(name: &str, annotations: &Value, limits: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}],
        },
    })
}
