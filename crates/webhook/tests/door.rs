//! The door over real HTTPS: what is answered to whom, and a certificate that is renewed under way.

use carve_test_support::PATIENCE;
use carve_webhook::{CertificateError, WebhookError, WebhookOptions, run};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;
use tempfile::TempDir;
use tokio::sync::oneshot;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Writes a new certificate and its key; the certificate.
fn certify(folder: &Path) -> String {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("tls.key"), certified.signing_key.serialize_pem()).expect("written");
    std::fs::write(folder.join("tls.crt"), certified.cert.pem()).expect("written");
    certified.cert.pem()
}

/// A client that trusts this certificate only.
fn client(certificate: &str) -> ureq::Agent {
    let trusted = Certificate::from_pem(certificate.as_bytes()).expect("a certificate");
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[trusted])).build();
    ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent()
}

struct Webhook {
    folder: TempDir,
    address: SocketAddr,
    certificate: String,
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Result<(), WebhookError>>,
}

fn options(folder: &Path, address: SocketAddr) -> WebhookOptions {
    WebhookOptions {
        listen: address,
        certificate: folder.join("tls.crt"),
        key: folder.join("tls.key"),
        drivers: vec!["gpu.carve.dev".to_owned()],
    }
}

fn somewhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

impl Webhook {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = certify(folder.path());
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let options = options(folder.path(), somewhere());
        let thread = std::thread::spawn(move || {
            let stopped = async move {
                let _ = stopped.await;
            };
            block_on(run(options, |address| tell.send(address).expect("told"), stopped))
        });
        let address = told.recv_timeout(PATIENCE).expect("an address");
        Webhook { folder, address, certificate, stop, thread }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Status and text of an answer to what is posted.
    fn post(&self, kind: &str, text: &str) -> (u16, String) {
        let posted = client(&self.certificate).post(self.url("/review")).content_type(kind).send(text);
        let mut answer = posted.expect("an answer");
        (answer.status().as_u16(), answer.body_mut().read_to_string().expect("text"))
    }
}

fn asked(parameters: &Value) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"},
            "object": {"metadata": {"name": "c"}, "spec": {"devices": {"config": [
                {"opaque": {"driver": "gpu.carve.dev", "parameters": parameters}},
            ]}}},
        },
    })
    .to_string()
}

#[test]
fn the_api_server_is_answered_and_nobody_else() {
    let webhook = Webhook::start();
    let good = json!({"apiVersion": "carve.dev/v1alpha1", "kind": "FractionConfig", "compute": "Burst"});
    for (parameters, allowed) in [(good, true), (json!({"kind": "Nonsense"}), false)] {
        let (status, text) = webhook.post("application/json", &asked(&parameters));
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((status, &answer["response"]["allowed"]), (200, &json!(allowed)), "{text}");
    }
    assert_eq!(webhook.post("text/plain", &asked(&json!({}))).0, 415);
    assert_eq!(webhook.post("application/json", "{").0, 400);
    let (status, text) = webhook.post("application/json", "{}");
    assert_eq!(status, 400);
    assert!(text.contains("admissionReviewVersions: [v1]"), "{text}");
    let large = asked(&json!({"kind": "x".repeat(5 * 1024 * 1024)}));
    let (status, text) = webhook.post("application/json", &large);
    assert_eq!(status, 200, "an object may be so large");
    assert!(text.len() < 10_000, "and what it says is not told in full: {} bytes", text.len());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(webhook.post("application/json", &deep).0, 400);

    let agent = client(&webhook.certificate);
    let health = agent.get(webhook.url("/healthz")).call().expect("an answer").body_mut().read_to_string();
    assert_eq!(health.expect("text"), "ok");
    let _ = webhook.stop.send(());
    webhook.thread.join().expect("a thread").expect("a clean end");
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart() {
    let webhook = Webhook::start();
    let works = |certificate: &str| client(certificate).get(webhook.url("/healthz")).call().is_ok();
    assert!(works(&webhook.certificate));
    // Half of a renewal: the old one stays in use.
    std::fs::write(webhook.folder.path().join("tls.crt"), "no certificate").expect("written");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(works(&webhook.certificate));
    let renewed = certify(webhook.folder.path());
    let give_up = Instant::now() + PATIENCE;
    while !works(&renewed) {
        assert!(Instant::now() < give_up, "the renewed certificate was not taken");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(!works(&webhook.certificate), "the old one is out of use");
}

#[test]
fn what_is_missing_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let start =
        |address| block_on(run(options(folder.path(), address), |_| {}, async {})).expect_err("an error");
    let error = start(somewhere());
    assert!(matches!(error, WebhookError::Certificate(CertificateError::Read { .. })), "{error}");
    assert!(error.to_string().contains("tls.crt, which should hold the webhook's certificate"), "{error}");
    std::fs::write(folder.path().join("tls.crt"), "").expect("written");
    std::fs::write(folder.path().join("tls.key"), "").expect("written");
    let error = start(somewhere());
    assert!(matches!(error, WebhookError::Certificate(CertificateError::Use { .. })), "{error}");
    certify(folder.path());
    let taken = std::net::TcpListener::bind(somewhere()).expect("a port");
    let error = start(taken.local_addr().expect("an address")).to_string();
    assert!(error.contains("another process may be there"), "{error}");
}
