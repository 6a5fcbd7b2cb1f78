//! A node is drawn by whoever knows most of it, and whoever does not answer is said.

use super::super::answers::Answers;
use super::super::objects::Objects;
use super::compose;
use carve_bookings::{Book, Booking, Gpu, Offer, PodUid, Slices};
use carve_fleet_picture::{GpuPicture, GpuState, Mechanism, NodePicture, Picture, Slice};
use carve_gpu_model::{GpuUuid, Mebibytes, Product};
use carve_repartition::{GpuReport, Instance, InstanceReport, NodeReport, OrderReport, OrderState};
use serde_json::{Value, json};

#[derive(Default)]
struct Bench {
    objects: Objects,
    answers: Answers,
    book: Book,
}

impl Bench {
    fn compose(&mut self, at: i64) -> Picture {
        compose(at, &mut self.objects, &self.answers, &self.book)
    }

    fn answer(&mut self, at: i64, node: &str, answer: Result<NodePicture, &str>) {
        let answer = answer.map_err(str::to_owned);
        self.answers.take(at, vec![(node.to_owned(), answer)], &mut self.objects.happenings);
    }

    fn agent(&mut self, node: &str) {
        self.objects.agent_seen(&json!({
            "metadata": {"name": "agent", "namespace": "carve", "uid": node}, "spec": {"nodeName": node},
        }));
    }
}

fn offer() -> Offer {
    let gpu = |number: u32, withheld: Option<&str>| Gpu {
        uuid: GpuUuid(format!("GPU-{number}")),
        product: "Tesla T4".to_owned(),
        memory: Mebibytes(15_000),
        withheld: withheld.map(str::to_owned),
    };
    Offer { gpus: vec![gpu(0, None), gpu(1, Some("XID 79"))] }
}

fn node(name: &str, annotations: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "annotations": annotations,
            "labels": {"node.kubernetes.io/instance-type": "g4dn.12xlarge", "nvidia.com/gpu.present": "true"},
        },
        "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn said() -> NodePicture {
    let slice = Slice {
        pod: "team/one".to_owned(),
        compute: Some(0.25),
        compute_used: Some(0.2),
        memory_used: 7,
        ..Slice::default()
    };
    let gpu = GpuPicture {
        uuid: "GPU-0".to_owned(),
        busy: Some(0.2),
        memory_used: 9,
        slices: vec![slice],
        ..GpuPicture::default()
    };
    NodePicture {
        kind: "g4dn.12xlarge".to_owned(),
        ready: true,
        dollars_per_hour: Some(3.9),
        gpus: vec![gpu],
        ..NodePicture::default()
    }
}

#[test]
fn a_node_without_an_agent_is_drawn_by_what_is_written() {
    let mut bench = Bench::default();
    bench.objects.node_seen(&node("a", json!({"carve.dev/gpus": offer().to_annotation()})));
    let text = r#"{"v":1,"containers":[{"name":"main","stage":"main","slices":[{"gpu":"GPU-0","memory":7500,"compute":500}]}]}"#;
    let slices = Slices::from_annotation(text).expect("slices");
    bench.book.offer("a", offer());
    bench.book.hold(PodUid("uid".to_owned()), Booking::new("team/one", "a", &slices, 0, true));
    let picture = bench.compose(7);
    let shown = &picture.nodes["a"];
    assert_eq!((shown.kind.as_str(), shown.ready), ("g4dn.12xlarge", true));
    assert_eq!(shown.why, "no agent of carve runs here");
    let slice = &shown.gpus[0].slices[0];
    assert_eq!((slice.pod.as_str(), slice.workload.as_str()), ("team/one", "Pod/one"));
    assert_eq!((slice.mechanism, slice.compute, slice.memory), (Mechanism::Limiter, Some(0.5), Some(7_500)));
    assert_eq!(slice.compute_used, None, "nobody has measured it");
    assert_eq!((shown.gpus[1].state, shown.gpus[1].why.as_str()), (GpuState::Sick, "XID 79"));
    // Whoever has no GPUs is not shown.
    bench.objects.node_seen(&json!({"metadata": {"name": "b"}, "status": {}}));
    assert_eq!(bench.compose(8).nodes.len(), 1);
}

