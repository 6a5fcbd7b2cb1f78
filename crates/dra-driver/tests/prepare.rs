//! Claims made ready and taken back on a simulated node, in every way of using a GPU.

mod node;

use carve_dra::Claim;
use carve_dra_driver::{ContextMemory, PrepareError};
use carve_formats::cdi::Spec;
use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;
use carve_limiter_host::{Contexts, Counters, Limits, Share};
use carve_mig_manager::make_instance;
use node::{Node, claim, every_way, result, with_config};
use serde_json::json;

const MACHINE: &str = "h200-141gb:2";

fn spec(node: &Node, uid: &str) -> Spec {
    let path = node.path("cdi").join(format!("k8s.gpu.carve.dev-claim_{uid}.json"));
    Spec::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_way_comes_and_goes_and_leaves_nothing() {
    for (way, claim) in every_way() {
        let mut node = Node::new(MACHINE);
        let prepared = node.prepare(&claim).unwrap_or_else(|error| panic!("{way}: {error}"));
        assert_eq!(prepared.len(), claim.allocation.as_ref().unwrap().results.len(), "{way}");
        let spec = spec(&node, &claim.uid);
        for device in &prepared {
            assert_eq!(device.cdi_ids[0], "k8s.gpu.carve.dev/node=driver");
            let (_, name) = device.cdi_ids[1].split_once("/claim=").unwrap();
            let found = spec.devices.iter().find(|found| found.name == name);
            assert!(!found.unwrap().container_edits.device_nodes.is_empty(), "{way}: {name}");
        }
        assert_eq!(node.prepare(&claim).unwrap(), prepared, "{way}: asked again, the answer is the same");
        node.unprepare(&claim.uid).unwrap();
        node.unprepare(&claim.uid).unwrap();
        let swept = node.preparer().sweep(&mut node.host, &[]).unwrap();
        assert_eq!(swept.gone, Vec::<String>::new(), "{way}");
        assert_eq!(node.is_clean(), Ok(()), "{way}");
        let turns = node.turns.0.lock().unwrap().iter().map(|(_, interval)| *interval).collect::<Vec<_>>();
        assert_eq!(turns, if way == "turns" { vec![3, 0] } else { Vec::new() }, "{way}");
    }
}

#[test]
fn what_the_container_is_told_is_what_the_claim_asked_for() {
    let mut node = Node::new(MACHINE);
    let amounts = &[("memory", "5Gi"), ("compute", "25")];
    node.prepare(&claim("a", vec![result("r", "gpu-0-frac", Some("s1"), amounts)])).unwrap();
    let part = node.host.gpus().unwrap()[0].uuid.0.clone();
    let edits = spec(&node, "a").devices[0].container_edits.clone();
    assert_eq!(edits.mounts[0].container_path, format!("/run/carve/limits/{part}/s1"));
    assert_eq!(edits.mounts[0].host_path, format!("/host/limits/a/limits/{part}/s1"));
    assert!(edits.mounts[0].options.contains(&"ro".to_owned()));
    assert_eq!(edits.mounts[1].container_path, format!("/run/carve/usage/{part}/s1"));
    assert_eq!(edits.mounts[1].host_path, format!("/host/limits/a/usage/{part}/s1"));
    assert!(edits.mounts[1].options.contains(&"rw".to_owned()));
    let share = Share::open(&node.path("limits").join("a"), &part, "s1").unwrap();
    assert_eq!(share.counters().unwrap(), Counters::default());
    let limits = *share.limits();
    assert_eq!(
        limits,
        Limits { memory: 5 << 30, compute: 2_500, context: 0, burst: false, pass: false, mps: false }
    );

    let over_mps = with_config(
        claim("b", vec![result("r", "gpu-1-mps", Some("s2"), amounts)]),
        &["r"],
        json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
               "sharing": {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 10}}}),
    );
    node.prepare(&over_mps).unwrap();
    let env = spec(&node, "b").devices[0].container_edits.env.clone();
    assert!(env.contains(&"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=5120M".to_owned()), "{env:?}");
    assert!(env.contains(&"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10".to_owned()), "{env:?}");
    let daemons = node.preparer().daemons().unwrap();
    let limits = daemons.values().next().unwrap();
    assert_eq!(limits.active_thread_percentage, 100, "the daemon is for all claims of the GPU");
    assert!(limits.pinned_memory.0 > 140_000, "{limits:?}");
    node.unprepare("b").unwrap();
    assert!(node.preparer().daemons().unwrap().is_empty());
}

