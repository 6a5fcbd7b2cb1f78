//! A change of MIG mode that only a reboot brings about: asked for once, done after it, and given up if it did not help.

use crate::GPU;
use crate::metrics::wait_for;
use crate::node::{Node, devices};
use carve_test_support::PATIENCE;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// GPUs whose mode holds after a reset only.
const MACHINE: &str = "a100-40gb:2";
const MIG: &str = "nvidia.com/mig-1g.5gb";
/// What `nvidia-smi` says where a program that nobody can end has the GPU open.
const REFUSES: &str =
    "#!/bin/sh\necho 'GPU 0 is currently in use by one or more other processes'\nexit 255\n";
const REBOOTING: [(&str, &str); 1] = [("result", "rebooting")];

/// A node that can not reset its GPUs, and whose reboot leaves a mark for each time it was asked for.
fn node() -> Node {
    let node = Node::with(MACHINE);
    node.install_driver();
    node.install_driver_root();
    node.install_program("nvidia-smi", REFUSES);
    node.install_program("reboot", &format!("#!/bin/sh\necho asked >> {}\n", node.path("reboots").display()));
    node
}

/// The agent's command with a MIG config to make, by a reboot if need be.
fn command(node: &Node, arguments: &[&str]) -> Command {
    let mut command = node.command();
    command.args(["--default-mig-config", "all-1g.5gb", "--mig-strategy", "mixed"]).args(arguments);
    command.arg("--reboot-program").arg(node.path("driver-root/usr/bin/reboot"));
    command
}

fn reboots(node: &Node) -> usize {
    fs::read_to_string(node.path("reboots")).unwrap_or_default().lines().count()
}

/// Waits until the machine has been told to reboot, which the agent does after it has said so.
async fn is_rebooted(node: &Node) {
    let give_up = Instant::now() + PATIENCE;
    while reboots(node) == 0 {
        assert!(Instant::now() < give_up, "nothing is rebooted:\n{}", node.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(reboots(node), 1);
}

async fn says(node: &Node, words: &str) {
    let give_up = Instant::now() + PATIENCE;
    while !node.said().contains(words) {
        assert!(Instant::now() < give_up, "it does not say '{words}':\n{}", node.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The machine goes down and comes up again: another boot, and a driver that has forgotten everything.
fn reboot(node: &mut Node) {
    node.kill();
    node.switch_on(MACHINE);
    let note = node.path("state/reboot-requested");
    let text = fs::read_to_string(&note).expect("what the machine is rebooted for");
    let (boot, config) = text.split_once('\n').expect("a boot and a config");
    let this = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    assert_eq!((boot, config), (this.trim(), "all-1g.5gb\n"));
    // The kernel of the tests is not rebooted, so that the note is made that of an earlier one.
    fs::write(&note, format!("00000000-0000-0000-0000-000000000000\n{config}")).expect("a note");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layout_is_made_after_the_reboot() {
    let mut node = node();
    let kubelet = node.kubelet().await;
    let mut first = command(&node, &["--with-reboot"]);
    node.start_as(&mut first);
    wait_for(&node, "carve_agent_mig_applies_total", &REBOOTING, 1.0).await;
    says(&node, "MigConfigRebooting").await;
    says(&node, "the machine is rebooted for it").await;
    // Until it is down the GPUs are what they were, and are offered so.
    devices(&kubelet, GPU, 2).await;
    is_rebooted(&node).await;

    reboot(&mut node);
    let working = crate::built::nvidia_smi();
    let smi = format!(
        "#!/bin/sh\nCARVE_SIM_STATE={} exec {} \"$@\"\n",
        node.path("machine.json").display(),
        working.display()
    );
    node.install_program("nvidia-smi", &smi);
    let mut second = command(&node, &["--with-reboot"]);
    node.start_as(&mut second);
    devices(&kubelet, MIG, 14).await;
    devices(&kubelet, GPU, 0).await;
    wait_for(&node, "carve_agent_mig_applies_total", &[("result", "success")], 1.0).await;
    assert_eq!(reboots(&node), 1, "once was enough");
    assert!(!node.path("state/reboot-requested").exists(), "the next config may have a reboot of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_that_did_not_help_is_not_repeated() {
    let mut node = node();
    let kubelet = node.kubelet().await;
    let mut first = command(&node, &["--with-reboot"]);
    node.start_as(&mut first);
    wait_for(&node, "carve_agent_mig_applies_total", &REBOOTING, 1.0).await;
    is_rebooted(&node).await;
    reboot(&mut node);
    let mut second = command(&node, &["--with-reboot"]);
    node.start_as(&mut second);
    says(&node, "the machine was rebooted for this already, and that did not help").await;
    wait_for(&node, "carve_agent_mig_applies_total", &[("result", "failed")], 1.0).await;
    assert_eq!(reboots(&node), 1);
    devices(&kubelet, GPU, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_nothing_is_rebooted() {
    let mut node = node();
    let kubelet = node.kubelet().await;
    let mut command = command(&node, &[]);
    node.start_as(&mut command);
    wait_for(&node, "carve_agent_mig_applies_total", &[("result", "failed")], 1.0).await;
    says(&node, "it is tried again").await;
    assert_eq!(reboots(&node), 0);
    assert!(!node.path("state/reboot-requested").exists());
    devices(&kubelet, GPU, 2).await;
}
