//! The sockets from start to end: found by kubelet, bound again when they vanish, handed over, and gone in order.

mod served;

use carve_dra_driver::{Pace, PlacesError, Registered, ServeError, SocketPlaces};
use served::{DRIVER, Instance, NEW, Node, OLD, PACE, claim, device, in_time, prepare, until};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Nothing that happens by itself disturbs what these tests count.
const CALM: Pace = Pace { look: Duration::from_secs(3600), sweep: Duration::from_secs(3600), ..PACE };

async fn is_prepared(node: &Node, number: u32) {
    let uid = format!("good-{number}");
    let answer = prepare(&mut node.client().await, vec![claim("good", number)]).await;
    assert_eq!(answer[&uid], Ok(vec![device(&uid)]));
}

async fn wait_until_registered(instance: &Instance) {
    let mut registered = instance.registered.clone();
    in_time(registered.wait_for(|registered| *registered == Registered::Yes)).await.expect("registered");
}

#[tokio::test]
async fn kubelet_learns_all_it_needs() {
    let node = Node::new();
    let instance = node.serve(PACE, None);
    wait_until_registered(&instance).await;
    let info = &node.kubelet.instances(DRIVER, 1).await[0];
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DRAPlugin", DRIVER));
    assert_eq!(Path::new(&info.endpoint), instance.files()[0]);
    assert_eq!(
        info.supported_versions,
        ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
    );
    // Again after a restart of kubelet, and said again: whoever published slices has to look.
    let mut registered = instance.registered.clone();
    registered.mark_unchanged();
    node.kubelet.restart();
    in_time(registered.changed()).await.expect("told again");
    assert_eq!(*registered.borrow(), Registered::Yes);
    is_prepared(&node, 1).await;
    instance.stop().await;
    assert_eq!(*registered.borrow(), Registered::No);
}

#[tokio::test]
async fn a_refusal_is_told_with_its_reason() {
    let node = Node::new();
    node.kubelet.refuse("invalid supported gRPC versions");
    let mut instance = node.serve(PACE, None);
    let refused = Registered::Refused("invalid supported gRPC versions".to_owned());
    in_time(instance.registered.wait_for(|registered| *registered == refused)).await.expect("told");
    assert!(node.kubelet.registered(DRIVER).is_empty());
}

/// Looks all the time, in a thread of its own, for a registration without the service it tells of.
struct Order {
    stop: Arc<AtomicBool>,
    seen: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<bool>,
}

impl Order {
    fn watch(instance: &Instance) -> Self {
        let [service, registration] = instance.files();
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (stopped, noticed) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let mut wrong = false;
            while !stopped.load(Ordering::Relaxed) {
                // Before its service is bound, or after it is gone: looked for in the order that can not deceive.
                let registered = registration.exists();
                let serves = service.exists();
                wrong |= registered && !serves && registration.exists();
                noticed.fetch_or(registered && serves, Ordering::Relaxed);
            }
            wrong
        });
        Order { stop, seen, thread }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_is_there_before_registration_and_goes_after_it() {
    for round in 0..20 {
        let node = Node::new();
        let instance = node.serve(CALM, None);
        let order = Order::watch(&instance);
        wait_until_registered(&instance).await;
        until("both were seen", || order.seen.load(Ordering::Relaxed)).await;
        let files = instance.files();
        instance.stop().await;
        order.stop.store(true, Ordering::Relaxed);
        let wrong = order.thread.join().expect("a thread");
        assert!(!wrong, "round {round}: there was a registration without its service");
        assert!(files.iter().all(|file| !file.exists()), "{files:?}");
    }
}

#[tokio::test]
async fn sockets_that_vanish_are_bound_again_and_calls_under_way_are_finished() {
    let node = Node::new();
    let instance = node.serve(PACE, None);
    for round in 0..3 {
        wait_until_registered(&instance).await;
        let mut client = node.client().await;
        let under_way = tokio::spawn(async move { prepare(&mut client, vec![claim("slow", round)]).await });
        let begun = format!("prepare begins slow-{round}");
        until("the call is under way", || instance.driver.log().contains(&begun)).await;
        let [service, registration] = instance.files();
        std::fs::remove_file(&registration).expect("removed");
        match round {
            0 => std::fs::remove_file(&service).expect("removed"),
            _ => std::fs::remove_dir_all(instance.places.folder()).expect("removed"),
        }
        until("both are there again", || service.exists() && registration.exists()).await;
        node.kubelet.restart();
        is_prepared(&node, round).await;
        instance.driver.gate.add_permits(1);
        let answer = in_time(under_way).await.expect("a task");
        assert!(answer[&format!("slow-{round}")].is_ok(), "{answer:?}");
    }
}

/// Whole folders of kubelet's may go, and come back with the next kubelet.
#[tokio::test]
async fn a_registry_that_vanishes_is_waited_for() {
    let node = Node::new();
    let instance = node.serve(PACE, None);
    wait_until_registered(&instance).await;
    let mut registered = instance.registered.clone();
    std::fs::remove_dir_all(&instance.places.registry).expect("removed");
    node.kubelet.instances(DRIVER, 0).await;
    std::fs::create_dir(&instance.places.registry).expect("created");
    node.kubelet.instances(DRIVER, 1).await;
    in_time(registered.wait_for(|registered| *registered == Registered::Yes)).await.expect("told");
    is_prepared(&node, 1).await;
}