#[test]
fn a_share_contains_what_a_context_takes_and_one_that_has_no_room_for_it_is_refused() {
    let mut node = Node::new(MACHINE);
    let gpus = node.host.gpus().unwrap();
    let fraction = |uid: &str, device: &str, memory: &str| {
        claim(uid, vec![result("r", device, Some(uid), &[("memory", memory), ("compute", "10")])])
    };
    let context = |node: &Node, uid: &str| {
        let part = node.names(&format!("limits/{uid}/limits")).remove(0);
        Share::open(&node.path("limits").join(uid), &part, uid).unwrap().limits().context
    };
    let contexts = Contexts::new(&node.path("contexts"), "570.86.15");
    node.context = ContextMemory::Measured(contexts.clone());
    // Nobody has measured yet, and nobody waits for it.
    node.prepare(&fraction("a", "gpu-0-frac", "300Mi")).unwrap();
    assert_eq!(context(&node, "a"), 0);
    contexts.remember(&gpus[0].uuid.0, 526 << 20).unwrap();
    let refused = node.prepare(&fraction("b", "gpu-0-frac", "526Mi")).unwrap_err().to_string();
    let words = ["claim team/claim-b", "gpu-0-frac", "526 MiB", "each process", "ask for more memory"];
    assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    assert!(!node.names("state/claims").contains(&"b.json".to_owned()));
    node.prepare(&fraction("b", "gpu-0-frac", "527Mi")).unwrap();
    assert_eq!(context(&node, "b"), 526 << 20);
    // What goes on already is not refused when kubelet asks again, also where its record is lost.
    std::fs::remove_file(node.path("state/claims/a.json")).unwrap();
    let again = fraction("a", "gpu-0-frac", "300Mi");
    node.unprepare("b").unwrap();
    node.prepare(&again).unwrap();
    // Another GPU is another matter, and so is an instance, unless somebody says what it takes.
    node.prepare(&fraction("c", "gpu-1-mig-2g35gb-14-4-frac", "300Mi")).unwrap();
    contexts.remember(&gpus[1].uuid.0, 526 << 20).unwrap();
    node.prepare(&fraction("c", "gpu-1-mig-2g35gb-14-4-frac", "300Mi")).unwrap();
    assert_eq!(context(&node, "c"), 0);
    node.context = ContextMemory::Told(200 << 20);
    node.prepare(&fraction("d", "gpu-1-mig-2g35gb-14-2-frac", "300Mi")).unwrap();
    assert_eq!(context(&node, "d"), 200 << 20);
    assert!(node.prepare(&fraction("e", "gpu-1-mig-1g18gb-19-6-frac", "200Mi")).is_err());
}

