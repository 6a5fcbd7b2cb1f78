//! A namespace of its own for each test.

use crate::inside::create_all;
use crate::{Cluster, PATIENCE};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A namespace that goes when the test ends.
#[derive(Debug)]
pub struct Namespace {
    pub(crate) cluster: Cluster,
    name: String,
}

impl Namespace {
    pub(crate) fn new(cluster: Cluster, test: &str) -> Self {
        let name = format!("test-{}", test.replace('_', "-"));
        // What an interrupted run left behind.
        let _ = cluster.try_kubectl(&["delete", "namespace", &name, "--ignore-not-found"], None);
        cluster.kubectl(&["create", "namespace", &name]);
        let namespace = Namespace { cluster, name };
        // A pod is refused until the controller has made the account it runs under.
        namespace.cluster.until("the namespace has its service account", PATIENCE, || {
            !namespace.get(&["serviceaccount", "default"]).is_null()
        });
        namespace
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Applies a manifest; a refusal is the test's failure.
    pub fn apply(&self, manifest: &str) {
        self.try_apply(manifest).unwrap_or_else(|error| panic!("kubectl apply: {error}\n{manifest}"));
    }

    /// Applies a manifest, or tells why it was refused.
    pub fn try_apply(&self, manifest: &str) -> Result<String, String> {
        self.cluster.try_kubectl(&["apply", "-n", &self.name, "-f", "-"], Some(manifest))
    }

    /// Creates pods, several at once; a refusal is the test's failure.
    pub fn create_pods(&self, pods: &[Value]) {
        let pods: Vec<Pod> = pods
            .iter()
            .map(|pod| serde_json::from_value(pod.clone()).unwrap_or_else(|error| panic!("{error}: {pod}")))
            .collect();
        let name = self.name.clone();
        let made = self.cluster.within(move |client| create_all(Api::namespaced(client, &name), pods));
        made.unwrap_or_else(|error| panic!("pods can not be made: {error}"));
    }

    /// Deletes all pods at once, without waiting for anybody to confirm their end.
    pub fn delete_pods(&self) {
        let all = format!("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0", self.name);
        self.cluster.kubectl(&["delete", "--raw", &all]);
    }

    /// Deletes a pod and waits until it is gone.
    pub fn delete_pod(&self, name: &str) {
        self.cluster.kubectl(&["delete", "pod", name, "-n", &self.name, "--timeout=180s"]);
    }

    /// An object of this namespace, or null.
    pub fn get(&self, words: &[&str]) -> Value {
        self.cluster.get(&[&["-n", self.name.as_str()], words].concat())
    }

    /// Phase of a pod, empty while there is none.
    pub fn phase(&self, pod: &str) -> String {
        self.get(&["pod", pod])["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a pod has a phase.
    pub fn wait_for_phase(&self, pod: &str, phase: &str) {
        let what = format!("pod {pod} of {} is {phase}", self.name);
        self.cluster.until(&what, PATIENCE, || self.phase(pod) == phase);
    }

    /// Runs a command in a pod.
    pub fn exec(&self, pod: &str, words: &[&str]) -> String {
        self.ask_kubelet(&[&["exec", "-n", self.name.as_str(), pod, "--"], words].concat())
    }

    /// What a pod has printed.
    pub fn logs(&self, pod: &str) -> String {
        self.ask_kubelet(&["logs", "-n", &self.name, pod])
    }

    /// What kubectl prints of what only kubelet knows. One that has just started may not listen yet, or not know the pod.
    fn ask_kubelet(&self, words: &[&str]) -> String {
        let give_up = Instant::now() + PATIENCE;
        let not_yet = |error: &str| {
            error.contains("pod does not exist") || error.contains(":10250: connect: connection refused")
        };
        loop {
            match self.cluster.try_kubectl(words, None) {
                Err(error) if not_yet(&error) && Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(500));
                }
                answer => {
                    return answer.unwrap_or_else(|error| panic!("kubectl {}: {error}", words.join(" ")));
                }
            }
        }
    }

    /// An environment variable as a pod's container sees it.
    pub fn env(&self, pod: &str, name: &str) -> Option<String> {
        let all = self.exec(pod, &["/usr/bin/env"]);
        all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    }
}

impl Drop for Namespace {
    /// Not waited for: the next test has another name, and the cluster ends with the suite.
    fn drop(&mut self) {
        let words = ["delete", "namespace", &self.name, "--wait=false", "--ignore-not-found"];
        let _ = self.cluster.try_kubectl(&words, None);
    }
}
