//! Every dialect, every kind of object, and every example of the other systems, read in place.

use carve_formats::workloads::{
    Dialect, GpuAsk, Isolation, Manifests, Mechanism, MemoryAsk, Replicas, Source, Thousandths, read,
};
use carve_gpu_model::Mebibytes;
use std::fmt::Write as _;
use std::path::Path;

fn one(text: &str) -> Manifests {
    read(&[Source { name: "test", text }])
}

fn pod(annotations: &str, limits: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotations}}}}}\nspec:\n  containers:\n  - name: c\n    \
         resources: {{limits: {{{limits}}}}}\n"
    )
}

/// The single request of a pod that is well.
fn ask(annotations: &str, limits: &str) -> GpuAsk {
    let read = one(&pod(annotations, limits));
    assert!(!read.has_errors(), "{:?}", read.findings);
    let [workload] = read.workloads.as_slice() else { panic!("{:?}", read.workloads) };
    let [ask] = workload.pod.gpus.as_slice() else { panic!("{:?}", workload.pod.gpus) };
    ask.clone()
}

/// The single error of a pod, with its hint.
fn error(annotations: &str, limits: &str) -> String {
    let read = one(&pod(annotations, limits));
    assert!(read.workloads.is_empty(), "a pod with an error is left out: {:?}", read.workloads);
    let [finding] = read.findings.as_slice() else { panic!("{:?}", read.findings) };
    assert!(finding.diagnostic.at.is_some_and(|at| at.line >= 3), "{finding:?}");
    assert_eq!((finding.document, finding.object.as_str()), (1, "Pod default/p"));
    finding.diagnostic.to_string()
}

fn mib(amount: u64) -> Option<MemoryAsk> {
    Some(MemoryAsk::Amount(Mebibytes(amount)))
}

fn share(thousandths: u16) -> Option<MemoryAsk> {
    Some(MemoryAsk::Share(Thousandths(thousandths)))
}