/// What each way of asking for MPS puts into the file of limits: memory in MiB, percent, and what MPS itself is told.
#[test]
fn claims_over_mps_are_counted_where_there_is_a_limiter() {
    let sharing = |kind: &str, mps: serde_json::Value| {
        json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind,
               "sharing": {"strategy": "MPS", "mpsConfig": mps}})
    };
    let amounts = &[("memory", "5Gi"), ("compute", "25")];
    let share = || claim("a", vec![result("r", "gpu-0-mps", Some("s1"), amounts)]);
    let alone = || claim("a", vec![result("r", "gpu-0", None, &[])]);
    let mig = || claim("a", vec![result("r", "gpu-0-mig-2g35gb-14-4", None, &[])]);
    let each = json!({"defaultPinnedDeviceMemoryLimit": "2Gi", "defaultActiveThreadPercentage": 10});
    let whole = {
        let host = Node::new(MACHINE).host;
        (host.gpus().unwrap()[0].memory.0 - host.memory(GpuIndex(0)).unwrap().reserved.0) >> 20
    };
    let cases = [
        ("a share", share(), 5_120, 25),
        // Each client is held to less than the claim has: that is the daemon's business.
        (
            "a share for small clients",
            with_config(share(), &[], sharing("GpuConfig", each.clone())),
            5_120,
            10,
        ),
        ("all of a GPU", with_config(alone(), &[], sharing("GpuConfig", json!({}))), whole, 100),
        ("all of a GPU for small clients", with_config(alone(), &[], sharing("GpuConfig", each)), whole, 10),
        ("an instance", with_config(mig(), &[], sharing("MigDeviceConfig", json!({}))), 33_280, 100),
    ];
    for (what, claim, memory, percent) in cases {
        let mut node = Node::new(MACHINE);
        node.context = ContextMemory::Told(526 << 20);
        node.prepare(&claim).unwrap();
        let bare = spec(&node, "a");
        assert_eq!(node.names("limits"), Vec::<String>::new(), "{what}: nothing counts without a limiter");
        // What is ready stays as it is, also when the next agent has a limiter.
        node.limiter = Some("/host/libcarve_limiter.so".into());
        node.prepare(&claim).unwrap();
        assert_eq!(spec(&node, "a"), bare, "{what}");
        node.unprepare("a").unwrap();

        node.prepare(&claim).unwrap();
        let record = node.preparer().records().unwrap().claims.remove("a").unwrap();
        let (device, part) = (&record.devices[0], record.devices[0].part.clone().unwrap());
        let limits =
            *Share::open(&node.path("limits").join("a"), &part, device.share_name()).unwrap().limits();
        assert_eq!(
            limits,
            Limits {
                memory: memory << 20,
                compute: percent * 100,
                context: 0,
                burst: false,
                pass: true,
                mps: true
            },
            "{what}"
        );
        let edits = spec(&node, "a").devices[0].container_edits.clone();
        assert_eq!(edits.env, bare.devices[0].container_edits.env, "{what}: MPS is told the same");
        let at = |path: &str| edits.mounts.iter().filter(|mount| mount.container_path == path).count();
        let (share, daemon) = (format!("{part}/{}", device.share_name()), format!("/mps/{part}/pipe"));
        let (limits, usage) = (format!("/run/carve/limits/{share}"), format!("/run/carve/usage/{share}"));
        for path in [&daemon, &limits, &usage, "/run/carve/libcarve_limiter.so", "/etc/ld.so.preload"] {
            assert_eq!(at(path), 1, "{what}: {path}: {:?}", edits.mounts);
        }
        node.unprepare("a").unwrap();
        node.preparer().sweep(&mut node.host, &[]).unwrap();
        assert_eq!(node.is_clean(), Ok(()), "{what}");
    }
}

#[test]
fn shares_of_an_instance_keep_it_until_the_last_one_goes() {
    let mut node = Node::new(MACHINE);
    let amounts = &[("memory", "4Gi"), ("compute", "25")];
    let share = |uid: &str, share: &str| {
        claim(uid, vec![result("r", "gpu-0-mig-2g35gb-14-4-frac", Some(share), amounts)])
    };
    node.prepare(&share("a", "s1")).unwrap();
    node.prepare(&share("b", "s2")).unwrap();
    let instances = |node: &Node| node.host.gpu_instances(GpuIndex(0)).unwrap().len();
    assert_eq!(instances(&node), 1);
    node.unprepare("a").unwrap();
    assert_eq!(instances(&node), 1);
    node.unprepare("b").unwrap();
    assert_eq!(instances(&node), 0);
}

#[test]
fn two_requests_on_one_device_have_limits_of_their_own() {
    let mut node = Node::new(MACHINE);
    let twice = claim(
        "a",
        vec![
            result("x", "gpu-0-frac", Some("s1"), &[("memory", "4Gi"), ("compute", "25")]),
            result("y", "gpu-0-frac", Some("s2"), &[("memory", "8Gi"), ("compute", "50")]),
        ],
    );
    let prepared = node.prepare(&twice).unwrap();
    assert_ne!(prepared[0].cdi_ids, prepared[1].cdi_ids);
    let part = node.host.gpus().unwrap()[0].uuid.0.clone();
    let read = |share: &str| *Share::open(&node.path("limits").join("a"), &part, share).unwrap().limits();
    assert_eq!((read("s1").memory, read("s2").memory), (4 << 30, 8 << 30));
}

