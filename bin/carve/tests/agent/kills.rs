//! SIGKILL at any moment, two hundred times, while a client lists and allocates: the next agent offers the same devices.

use crate::GPU;
use crate::node::{Node, devices, request};
use carve_kubelet_api::device_plugin::{DevicePluginClient, Empty};
use carve_kubelet_api::dial::dial;
use carve_test_support::{FakeKubelet, PATIENCE};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const KILLS: usize = 200;

/// What the client has seen.
#[derive(Debug, Default)]
struct Seen {
    stop: AtomicBool,
    lists: AtomicUsize,
    allocations: AtomicUsize,
}

/// Lists and allocates as fast as it can. An agent that is gone answers nothing; one that answers must be right.
async fn storm(socket: PathBuf, ids: Vec<String>, seen: Arc<Seen>) {
    let mut turn = 0;
    while !seen.stop.load(Ordering::Relaxed) {
        if talk(&socket, &ids, &seen, &mut turn).await.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// One connection, until it breaks.
async fn talk(socket: &Path, ids: &[String], seen: &Seen, turn: &mut usize) -> Option<()> {
    let mut plugin = DevicePluginClient::new(dial(socket).await.ok()?);
    while !seen.stop.load(Ordering::Relaxed) {
        let list = plugin.list_and_watch(Empty {}).await.ok()?.into_inner().message().await.ok()??;
        let mut listed: Vec<String> = list.devices.into_iter().map(|device| device.id).collect();
        listed.sort();
        assert_eq!(listed, ids, "no list is ever shorter or other");
        seen.lists.fetch_add(1, Ordering::Relaxed);
        for _ in 0..4 {
            *turn += 1;
            let id = &ids[*turn % ids.len()];
            let answer = plugin.allocate(request(std::slice::from_ref(id))).await.ok()?.into_inner();
            let gpu = id.split("::").next().unwrap_or_default();
            assert_eq!(answer.container_responses[0].envs["NVIDIA_VISIBLE_DEVICES"], gpu);
            seen.allocations.fetch_add(1, Ordering::Relaxed);
        }
    }
    Some(())
}

/// Moments that look random and are the same in every run.
fn moments() -> impl Iterator<Item = u64> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// Waits until this agent has registered, listed everything, and answered the client.
async fn offers_all(kubelet: &FakeKubelet, ids: &[String], before: usize, seen: &Seen) {
    let answered = seen.allocations.load(Ordering::Relaxed);
    assert_eq!(devices(kubelet, GPU, ids.len()).await, ids);
    let give_up = std::time::Instant::now() + PATIENCE;
    while kubelet.registrations() == before || seen.allocations.load(Ordering::Relaxed) == answered {
        assert!(std::time::Instant::now() < give_up, "it neither registers nor answers: {seen:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_kill_the_same_devices_are_offered() {
    let mut node = Node::new();
    node.install_driver();
    node.configure(crate::SHARED);
    let kubelet = node.kubelet().await;
    node.start_on_file();
    let ids = devices(&kubelet, GPU, 8).await;
    let socket = node.path("device-plugins/nvidia-gpu.sock");
    let seen = Arc::new(Seen::default());
    let client = tokio::spawn(storm(socket.clone(), ids.clone(), Arc::clone(&seen)));
    let mut moments = moments();
    let mut moment = |limit: u64| Duration::from_millis(moments.next().unwrap_or_default() % limit);
    let mut blocked = 0;
    for round in 0..KILLS {
        node.kill();
        blocked += usize::from(socket.exists());
        let before = kubelet.registrations();
        node.start_on_file();
        // One in four dies while it starts; the others once they have proven themselves.
        if round % 4 == 3 {
            tokio::time::sleep(moment(60)).await;
            continue;
        }
        offers_all(&kubelet, &ids, before, &seen).await;
        tokio::time::sleep(moment(20)).await;
        assert!(!client.is_finished(), "the client saw something wrong in round {round}");
    }
    let before = kubelet.registrations();
    node.kill();
    node.start_on_file();
    offers_all(&kubelet, &ids, before, &seen).await;
    seen.stop.store(true, Ordering::Relaxed);
    client.await.expect("the client saw nothing wrong");
    assert!(blocked > KILLS / 2, "only {blocked} kills left a socket in the way");
    let said = node.said();
    assert!(!said.contains("panicked") && !said.contains(" refused "), "{said}");
    for word in ["CheckpointCorrupt", "can not be served", "AnotherPlugin"] {
        assert!(!said.contains(word), "{word}:\n{said}");
    }
    node.signal(Signal::TERM);
    assert_eq!(node.ended().await.code(), Some(0));
    // However many were killed in the middle of writing, their halves do not pile up.
    for folder in ["state", "features.d", "device-plugins"] {
        let files = node.files(folder);
        assert!(files.len() < 12, "{folder}: {files:?}");
    }
}
