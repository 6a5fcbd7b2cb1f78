//! The scheduler road, whole: pods in anyone's words are admitted by the webhook, placed by a second stock scheduler that asks the controller,
//! and started by a real kubelet with the part that was decided; and nobody gets around it.

use carve_cluster_tests::{
    AgentOnNode, Cluster, ControlPlane, GpuNode, Namespace, PATIENCE, limiter_library,
};
use carve_lab::{Image, Programs};
use serde_json::{Value, json};
use std::path::Path;

const IMAGE: &str = "localhost/takes:2";

/// A pod with a program that takes memory, in the words of a dialect.
fn pod(node: &GpuNode, name: &str, annotations: Value, limits: Value) -> String {
    let folder = node.machine_folder().display().to_string();
    let env = json!([{"name": "CARVE_SIM_STATE", "value": "/machine/machine.json"}, {"name": "CARVE_SIM_DEV", "value": "/dev"}]);
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sleep", "infinity"], "env": env,
                "resources": {"limits": limits}, "volumeMounts": [{"name": "machine", "mountPath": "/machine"}],
            }],
            "volumes": [{"name": "machine", "hostPath": {"path": folder}}],
        },
    })
    .to_string()
}

/// What a pod was given: GPU, MiB and tenths of a percent of each part.
fn given(namespace: &Namespace, name: &str) -> Vec<(String, u64, u64)> {
    let pod = namespace.get(&["pod", name]);
    let text = pod["metadata"]["annotations"]["carve.dev/slices"].as_str().unwrap_or("null").to_owned();
    let slices: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let containers = slices["containers"].as_array().cloned().unwrap_or_default();
    let parts =
        containers.iter().flat_map(|container| container["slices"].as_array().cloned().unwrap_or_default());
    parts
        .map(|part| {
            let gpu = part["gpu"].as_str().unwrap_or_default().to_owned();
            (gpu, part["memory"].as_u64().unwrap_or(0), part["compute"].as_u64().unwrap_or(0))
        })
        .collect()
}

