//! Traces in every format: what they mean, what is said when they are wrong, and that no text makes a reader panic.

use carve_gpu_model::Mebibytes;
use carve_placement::{Claim, CpuMilli, GpuMilli, Policy};
use carve_simulator::arrivals::{self, Sequence};
use carve_simulator::filling::fill;
use carve_simulator::{Trace, readers};
use proptest::prelude::{any, prop, proptest};

const NODES: &str = "name,cpu,memory,gpus,gpu_memory,model,count
large,96,1152Gi,8,40Gi,A100,2
small,8,32Gi,1,16Gi,T4,
";
const PODS: &str = "name,cpu,memory,gpus,gpu,gpu_memory,models,arrive,duration,count
train,48,256Gi,8,,,A100,1m,2h,
serve,500m,4Gi,,25%,4Gi,A100|T4,,90s,2
gather,2,1G,,,,,5,,
";
const JSON: &str = r#"{
  "nodes": [
    {"name": "large", "cpu": 96, "memory": "1152Gi", "gpus": 8, "gpu_memory": "40Gi", "model": "A100", "count": 2},
    {"name": "small", "cpu": "8", "memory": "32Gi", "gpus": "1", "gpu_memory": "16Gi", "model": "T4"}
  ],
  "pods": [
    {"name": "train", "cpu": 48, "memory": "256Gi", "gpus": 8, "models": "A100", "arrive": 60, "duration": 7200},
    {"name": "serve", "cpu": 0.5, "memory": "4Gi", "gpu": 0.25, "gpu_memory": "4Gi", "models": ["A100", "T4"], "duration": "90s", "count": 2},
    {"name": "gather", "cpu": 2, "memory": "1G", "arrive": 5, "models": null}
  ]
}"#;
const CLUSTER: &str = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [
  {"kind": "Node", "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.count": "8"}},
   "spec": {"podCIDR": "10.0.0.0/24"},
   "status": {"allocatable": {"cpu": "95500m", "memory": "1048576Mi", "nvidia.com/gpu": "8", "pods": "110", "ephemeral-storage": "1"}, "capacity": {"cpu": "96"}}},
  {"kind": "Node", "metadata": {"name": "cpu-1"}, "status": {"allocatable": {"cpu": "16", "memory": "32925060Ki"}}},
  {"kind": "Pod", "metadata": {"name": "train", "namespace": "ml"},
   "spec": {"nodeName": "gpu-1", "overhead": {"cpu": "250m"},
     "initContainers": [{"name": "fetch", "resources": {"requests": {"cpu": "12"}}}, {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
     "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}}}, {"name": "b", "resources": {"requests": {"cpu": 2}, "limits": {"nvidia.com/gpu": 1, "memory": "1Gi"}}}]},
   "status": {"phase": "Running"}},
  {"kind": "Pod", "metadata": {"name": "waiting", "namespace": "ml"}, "spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}, "status": {"phase": "Pending"}},
  {"kind": "Pod", "metadata": {"name": "old", "namespace": "ml"}, "spec": {"nodeName": "gpu-1", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}, "status": {"phase": "Succeeded"}}
]}"#;

fn refused(text: &str) -> String {
    readers::trace(text).expect_err(text).to_string()
}

#[test]
fn a_table_and_a_document_of_the_same_things_are_the_same() {
    let from_csv = Trace { nodes: readers::nodes(NODES).unwrap(), ..readers::trace(PODS).unwrap() };
    let from_json = readers::trace(JSON).unwrap();
    assert_eq!(from_csv, from_json);
    let names: Vec<&str> = from_csv.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["large-0", "large-1", "small"]);
    assert_eq!((from_csv.nodes[0].gpus, from_csv.nodes[0].gpu_memory), (8, Mebibytes(40 * 1024)));
    let pods = &from_csv.pods;
    let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["train", "serve-0", "serve-1", "gather"]);
    assert_eq!(pods[0].claim, Claim::whole(8, CpuMilli(48_000), Mebibytes(256 * 1024)));
    assert_eq!((pods[0].created, pods[0].deleted), (Some(60), Some(7260)));
    let part = Claim::part(GpuMilli(250), CpuMilli(500), Mebibytes(4096));
    assert_eq!(pods[1].claim, Claim { gpu_memory: Mebibytes(4096), ..part });
    assert_eq!((pods[1].models.as_str(), pods[1].created, pods[1].deleted), ("A100|T4", Some(0), Some(90)));
    assert_eq!(pods[3].claim, Claim::cpu_only(CpuMilli(2000), Mebibytes(954)));
    assert_eq!((pods[3].created, pods[3].deleted), (Some(5), None));
    assert_eq!(readers::nodes(JSON).unwrap(), from_json.nodes);
}

