//! The webhook configurations that make the API server ask.

use super::conditions;
use serde_json::{Value, json};

/// What the configurations are called, both of them.
pub(crate) const NAME: &str = "carve";
/// Where the API server asks.
pub(crate) const ADMIT: &str = "/admit";
pub(crate) const VALIDATE: &str = "/validate";
pub(crate) const CONFIGS: &str = "/configs";

/// What pods of a CronJob are made after.
const CRON: &str = "object.spec.jobTemplate.spec.template";

/// How the API server reaches the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// By a Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// By an address, such as `https://10.0.0.7:8443`.
    Url(String),
}

impl Reached {
    fn client_config(&self, path: &str, bundle: &str) -> Value {
        match self {
            Reached::Service { namespace, name, port } => json!({
                "caBundle": bundle, "service": {"namespace": namespace, "name": name, "port": port, "path": path},
            }),
            Reached::Url(url) => json!({"caBundle": bundle, "url": format!("{url}{path}")}),
        }
    }
}

/// Both configurations, for callers who believe `bundle` (base64). Objects of `own`, the controller's namespace, are never asked about:
/// the controller must be able to start without itself.
pub(crate) fn configurations(reached: &Reached, bundle: &str, own: &str) -> [Value; 2] {
    let webhook = |name: &str, path: &str, fail: bool, rules: Value, condition: Option<(&str, String)>| {
        let conditions: Vec<Value> = condition
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect();
        json!({
            "name": format!("{name}.carve.dev"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": reached.client_config(path, bundle),
            "failurePolicy": if fail { "Fail" } else { "Ignore" },
            "matchConditions": conditions,
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", own]},
            ]},
            "rules": rules,
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 10,
        })
    };
    let rule = |groups: &[&str], operations: &[&str], resources: &[&str]| json!([{"apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": resources, "scope": "*"}]);
    let pods = || rule(&[""], &["CREATE"], &["pods"]);
    let parts = || Some(("asks-for-parts", conditions::asks_for_parts("object")));
    let gpus = || Some(("asks-for-gpus", conditions::asks_for_gpus("object")));
    // Others may change a pod after us; then we are asked again.
    let again = |mut webhook: Value| {
        webhook["reinvocationPolicy"] = json!("IfNeeded");
        webhook
    };
    let any_in = |pod: &str| {
        let any = [conditions::asks_for_parts(pod), conditions::asks_for_gpus(pod)].join(" || ");
        Some(("asks-for-gpus", any))
    };
    let apps = ["deployments", "statefulsets", "daemonsets", "replicasets"];
    let written = ["CREATE", "UPDATE"];
    let template = "object.spec.template";
    let mutating = [
        again(webhook("parts", ADMIT, true, pods(), parts())),
        again(webhook("gpus", ADMIT, false, pods(), gpus())),
        // What is wrong in a template is said when it is written; its pods are asked about in any case. Nothing is changed, but the API server
        // asks here before it refuses half a GPU in words that help nobody.
        webhook("apps", VALIDATE, false, rule(&["apps"], &written, &apps), any_in(template)),
        webhook("jobs", VALIDATE, false, rule(&["batch"], &written, &["jobs"]), any_in(template)),
        webhook("cronjobs", VALIDATE, false, rule(&["batch"], &written, &["cronjobs"]), any_in(CRON)),
    ];
    let changed = Some(("changes-what-was-decided", conditions::changes_what_was_decided()));
    let admitted = Some(("was-admitted", conditions::was_admitted()));
    let claims = ["resourceclaims", "resourceclaimtemplates", "deviceclasses"];
    let validating = [
        webhook("parts", VALIDATE, true, pods(), parts()),
        webhook("changes", VALIDATE, true, rule(&[""], &["UPDATE"], &["pods", "pods/status"]), changed),
        webhook(
            "debugging",
            VALIDATE,
            true,
            rule(&[""], &["UPDATE"], &["pods/ephemeralcontainers"]),
            admitted,
        ),
        webhook("configs", CONFIGS, false, rule(&["resource.k8s.io"], &written, &claims), None),
    ];
    let object = |kind: &str, webhooks: &[Value]| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "carve"}},
            "webhooks": webhooks,
        })
    };
    [object("MutatingWebhookConfiguration", &mutating), object("ValidatingWebhookConfiguration", &validating)]
}