/// Limits, and what they ask for: dialect, count, memory and compute.
type Case = (&'static str, Dialect, u32, Option<MemoryAsk>, Option<u16>);

#[test]
fn resources_of_every_dialect() {
    let cases: &[Case] = &[
        ("nvidia.com/gpu: 2", Dialect::Nvidia, 2, None, None),
        ("nvidia.com/gpu: '1'", Dialect::Nvidia, 1, None, None),
        ("nvidia.com/gpu: 2, nvidia.com/gpumem: 3000", Dialect::Hami, 2, mib(3000), None),
        ("nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30", Dialect::Hami, 1, mib(3000), Some(300)),
        ("nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50", Dialect::Hami, 1, share(500), None),
        ("nvidia.com/gpu: 1, nvidia.com/priority: 1", Dialect::Nvidia, 1, None, None),
        ("volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 8000", Dialect::Volcano, 1, mib(8000), None),
        ("volcano.sh/vgpu-number: 1, volcano.sh/vgpu-cores: 50", Dialect::Volcano, 1, None, Some(500)),
        ("volcano.sh/gpu-number: 1, volcano.sh/gpu-memory: 1024", Dialect::Volcano, 1, mib(1024), None),
        ("koordinator.sh/gpu: 50", Dialect::Koordinator, 1, share(500), Some(500)),
        (
            "koordinator.sh/gpu-core: 200, koordinator.sh/gpu-memory-ratio: 200",
            Dialect::Koordinator,
            2,
            share(1000),
            Some(1000),
        ),
        (
            "koordinator.sh/gpu-core: 50, koordinator.sh/gpu-memory: 8Gi",
            Dialect::Koordinator,
            1,
            mib(8192),
            Some(500),
        ),
        (
            "koordinator.sh/gpu-core: 200, koordinator.sh/gpu-memory: 16Gi",
            Dialect::Koordinator,
            2,
            mib(8192),
            Some(1000),
        ),
        ("aliyun.com/gpu-mem: 3", Dialect::Gpushare, 1, mib(3072), None),
        ("aliyun.com/gpu-mem: 16276", Dialect::Gpushare, 1, mib(16276), None),
        (
            "tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 30",
            Dialect::GpuManager,
            1,
            mib(7680),
            Some(500),
        ),
        ("nvidia.com/vgpu-number: 2, nvidia.com/vgpu-cores: 10", Dialect::VgpuManager, 2, None, Some(100)),
        ("elasticgpu.io/gpu-core: 200", Dialect::ElasticGpu, 2, None, Some(1000)),
        ("carve.dev/gpu-memory: 4096, carve.dev/gpu-compute: 25", Dialect::Carve, 1, mib(4096), Some(250)),
    ];
    for (limits, dialect, count, memory, compute) in cases {
        let ask = ask("", limits);
        let compute = compute.map(Thousandths);
        assert_eq!(
            (ask.dialect, ask.count, ask.memory, ask.compute),
            (*dialect, *count, *memory, compute),
            "{limits}"
        );
        assert_eq!(ask.asker, "c");
    }
    assert!(ask("", "nvidia.com/gpu: 2").is_whole());
    assert!(ask("", "elasticgpu.io/gpu-core: 200").is_whole());
    assert!(!ask("", "nvidia.com/gpu: 1, nvidia.com/gpucores: 30").is_whole());
    assert!(one(&pod("", "nvidia.com/gpu: 0")).workloads[0].pod.gpus.is_empty());
}

#[test]
fn shares_and_mig_devices() {
    let shared = ask("", "nvidia.com/gpu.shared: 1");
    assert!(shared.shared && shared.mig.is_none() && !shared.is_whole());
    let mig = ask("", "nvidia.com/mig-1g.5gb: 2");
    assert_eq!(
        (mig.mig.as_ref().map(ToString::to_string).as_deref(), mig.count, mig.shared),
        (Some("1g.5gb"), 2, false)
    );
    let layered = ask("", "nvidia.com/mig-3g.20gb.shared: 1");
    assert_eq!(
        (layered.mig.map(|profile| profile.to_string()).as_deref(), layered.shared),
        (Some("3g.20gb"), true)
    );
    let media = ask("", "nvidia.com/mig-1g.10gb.me: 1");
    assert_eq!(media.mig.map(|profile| profile.to_string()).as_deref(), Some("1g.10gb+me"));
    assert!(ask("", "nvshare.com/gpu: 1").shared);
}

#[test]
fn annotations_ask_and_wish() {
    let half = ask("gpu-fraction: '0.5'", "");
    assert_eq!((half.dialect, half.memory, half.compute), (Dialect::Kai, share(500), Some(Thousandths(500))));
    let memory = ask("gpu-memory: '2000', gpu-fraction-container-name: c, gpu-fraction-num-devices: '2'", "");
    assert_eq!((memory.memory, memory.count, memory.asker.as_str()), (mib(2000), 2, "c"));
    let fusion = ask("tensor-fusion.ai/vram-limit: 1Gi, tensor-fusion.ai/compute-percent-limit: '12'", "");
    assert_eq!((fusion.memory, fusion.compute), (mib(1024), Some(Thousandths(120))));
    let own = ask("tensor-fusion.ai/gpu-count: '2', tensor-fusion.ai/vendor: nvidia", "");
    assert_eq!((own.dialect, own.count), (Dialect::TensorFusion, 2));
    let other = one(&pod("tensor-fusion.ai/gpu-count: '2', tensor-fusion.ai/vendor: Ascend", ""));
    assert!(other.workloads[0].pod.gpus.is_empty(), "an accelerator of another maker is no GPU");
    assert!(other.findings[0].diagnostic.to_string().contains("'Ascend' makes no GPUs of NVIDIA"));
    let wishes = ask(
        "nvidia.com/use-gputype: 'A100,V100', nvidia.com/nouse-gputype: '1080', nvidia.com/use-gpuuuid: GPU-1, \
         nvidia.com/vgpu-mode: mig, carve.dev/isolation: tenant",
        "nvidia.com/gpu: 1, nvidia.com/gpumem: 4000",
    );
    assert_eq!(
        (wishes.models.wanted.join("+"), wishes.models.unwanted.join("+")),
        ("A100+V100".into(), "1080".into())
    );
    assert_eq!(wishes.uuids.wanted.len(), 1);
    assert_eq!((wishes.hint, wishes.isolation), (Some(Mechanism::Mig), Isolation::Tenant));
}

#[test]
fn wrong_requests_are_refused_with_an_example() {
    for (annotations, limits, parts) in [
        (
            "",
            "nvidia.com/gpu: '0.5'",
            &[
                "spec.containers[0].resources.limits.nvidia.com/gpu",
                "whole numbers",
                "gpu-fraction: \"0.5\"",
                "nvidia.com/gpumem-percentage: 50",
            ][..],
        ),
        ("", "nvidia.com/gpu: 1.5", &["nvidia.com/gpu: 2"][..]),
        ("", "nvidia.com/gpucores: 150", &["0 to 100", "nvidia.com/gpucores: 100"][..]),
        (
            "",
            "koordinator.sh/gpu-core: 150",
            &["multiple of 100", "koordinator.sh/gpu-core: 100 or koordinator.sh/gpu-core: 200"][..],
        ),
        ("", "nvidia.com/mig-1g.5: 1", &["names no MIG profile", "nvidia.com/mig-1g.5gb: 1"][..]),
        ("", "nvidia.com/gpu: -1", &["below zero"][..]),
        ("", "nvidia.com/gpu: many", &["is no quantity"][..]),
        ("", "nvidia.com/gpu: [1]", &["a list or a map"][..]),
        ("", "nvidia.com/gpu: 1000000", &["no machine has so many", "replicas"][..]),
        ("", "nvidia.com/gpumem: 99999999999", &["more memory than any GPU has"][..]),
        ("", "cpu: .nan", &["not YAML"][..]),
        ("gpu-fraction: '1.5'", "", &["more than 0 and at most 1"][..]),
        ("gpu-fraction: '0.5'", "nvidia.com/gpu: 1", &["refuses both together"][..]),
        ("carve.dev/isolation: tennant", "nvidia.com/gpu: 1", &["did you mean 'tenant'?"][..]),
    ] {
        if limits.contains(".nan") {
            assert!(one(&pod(annotations, limits)).has_errors());
            continue;
        }
        let said = error(annotations, limits);
        for part in parts {
            assert!(said.contains(part), "'{part}' in '{said}'");
        }
    }
    let text = pod("", "cpu: 1").replace("limits: {cpu: 1}", "requests: {nvidia.com/gpu: 1}");
    assert!(one(&text).findings[0].diagnostic.to_string().contains("resources.limits: nvidia.com/gpu: 1"));
}

#[test]
fn what_is_not_understood_is_said() {
    for (annotations, limits, part) in [
        ("", "nvidia.com/gpumen: 1", "did you mean 'nvidia.com/gpumem'?"),
        ("", "amd.com/gpu: 1", "not a GPU of NVIDIA"),
        ("nvidia.com/gpumem: '3000'", "nvidia.com/gpu: 1", "nvidia.com/gpumem: 3000"),
    ] {
        let read = one(&pod(annotations, limits));
        assert!(!read.has_errors() && read.workloads.len() == 1);
        assert!(read.findings[0].diagnostic.to_string().contains(part), "{:?}", read.findings);
    }
}

fn template(limits: &str) -> String {
    format!("{{spec: {{containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]}}}}")
}

#[test]
fn every_kind_that_makes_pods() {
    let body = template("nvidia.com/gpu: 1");
    let cases = [
        ("Deployment", format!("{{replicas: 3, template: {body}}}"), vec![Replicas::Count(3)]),
        ("Deployment", format!("{{template: {body}}}"), vec![Replicas::Count(1)]),
        ("ReplicaSet", format!("{{replicas: 0, template: {body}}}"), vec![Replicas::Count(0)]),
        ("StatefulSet", format!("{{replicas: 2, template: {body}}}"), vec![Replicas::Count(2)]),
        ("DaemonSet", format!("{{template: {body}}}"), vec![Replicas::EveryNode]),
        ("Job", format!("{{parallelism: 4, template: {body}}}"), vec![Replicas::Count(4)]),
        ("Job", format!("{{parallelism: 4, completions: 2, template: {body}}}"), vec![Replicas::Count(2)]),
        (
            "CronJob",
            format!("{{jobTemplate: {{spec: {{parallelism: 5, template: {body}}}}}}}"),
            vec![Replicas::Count(5)],
        ),
        (
            "PyTorchJob",
            format!(
                "{{pytorchReplicaSpecs: {{Master: {{template: {body}}}, Worker: {{replicas: 6, template: {body}}}}}}}"
            ),
            vec![Replicas::Count(1), Replicas::Count(6)],
        ),
        (
            "JobSet",
            format!(
                "{{replicatedJobs: [{{replicas: 2, template: {{spec: {{parallelism: 3, template: {body}}}}}}}]}}"
            ),
            vec![Replicas::Count(6)],
        ),
        (
            "Job\napiVersion: batch.volcano.sh/v1alpha1",
            format!("{{minAvailable: 3, tasks: [{{replicas: 2, template: {body}}}, {{template: {body}}}]}}"),
            vec![Replicas::Count(2), Replicas::Count(1)],
        ),
        (
            "Job\napiVersion: batch/v1",
            format!("{{parallelism: 4, template: {body}}}"),
            vec![Replicas::Count(4)],
        ),
        ("ConfigMap", "{}".to_owned(), vec![]),
    ];
    for (kind, spec, expected) in cases {
        let read = one(&format!("kind: {kind}\nmetadata: {{name: w}}\nspec: {spec}\n"));
        assert!(!read.has_errors(), "{kind}: {:?}", read.findings);
        let replicas: Vec<Replicas> = read.workloads.iter().map(|workload| workload.replicas).collect();
        assert_eq!(replicas, expected, "{kind} {spec}");
        assert!(read.workloads.iter().all(|workload| workload.pod.gpus.len() == 1), "{kind}");
        assert_eq!(read.others.len(), usize::from(expected.is_empty()));
    }
}

#[test]
fn lists_streams_files_and_namespaces() {
    let list = "kind: List\nitems:\n- {kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}\n- {kind: Pod, metadata: \
                {name: a, namespace: other}, spec: {containers: [{name: c}]}}\n";
    let json = r#"{"kind": "Pod", "metadata": {"name": "b"}, "spec": {"containers": [{"name": "c"}]}}"#;
    let both = format!("{list}---\n---\n{json}\n");
    let read = read(&[Source { name: "one", text: &both }, Source { name: "two", text: json }]);
    let said: Vec<String> = read.findings.iter().map(|finding| finding.diagnostic.to_string()).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("Pod default/b is written twice; first in document 3"), "{said:?}");
    let names: Vec<String> =
        read.workloads.iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect();
    assert_eq!(names, ["default/a", "other/a", "default/b"]);
}