#[test]
fn what_another_claim_has_is_refused_with_its_name() {
    let amounts = &[("memory", "4Gi"), ("compute", "25")];
    let cases = [
        ("gpu-0", None, "gpu-0", None, true),
        ("gpu-0", None, "gpu-0-frac", Some("s2"), true),
        ("gpu-0-frac", Some("s1"), "gpu-0-frac", Some("s2"), false),
        ("gpu-0-frac", Some("s1"), "gpu-0-frac", Some("s1"), true),
        ("gpu-0-frac", Some("s1"), "gpu-0-mps", Some("s2"), true),
        ("gpu-0-frac", Some("s1"), "gpu-0-mig-1g18gb-19-6", None, true),
        ("gpu-0-mig-1g18gb-19-6", None, "gpu-0-mig-1g18gb-19-5", None, false),
        ("gpu-0-mig-1g18gb-19-6", None, "gpu-0-mig-1g18gb-19-6-frac", Some("s2"), true),
        ("gpu-0-mig-1g18gb-19-6", None, "gpu-1", None, false),
    ];
    for (first, share, second, other, refused) in cases {
        let mut node = Node::new(MACHINE);
        node.prepare(&claim("a", vec![result("r", first, share, amounts)])).unwrap();
        let outcome = node.prepare(&claim("b", vec![result("r", second, other, amounts)]));
        match outcome {
            Err(error @ PrepareError::Taken { .. }) => {
                assert!(refused, "{first} and {second}: {error}");
                assert!(error.to_string().contains("team/claim-a"), "{error}");
            }
            Err(error) => panic!("{first} and {second}: {error}"),
            Ok(_) => assert!(!refused, "{first} and {second} were both given"),
        }
        // A monitor may look at what others use.
        let mut watch = result("r", second, None, &[]);
        watch.admin = true;
        node.prepare(&claim("c", vec![watch])).unwrap();
        node.unprepare("c").unwrap();
        assert_eq!(node.preparer().records().unwrap().claims.len(), if refused { 1 } else { 2 });
    }
}

#[test]
fn errors_name_the_claim_and_what_to_do() {
    let mut node = Node::new(MACHINE);
    let mut refuse = |claim: &carve_dra::Claim| node.prepare(claim).unwrap_err().to_string();
    let mut unallocated = claim("a", Vec::new());
    unallocated.allocation = None;
    let texts = [
        refuse(&unallocated),
        refuse(&claim("a", vec![result("r", "gpu-9", None, &[])])),
        refuse(&claim("a", vec![result("r", "something", None, &[])])),
        refuse(&claim("a", vec![result("r", "gpu-0-frac", Some("s"), &[])])),
        refuse(&with_config(claim("a", vec![result("r", "gpu-0", None, &[])]), &["r"], json!({}))),
        refuse(&with_config(
            claim("a", vec![result("r", "gpu-0-mig-1g18gb-19-6", None, &[])]),
            &["r"],
            json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}),
        )),
        refuse(&claim(
            "a",
            vec![
                result("r", "gpu-0-mig-1g18gb-19-3", None, &[]),
                result("q", "gpu-0-mig-3g71gb-9-0", None, &[]),
            ],
        )),
    ];
    for text in &texts {
        assert!(text.contains("team/claim-a"), "{text}");
    }
    assert!(texts[4].contains("apiVersion"), "{}", texts[4]);
    assert!(texts[5].contains("MigDeviceConfig"), "{}", texts[5]);
    assert!(texts[6].contains("in the way"), "{}", texts[6]);
}

#[test]
fn instances_that_somebody_else_made_are_left_alone_and_named() {
    let mut node = Node::new(MACHINE);
    let gpu = node.host.gpus().unwrap()[0].uuid.clone();
    let dir = carve_mig_manager::StateDir::new(node.path("state"));
    make_instance(&mut node.host, &dir, &gpu, carve_gpu_model::ProfileId(19), 3).unwrap();
    let preparer = node.preparer();
    assert_eq!(preparer.foreign(&node.host).len(), 1);
    preparer.sweep(&mut node.host, &[]).unwrap();
    assert_eq!(node.host.gpu_instances(GpuIndex(0)).unwrap().len(), 1);
    let refused = node.prepare(&claim("a", vec![result("r", "gpu-0", None, &[])])).unwrap_err().to_string();
    assert!(refused.contains("still holds 1 MIG instance"), "{refused}");
}

