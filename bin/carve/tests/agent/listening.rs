//! A port that somebody else has: GPUs are offered without it, and it is taken when it is free.

use crate::GPU;
use crate::node::{Node, devices};
use std::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_told_and_taken_when_it_is_free() {
    let mut node = Node::new();
    node.install_driver();
    let kubelet = node.kubelet().await;
    let other = TcpListener::bind(node.address()).expect("the port is free");
    node.start(&[]);
    devices(&kubelet, GPU, 2).await;
    let told = format!("{}: Address already in use", node.address());
    let said = node.said();
    assert!(said.contains("NotListening") && said.contains(&told), "{said}");
    drop(other);
    node.ready().await;
    let said = node.said();
    assert_eq!(said.matches("NotListening").count(), 1, "tried often, told once:\n{said}");
    assert!(said.contains("\"Listening\""), "{said}");
}