#[tokio::test]
async fn a_new_instance_is_there_before_the_old_one_goes() {
    let node = Node::new();
    let old = node.serve(PACE, Some(OLD));
    node.kubelet.instances(DRIVER, 1).await;
    let mut client = node.client().await;
    let under_way = tokio::spawn(async move { prepare(&mut client, vec![claim("slow", 1)]).await });
    until("the old one works", || !old.driver.log().is_empty()).await;

    let new = node.serve(PACE, Some(NEW));
    let both = node.kubelet.instances(DRIVER, 2).await;
    assert_ne!(both[0].endpoint, both[1].endpoint);
    is_prepared(&node, 2).await;
    assert!(new.driver.log().contains(&"prepare ends good-2".to_owned()), "{:?}", new.driver.log());

    let (old_driver, old_files) = (Arc::clone(&old.driver), old.files());
    let ended = old.begin_to_stop();
    let left = node.kubelet.instances(DRIVER, 1).await;
    assert_eq!(left[0].endpoint, both[1].endpoint);
    until("its sockets are gone", || old_files.iter().all(|file| !file.exists())).await;
    is_prepared(&node, 3).await;
    assert!(!ended.is_finished(), "a claim is still being worked on");
    old_driver.gate.add_permits(1);
    let answer = in_time(under_way).await.expect("a task");
    assert_eq!(answer["slow-1"], Ok(vec![device("slow-1")]), "the call under way was finished");
    in_time(ended).await.expect("a task").expect("a clean end");
    assert!(new.files().iter().all(|file| file.exists()), "those of the new one stay");
    is_prepared(&node, 4).await;
}

/// Kubelet has given the call up, so nobody is connected: the work is finished before the process ends.
#[tokio::test]
async fn work_that_nobody_waits_for_is_finished_before_the_end() {
    let node = Node::new();
    let instance = node.serve(Pace { answer: Duration::from_millis(10), ..PACE }, None);
    let answer = prepare(&mut node.client().await, vec![claim("slow", 1)]).await;
    assert!(answer["slow-1"].is_err());
    node.kubelet.restart();
    let driver = Arc::clone(&instance.driver);
    let ended = instance.begin_to_stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!ended.is_finished());
    driver.gate.add_permits(1);
    in_time(ended).await.expect("a task").expect("a clean end");
    assert_eq!(driver.log(), ["prepare begins slow-1", "prepare ends slow-1"]);
}

#[tokio::test]
async fn work_that_never_ends_does_not_keep_the_process() {
    let node = Node::new();
    let pace = Pace { answer: Duration::from_millis(10), drain: Duration::from_millis(200), ..PACE };
    let instance = node.serve(pace, None);
    let answer = prepare(&mut node.client().await, vec![claim("slow", 1)]).await;
    assert!(answer["slow-1"].is_err());
    instance.stop().await;
}

#[tokio::test]
async fn sockets_of_dead_instances_go_and_all_others_stay() {
    let node = Node::new();
    let places = node.places(Some(OLD));
    std::fs::create_dir_all(places.folder()).expect("a folder");
    let (service, registration) = (places.service().expect("a path"), places.registration().expect("a path"));
    let single = node.places(None);
    let dead =
        [service, registration, single.service().expect("a path"), single.registration().expect("a path")];
    let others = [
        places.registry.join("gpu.carve.dev-mig-reg.sock"),
        places.registry.join("gpu.nvidia.com-reg.sock"),
        places.folder().join("metrics.sock"),
    ];
    for path in dead.iter().chain(&others) {
        drop(UnixListener::bind(path).expect("a socket"));
        assert!(path.exists(), "left behind, as by a process that was killed");
    }
    std::fs::write(places.folder().join("dra-00000000-0000-4000-8000-00000000000c.sock"), "no socket")
        .expect("a file");
    let alive = places.folder().join("dra-00000000-0000-4000-8000-00000000000d.sock");
    let _listens = UnixListener::bind(&alive).expect("a socket");

    let instance = node.serve(PACE, Some(NEW));
    until("the dead ones are gone", || dead.iter().all(|path| !path.exists())).await;
    wait_until_registered(&instance).await;
    // One that dies later is found as well.
    let late = node.places(Some(OLD)).registration().expect("a path");
    drop(UnixListener::bind(&late).expect("a socket"));
    until("the late one is gone", || !late.exists()).await;
    for path in others.iter().chain([&alive]).chain(&instance.files()) {
        assert!(path.exists(), "{path:?} is not a dead instance of this driver");
    }
    is_prepared(&node, 1).await;
}

#[tokio::test]
async fn what_can_not_be_served_is_told() {
    let node = Node::new();
    let end = |instance: Instance| async move { in_time(instance.begin_to_stop()).await.expect("a task") };

    let in_the_way = node.places(Some(NEW)).registration().expect("a path");
    std::fs::write(&in_the_way, "dear diary").expect("a file");
    let instance = node.serve(PACE, Some(NEW));
    let service = instance.files()[0].clone();
    let error = end(instance).await.expect_err("in the way").to_string();
    assert!(error.contains("is in the way and is not a socket; it is left alone"), "{error}");
    assert!(!service.exists(), "nothing stays behind");

    std::fs::remove_file(&in_the_way).expect("removed");
    std::fs::remove_dir(node.path().join("plugins_registry")).expect("removed");
    let error = end(node.serve(PACE, None)).await.expect_err("no registry");
    assert!(matches!(error, ServeError::NoRegistry(_)), "{error}");
    assert!(error.to_string().contains("mount it under the same path"), "{error}");

    let error = end(node.serve(PACE, Some("a/b"))).await.expect_err("a name that leads elsewhere");
    assert!(matches!(error, ServeError::Places(PlacesError::InstanceName(_))), "{error}");

    let file = node.path().join("plugins");
    std::fs::remove_dir_all(&file).expect("removed");
    std::fs::write(&file, "").expect("a file");
    let error = end(node.serve(PACE, None)).await.expect_err("no folder").to_string();
    assert!(error.starts_with("can not create the folder"), "{error}");
    assert_eq!(node.places(None), SocketPlaces::below(node.path(), DRIVER, None));
}