#[test]
fn containers_add_up_and_init_containers_come_first() {
    let text = "kind: Pod\nmetadata: {name: p}\nspec:\n  initContainers:\n  - {name: i, resources: {limits: {cpu: 8, memory: 1Gi, \
                nvidia.com/gpu: 1}}}\n  - {name: s, restartPolicy: Always, resources: {requests: {cpu: 100m}}}\n  containers:\n  - \
                {name: a, resources: {requests: {cpu: 500m, memory: 2Gi}, limits: {nvidia.com/gpu: 1}}}\n  - {name: b, resources: \
                {limits: {cpu: 2, memory: 1Gi, nvidia.com/gpu: 2}}}\n";
    let read = one(text);
    let pod = &read.workloads[0].pod;
    assert_eq!((pod.cpu_milli, pod.memory.0), (8000, 3072));
    assert_eq!(pod.gpus.iter().map(|ask| ask.count).sum::<u32>(), 3);
    let alone = text
        .replace("nvidia.com/gpu: 2", "x: 1")
        .replace("limits: {nvidia.com/gpu: 1}}}\n  - {name: b", "limits: {y: 1}}}\n  - {name: b");
    assert_eq!(one(&alone).workloads[0].pod.gpus[0].asker, "i");
}

#[test]
fn claims_are_found_in_any_file_and_counted() {
    let claims = "kind: ResourceClaimTemplate\nmetadata: {name: t}\nspec: {spec: {devices: {requests: [{name: m, exactly: \
                  {deviceClassName: mig.nvidia.com, count: 2, selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].profile \
                  == '1g.5gb'\"}}]}}], constraints: [{matchAttribute: gpu.nvidia.com/parentUUID}]}}}\n---\nkind: ResourceClaim\n\
                  metadata: {name: s}\nspec: {devices: {requests: [{name: g, deviceClassName: gpu.nvidia.com, capacity: {requests: \
                  {memory: 4Gi, cores: 30}}}, {name: x, deviceClassName: net.example.com}]}}\n";
    let pods = "kind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c}]\n  resourceClaims:\n  - {name: a, \
                resourceClaimTemplateName: t}\n  - {name: b, resourceClaimName: s}\n  - {name: d, resourceClaimTemplateName: nowhere}\n";
    let read = read(&[Source { name: "pods", text: pods }, Source { name: "claims", text: claims }]);
    assert!(!read.has_errors(), "{:?}", read.findings);
    let pod = &read.workloads[0].pod;
    assert!(pod.same_gpu);
    let [mig, part] = pod.gpus.as_slice() else { panic!("{:?}", pod.gpus) };
    assert_eq!(
        (mig.count, mig.mig.as_ref().map(ToString::to_string).as_deref(), &mig.claim),
        (2, Some("1g.5gb"), &None)
    );
    assert_eq!((part.memory, part.compute), (mib(4096), Some(Thousandths(300))));
    assert_eq!(part.claim.as_deref(), Some("default/s"));
    let said: String = read.findings.iter().map(|finding| finding.diagnostic.to_string()).collect();
    assert!(said.contains("net.example.com is not known"), "{said}");
    assert!(said.contains("'nowhere' is not among the manifests"), "{said}");
    assert_eq!(read.workloads[1].kind, "ResourceClaim");
}

