//! `carve agent validate`: step by step, with a file for each step that others wait for.

use crate::GPU;
use crate::node::{Node, devices};
use std::collections::BTreeSet;
use std::process::Output;

const FILES: [&str; 4] = ["cuda-ready", "driver-ready", "plugin-ready", "toolkit-ready"];

fn validate(node: &Node) -> Output {
    node.command().arg("validate").output().expect("it runs")
}

/// The verdict of each step, in order.
fn verdicts(output: &Output) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let verdict = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        (words.next().unwrap_or_default(), words.next().unwrap_or_default())
    };
    text.lines().map(verdict).collect()
}

fn named(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn leave_old_files(node: &Node) {
    std::fs::create_dir_all(node.path("validations")).expect("a folder");
    for file in FILES.iter().chain(&["other-ready"]) {
        std::fs::write(node.path("validations").join(file), "").expect("a file");
    }
}

fn check(output: &Output, wanted: &[(&str, &str)], code: i32) {
    let found = verdicts(output);
    let found: Vec<(&str, &str)> = found.iter().map(|(step, word)| (step.as_str(), word.as_str())).collect();
    assert_eq!((found.as_slice(), output.status.code()), (wanted, Some(code)), "{output:?}");
}

#[test]
fn without_a_driver_the_driver_is_blamed() {
    let node = Node::new();
    leave_old_files(&node);
    let output = validate(&node);
    check(&output, &[("driver", "failed")], 1);
    assert!(String::from_utf8_lossy(&output.stdout).contains("libnvidia-ml.so"), "{output:?}");
    assert_eq!(node.files("validations"), named(&["other-ready"]), "what is not true any more goes");
}

#[test]
fn without_a_plugin_the_plugin_is_blamed() {
    let node = Node::new();
    node.install_driver();
    node.install_driver_root();
    leave_old_files(&node);
    let output = validate(&node);
    check(&output, &[("driver", "passed"), ("cdi", "passed"), ("plugin", "failed")], 1);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("is the agent running?") && said.contains("device-plugins"), "{said}");
    assert_eq!(node.files("validations"), named(&["driver-ready", "other-ready", "toolkit-ready"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_an_agent_it_passes() {
    let mut node = Node::new();
    node.install_driver();
    node.install_driver_root();
    let kubelet = node.kubelet().await;
    node.start(&["--without", "validation"]);
    devices(&kubelet, GPU, 2).await;
    let output = validate(&node);
    check(&output, &[("driver", "passed"), ("cdi", "passed"), ("plugin", "passed"), ("cuda", "skipped")], 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("nvidia-gpu.sock offers GPU-"), "{output:?}");
    assert_eq!(node.files("validations"), named(&FILES));
    assert!(node.lives(), "it was only asked");
}

/// The configuration that the step about containers names.
fn by(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("cdi")).expect("a line about containers");
    line.split_once("; by ").unwrap_or_else(|| panic!("{line}")).1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_which_configuration_it_looked_at() {
    let node = Node::new();
    node.install_driver();
    let _kubelet = node.kubelet().await;
    std::fs::create_dir_all(node.path("configs")).expect("a folder");
    for (name, way) in [("plain", "envvar"), ("by-cdi", "cdi-cri")] {
        let text = format!("version: v1\nflags: {{plugin: {{deviceListStrategy: {way}}}}}\n");
        std::fs::write(node.path("configs").join(name), text).expect("a configuration");
    }
    let with = |arguments: &[&str]| {
        let mut command = node.command();
        command.arg("--config-file-srcdir").arg(node.path("configs")).args(arguments).arg("validate");
        command.output().expect("it runs")
    };
    // There are no driver files: who needs them for CDI fails, who does not goes on.
    let output = with(&["--default-config", "by-cdi"]);
    check(&output, &[("driver", "passed"), ("cdi", "failed")], 1);
    assert_eq!(by(&output), "configuration 'by-cdi'");
    let output = with(&["--default-config", "plain"]);
    check(&output, &[("driver", "passed"), ("cdi", "skipped"), ("plugin", "failed")], 1);
    assert!(by(&output).starts_with("configuration 'plain'"), "{output:?}");
    // Nobody says which of the two: then the flags hold, and that is said.
    let output = with(&["--device-list-strategy", "cdi-cri"]);
    check(&output, &[("driver", "passed"), ("cdi", "failed")], 1);
    assert!(by(&output).starts_with("flags alone, because no configuration is chosen"), "{output:?}");
}
