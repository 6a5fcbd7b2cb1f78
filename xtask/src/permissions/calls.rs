//! The calls that carve's programs make, boiled down from what the API server wrote down of them.

use super::rules::Right;
use serde_json::Value;
use std::collections::BTreeSet;

/// Where a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// To an object without a namespace, or to all namespaces at once.
    Cluster,
    /// To the caller's own namespace.
    Own,
    /// To another namespace.
    Elsewhere,
    /// To some namespace, by a process whose own is not known: it came with the administrator's kubeconfig.
    Some,
}

/// One kind of call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    /// The component, by the name that its account has.
    pub(crate) who: String,
    pub(crate) verb: String,
    pub(crate) group: String,
    /// With its subresource, as roles write it.
    pub(crate) resource: String,
    pub(crate) place: Place,
    /// The object it names.
    pub(crate) name: Option<String>,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        let name = self.name.as_ref().map(|name| format!(" '{name}'")).unwrap_or_default();
        let place = match self.place {
            Place::Cluster => "",
            Place::Own => " in its own namespace",
            Place::Elsewhere => " in another namespace",
            Place::Some => " in some namespace",
        };
        write!(f, "{}: {} {}{group}{name}{place}", self.who, self.verb, self.resource)
    }
}

/// Any object: of a right that the API server looks at beside the call itself.
pub(crate) const ANY: &str = "*";
/// An object that no role names.
const ANOTHER: &str = "…";

/// What a record says was called, by one of the components; several calls where one needs several rights.
pub(crate) fn calls(record: &str, components: &[&str], scheduler: &str) -> Vec<Call> {
    let ours = record.contains("\"userAgent\":\"carve") || record.contains(&format!(":{scheduler}\""));
    if !ours {
        return Vec::new();
    }
    let record: Value = serde_json::from_str(record).unwrap_or_default();
    let account =
        record["user"]["username"].as_str().and_then(|name| name.strip_prefix("system:serviceaccount:"));
    let account = account.and_then(|name| name.split_once(':'));
    let program = record["userAgent"].as_str().and_then(|agent| agent.split('/').next()).unwrap_or_default();
    let who = match account {
        Some((_, name)) if name == scheduler => name,
        _ if components.contains(&program) => program,
        _ => return Vec::new(),
    };
    let word = |value: &Value| value.as_str().filter(|word| !word.is_empty()).map(str::to_owned);
    let object = &record["objectRef"];
    let (Some(verb), Some(resource)) = (word(&record["verb"]), word(&object["resource"])) else {
        return Vec::new();
    };
    let place = match (word(&object["namespace"]), account) {
        (None, _) => Place::Cluster,
        // The server says of a namespace that it is in itself.
        _ if resource == "namespaces" => Place::Cluster,
        (Some(namespace), Some((own, _))) if namespace == own => Place::Own,
        (Some(_), Some(_)) => Place::Elsewhere,
        (Some(_), None) => Place::Some,
    };
    let resource = match word(&object["subresource"]) {
        Some(part) => format!("{resource}/{part}"),
        None => resource,
    };
    let group = word(&object["apiGroup"]).unwrap_or_default();
    // Who makes something is asked for the right before the object has a name.
    let name = word(&object["name"]).filter(|_| !matches!(verb.as_str(), "create" | "deletecollection"));
    let call = Call { who: who.to_owned(), verb, group, resource, place, name };
    let mut all = vec![call.clone()];
    let code = record["responseStatus"]["code"].as_u64().unwrap_or_default();
    if code == 201 && call.verb != "create" {
        // Applied, and so made by a name that is known beforehand.
        all.push(Call { verb: "create".to_owned(), ..call.clone() });
    }
    if call.resource == "resourceclaims/status" && (200..300).contains(&code) {
        // What is said of a claim's devices is allowed by the driver's name, which is in no record.
        let (resource, name) = ("resourceclaims/driver".to_owned(), Some(ANY.to_owned()));
        all.push(Call { verb: format!("associated-node:{}", call.verb), resource, name, ..call });
    }
    all
}