#[test]
fn bombs_and_absurd_sizes_end_in_a_message() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let _ = writeln!(bomb, "a{level}: &a{level} [{}]", vec![format!("*a{}", level - 1); 10].join(", "));
    }
    for (text, part) in [
        (bomb.as_str(), "excessive aliasing"),
        (
            "kind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2000000000, template: {spec: {containers: [{name: c}]}}}\n",
            "whole number of pods",
        ),
        (
            "kind: Deployment\nmetadata: {name: d}\nspec: {replicas: -1, template: {spec: {containers: [{name: c}]}}}\n",
            "below zero",
        ),
        ("kind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n", "without containers"),
        ("just a text\n", "expected a Kubernetes object"),
        ("a: 1\n", "'kind' is missing"),
        ("kind: Pod\n\tbad: tab\n", "not YAML"),
    ] {
        let read = one(text);
        assert!(read.workloads.is_empty());
        let said: String = read.findings.iter().map(|finding| finding.diagnostic.to_string()).collect();
        assert!(said.contains(part), "'{part}' in '{said}'");
    }
    let many = "kind: 7\n---\n".repeat(5000);
    let read = one(&many);
    assert_eq!(read.findings.len(), carve_formats::workloads::MOST_FINDINGS + 1);
    assert!(read.has_errors());
}