#[test]
fn an_agent_is_believed_while_it_answers_and_remembered_when_it_does_not() {
    let mut bench = Bench::default();
    bench.objects.node_seen(&node("a", json!({"carve.dev/gpus": offer().to_annotation()})));
    bench.agent("a");
    assert_eq!(bench.compose(0).nodes["a"].why, "its agent was not heard yet");
    bench.answer(1_000, "a", Ok(said()));
    let picture = bench.compose(1_000);
    assert_eq!((picture.nodes["a"].why.as_str(), picture.nodes["a"].dollars_per_hour), ("", Some(3.9)));
    assert_eq!(picture.nodes["a"].gpus[0].slices[0].compute_used, Some(0.2));
    bench.answer(1_002, "a", Err("nothing came in 3 s"));
    assert!(bench.compose(1_002).nodes["a"].ready, "it may be replaced at this moment");
    bench.answer(1_008, "a", Err("nothing came in 3 s"));
    let picture = bench.compose(1_008);
    let shown = &picture.nodes["a"];
    assert!(!shown.ready, "nobody can be given anything there");
    assert_eq!(
        shown.why,
        "its agent does not answer: nothing came in 3 s; this is as of 1970-01-01T00:16:40Z"
    );
    let (gpu, slice) = (&shown.gpus[0], &shown.gpus[0].slices[0]);
    assert_eq!((gpu.busy, gpu.memory_used, slice.compute_used, slice.memory_used), (None, 0, None, 0));
    assert_eq!(slice.compute, Some(0.25), "what was promised is known");
    assert_eq!(picture.happenings.last().map(|one| one.reason.as_str()), Some("AgentSilent"));
    bench.answer(1_010, "a", Ok(said()));
    assert!(bench.compose(1_010).nodes["a"].ready);
}

#[test]
fn a_node_says_what_is_wrong_with_it() {
    let mut bench = Bench::default();
    let mut sick = node(
        "a",
        json!({"carve.dev/mig.config.reason": "pod x/y holds it", "carve.dev/mig.config.state-of": "all-1g.5gb"}),
    );
    sick["spec"]["unschedulable"] = true.into();
    sick["metadata"]["labels"]["nvidia.com/mig.config.state"] = "failed".into();
    sick["metadata"]["labels"]["nvidia.com/gpu.count"] = "2".into();
    sick["status"]["conditions"] =
        json!([{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped"}]);
    bench.objects.node_seen(&sick);
    let shown = &bench.compose(0).nodes["a"];
    assert!(!shown.ready);
    assert_eq!(
        shown.why,
        "kubelet is not ready: Kubelet stopped; cordoned: nothing new comes here; MIG config all-1g.5gb: failed: pod x/y holds it; no agent of carve runs here"
    );
    assert_eq!(shown.gpus.len(), 2, "as many as its labels say");
}

#[test]
fn instances_are_drawn_where_reports_say_they_are() {
    let table = Product::by_key("a100-40gb").and_then(Product::profile_table).expect("a table");
    let placed = Instance { profile: "3g.20gb".parse().expect("a profile"), start: 4, compute: vec![3] };
    let report = NodeReport {
        gpus: vec![GpuReport {
            uuid: GpuUuid("GPU-0".to_owned()),
            index: 0,
            product: "A100".to_owned(),
            mig: true,
            held: false,
            instances: vec![InstanceReport {
                instance: placed,
                held: true,
                pods: vec!["team/train".to_owned()],
            }],
        }],
        tables: [("A100".to_owned(), table)].into(),
        manual: None,
        order: Some(OrderReport {
            generation: 3,
            state: OrderState::Pending,
            message: "pod a/b goes".to_owned(),
        }),
    };
    let mut bench = Bench::default();
    bench.objects.node_seen(&node("a", json!({"carve.dev/mig.gpus": report.to_text()})));
    let shown = &bench.compose(0).nodes["a"];
    assert!(shown.why.starts_with("being cut for pods that wait: pod a/b goes"), "{}", shown.why);
    let gpu = &shown.gpus[0];
    assert_eq!((gpu.slots, gpu.instances[0].start, gpu.instances[0].size), (Some(8), 4, 4));
    assert_eq!(gpu.slices[0].instance.as_ref(), Some(&gpu.instances[0].uuid));
    assert_eq!((gpu.slices[0].pod.as_str(), gpu.slices[0].compute), ("team/train", Some(0.5)));
}

#[test]
fn of_two_agents_the_younger_is_asked() {
    let mut objects = Objects::default();
    for (uid, name, created) in [("1", "young", "2026-11-17T09:00:00Z"), ("2", "old", "2026-11-16T09:00:00Z")]
    {
        objects.agent_seen(&json!({
            "metadata": {"name": name, "namespace": "carve", "uid": uid, "creationTimestamp": created}, "spec": {"nodeName": "a"},
        }));
    }
    assert_eq!(objects.agents()["a"].name, "young");
    objects.agent_seen(&json!({"metadata": {"name": "young", "uid": "1"}, "spec": {"nodeName": "a"}, "status": {"phase": "Failed"}}));
    assert_eq!(objects.agents()["a"].name, "old");
}
