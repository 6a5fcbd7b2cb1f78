//! What the scheduler answers to claims: devices, or why a pod waits; and recorded sequences of claims played to it.

use crate::{Cluster, HollowNodes, Namespace, Offered, PATIENCE, Pod};
use serde_json::{Value, json};

/// What a claim was given, one text for each device: `request=device{capacity:amount}`. Nothing while it was given nothing.
pub fn devices_given(claim: &Value) -> Option<Vec<String>> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array()?;
    Some(
        results
            .iter()
            .map(|result| format!("{}={}", word(&result["request"]), given_device(result)))
            .collect(),
    )
}

/// The device of a result with what was taken of it, where several claims may hold it.
pub fn given_device(result: &Value) -> String {
    let taken = result["consumedCapacity"].as_object().map(|taken| {
        let each = taken.iter().map(|(name, amount)| format!("{name}:{}", word(amount)));
        format!("{{{}}}", each.collect::<Vec<_>>().join(","))
    });
    format!("{}{}", word(&result["device"]), taken.unwrap_or_default())
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Why a pod waits, in the scheduler's words. Nothing before it has decided, and nothing once the pod has a node.
pub fn why_waiting(pod: &Value) -> Option<String> {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let refused = conditions.find(|one| {
        let decided = one["reason"] == "Unschedulable" || one["reason"] == "SchedulerError";
        one["type"] == "PodScheduled" && one["status"] == "False" && decided
    })?;
    Some(word(&refused["message"]).to_owned())
}

/// Reads a file of several YAML documents.
pub fn documents(text: &str) -> Vec<Value> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    let has_words =
        |part: &&String| part.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |part: &String| {
        serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("not YAML: {error}\n{part}"))
    };
    parts.iter().filter(has_words).map(read).collect()
}

/// A recorded sequence of claims on a node of its own, and what the scheduler's allocator answered when it was asked alone.
#[derive(Debug)]
pub struct Scenario<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Slices and classes of the driver that takes the place of the recorded one.
    pub offered: &'a Offered,
    /// The node that offers the devices.
    pub node: &'a str,
    /// The driver's name in the record.
    pub recorded_driver: &'a str,
}

impl Scenario<'_> {
    /// Plays a record, with the slices it brings or with others. `expected` has a line for each claim and each departure.
    pub fn play(&self, record: &str, slices: Option<&[Value]>, expected: &str) {
        let _node = HollowNodes::new(self.cluster, self.node, &[self.node.to_owned()]);
        let namespace = self.cluster.namespace(self.node);
        let record = record.replace(self.recorded_driver, self.offered.driver()).replace("node-a", self.node);
        let (objects, steps): (Vec<Value>, Vec<Value>) = documents(&record)
            .into_iter()
            .partition(|document| document["kind"] == "ResourceSlice" || document["kind"] == "DeviceClass");
        let (brought, classes): (Vec<Value>, Vec<Value>) =
            objects.into_iter().partition(|object| object["kind"] == "ResourceSlice");
        self.offered.publish(&classes);
        self.offered.publish(slices.unwrap_or(&brought));
        let mut expected = expected.lines();
        let mut held: Vec<String> = Vec::new();
        for step in steps {
            let line = expected.next().unwrap_or_else(|| panic!("no answer was recorded to {step}"));
            if let Some(gone) = step["free"].as_str() {
                assert_eq!(line, format!("-- free {gone}"));
                let leaving: Vec<String> = held.extract_if(.., |name| gone == "*" || name == gone).collect();
                leaving.iter().for_each(|name| self.free(&namespace, name));
                continue;
            }
            let name = word(&step["metadata"]["name"]).to_owned();
            self.ask(&namespace, &name, &step["spec"]);
            let told = self.answer(&namespace, &name, line.contains(" OK "));
            assert_eq!(format!("{name:<18} {told}"), line, "what the scheduler gave");
            if told.starts_with("OK") {
                held.push(name);
            } else {
                // The recorded allocator forgot a claim that it could not serve; here its pod would come again.
                self.free(&namespace, &name);
            }
        }
        assert_eq!(expected.next(), None, "all recorded answers were asked for");
        // Once they are bound, nobody but the test ends them.
        held.iter().for_each(|name| self.free(&namespace, name));
    }

    /// A claim and a pod that wants it.
    fn ask(&self, namespace: &Namespace, name: &str, spec: &Value) {
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name}, "spec": spec,
        });
        namespace.apply(&claim.to_string());
        let pod = Pod::sleeping(self.cluster, name)
            .spec("resourceClaims", json!([{"name": "it", "resourceClaimName": name}]))
            .spec("nodeSelector", json!({"kubernetes.io/hostname": self.node}))
            .spec("tolerations", json!([{"operator": "Exists"}]))
            .container("resources", json!({"claims": [{"name": "it"}]}));
        namespace.apply(&pod.manifest());
    }

    /// What it comes to. Where a claim should be served, it may wait at first: the scheduler learns a moment later who has left.
    fn answer(&self, namespace: &Namespace, name: &str, served: bool) -> String {
        let decided = || {
            let claim = namespace.get(&["resourceclaim", name]);
            if let Some(given) = devices_given(&claim) {
                return Some(format!("OK {}", given.join(" ")));
            }
            why_waiting(&namespace.get(&["pod", name])).map(|_| "PENDING (no fit)".to_owned())
        };
        let what = format!("the scheduler decides about {name}");
        let is_it = |told: String| told.starts_with("OK") || !served;
        self.cluster.until(&what, PATIENCE, || decided().is_some_and(is_it));
        decided().unwrap_or_default()
    }

    fn free(&self, namespace: &Namespace, name: &str) {
        for kind in ["pod", "resourceclaim"] {
            self.cluster.kubectl(&["delete", kind, name, "-n", namespace.name(), "--wait=true"]);
        }
    }
}
