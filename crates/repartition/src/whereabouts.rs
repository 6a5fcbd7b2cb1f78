//! Where a pod may go: its node selector, the node affinity that it requires, and the taints that it tolerates.

use serde_json::Value;
use std::collections::BTreeMap;

/// What keeps pods off a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, empty where it has none.
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    pub effect: String,
}

/// The taints of a Node.
pub fn taints_of(node: &Value) -> Vec<Taint> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let word = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    taints
        .map(|taint| Taint {
            key: word(taint, "key"),
            value: word(taint, "value"),
            effect: word(taint, "effect"),
        })
        .collect()
}

/// What a pod says about nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Whereabouts {
    selector: BTreeMap<String, String>,
    /// One of these must hold, if there are any.
    terms: Option<Vec<Term>>,
    tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    labels: Vec<Expression>,
    fields: Vec<Expression>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Toleration {
    /// Empty for every key.
    key: String,
    exists: bool,
    value: String,
    /// Empty for every effect.
    effect: String,
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn expressions(value: &Value) -> Vec<Expression> {
    let read = |one: &Value| Expression {
        key: one["key"].as_str().unwrap_or_default().to_owned(),
        operator: one["operator"].as_str().unwrap_or_default().to_owned(),
        values: texts(&one["values"]),
    };
    value.as_array().into_iter().flatten().map(read).collect()
}

impl Whereabouts {
    /// What a pod's specification says.
    pub fn of(spec: &Value) -> Self {
        let selector = spec["nodeSelector"].as_object().into_iter().flatten();
        let selector =
            selector.map(|(label, value)| (label.clone(), value.as_str().unwrap_or_default().to_owned()));
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = required["nodeSelectorTerms"].as_array().map(|terms| {
            let read = |term: &Value| Term {
                labels: expressions(&term["matchExpressions"]),
                fields: expressions(&term["matchFields"]),
            };
            terms.iter().map(read).collect()
        });
        let toleration = |one: &Value| Toleration {
            key: one["key"].as_str().unwrap_or_default().to_owned(),
            exists: one["operator"].as_str() == Some("Exists"),
            value: one["value"].as_str().unwrap_or_default().to_owned(),
            effect: one["effect"].as_str().unwrap_or_default().to_owned(),
        };
        let tolerations = spec["tolerations"].as_array().into_iter().flatten().map(toleration);
        Whereabouts { selector: selector.collect(), terms, tolerations: tolerations.collect() }
    }

    /// Whether a node will do.
    pub fn allow(&self, name: &str, labels: &BTreeMap<String, String>, taints: &[Taint]) -> bool {
        let selected = self.selector.iter().all(|(label, value)| labels.get(label) == Some(value));
        let fields = BTreeMap::from([("metadata.name".to_owned(), name.to_owned())]);
        let holds = |term: &Term| {
            // A term that says nothing fits no node.
            !(term.labels.is_empty() && term.fields.is_empty())
                && term.labels.iter().all(|one| one.holds(labels))
                && term.fields.iter().all(|one| one.holds(&fields))
        };
        let affine = self.terms.as_ref().is_none_or(|terms| terms.iter().any(holds));
        let tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule" || self.tolerations.iter().any(|one| one.bears(taint))
        };
        selected && affine && taints.iter().all(tolerated)
    }
}

impl Expression {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = |text: &String| text.parse::<i64>().ok();
        let compared = |holds: fn(i64, i64) -> bool| {
            let asked = self.values.first().and_then(number);
            value.and_then(number).zip(asked).is_some_and(|(has, asked)| holds(has, asked))
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compared(|has, asked| has > asked),
            "Lt" => compared(|has, asked| has < asked),
            // The API server takes no others.
            _ => false,
        }
    }
}

impl Toleration {
    fn bears(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key == taint.key || self.key.is_empty() && self.exists)
            && (self.exists || self.value == taint.value)
    }
}

#[cfg(test)]
mod tests {
    use super::{Taint, Whereabouts, taints_of};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn allows(spec: Value, labels: &[(&str, &str)], taints: &[Taint]) -> bool {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
        Whereabouts::of(&spec).allow("node1", &labels, taints)
    }

    fn required(expression: Value) -> Value {
        let terms = json!([{"matchExpressions": [expression]}]);
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn labels_are_asked_as_the_scheduler_asks() {
        assert!(allows(json!({}), &[], &[]));
        assert!(allows(json!({"nodeSelector": {"zone": "a"}}), &[("zone", "a")], &[]));
        assert!(!allows(json!({"nodeSelector": {"zone": "a"}}), &[("zone", "b")], &[]));
        for (expression, zone, memory, allowed) in [
            (json!({"key": "zone", "operator": "In", "values": ["a", "b"]}), "b", "1", true),
            (json!({"key": "zone", "operator": "NotIn", "values": ["a", "b"]}), "b", "1", false),
            (json!({"key": "none", "operator": "NotIn", "values": ["a"]}), "b", "1", true),
            (json!({"key": "zone", "operator": "Exists"}), "b", "1", true),
            (json!({"key": "zone", "operator": "DoesNotExist"}), "b", "1", false),
            (json!({"key": "memory", "operator": "Gt", "values": ["40"]}), "b", "80", true),
            (json!({"key": "memory", "operator": "Lt", "values": ["40"]}), "b", "80", false),
            (json!({"key": "zone", "operator": "Gt", "values": ["40"]}), "b", "80", false),
        ] {
            let labels = [("zone", zone), ("memory", memory)];
            assert_eq!(allows(required(expression.clone()), &labels, &[]), allowed, "{expression}");
        }
        let by_name = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["node1"]}]}, {}]}}}});
        assert!(allows(by_name.clone(), &[], &[]));
        let other = serde_json::from_str(&by_name.to_string().replace("node1", "node2")).expect("JSON");
        assert!(!allows(other, &[], &[]), "a term that says nothing fits nothing");
    }

    #[test]
    fn taints_keep_pods_away_that_do_not_bear_them() {
        let node = json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
        let taints = taints_of(&node);
        for (toleration, borne) in [
            (json!({"key": "gpu", "operator": "Exists"}), true),
            (json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}), true),
            (json!({"key": "gpu", "value": "no"}), false),
            (json!({"key": "gpu", "value": "yes", "effect": "NoExecute"}), false),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            assert_eq!(
                allows(json!({"tolerations": [toleration.clone()]}), &[], &taints),
                borne,
                "{toleration}"
            );
        }
        let soft = [Taint { effect: "PreferNoSchedule".to_owned(), ..taints[0].clone() }];
        assert!(allows(json!({}), &[], &soft));
    }
}
