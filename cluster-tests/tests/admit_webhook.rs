//! A webhook in a pod behind a Service: the API server finds its way there, and its answer counts.

use carve_cluster_tests::{Cluster, PATIENCE, Pod};
use carve_lab::{Image, Programs};
use std::path::Path;

const IMAGE: &str = "localhost/admission-webhook:1";

#[test]
fn a_webhook_behind_a_service_is_asked() {
    let Some(cluster) = Cluster::connect() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_admission_webhook"));
    let image = Image::new(IMAGE).program(program, "/webhook").expect("the webhook").entrypoint(["/webhook"]);
    cluster.import(&image);
    let namespace = cluster.namespace("webhook");
    let arguments = ["8443", "/certificate/tls.crt", "/certificate/tls.key"];
    let bundle = namespace.serve_tls("hook", IMAGE, &arguments);
    let configuration = format!("webhook-{}", namespace.name());
    namespace.apply(&format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {{name: {configuration}}}
webhooks:
- name: hook.carve.test
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 5
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
  clientConfig:
    caBundle: {bundle}
    service: {{namespace: {namespace}, name: hook, path: /review, port: 443}}
",
        namespace = namespace.name(),
    ));
    let pod = Pod::sleeping(&cluster, "reviewed").manifest();
    // The API server takes a moment to notice a new webhook, and asks it only then.
    cluster.until("the webhook's annotation is on a new pod", PATIENCE, || {
        cluster.kubectl(&[
            "delete",
            "pod",
            "reviewed",
            "-n",
            namespace.name(),
            "--ignore-not-found",
            "--now",
        ]);
        namespace.try_apply(&pod).is_ok()
            && namespace.get(&["pod", "reviewed"])["metadata"]["annotations"]["seen-by"] == "webhook"
    });
    cluster.kubectl(&["delete", "mutatingwebhookconfiguration", &configuration]);
    assert!(namespace.logs("hook").contains("reviewing"), "{}", namespace.logs("hook"));
}
