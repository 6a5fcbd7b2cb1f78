//! A program in a pod behind a Service, spoken to by TLS as the API server speaks to webhooks.

use crate::{Namespace, PATIENCE};
use serde_json::json;

impl Namespace {
    /// Starts an image as a Service of a name, with a certificate at `/certificate`, and waits until it answers `/healthz` on
    /// port 8443. Returns what callers trust it by, as a webhook configuration wants it.
    pub fn serve_tls(&self, name: &str, image: &str, arguments: &[&str]) -> String {
        let host = format!("{name}.{}.svc", self.name());
        let certified = rcgen::generate_simple_self_signed(vec![host]).unwrap_or_else(|e| panic!("{e}"));
        let certificate = certified.cert.pem();
        // The last node, so that the way there leads from one node to another where there are several.
        let node = self.cluster.nodes().pop().unwrap_or_default();
        let items = json!([
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certificate"},
             "stringData": {"tls.crt": certificate, "tls.key": certified.signing_key.serialize_pem()}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
             "spec": {"selector": {"app": name}, "ports": [{"name": "https", "port": 443, "targetPort": 8443}]}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": image, "imagePullPolicy": "Never", "args": arguments,
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": 8443, "scheme": "HTTPS"}, "periodSeconds": 1,
                    },
                    "volumeMounts": [{"name": "certificate", "mountPath": "/certificate"}],
                }],
                "volumes": [{"name": "certificate", "secret": {"secretName": "certificate"}}],
            }},
        ]);
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
        let label = format!("kubernetes.io/service-name={name}");
        self.cluster.until(&format!("{name} is ready"), PATIENCE, || {
            let slices = self.get(&["endpointslices", "-l", &label]);
            slices["items"][0]["endpoints"][0]["conditions"]["ready"] == true
        });
        self.cluster.base64(&certificate)
    }
}