#[test]
fn mig_devices_are_read_from_tables_documents_and_clusters() {
    let table =
        "name,cpu,mig,models,duration\nserve,1,1g.5gb=2+3g.20gb,a100-40gb,1m\nmedia,1,1g.10gb+me,,1m\n";
    let document = r#"{"pods": [
        {"name": "serve", "cpu": 1, "mig": "3g.20gb+1g.5gb=2", "models": "a100-40gb", "duration": 60},
        {"name": "media", "cpu": 1, "mig": "1g.10gb+me", "duration": 60}]}"#;
    let pods = readers::trace(table).unwrap().pods;
    assert_eq!(pods, readers::trace(document).unwrap().pods);
    assert_eq!(pods[0].claim, Claim::cpu_only(CpuMilli(1000), Mebibytes(0)));
    assert_eq!(pods[0].mig, "1g.5gb=2,3g.20gb".parse().unwrap());
    assert_eq!(pods[1].mig, "1g.10gb+me".parse().unwrap());
    // Containers together, and what runs before them by the largest: of 1g two, of 2g one.
    let cluster = r#"{"items": [
        {"kind": "Node", "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "8"}},
         "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "3", "nvidia.com/mig-1g.5gb": "35", "nvidia.com/mig-1g.10gb.me": "1"}}},
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {
           "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},
           "initContainers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-2g.10gb": "1"}}}],
           "containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}, {"resources": {"requests": {"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-1g.10gb.me": "1"}}}]}}]}"#;
    let trace = readers::trace(cluster).unwrap();
    assert_eq!((trace.nodes[0].gpus, trace.nodes[0].model.as_str()), (8, "NVIDIA-A100-SXM4-40GB"));
    assert_eq!(trace.pods[0].mig, "1g.5gb=2,1g.10gb+me,2g.10gb".parse().unwrap());
    assert_eq!(trace.pods[0].models, "NVIDIA-A100-SXM4-40GB");
    let uncounted = cluster.replace(r#", "nvidia.com/gpu.count": "8""#, "");
    assert!(refused(&uncounted).contains("items[0].metadata.labels: the node has nvidia.com/mig-1g.10gb.me"));
    let gone = uncounted.replace(
        r#""nvidia.com/mig-1g.5gb": "35", "nvidia.com/mig-1g.10gb.me": "1""#,
        r#""nvidia.com/mig-1g.5gb": "0""#,
    );
    assert_eq!(readers::trace(&gone).unwrap().nodes[0].gpus, 3, "devices that are gone count for nothing");
    let both = cluster.replace(r#""nvidia.com/mig-2g.10gb": "1""#, r#""nvidia.com/gpu": "1""#);
    assert!(refused(&both).contains("items[1].spec.containers: asks for 1 GPUs and"), "{}", refused(&both));
    assert!(refused("name,gpus,mig\np,1,1g.5gb\n").contains("line 2: MIG devices and other GPUs"));
    assert!(refused("name,mig\np,1g.5gb=500\n").contains("line 2: mig is 500"));
}

#[test]
fn a_cluster_is_read_as_the_scheduler_counts_it() {
    let trace = readers::trace(CLUSTER).unwrap();
    assert_eq!(trace.nodes.len(), 2);
    let gpu = &trace.nodes[1];
    assert_eq!((gpu.name.as_str(), gpu.gpus, gpu.model.as_str()), ("gpu-1", 8, "NVIDIA-A100-SXM4-40GB"));
    assert_eq!(
        (gpu.cpu, gpu.memory, gpu.gpu_memory),
        (CpuMilli(95_500), Mebibytes(1 << 20), Mebibytes(40_960))
    );
    assert_eq!((trace.nodes[0].gpus, trace.nodes[0].memory), (0, Mebibytes(32_153)));
    assert_eq!(trace.pods.len(), 2, "what has ended holds nothing");
    let train = &trace.pods[0];
    // What fetches beforehand asks for more than all that runs later: 12 against 4 + 2 + 1; and 0.25 on top.
    assert_eq!(train.claim, Claim::whole(3, CpuMilli(12_250), Mebibytes(9 * 1024)));
    assert_eq!((train.name.as_str(), train.node.as_deref()), ("ml/train", Some("gpu-1")));
    let waiting = &trace.pods[1];
    assert_eq!((waiting.claim.gpus, waiting.node.as_deref()), (4, None));
    assert_eq!(waiting.models, "NVIDIA-A100-SXM4-40GB");
    // 3 of 8 GPUs run; 4 arrive and fit; then what is like them, until all 8 are asked for.
    let sequence = Sequence { seed: 1, pods: vec![1, 1], nodes: vec![0, 1] };
    let filled = fill(&trace, &sequence, Policy::BestFit).unwrap();
    assert_eq!((filled.running, filled.decisions[0].used, filled.decisions[1].spot), (3000, 7000, None));
    let own = arrivals::generate(&trace, 1, 100);
    assert_eq!(own.pods[0], 1, "what runs does not arrive");
    // The same from the API server itself, where items do not say what they are.
    let list = r#"{"kind": "NodeList", "items": [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}}}]}"#;
    assert_eq!(readers::nodes(list).unwrap()[0].cpu, CpuMilli(1000));
}

#[test]
fn every_error_says_where_and_what_to_do() {
    for (text, parts) in [
        ("name,cpu\na,1\n\nb,1,2\n", ["line 4", "3 values", "2 columns"]),
        ("name,cpu\na,1\na,1\n", ["line 3", "'a' is already", "line 2"]),
        ("name,count\na,2\na-1,\n", ["line 3", "'a-1' is already", "line 2"]),
        ("name,cpu,cpu\n", ["line 1", "'cpu'", "twice"]),
        ("name,gpu\na,150%\n", ["line 2", "gpu is \"150%\"", "0.25"]),
        ("name,gpus,gpu\na,2,0.5\n", ["line 2", "gpus is 2", "only one GPU"]),
        ("name,gpus\na,17\n", ["line 2", "gpus is 17", "more than 16"]),
        ("name,memory\na,16\n", ["line 2", "without a unit", "16Gi"]),
        ("name,gpu_memory\na,1Gi\n", ["line 2", "gpu_memory", "say gpus or gpu"]),
        ("name,arrive\na,-5\n", ["line 2", "arrive is \"-5\"", "2h"]),
        ("name,count\na,99999999999\n", ["line 2", "count", "can not be meant"]),
        ("name\n,\n", ["line 2", "2 values", "1 columns"]),
        ("cpu_milli,name\n", ["line 1", "missing", "num_gpu"]),
        ("hello\n", ["line 1", "\"hello\"", "kubectl"]),
        ("", ["line 1", "empty", "kubectl"]),
        ("\n \n", ["line 1", "empty", "kubectl"]),
        ("{\"pods\": [{\"name\": \"a\", \"colour\": 1}]}", ["pods[0].colour", "not known", "duration"]),
        ("{\"pods\": [{\"name\": \"a\", \"cpu\": [1]}]}", ["pods[0].cpu", "neither text", "number"]),
        ("{\"pods\": [{\"name\": \"a\", \"cpu\": NaN}]}", ["line 1", "column", "expected"]),
        ("{\"pods\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", ["pods[1]", "already", "pods[0]"]),
        ("{\"pods\": [], \"jobs\": []}", ["line 1", "unknown field `jobs`", "nodes"]),
        ("{\"what\": 1}", ["line 1", "no trace", "kubectl"]),
        (
            "{\"items\": [{\"kind\": \"Service\", \"metadata\": {\"name\": \"s\"}}]}",
            ["items[0].kind", "\"Service\"", "kubectl"],
        ),
        ("{\"items\": [{\"kind\": \"Pod\"}]}", ["items[0].metadata.name", "missing", "Kubernetes"]),
        (
            "{\"items\": [{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}, \"spec\": {\"containers\": [{\"resources\": {\"limits\": {\"nvidia.com/gpu.shared\": 1}}}]}}]}",
            ["items[0].spec.containers", "nvidia.com/gpu.shared", "CSV"],
        ),
        (
            "{\"items\": [{\"kind\": \"Node\", \"metadata\": {\"name\": \"n\", \"labels\": {\"nvidia.com/gpu.replicas\": \"4\"}}}]}",
            ["items[0].metadata.labels", "shares its GPUs", "CSV"],
        ),
        (
            "{\"items\": [{\"kind\": \"Node\", \"metadata\": {\"name\": \"n\"}, \"status\": {\"allocatable\": {\"cpu\": \"-1\"}}}]}",
            ["items[0].status.allocatable", "cpu is \"-1\"", "500m"],
        ),
    ] {
        let error = refused(text);
        for part in parts {
            assert!(error.contains(part), "{text:?}: {error:?} does not say {part:?}");
        }
    }
    let mut many = "{\"items\": [".to_owned();
    for number in 0..=1_000_000 {
        let comma = if number == 0 { "" } else { "," };
        many.push_str(&format!("{comma}{{\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p{number}\"}},\"status\":{{\"phase\":\"Failed\"}}}}"));
    }
    many.push_str("]}");
    assert!(refused(&many).contains("more than 1000000 entries"), "before they fill the memory");
    // What is wrong with an item is said before what follows it is read.
    let early = format!("{{\"items\": [{{\"kind\": \"Pod\"}},{}", "{},".repeat(10));
    assert!(refused(&early).contains("line 1"), "a text that is cut off is no list: {}", refused(&early));
    let twice = "{\"items\": [], \"items\": []}";
    assert!(refused(twice).contains("items"), "{}", refused(twice));
    let containers = format!(
        "{{\"items\": [{{\"kind\": \"Pod\", \"spec\": {{\"containers\": [{}{{}}]}}}}]}}",
        "{},".repeat(1000)
    );
    assert!(refused(&containers).contains("more than 1000 entries"));
    let large = format!("{{\"pods\": [{}]}}", " ".repeat(65 << 20));
    assert!(refused(&large).contains("JSON of more than 64 MiB; write it as CSV"));
    assert!(refused(NODES).contains("--nodes"));
    assert!(readers::nodes(PODS).unwrap_err().to_string().contains("list of pods"));
    let long = format!("name\n{}\n", "a".repeat(5000));
    assert!(refused(&long).contains("line 2: the line has 5000 bytes"));
    // However deep it goes, the stack stays as it is.
    let deep = "[".repeat(100_000);
    assert!(refused(&format!("{{\"pods\": {deep}")).contains("line 1: column"));
    let huge = "name,count\na,1000000\nb,1\n";
    assert!(refused(huge).contains("line 3: more than 1000000 entries"));
}

#[test]
fn a_workload_of_many_kinds_is_weighed_by_few() {
    let mut text = "name,cpu,gpu\n".to_owned();
    for pod in 0..2000 {
        text.push_str(&format!("p{pod},{}m,{}m\n", 100 + pod * 7, 1 + pod % 997));
    }
    let trace = Trace { nodes: readers::nodes(NODES).unwrap(), ..readers::trace(&text).unwrap() };
    let fleet = trace.fleet(0..3).unwrap();
    let workload = trace.workload(&fleet);
    assert!((20..=200).contains(&workload.kinds().len()), "{} kinds", workload.kinds().len());
    let whole: f64 = workload.kinds().iter().map(|kind| kind.part).sum();
    assert!((whole - 1.0).abs() < 1e-9);
    // Sizes are never seen as smaller than they are, nor as more than a GPU.
    let largest = workload.kinds().iter().map(|kind| kind.claim.compute).max().unwrap();
    assert_eq!(largest, GpuMilli(1000));
    // With few kinds every one is seen as it is.
    let few = Trace { pods: trace.pods[..100].to_vec(), ..trace.clone() };
    assert_eq!(few.workload(&fleet).kinds().len(), 95);
}

/// Whatever is read can be made a fleet of and filled.
fn exercise(text: &str) {
    let nodes = readers::nodes(text);
    if let Ok(mut trace) = readers::trace(text) {
        if trace.nodes.is_empty() {
            trace.nodes = readers::nodes(NODES).unwrap();
        }
        // A changed count makes a long trace of a short text.
        if trace.nodes.len() + trace.pods.len() > 2000 {
            return;
        }
        let sequence = Sequence {
            seed: 1,
            pods: (0..trace.pods.len()).filter(|pod| trace.pods[*pod].node.is_none()).collect(),
            nodes: (0..trace.nodes.len()).collect(),
        };
        let _ = fill(&trace, &sequence, Policy::Fgd);
    }
    drop(nodes);
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_change_of_a_good_trace_makes_a_reader_panic(
        which in 0_usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_usize..3), 1..8),
    ) {
        let mut bytes = [NODES, PODS, JSON, CLUSTER][which].as_bytes().to_vec();
        // Mostly what traces are made of, so that the change gets past the first look.
        let alphabet = b"0123456789,.-%mGiKnaNe{}[]\":\n \0";
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len());
            let byte = alphabet[usize::from(byte) % alphabet.len()];
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        exercise(&String::from_utf8_lossy(&bytes));
    }
}