/// The same call without the name of an object that no role of the caller names.
pub(crate) fn generalised(mut call: Call, rights: &[Right]) -> Call {
    let same = |right: &&Right| {
        right.who == call.who && right.group == call.group && right.resource == call.resource
    };
    let names: BTreeSet<&str> =
        rights.iter().filter(same).filter_map(|right| right.name.as_deref()).collect();
    if let Some(name) = &call.name
        && name != ANY
        && !names.contains(name.as_str())
    {
        call.name = (!names.is_empty()).then(|| ANOTHER.to_owned());
    }
    call
}

#[cfg(test)]
mod tests {
    use super::{Call, Place, calls, generalised};
    use crate::permissions::rules::{Right, Scope};
    use serde_json::json;

    fn of(user: &str, agent: &str, verb: &str, object: serde_json::Value, code: u64) -> Vec<String> {
        let record = json!({"user": {"username": user}, "userAgent": agent, "verb": verb, "objectRef": object,
            "responseStatus": {"code": code}});
        let found = calls(&record.to_string(), &["carve-agent"], "carve-scheduler");
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_calls_is_told_by_its_program_and_where_by_its_account() {
        let agent = "system:serviceaccount:gpus:carve-agent";
        let secret = |namespace: &str| json!({"resource": "secrets", "namespace": namespace, "name": "a"});
        let own = of(agent, "carve-agent/1", "get", secret("gpus"), 200);
        assert_eq!(own, ["carve-agent: get secrets 'a' in its own namespace"]);
        let other = of(agent, "carve-agent/1", "get", secret("b"), 403);
        assert_eq!(other, ["carve-agent: get secrets 'a' in another namespace"]);
        let admin = of("admin", "carve-agent/1", "get", secret("b"), 200);
        assert_eq!(admin, ["carve-agent: get secrets 'a' in some namespace"]);
        assert!(of("admin", "kubectl/1", "get", secret("b"), 200).is_empty());
        assert!(of(agent, "carve-suites/1", "get", secret("gpus"), 200).is_empty());
        let scheduler =
            of("system:serviceaccount:gpus:carve-scheduler", "kube-scheduler/v1", "get", secret("gpus"), 200);
        assert_eq!(scheduler, ["carve-scheduler: get secrets 'a' in its own namespace"]);
        let namespace = json!({"resource": "namespaces", "namespace": "x", "name": "x"});
        assert_eq!(of(agent, "carve-agent/1", "get", namespace, 200), ["carve-agent: get namespaces 'x'"]);
    }

    #[test]
    fn a_call_that_needs_two_rights_is_two() {
        let policy = json!({"resource": "slicepolicies", "apiGroup": "carve.dev", "name": "x"});
        let made = of("admin", "carve-agent/1", "patch", policy.clone(), 201);
        assert_eq!(
            made,
            [
                "carve-agent: patch slicepolicies.carve.dev 'x'",
                "carve-agent: create slicepolicies.carve.dev 'x'"
            ]
        );
        assert_eq!(of("admin", "carve-agent/1", "patch", policy, 200).len(), 1);
        let claim = json!({"resource": "resourceclaims", "subresource": "status", "apiGroup": "resource.k8s.io",
            "namespace": "x", "name": "y"});
        let told = of("admin", "carve-agent/1", "patch", claim, 200);
        assert!(
            told[1].contains("associated-node:patch resourceclaims/driver.resource.k8s.io '*'"),
            "{told:?}"
        );
        // Nothing has a name before it is made.
        let lease = json!({"resource": "leases", "namespace": "x", "name": "y"});
        assert_eq!(
            of("admin", "carve-agent/1", "create", lease, 201),
            ["carve-agent: create leases in some namespace"]
        );
    }

    #[test]
    fn names_that_no_role_knows_do_not_count() {
        let word = str::to_owned;
        let call = |name: &str| Call {
            who: word("a"),
            verb: word("get"),
            group: String::new(),
            resource: word("secrets"),
            place: Place::Own,
            name: Some(word(name)),
        };
        let right = Right {
            who: word("a"),
            scope: Scope::Own,
            group: String::new(),
            resource: word("secrets"),
            name: Some(word("x")),
            verb: word("get"),
        };
        assert_eq!(generalised(call("x"), std::slice::from_ref(&right)).name.as_deref(), Some("x"));
        assert_eq!(generalised(call("y"), &[right]).name.as_deref(), Some("…"));
        assert_eq!(generalised(call("y"), &[]).name, None);
    }
}
