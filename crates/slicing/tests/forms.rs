//! Devices that change their form while pods hold them are not handed out twice.
#![allow(clippy::expect_used, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_slicing::{Held, Holder, NodeGpus, Offer, Settings, offer, withheld};

fn offer_of(node: &NodeGpus, config: &str) -> Offer {
    let config = DevicePluginConfig::parse(config).value.expect("a config");
    offer(node, &Settings::new(&config, true).expect("settings")).expect("an offer")
}

fn held(resource: &str, device: &str) -> Held {
    let holder =
        Holder { namespace: "team".to_owned(), pod: "train".to_owned(), container: "main".to_owned() };
    Held { resource: resource.to_owned(), device: device.to_owned(), holder }
}

fn held_share(part: &str, share: u64) -> Held {
    held("nvidia.com/gpu", &format!("{part}::{share}"))
}

const WHOLE: &str = "version: v1\n";
const SHARED: &str = "version: v1
sharing:
  timeSlicing:
    resources: [{name: nvidia.com/gpu, replicas: 3}]
";
const RENAMED: &str = "version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    resources: [{name: nvidia.com/gpu, replicas: 3}]
";

fn waiting(offer: &Offer, held: &[Held]) -> Vec<String> {
    withheld(offer, held)
        .into_keys()
        .map(|(resource, device)| format!("{} {device}", resource.local()))
        .collect()
}

#[test]
fn a_gpu_that_is_held_whole_has_no_free_shares() {
    let node = recorded::machine("H200*2", "");
    let first = node.gpus[0].part().to_string();
    let shared = offer_of(&node, SHARED);
    let shares: Vec<String> = (0..3).map(|number| format!("gpu {first}::{number}")).collect();
    assert_eq!(waiting(&shared, &[held("nvidia.com/gpu", &first)]), shares);
    assert!(
        waiting(&shared, &[held("nvidia.com/gpu", &format!("{first}::1"))]).is_empty(),
        "kubelet knows that one"
    );
}

#[test]
fn a_gpu_with_a_held_share_is_not_given_whole() {
    let node = recorded::machine("H200*2", "");
    let first = node.gpus[0].part().to_string();
    let held = [held("nvidia.com/gpu", &format!("{first}::2"))];
    assert_eq!(waiting(&offer_of(&node, WHOLE), &held), [format!("gpu {first}")]);
}

#[test]
fn a_share_under_another_name_is_still_held() {
    let node = recorded::machine("H200*1", "");
    let first = node.gpus[0].part().to_string();
    let held = [held("nvidia.com/gpu", &format!("{first}::2"))];
    assert_eq!(waiting(&offer_of(&node, RENAMED), &held), [format!("gpu.shared {first}::2")]);
}

#[test]
fn fewer_replicas_wait_for_a_share_that_is_gone() {
    let node = recorded::machine("H200*1", "");
    let first = node.gpus[0].part().to_string();
    let two = SHARED.replace("replicas: 3", "replicas: 2");
    let held = [held("nvidia.com/gpu", &format!("{first}::2"))];
    assert_eq!(waiting(&offer_of(&node, &two), &held).len(), 2, "a third tenant is still there");
    let both = [held[0].clone(), held_share(&first, 0)];
    let free = waiting(&offer_of(&node, &two), &both);
    assert_eq!(free, [format!("gpu {first}::1")], "the share that a pod holds is its own and stays well");
}
