//! How the agent ends when it is told to: soon, with 0, and with nothing of its own left where others look.

use crate::GPU;
use crate::node::{Node, devices};
use carve_kubelet_api::device_plugin::Empty;
use carve_kubelet_api::dial::dial;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

async fn ends_cleanly_on(signal: Signal) {
    let mut node = Node::new();
    node.install_driver();
    node.install_driver_root();
    let kubelet = node.kubelet().await;
    // Another vendor's plugin, one that died without putting its socket away, and kubelet's own notes.
    let folder = node.path("device-plugins");
    let _mute = UnixListener::bind(folder.join("vendor.sock")).expect("a socket");
    drop(UnixListener::bind(folder.join("vendor-dead.sock")).expect("a socket"));
    std::fs::write(folder.join("kubelet_internal_checkpoint"), "{}").expect("a file");
    let others = node.files("device-plugins");
    let kubelet_before = std::fs::metadata(kubelet.socket()).expect("kubelet's socket").ino();

    node.start(&["--device-list-strategy", "cdi-cri"]);
    devices(&kubelet, GPU, 2).await;
    node.ready().await;
    let mut plugin = kubelet.plugin(GPU).await;
    let mut lists = plugin.list_and_watch(Empty {}).await.expect("lists").into_inner();
    assert_eq!(lists.message().await.expect("a list").expect("a list").devices.len(), 2);
    let mut with_ours = others.clone();
    with_ours.insert("nvidia-gpu.sock".to_owned());
    assert_eq!(node.files("device-plugins"), with_ours);

    // A watch is open, as kubelet's always is: it must not hold the agent up.
    node.signal(signal);
    let status = node.ended().await;
    assert_eq!(status.code(), Some(0), "{status}\n{}", node.said());
    assert!(!matches!(lists.message().await, Ok(Some(_))), "the watch ends without another list");
    assert_eq!(node.files("device-plugins"), others, "its own socket goes, and no other");
    assert_eq!(std::fs::metadata(kubelet.socket()).expect("kubelet's socket").ino(), kubelet_before);
    dial(&kubelet.socket()).await.expect("kubelet still answers");

    let one = |name: &str| BTreeSet::from([name.to_owned()]);
    assert_eq!(node.files("features.d"), one("gfd"));
    assert_eq!(node.files("bin"), one("carve"));
    assert_eq!(node.files("cdi").len(), 1, "{:?}", node.files("cdi"));
    for name in node.files("state").union(&node.files("cdi")) {
        let file = name.rsplit('/').next().unwrap_or_default();
        let passing = file.starts_with('.') || file.ends_with(".new") || file.contains("tmp");
        assert!(!passing, "{name} was left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_cleanly() {
    ends_cleanly_on(Signal::TERM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigint_ends_it_cleanly() {
    ends_cleanly_on(Signal::INT).await;
}