#[test]
fn an_instance_that_went_with_its_gpu_is_missed_until_its_claim_goes() {
    let mut node = Node::new(MACHINE);
    let mig = claim("a", vec![result("r", "gpu-0-mig-1g18gb-19-6", None, &[])]);
    node.prepare(&mig).unwrap();
    node.prepare(&claim(
        "b",
        vec![result("r", "gpu-1-frac", Some("s1"), &[("memory", "5Gi"), ("compute", "25")])],
    ))
    .unwrap();
    assert_eq!(node.preparer().vanished(&node.host).unwrap(), []);
    node.host.lose(GpuIndex(0));
    assert_eq!(node.preparer().vanished(&node.host).unwrap(), [], "nobody knows how it comes back");
    node.host.find_again(GpuIndex(0));
    let missed = node.preparer().vanished(&node.host).unwrap();
    let [only] = &missed[..] else { panic!("{missed:?}") };
    assert_eq!((only.claim.as_str(), only.place.start), ("team/claim-a", 6));
    assert_eq!(only.gpu, node.host.gpus().unwrap()[0].uuid);
    node.unprepare("a").unwrap();
    assert_eq!(node.preparer().vanished(&node.host).unwrap(), []);
    node.prepare(&mig).unwrap();
    assert_eq!(node.preparer().vanished(&node.host).unwrap(), []);
}

#[test]
fn after_a_reboot_claims_are_made_anew() {
    let mut node = Node::new(MACHINE);
    let mig = claim("a", vec![result("r", "gpu-0-mig-1g18gb-19-6", None, &[])]);
    node.prepare(&mig).unwrap();
    // A reboot erases instances and what is in memory.
    let mut after = Node::new(MACHINE);
    after.boot = "boot-2".to_owned();
    std::fs::create_dir_all(after.path("state/claims")).unwrap();
    for name in node.names("state/claims") {
        std::fs::copy(node.path("state/claims").join(&name), after.path("state/claims").join(&name)).unwrap();
    }
    assert!(after.preparer().records().unwrap().claims.is_empty());
    after.prepare(&mig).unwrap();
    assert_eq!(after.host.gpu_instances(GpuIndex(0)).unwrap().len(), 1);
}

/// A record that does not read, of a claim whose pod runs: what the node has stays as it is, and the record is written anew from the claim.
#[test]
fn a_lost_record_is_told_and_written_anew_and_no_daemon_is_ended_before() {
    for (way, claim) in every_way() {
        let mut node = Node::new(MACHINE);
        let prepared = node.prepare(&claim).unwrap();
        let daemons = node.preparer().daemons().unwrap();
        let before = node.preparer().records().unwrap().claims;
        let path = node.path("state").join("claims").join(format!("{}.json", claim.uid));
        std::fs::write(&path, "{ not json").unwrap();

        let preparer = node.preparer();
        // Whoever reads first does not tell.
        let refused = preparer.daemons().unwrap_err().to_string();
        assert!(refused.contains("was lost"), "{way}: {refused}");
        assert!(preparer.records().unwrap().troubles.is_empty(), "{way}: it is put aside already");
        let troubles = preparer.troubles();
        assert!(troubles.len() == 1 && troubles[0].contains("does not read"), "{way}: {troubles:?}");
        assert!(preparer.troubles().is_empty(), "{way}: told once");
        assert!(preparer.has_strays().unwrap(), "{way}");
        let swept = preparer.sweep(&mut node.host, std::slice::from_ref(&claim)).unwrap();
        assert_eq!(swept.cleared, Vec::<String>::new(), "{way}: its pods may run");

        let other = Claim { uid: "other".to_owned(), ..claim.clone() };
        let lost = preparer.lost(vec![other, claim.clone()]).unwrap();
        assert_eq!(lost, std::slice::from_ref(&claim), "{way}");
        assert_eq!(node.prepare(&claim).unwrap(), prepared, "{way}");
        assert_eq!(node.preparer().records().unwrap().claims, before, "{way}: the same parts");
        assert_eq!(node.preparer().daemons().unwrap(), daemons, "{way}");
        node.unprepare(&claim.uid).unwrap();
        node.preparer().sweep(&mut node.host, &[]).unwrap();
        std::fs::remove_file(path.with_extension("corrupt")).unwrap();
        assert_eq!(node.is_clean(), Ok(()), "{way}");
    }
}
