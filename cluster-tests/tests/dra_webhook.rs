//! `carve webhook` behind a Service: the API server refuses what it refuses, in words that kubectl shows, and nothing else.

use carve_cluster_tests::{Cluster, Namespace, PATIENCE};
use carve_test_support::fixture_text;
use serde_json::Value;

/// What the test's objects carry, so that no other suite's are reviewed; the fixture has it as well.
const LABEL: &str = "env: batssuite";

/// The webhook as an operator installs it, and the API server told of it; the latter ends with the test.
struct Webhook<'a> {
    cluster: &'a Cluster,
    configuration: String,
}

impl<'a> Webhook<'a> {
    fn install(cluster: &'a Cluster, namespace: &Namespace) -> Self {
        let arguments = [
            "webhook",
            "--listen=0.0.0.0:8443",
            "--tls-cert=/certificate/tls.crt",
            "--tls-key=/certificate/tls.key",
            "--driver-name=gpu.carve.dev",
            "--driver-name=gpu.nvidia.com",
        ];
        let bundle = namespace.serve_tls("carve-webhook", cluster.carve_image(), &arguments);
        let configuration = format!("carve-{}", namespace.name());
        let webhook = Webhook { cluster, configuration };
        namespace.apply(&format!(
            "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: {configuration}}}
webhooks:
- name: configs.carve.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 5
  objectSelector: {{matchLabels: {{{LABEL}}}}}
  rules:
  - apiGroups: [resource.k8s.io]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [resourceclaims, resourceclaimtemplates, deviceclasses]
  clientConfig:
    caBundle: {bundle}
    service: {{namespace: {namespace}, name: carve-webhook, path: /review, port: 443}}
",
            configuration = webhook.configuration,
            namespace = namespace.name(),
        ));
        webhook
    }
}

impl Drop for Webhook<'_> {
    fn drop(&mut self) {
        let object = format!("validatingwebhookconfiguration/{}", self.configuration);
        let _ = self.cluster.try_kubectl(&["delete", &object, "--ignore-not-found"], None);
    }
}

/// `spec.devices` of a claim with a config, at an indentation.
fn devices(parameters: &str, indent: &str) -> String {
    format!(
        "{indent}devices:
{indent}  requests:
{indent}  - name: gpu
{indent}    exactly: {{deviceClassName: gpu.carve.dev}}
{indent}  config:
{indent}  - opaque:
{indent}      driver: gpu.carve.dev
{indent}      parameters: {parameters}
"
    )
}

fn claim(name: &str, parameters: &str) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, labels: {{{LABEL}}}}}
spec:
{}",
        devices(parameters, "  ")
    )
}

fn template(name: &str, parameters: &str) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}, labels: {{{LABEL}}}}}
spec:
  spec:
{}",
        devices(parameters, "    ")
    )
}

fn class(name: &str, parameters: &str) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {name}, labels: {{{LABEL}}}}}
spec:
  config:
  - opaque:
      driver: gpu.carve.dev
      parameters: {parameters}
"
    )
}

const BURST: &str = "{apiVersion: carve.dev/v1alpha1, kind: FractionConfig, compute: Burst}";
const MPS: &str = "{apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 50}}}";
const TYPO: &str =
    "{apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: {strategy: Time-Slicing}}";

#[test]
fn configs_that_can_not_be_served_are_refused_when_they_are_written() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(fixture) = fixture_text("dra/nvidia/bats-specs/rc-opaque-cfg-unknown-field.yaml.tmpl") else {
        return;
    };
    let namespace = cluster.namespace("dra-webhook");
    let deny = |manifest: &str| namespace.try_apply(manifest).expect_err("a refusal");
    // From before the webhook.
    namespace.apply(&claim("old", TYPO));
    let _webhook = Webhook::install(&cluster, &namespace);
    // The API server takes a moment to notice a new webhook, and asks it only then.
    cluster.until("the webhook is asked", PATIENCE, || {
        let taken = namespace.try_apply(&claim("first", TYPO)).is_ok();
        if taken {
            cluster.kubectl(&["delete", "resourceclaim", "first", "-n", namespace.name()]);
        }
        !taken
    });

    // kubectl shows a refusal with fields like one of the API server's own.
    let words = "opaque.parameters.sharing.strategy: nobody knows \"Time-Slicing\"; write TimeSlicing or MPS";
    for (manifest, object, path) in [
        (claim("mine", TYPO), "ResourceClaim \"mine\"", "spec.devices.config[0]"),
        (template("mine", TYPO), "ResourceClaimTemplate \"mine\"", "spec.spec.devices.config[0]"),
        (class("carve-webhook-test", TYPO), "DeviceClass \"carve-webhook-test\"", "spec.config[0]"),
    ] {
        assert_eq!(deny(&manifest).trim(), format!("The {object} is invalid: {path}.{words}"));
    }
    // What created the object through a program is told by whom as well.
    let raw = format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", namespace.name());
    let object: Value = serde_saphyr::from_str(&claim("mine", TYPO)).expect("YAML");
    let words = ["create", "--raw", &raw, "-f", "-", "-v=8"];
    let refused = cluster.try_kubectl(&words, Some(&object.to_string()));
    let message = refused.expect_err("a refusal");
    let begin = format!("denied the request: ResourceClaim {}/mine has a config", namespace.name());
    assert!(message.contains(&begin), "{message}");

    namespace.apply(&claim("fraction", BURST));
    namespace.apply(&claim("mps", MPS));
    namespace.apply(&template("fraction", BURST));
    namespace.apply(&class("carve-webhook-test", MPS));
    cluster.kubectl(&["delete", "deviceclass", "carve-webhook-test"]);

    // What NVIDIA's suite expects its driver to refuse once a pod waits: another driver's config is none of ours, and the same for
    // ours is refused at once.
    let claim_only = fixture.split("\n---").next().expect("a claim");
    let theirs = claim_only
        .replace("${TEST_K8S_RESOURCE_API_VERSION}", "v1")
        .replace("${TEST_DEVCLASSNAME_CD_CHANNEL}", "exactly: {deviceClassName: gpu.nvidia.com}");
    let ours = theirs
        .replace("compute-domain.nvidia.com", "gpu.nvidia.com")
        .replace("ComputeDomainChannelConfig", "GpuConfig")
        .replace("          domainID: not-needed-for-test\n", "");
    let message = deny(&ours);
    assert!(message.contains("spec.devices.config[0].opaque.parameters.unexpectedField: "), "{message}");
    namespace.apply(&theirs);

    // What was there before can be changed and removed.
    cluster.kubectl(&["label", "resourceclaim", "old", "-n", namespace.name(), "seen=yes"]);
    cluster.kubectl(&["delete", "resourceclaim", "old", "-n", namespace.name()]);
    let said = namespace.logs("carve-webhook");
    assert!(said.contains("refused to "), "{said}");
}