/// One line for each thing an example asks for, and for each thing that is said about it.
fn summary(folder: &Path) -> String {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder of fixtures") {
            let path = entry.expect("a fixture").path();
            let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
            match (path.is_dir(), kind) {
                (true, _) => open.push(path),
                (false, "yaml" | "yml" | "json") => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    let mut said = String::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a fixture");
        let read = one(&text);
        let _ = writeln!(said, "{}", path.strip_prefix(folder).expect("inside").display());
        for workload in &read.workloads {
            let _ = write!(said, "  {} {} ×{:?}:", workload.kind, workload.name, workload.replicas);
            for ask in &workload.pod.gpus {
                let _ = write!(said, " [{}: {ask}]", ask.dialect);
            }
            let _ = writeln!(said);
        }
        for finding in &read.findings {
            let at = finding.diagnostic.at.map(|at| at.line).unwrap_or_default();
            let _ = writeln!(
                said,
                "  {:?} at line {at} of document {}",
                finding.diagnostic.severity, finding.document
            );
        }
    }
    said
}

#[test]
fn every_example_of_the_other_systems() {
    for (folder, recorded) in [("fractional", "fractional.txt"), ("dra", "dra.txt")] {
        let Some(fixtures) = carve_test_support::fixtures(folder) else { return };
        let now = summary(&fixtures);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads").join(recorded);
        if std::env::var_os("UPDATE_SESSIONS").is_some() {
            std::fs::write(&path, &now).expect("the record");
        }
        let then = std::fs::read_to_string(&path).expect("the record");
        let differs = now.lines().zip(then.lines()).find(|(now, then)| now != then);
        assert!(now == then, "{recorded}: now and then differ at {differs:?}; UPDATE_SESSIONS=1 rewrites it");
    }
}

/// A manifest that uses most of what is read, for spoiling.
const RICH: &str = "kind: List\nitems:\n- kind: Deployment\n  metadata: {name: a}\n  spec: {replicas: 3, template: {metadata: {annotations: \
                    {gpu-fraction: \"0.5\", nvidia.com/use-gputype: A100}}, spec: {containers: [{name: c, resources: {limits: {cpu: 1}}}]}}}\n\
                    - kind: Pod\n  metadata: {name: b}\n  spec:\n    resourceClaims: [{name: g, resourceClaimTemplateName: t}]\n    containers: \
                    [{name: c, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/mig-1g.5gb: 1, koordinator.sh/gpu: \
                    200}}}]\n---\nkind: ResourceClaimTemplate\nmetadata: {name: t}\nspec: {spec: {devices: {requests: [{name: m, exactly: \
                    {deviceClassName: mig.nvidia.com, count: 2, selectors: [{cel: {expression: \"device.attributes['x'].profile == \
                    '1g.5gb'\"}}]}}]}}}\n";

proptest::proptest! {
    #[test]
    fn no_spoiled_text_makes_the_reader_panic(
        spoils in proptest::collection::vec((0..RICH.len(), 0_usize..6, "[-0-9a-z{}\\[\\]:,.'\"&* \n]{0,4}"), 1..6)
    ) {
        let mut text = RICH.to_owned();
        for (at, cut, with) in spoils {
            let at = at.min(text.len());
            let end = (at + cut).min(text.len());
            text.replace_range(at..end, &with);
        }
        let read = one(&text);
        proptest::prop_assert!(read.workloads.iter().all(|workload| workload.pod.gpus.iter().all(|ask| ask.count > 0)));
    }
}