#[test]
fn a_part_is_admitted_placed_and_held() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "parts", "a100-40gb:2") else { return };
    let image = Image::new(IMAGE).program(Path::new(env!("CARGO_BIN_EXE_takes_memory")), "/takes-memory");
    let image = image.and_then(|image| image.program(Path::new("/bin/sleep"), "/bin/sleep"));
    cluster.import(&image.unwrap_or_else(|error| panic!("{error:#}")));
    let namespace = cluster.namespace("parts");
    let library = library.display().to_string();
    let agent = node.start_agent(&namespace, &[("CARVE_SLICES", "true"), ("CARVE_LIMITER", &library)]);
    let Some(plane) = ControlPlane::start(&cluster, &namespace, "scheduler") else { return };
    agent.offers("carve.dev/slice", 32);
    let tenants = cluster.namespace("parts-tenants");
    let hami = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"});
    for (name, annotations, limits) in [
        ("hami-1", json!({}), hami.clone()),
        ("hami-2", json!({}), hami.clone()),
        ("kai", json!({"gpu-fraction": "0.5"}), json!({})),
        (
            "volcano",
            json!({}),
            json!({"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "2048", "volcano.sh/vgpu-cores": "10"}),
        ),
        ("ours", json!({}), json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "20"})),
    ] {
        tenants.apply(&pod(&node, name, annotations, limits));
    }
    for name in ["hami-1", "hami-2", "kai", "volcano", "ours"] {
        let runs = || tenants.phase(name) == "Running";
        cluster.until_or(&format!("{name} runs"), PATIENCE, runs, || {
            format!("{}\n{}", plane.said(), agent.log())
        });
    }
    let [(_, memory, compute)] = given(&tenants, "hami-1")[..] else { panic!("one part") };
    assert_eq!((memory, compute), (3_000, 300));
    let volcano = given(&tenants, "volcano");
    assert!(volcano.len() == 2 && volcano[0].0 != volcano[1].0, "two parts of different GPUs: {volcano:?}");
    // In words, for people.
    let told = plane.explain(&tenants, "hami-1");
    assert!(told.contains("runs on node0") && told.contains("3000 MiB and 30 % of GPU-"), "{told}");
    tenants.apply(&pod(
        &node,
        "large",
        json!({}),
        json!({"carve.dev/gpu-memory": "40000", "carve.dev/gpu-compute": "90"}),
    ));
    cluster.until("the large one has a reason", PATIENCE, || {
        plane.explain(&tenants, "large").contains("scheduler says")
    });
    let told = plane.explain(&tenants, "large");
    for words in ["waits for a node", "does not fit", "most left", "leads"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("%!"), "the scheduler takes reasons for formats: {told}");
    println!("{told}");
    // What is promised is what a program gets: 3000 MiB, and not one more.
    let taken = tenants.exec("hami-1", &["/takes-memory"]);
    let numbers: Vec<u64> = taken.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // In steps of 64 MiB, less what the driver takes for the program itself: that stands in the limits, once it was measured.
    let uid = tenants.get(&["pod", "hami-1"])["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let limits = format!("od -A n -t u8 -j 32 -N 8 /run/carve/limits/{uid}/limits/*/*");
    let context: u64 = cluster.on_node(&["sh", "-c", &limits]).trim().parse().expect("what a context takes");
    let got = ((3_000 << 20) - context) / (64 << 20) * 64;
    assert_eq!(numbers[..2], [3_000, got], "context of {context} bytes");
    // The node tells of it as of shares of claims.
    let told = |name: &str, value: &str| {
        let metrics = agent.metrics();
        let start = format!("carve_agent_{name}{{");
        let about = |line: &&str| line.starts_with(&start) && line.contains("pod=\"hami-1\"");
        metrics.lines().find(about).is_some_and(|line| line.ends_with(value))
    };
    agent.until("the series of a part", || {
        told("share_memory_limit_bytes", &format!(" {}", 3000_u64 << 20))
            && told("share_memory_denials_total", " 1")
    });
    one_after_the_other(&cluster, &node, &tenants, &agent);
}

/// An init container, and two containers after it of which the first has its token: each has its own part.
fn one_after_the_other(cluster: &Cluster, node: &GpuNode, tenants: &Namespace, agent: &AgentOnNode<'_>) {
    let part = |memory: &str| json!({"carve.dev/gpu-memory": memory, "carve.dev/gpu-compute": "10"});
    let text = pod(node, "stages", json!({}), part("2000"));
    let mut pod: Value = serde_json::from_str(&text).expect("a pod");
    let named = |name: &str, memory: &str| {
        let mut container = pod["spec"]["containers"][0].clone();
        container["name"] = name.into();
        container["resources"]["limits"] = part(memory);
        container
    };
    let mut load = named("load", "6000");
    load["command"] = json!(["/takes-memory"]);
    let beside = named("beside", "1000");
    pod["spec"]["initContainers"] = json!([load]);
    pod["spec"]["containers"].as_array_mut().expect("containers").push(beside);
    tenants.apply(&pod.to_string());
    let runs = || tenants.phase("stages") == "Running";
    cluster.until_or("all of them run", PATIENCE, runs, || agent.log());
    let here = ["-n", tenants.name(), "stages", "-c"];
    let first = |words: &[&str]| {
        let said = cluster.kubectl(words);
        said.split_whitespace().next().unwrap_or_default().to_owned()
    };
    // What a container wrote last may reach its log after its end, and what it wrote to either side in any order.
    let load = || cluster.kubectl(&[&["logs"], &here[..], &["load"]].concat());
    let found = || load().lines().any(|line| line.starts_with("6000 "));
    cluster.until_or("the init container says what it saw", PATIENCE, found, load);
    for (container, memory) in [("main", "2000"), ("beside", "1000")] {
        let told = first(&[&["exec"], &here[..], &[container, "--", "/takes-memory"]].concat());
        assert_eq!(told, memory, "{container}");
    }
    tenants.delete_pods();
    agent.until("nothing is left of pods that are gone", || cluster.folders_of_pods("node0").is_empty());
}

/// A pod that asks for a part and does something else besides.
fn asking(name: &str, change: impl Fn(&mut Value)) -> String {
    let limits = json!({"carve.dev/gpu-memory": "1024", "carve.dev/gpu-compute": "10"});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": {"a": "b"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [
            {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "resources": {"limits": limits}},
        ]},
    });
    change(&mut pod);
    pod.to_string()
}

#[test]
fn nobody_gets_around_it() {
    let Some(cluster) = Cluster::connect() else { return };
    let namespace = cluster.namespace("around");
    let Some(mut plane) = ControlPlane::start(&cluster, &namespace, "scheduler") else { return };
    let tenants = cluster.namespace("around-tenants");
    let env = |name: &str, value: &str| json!([{"name": name, "value": value}]);
    let host = |path: &str| json!([{"name": "v", "hostPath": {"path": path}}]);
    type Change<'a> = Box<dyn Fn(&mut Value) + 'a>;
    let refused: Vec<(&str, Change<'_>, &str)> = vec![
        (
            "env-limit",
            Box::new(|pod| {
                pod["spec"]["containers"][0]["env"] = env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")
            }),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        ),
        (
            "hami-env",
            Box::new(|pod| pod["spec"]["containers"][0]["env"] = env("CUDA_DEVICE_MEMORY_LIMIT_0", "80g")),
            "CUDA_DEVICE_MEMORY_LIMIT_0",
        ),
        (
            "visible",
            Box::new(|pod| pod["spec"]["containers"][0]["env"] = env("NVIDIA_VISIBLE_DEVICES", "all")),
            "NVIDIA_VISIBLE_DEVICES",
        ),
        ("node-name", Box::new(|pod| pod["spec"]["nodeName"] = json!("node0")), "spec.nodeName"),
        (
            "privileged",
            Box::new(|pod| pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true})),
            "privileged",
        ),
        ("host-limits", Box::new(|pod| pod["spec"]["volumes"] = host("/run/carve")), "/run/carve"),
        ("host-cdi", Box::new(|pod| pod["spec"]["volumes"] = host("/var/run/cdi")), "hostPath"),
        ("host-root", Box::new(|pod| pod["spec"]["volumes"] = host("/")), "hostPath"),
        ("host-pid", Box::new(|pod| pod["spec"]["hostPID"] = json!(true)), "hostPID"),
        (
            "preload",
            Box::new(|pod| {
                pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
                pod["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "v", "mountPath": "/etc/ld.so.preload"}]);
            }),
            "/etc/ld.so.preload",
        ),
    ];
    for (name, change, words) in &refused {
        let error = tenants.try_apply(&asking(name, change)).expect_err(name);
        assert!(error.contains(words) && error.contains("denied the request"), "{name}: {error}");
    }
    // What is taken out.
    tenants.apply(&asking("neutral", |pod| {
        pod["spec"]["schedulerName"] = json!("default-scheduler");
        pod["metadata"]["annotations"]["carve.dev/slices"] = json!("everything");
        pod["metadata"]["labels"] = json!({"carve.dev/admitted": "claims"});
    }));
    let pod = tenants.get(&["pod", "neutral"]);
    assert_eq!(pod["spec"]["schedulerName"], "carve-scheduler");
    assert_ne!(pod["metadata"]["annotations"]["carve.dev/slices"], "everything", "{pod:#}");
    assert_eq!(pod["metadata"]["labels"]["carve.dev/admitted"], "scheduler");
    let env = pod["spec"]["containers"][0]["env"].clone();
    assert_eq!(env, json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]), "whatever the image says");

    // What was decided does not change, by whichever door.
    let slices = r#"{"metadata": {"annotations": {"carve.dev/slices": "everything"}}}"#;
    let label = r#"{"metadata": {"labels": {"carve.dev/admitted": null}}}"#;
    let here = ["-n", tenants.name(), "--type=merge", "-p"];
    for (subresource, patch) in [(None, slices), (Some("--subresource=status"), slices), (None, label)] {
        let words: Vec<&str> =
            ["patch", "pod", "neutral"].into_iter().chain(subresource).chain(here).chain([patch]).collect();
        let error = cluster.try_kubectl(&words, None).expect_err(patch);
        assert!(error.contains("decided when it is created"), "{subresource:?} {patch}: {error}");
    }
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": IMAGE, "securityContext": {"privileged": true}}]}});
    let words = [
        "patch",
        "pod",
        "neutral",
        "-n",
        tenants.name(),
        "--subresource=ephemeralcontainers",
        "-p",
        &debug.to_string(),
    ];
    let error = cluster.try_kubectl(&words, None).expect_err("a privileged debug container");
    assert!(error.contains("privileged"), "{error}");
    // Everything else about an admitted pod changes as ever.
    cluster.kubectl(&["annotate", "pod", "neutral", "-n", tenants.name(), "seen=yes"]);

    // Objects that pods are made after are told what is wrong with them.
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"}, "spec": {
        "selector": {"matchLabels": {"app": "many"}},
        "template": {"metadata": {"labels": {"app": "many"}}, "spec": {"containers": [
            {"name": "main", "image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": "0.5"}}}]}}}});
    let error = tenants.try_apply(&deployment.to_string()).expect_err("half a GPU");
    assert!(error.contains("spec.template.spec.containers[0]") && error.contains("gpu-fraction"), "{error}");

    quotas_hold(&cluster);

    // Without the controller nothing that asks for parts comes in, and everything else does.
    plane.kill_controller();
    let error = tenants.try_apply(&asking("closed", |_| {})).expect_err("fails closed");
    assert!(error.contains("failed calling webhook"), "{error}");
    let whole = asking("whole", |pod| {
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"})
    });
    tenants.apply(&whole);
    tenants.apply(&asking("plain", |pod| pod["spec"]["containers"][0]["resources"] = json!({})));
    cluster.kubectl(&["annotate", "pod", "neutral", "-n", tenants.name(), "seen=again", "--overwrite"]);
    cluster.kubectl(&["delete", "pod", "neutral", "-n", tenants.name(), "--wait=false"]);
    plane.start_controller();
    plane.wait_until_ready();
    tenants.apply(&asking("open", |_| {}));
}

/// Quotas count what a pod comes to, whosever words it is in: in those words, and in ours for all of them together.
fn quotas_hold(cluster: &Cluster) {
    let words = |name: &str, limits: Value| {
        asking(name, |pod| pod["spec"]["containers"][0]["resources"]["limits"] = limits.clone())
    };
    let hami = |name: &str| words(name, json!({"nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "10"}));
    for (number, quota) in ["requests.nvidia.com/gpumem", "requests.carve.dev/memory"].into_iter().enumerate()
    {
        let namespace = cluster.namespace(&format!("around-quota-{number}"));
        let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": {quota: "5000"}}});
        namespace.apply(&object.to_string());
        cluster.until("the quota counts", PATIENCE, || {
            namespace.get(&["resourcequota", "gpus"])["status"]["hard"][quota].is_string()
        });
        namespace.apply(&hami("first"));
        let error = namespace.try_apply(&hami("second")).expect_err(quota);
        assert!(error.contains("exceeded quota") && error.contains(quota), "{quota}: {error}");
    }
}
