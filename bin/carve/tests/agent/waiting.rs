//! What the agent does while something it needs is not there yet: it waits, says for what, and goes on when it comes.

use crate::node::{Node, devices};
use crate::{GPU, SHARED};
use carve_gpu_model::GpuIndex;
use rustix::process::Signal;

#[tokio::test(flavor = "multi_thread")]
async fn without_a_driver_it_waits_and_offers_when_one_comes() {
    let mut node = Node::new();
    let kubelet = node.kubelet().await;
    node.start(&[]);
    let waits = |text: &str| text.contains("waiting for GPUs") && text.contains("libnvidia-ml.so");
    let answer = node.answer_when("/readyz", "it waits for the driver", |answer| waits(&answer.body)).await;
    assert_eq!(answer.code, 503, "{answer:?}");
    let healthy = node.ask("/healthz").await.expect("an answer");
    assert_eq!((healthy.code, healthy.body.as_str()), (200, "ok\n"), "a restart would not bring a driver");
    // A reload that comes too early is no reason to die.
    node.signal(Signal::HUP);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(node.lives(), "{}", node.said());
    assert_eq!(kubelet.registrations(), 0, "nothing is offered without GPUs");
    node.install_driver();
    devices(&kubelet, GPU, 2).await;
    node.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_waits_for_a_driver_it_can_be_ended() {
    let mut node = Node::new();
    node.start(&[]);
    node.answer_when("/readyz", "it waits", |answer| answer.body.contains("waiting for GPUs")).await;
    node.signal(Signal::TERM);
    let status = node.ended().await;
    assert_eq!(status.code(), Some(0), "{status}\n{}", node.said());
}

#[test]
fn without_a_driver_it_fails_where_that_is_wanted() {
    let node = Node::new();
    let mut by_flag = node.command();
    by_flag.arg("--fail-on-init-error");
    let mut by_variable = node.command();
    by_variable.env("FAIL_ON_INIT_ERROR", "true");
    for mut command in [by_flag, by_variable] {
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no GPUs: ") && said.contains("libnvidia-ml.so"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_kubelet_it_waits_and_offers_when_one_comes() {
    let mut node = Node::new();
    node.install_driver();
    node.start(&[]);
    let waits = |text: &str| text.contains("kubelet has not registered");
    let answer = node.answer_when("/readyz", "it waits for kubelet", |answer| waits(&answer.body)).await;
    assert_eq!(answer.code, 503);
    assert!(node.files("device-plugins").is_empty(), "kubelet's folder is kubelet's to make");
    let kubelet = node.kubelet().await;
    devices(&kubelet, GPU, 2).await;
    node.ready().await;
    assert_eq!(kubelet.registrations(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_gpus_and_the_configuration_anew() {
    let mut node = Node::new();
    node.install_driver();
    node.configure("version: v1\n");
    let kubelet = node.kubelet().await;
    // Without the signal nobody looks at the GPUs for an hour.
    let mut command = node.command();
    command.arg("--config-file").arg(node.path("config.yaml")).args(["--probe-seconds", "3600"]);
    node.start_as(&mut command);
    devices(&kubelet, GPU, 2).await;
    node.machine().change_world(|host| host.lose(GpuIndex(1))).expect("a lost GPU");
    node.configure(SHARED);
    // The new configuration is found by itself, the loss is not.
    devices(&kubelet, GPU, 8).await;
    node.signal(Signal::HUP);
    devices(&kubelet, GPU, 4).await;
    node.configure("version: v1\n");
    node.signal(Signal::HUP);
    devices(&kubelet, GPU, 1).await;
    assert!(node.lives());
}
