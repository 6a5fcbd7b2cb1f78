//! From NVIDIA's plugin to the agent and back, with pods that run through it all.

use carve_cluster_tests::{Cluster, GpuNode, Incumbents, PATIENCE, Pod, Program};

const GPU: &str = "nvidia.com/gpu";

#[test]
fn pods_run_on_while_the_node_changes_hands_and_back() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "switch-over", "h200-141gb:4") else { return };
    let Some(incumbents) = Incumbents::locate() else { return };
    let incumbent =
        || node.start_incumbent(&incumbents, Program::DevicePlugin, &[("PASS_DEVICE_SPECS", "true")]);
    let mut theirs = incumbent();
    let namespace = cluster.namespace("switch-over");
    let offers = |count: u64| {
        let what = format!("the node offers {count} GPUs");
        cluster.until(&what, PATIENCE, || cluster.allocatable(GPU) == Some(count));
    };
    let run = |name: &str| {
        namespace.apply(&Pod::sleeping(&cluster, name).limit(GPU, "1").manifest());
        namespace.wait_for_phase(name, "Running");
    };
    // The GPU of a pod, by its device node: both plugins give one, each in its own way.
    let gpu_of = |name: &str| {
        let devices = namespace.exec(name, &["/bin/ls", "/dev"]);
        let number = |line: &str| line.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok());
        devices.lines().find(|line| number(line)).map(str::to_owned)
    };
    offers(4);
    run("theirs");

    // Somebody serves already: the agent says so and waits.
    let agent = node.start_agent_unready(&namespace, &[]);
    let aside = || {
        let events = cluster.get(&["events", "-n", "default", "--field-selector=reason=AnotherPlugin"]);
        events["items"].as_array().is_some_and(|items| !items.is_empty())
    };
    agent.until("the agent tells that it stands aside", aside);
    assert!(!agent.log().contains("registered"), "it does not register: {}", agent.log());
    offers(4);

    // The other one goes, and the agent takes over by itself.
    theirs.kill();
    agent.wait_until_ready();
    offers(4);
    run("ours");
    assert_eq!(namespace.phase("theirs"), "Running");

    // And back.
    agent.remove();
    let theirs_again = incumbent();
    offers(4);
    run("theirs-again");
    for pod in ["theirs", "ours", "theirs-again"] {
        assert_eq!(namespace.phase(pod), "Running", "{pod}");
    }
    let gpus: Vec<Option<String>> =
        ["theirs", "ours", "theirs-again"].iter().map(|pod| gpu_of(pod)).collect();
    assert!(gpus.iter().all(Option::is_some), "{gpus:?}");
    let distinct: std::collections::BTreeSet<_> = gpus.iter().collect();
    assert_eq!(distinct.len(), 3, "no GPU was handed out twice: {gpus:?}");

    // Told to take over, the agent does not wait for the other to go.
    let agent = node.start_agent(&namespace, &[("CARVE_TAKE_OVER", "true")]);
    run("taken-over");
    let gpu = gpu_of("taken-over");
    assert!(gpu.is_some() && !gpus.contains(&gpu), "{gpu:?} of {gpus:?}");
    drop(theirs_again);
    agent.remove();
}
