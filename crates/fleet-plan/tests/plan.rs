//! Whole plans: what lands where, what waits and why, what it costs, and files that our own readers accept.

use carve_economics::Hours;
use carve_fleet_plan::{Plan, PlanFile, Settings, files, plan, pools};
use carve_formats::workloads::{Source, Workload, read};
use carve_formats::{DevicePluginConfig, MigPartedConfig, Severity};
use carve_gpu_model::{Mechanism, Mechanisms, Product};
use carve_planner::{Way, check_plan};
use proptest::prelude::{ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, proptest};

fn workloads(text: &str) -> Vec<Workload> {
    let read = read(&[Source { name: "test", text }]);
    assert!(!read.has_errors(), "{:?}", read.findings);
    read.workloads
}

fn planned(text: &str, nodes: &str) -> (Plan, Vec<Workload>) {
    let workloads = workloads(text);
    let plan = plan(&workloads, &pools(nodes).expect("machines"), Settings::default()).expect("a plan");
    check(&plan, &workloads);
    (plan, workloads)
}

fn deployment(name: &str, replicas: u32, annotations: &str, limits: &str) -> String {
    format!(
        "---\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  template:\n    metadata: {{annotations: \
         {{{annotations}}}}}\n    spec: {{containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]}}\n"
    )
}

fn placed(plan: &Plan, workload: usize) -> u32 {
    plan.workloads[workload].landings.iter().map(|landing| landing.pods).sum()
}

fn pending(plan: &Plan, workload: usize) -> (u32, String) {
    let pending = &plan.workloads[workload].pending;
    (pending.iter().map(|one| one.pods).sum(), pending.iter().map(|one| one.because.clone()).collect())
}

/// What must hold of every plan, found without the code that made it.
fn check(plan: &Plan, workloads: &[Workload]) {
    for node in &plan.nodes {
        let machine = &plan.pools[node.pool].machine;
        for (geometry, parts) in node.mig.iter().zip(&node.parts) {
            assert!(geometry.is_none() || parts.is_empty(), "a GPU that is cut has no other use");
            let compute: u32 = parts.iter().map(|part| u32::from(part.compute)).sum();
            let memory: u64 = parts.iter().map(|part| part.memory.0).sum();
            assert!(compute <= 1000 && memory <= machine.gpu_memory.0, "{node:?}");
            if let Some(geometry) = geometry {
                let table =
                    Product::by_key(machine.product.key).and_then(Product::profile_table).expect("a table");
                let counts = geometry.counts(&table).expect("profiles of this GPU");
                let mut legal = false;
                table.visit_arrangements(&[], &counts, |placed| {
                    legal = table.check(placed).is_ok();
                    !legal
                });
                assert!(legal, "{geometry} on {}", machine.name);
            }
        }
    }
    let cut = &plan.mig;
    assert_eq!(check_plan(&cut.gpus, &cut.demand, &cut.plan), Ok(()));
    let told: Vec<String> = cut
        .plan
        .gpus
        .iter()
        .filter(|(_, gpu)| !gpu.geometry.is_empty())
        .map(|(at, gpu)| format!("{at} {}", gpu.geometry))
        .collect();
    let mut shown: Vec<String> = plan
        .nodes
        .iter()
        .flat_map(|node| node.mig.iter().enumerate().map(move |(gpu, cut)| (node, gpu, cut)))
        .filter_map(|(node, gpu, cut)| Some(format!("{} GPU {gpu} {}", node.name, cut.as_ref()?)))
        .collect();
    shown.sort();
    let mut sorted = told;
    sorted.sort();
    assert_eq!(sorted, shown, "the plan that is checked is the plan that is shown");
    assert!(cut.made() <= cut.at_most() && cut.at_most() <= cut.asked());
    // Every device that a pod has been given is of a product that the pod's own words allow.
    for planned in &plan.workloads {
        let models = workloads[planned.workload].pod.gpus.iter().map(|ask| &ask.models);
        for (wanted, unwanted) in models.map(|models| (&models.wanted, &models.unwanted)) {
            for landing in &planned.landings {
                let name = plan.pools[plan.nodes[landing.node].pool].machine.product.name();
                let has = |part: &String| name.contains(part.as_str());
                assert!(wanted.is_empty() || wanted.iter().any(has), "{name} for {wanted:?}");
                assert!(!unwanted.iter().any(has), "{name} against {unwanted:?}");
            }
        }
    }
    let least = cut.gpus_at_least.unwrap_or(0);
    assert!(least <= cut.gpus_cut(), "{least} of {}", cut.gpus_cut());
    let on_nodes: u32 = plan.nodes.iter().map(|node| node.pods).sum();
    let landed: u32 = plan.workloads.iter().flat_map(|one| &one.landings).map(|landing| landing.pods).sum();
    assert_eq!(on_nodes, landed);
    // Every MIG device that is made is used, and no more are used than are made.
    let made: u64 = plan
        .nodes
        .iter()
        .flat_map(|node| &node.mig)
        .flatten()
        .map(carve_gpu_model::Geometry::instances)
        .sum();
    let used: u64 = plan
        .workloads
        .iter()
        .flat_map(|one| one.landings.iter().map(move |landing| (one.workload, landing)))
        .filter(|(_, landing)| matches!(landing.way, Some(Way::Mig(_))))
        .map(|(index, landing)| {
            let each: u32 = workloads[index].pod.gpus.iter().map(|ask| ask.count).sum();
            u64::from(each * landing.pods)
        })
        .sum();
    if !plan
        .workloads
        .iter()
        .flat_map(|one| &one.landings)
        .any(|one| matches!(one.way, Some(Way::Layered(..))))
    {
        assert_eq!(made, used);
    }
    match files(plan, workloads) {
        Ok(files) => files.iter().for_each(|file| fits_all(file, plan, workloads)),
        Err(mixed) => assert!(mixed.ways.len() > 1, "{mixed}"),
    }
}

/// A workload has one claim at most, because all its pods are made from one template; and our own readers take every file.
fn fits_all(file: &PlanFile, plan: &Plan, workloads: &[Workload]) {
    accepted(file);
    if file.name == "resource-claims.yaml" {
        for planned in &plan.workloads {
            let name = format!("  name: {}-gpu", workloads[planned.workload].name);
            assert!(file.text.matches(&name).count() <= 1, "{}", file.text);
        }
    }
}

fn accepted(file: &PlanFile) {
    let errors = match file.name.as_str() {
        "mig-parted.yaml" => MigPartedConfig::parse(&file.text).diagnostics,
        "resource-claims.yaml" => {
            let read = read(&[Source { name: "claims", text: &file.text }]);
            read.findings.into_iter().map(|finding| finding.diagnostic).collect()
        }
        "node-labels.txt" => Vec::new(),
        _ => {
            let parsed = DevicePluginConfig::parse(&file.text);
            if let Some(config) = &parsed.value {
                assert_eq!(config.validate_flags(), Ok(()), "{}", file.text);
            }
            parsed.diagnostics
        }
    };
    let errors: Vec<_> = errors.into_iter().filter(|one| one.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{}: {errors:?}\n{}", file.name, file.text);
}

#[test]
fn a_hundred_small_devices_on_eight_gpus() {
    let (plan, _) = planned(&deployment("d", 100, "", "nvidia.com/mig-1g.5gb: 1"), "p4d.24xlarge=1");
    assert_eq!(placed(&plan, 0), 56);
    let (pods, why) = pending(&plan, 0);
    assert_eq!(pods, 44);
    assert!(
        why.contains("all 8 GPUs of p4d.24xlarge are cut") && why.contains("at most 7 fit on one"),
        "{why}"
    );
    let cost = plan.cost.as_ref().expect("prices");
    assert_eq!(cost.machines.iter().map(|row| (row.1, row.2)).collect::<Vec<_>>(), [(7, 1)]);
}

#[test]
fn four_machines_at_a_quarter_become_one() {
    for limits in ["nvidia.com/gpumem-percentage: 25, nvidia.com/gpucores: 25", "nvidia.com/gpu.shared: 1"] {
        let (plan, _) = planned(&deployment("d", 4, "", limits), "g4dn.2xlarge=4");
        let cost = plan.cost.as_ref().expect("prices");
        assert_eq!(cost.hours, Hours(720));
        let sums = [cost.before, cost.after, cost.saved()].map(|sum| sum.to_string());
        assert_eq!(sums, ["$2,165.76", "$541.44", "$1,624.32"], "{limits}");
    }
}

#[test]
fn cpu_and_memory_of_the_machine_count() {
    let (plan, _) = planned(&deployment("d", 56, "", "nvidia.com/mig-1g.5gb: 1, cpu: 4"), "p4d.24xlarge=1");
    assert_eq!(placed(&plan, 0), 24);
    assert!(pending(&plan, 0).1.contains("too little CPU"), "{:?}", pending(&plan, 0));
    let (plan, _) = planned(&deployment("d", 4, "gpu-fraction: '0.25'", "cpu: 4"), "g4dn.2xlarge=1");
    assert_eq!(placed(&plan, 0), 2);
    assert!(pending(&plan, 0).1.contains("1 node has too little CPU left"), "{:?}", pending(&plan, 0));
}

#[test]
fn models_isolation_and_sizes_decide_where() {
    let text = [
        deployment("wanted", 1, "nvidia.com/use-gputype: A10", "nvidia.com/gpu: 1, nvidia.com/gpumem: 4000"),
        deployment("unwanted", 1, "nvidia.com/nouse-gputype: 'A100,A10G'", "nvidia.com/gpu: 1"),
        deployment("tenant", 1, "carve.dev/isolation: tenant", "nvidia.com/gpumem: 4000"),
        deployment("large", 1, "", "nvidia.com/gpumem: 30000"),
    ]
    .concat();
    let (plan, _) = planned(&text, "p4d.24xlarge=1,g5.2xlarge=2");
    let node = |index: usize| plan.nodes[plan.workloads[index].landings[0].node].name.clone();
    assert!(node(0).starts_with("g5.2xlarge"));
    assert!(pending(&plan, 1).1.contains("it wants other GPUs"), "{:?}", pending(&plan, 1));
    let way = plan.workloads[2].landings[0].way.as_ref().map(ToString::to_string);
    assert_eq!((node(2).as_str(), way.as_deref()), ("p4d.24xlarge-0", Some("MIG 1g.5gb")));
    // Beside MIG devices NVIDIA's plugin serves no MPS, and an A10G is too small.
    assert!(pending(&plan, 3).1.contains("cut by MIG"), "{:?}", pending(&plan, 3));
}

#[test]
fn pods_of_several_devices_stay_together() {
    let text = "kind: ResourceClaimTemplate\nmetadata: {name: t}\nspec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: \
                mig.nvidia.com, count: 2, selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].profile == '1g.5gb'\"}}]}}, \
                {name: b, exactly: {deviceClassName: mig.nvidia.com, selectors: [{cel: {expression: \
                \"device.attributes['gpu.nvidia.com'].profile == '2g.10gb'\"}}]}}, {name: c, exactly: {deviceClassName: mig.nvidia.com, \
                selectors: [{cel: {expression: \"device.attributes['gpu.nvidia.com'].profile == '3g.20gb'\"}}]}}], constraints: \
                [{matchAttribute: gpu.nvidia.com/parentUUID}]}}}\n---\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 10, \
                template: {spec: {containers: [{name: c}], resourceClaims: [{name: g, resourceClaimTemplateName: t}]}}}\n";
    let (plan, _) = planned(text, "p4d.24xlarge=1");
    assert_eq!((placed(&plan, 0), pending(&plan, 0).0), (8, 2));
    assert!(plan.nodes[0].mig.iter().flatten().all(|geometry| geometry.instances() == 4));
}

#[test]
fn one_claim_for_several_pods_is_one_device() {
    let text = "kind: ResourceClaim\nmetadata: {name: s}\nspec: {devices: {requests: [{name: g, exactly: {deviceClassName: \
                gpu.nvidia.com}}]}}\n---\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 3, template: {spec: {containers: [{name: \
                c}], resourceClaims: [{name: g, resourceClaimName: s}]}}}\n";
    let (plan, _) = planned(text, "g5.2xlarge=3");
    assert_eq!(plan.workloads.len(), 1, "the claim is counted with its pods");
    assert_eq!(plan.nodes.iter().filter(|node| node.pods > 0).count(), 1);
    assert_eq!(plan.nodes.iter().map(|node| node.pods).sum::<u32>(), 3);
}

#[test]
fn daemons_are_on_every_node_and_shares_of_mig_devices_are_layered() {
    let daemon = "kind: DaemonSet\nmetadata: {name: m}\nspec: {template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}\n";
    let text = format!("{daemon}{}", deployment("l", 9, "", "nvidia.com/mig-1g.5gb.shared: 1"));
    let (plan, workloads) = planned(&text, "p4d.24xlarge=1,g5.2xlarge=2");
    assert_eq!((placed(&plan, 0), placed(&plan, 1)), (3, 9));
    let made: u64 = plan.nodes[0].mig.iter().flatten().map(carve_gpu_model::Geometry::instances).sum();
    assert_eq!(made, 3, "nine pods, four on a device");
    let written = files(&plan, &workloads).expect("one way for each workload");
    let config = written.iter().find(|file| file.name.starts_with("device-plugin")).expect("a config");
    assert!(
        config.text.contains("nvidia.com/mig-1g.5gb") && config.text.contains("replicas: 4"),
        "{}",
        config.text
    );
}

#[test]
fn parts_of_different_sizes_are_asked_for_by_claims() {
    let text =
        [deployment("a", 1, "gpu-fraction: '0.5'", ""), deployment("b", 2, "gpu-fraction: '0.25'", "")]
            .concat();
    let (plan, workloads) = planned(&text, "g5.2xlarge=1");
    assert_eq!((placed(&plan, 0), placed(&plan, 1)), (1, 2));
    let written = files(&plan, &workloads).expect("one way for each workload");
    let claims = written.iter().find(|file| file.name == "resource-claims.yaml").expect("claims");
    assert!(
        claims.text.contains("memory: 11514Mi") && claims.text.contains("memory: 5757Mi"),
        "{}",
        claims.text
    );
    assert!(!written.iter().any(|file| file.name.starts_with("device-plugin")));
}

/// MPS has 48 clients; however little each asks for, no more are promised a GPU.
#[test]
fn mps_is_not_promised_to_more_clients_than_it_has() {
    for limits in ["nvidia.com/gpumem: 1", "nvidia.com/gpumem: 100, nvidia.com/gpucores: 1"] {
        let (plan, workloads) = planned(&deployment("d", 60, "", limits), "t4:1=1");
        assert_eq!(placed(&plan, 0), 47, "parts of 2.1 %, the smallest of which at most 48 fit");
        let written = files(&plan, &workloads).expect("one way");
        let config = written.iter().find(|file| file.name.starts_with("device-plugin")).expect("a config");
        assert!(config.text.contains("replicas: 47"), "{}", config.text);
    }
    for shares in [42, 46, 48] {
        let workloads =
            workloads(&deployment("d", 60, "carve.dev/isolation: performance", "nvidia.com/gpu.shared: 1"));
        let settings = Settings { shares, ..Settings::default() };
        let plan = plan(&workloads, &pools("t4:1=1").expect("machines"), settings).expect("a plan");
        assert_eq!(placed(&plan, 0), shares, "as many as were asked for");
        let written = files(&plan, &workloads).expect("one way");
        let config = written.iter().find(|file| file.name.starts_with("device-plugin")).expect("a config");
        assert!(config.text.contains(&format!("replicas: {shares}")), "{}", config.text);
    }
}

/// What a cluster has is an option of the plan; what would need the limiter says so where there is none.
#[test]
fn the_limiter_serves_where_the_cluster_has_one() {
    let text = deployment("d", 2, "carve.dev/isolation: fault", "nvidia.com/gpumem: 4000");
    let workloads = workloads(&text);
    let machines = pools("t4:1=2").expect("machines");
    let on = |mechanisms| {
        plan(&workloads, &machines, Settings { mechanisms, ..Settings::default() }).expect("a plan")
    };
    let without = on(Settings::default().mechanisms);
    assert!(!Settings::default().mechanisms.contains(Mechanism::Limiter), "carve has none of its own");
    assert_eq!(without.nodes.iter().filter(|node| node.pods > 0).count(), 2, "a whole GPU each");
    let why = &without.workloads[0].choices[0].because;
    assert!(why.contains("the cluster has no limiter"), "{why}");
    let with = on(Mechanisms::ANY);
    check(&with, &workloads);
    assert_eq!(with.nodes[0].pods, 2);
    assert_eq!(with.workloads[0].choices[0].way.to_string(), "limiter");
}

/// All pods of a workload are made from one template, so it asks in one way wherever they land.
#[test]
fn a_workload_that_needs_claims_on_one_node_uses_them_on_all() {
    let text = [
        deployment("turns", 6, "", "nvidia.com/gpu.shared: 1"),
        deployment("sized", 1, "", "nvidia.com/gpumem-percentage: 30, nvidia.com/gpucores: 30"),
    ]
    .concat();
    let (plan, workloads) = planned(&text, "g5.2xlarge=2");
    assert_eq!((placed(&plan, 0), placed(&plan, 1)), (6, 1));
    assert!(plan.nodes.iter().all(|node| node.by_claims), "the shares are on both nodes, the part on one");
    let ways: Vec<String> =
        plan.workloads[0].landings.iter().filter_map(|one| Some(one.way.as_ref()?.to_string())).collect();
    assert_eq!(ways, ["MPS", "MPS"]);
    let written = files(&plan, &workloads).expect("one way");
    assert!(!written.iter().any(|file| file.name.starts_with("device-plugin")));
    let claims = written.iter().find(|file| file.name == "resource-claims.yaml").expect("claims");
    assert_eq!(claims.text.matches("kind: ResourceClaimTemplate").count(), 2, "{}", claims.text);
}

#[test]
fn pods_that_crashes_must_not_reach_are_not_turned_into_mps() {
    let text = [
        deployment("sized", 1, "", "nvidia.com/gpumem-percentage: 30, nvidia.com/gpucores: 30"),
        deployment("apart", 1, "carve.dev/isolation: fault", "nvidia.com/gpu.shared: 1"),
    ]
    .concat();
    let (plan, _) = planned(&text, "g5.2xlarge=1");
    assert_eq!((placed(&plan, 0), placed(&plan, 1)), (1, 0));
    assert!(pending(&plan, 1).1.contains("clients end together"), "{:?}", pending(&plan, 1));
}

#[test]
fn what_one_template_can_not_ask_for_is_not_written() {
    let text = deployment("d", 9, "carve.dev/isolation: tenant", "nvidia.com/gpumem: 4000");
    let (plan, workloads) = planned(&text, "a100-40gb:1=1,t4:1=2");
    assert_eq!(placed(&plan, 0), 9);
    let refused = files(&plan, &workloads).unwrap_err();
    assert_eq!(refused.ways, ["7 by MIG 1g.5gb", "2 by exclusive"].map(str::to_owned));
    assert!(refused.to_string().contains("nodeSelector"), "{refused}");
    // Two products that serve it by MIG, each by a profile of its own, are one request.
    let (plan, workloads) = planned(&text, "a100-40gb:1=1,h100-sxm-80gb:1=1");
    let written = files(&plan, &workloads).expect("one way");
    let claims = written.iter().find(|file| file.name == "resource-claims.yaml").expect("claims");
    assert!(claims.text.contains("profile in ['1g.10gb', '1g.5gb']"), "{}", claims.text);
}

#[test]
fn absurd_numbers_are_refused() {
    let many = workloads(&deployment("d", 1_000_000, "", "nvidia.com/gpu: 1"));
    let machines = pools("t4:1=1").expect("machines");
    assert!(plan(&many, &machines, Settings::default()).unwrap_err().to_string().contains("1000000 pods"));
    let few = workloads(&deployment("d", 1, "", "nvidia.com/gpu: 1"));
    let settings = Settings { shares: 0, ..Settings::default() };
    assert!(plan(&few, &machines, settings).is_err());
}

fn random_deployment() -> impl Strategy<Value = (u32, String, String)> {
    let limits = prop::sample::select(vec![
        "nvidia.com/gpu: 1",
        "nvidia.com/gpu: 3, cpu: 3",
        "nvidia.com/gpu.shared: 1",
        "nvidia.com/gpumem: 5000",
        "nvidia.com/gpumem: 9000, nvidia.com/gpucores: 15, memory: 9Gi",
        "nvidia.com/gpumem-percentage: 35",
        "koordinator.sh/gpu: 70",
        "nvidia.com/mig-1g.5gb: 1, cpu: 2",
        "nvidia.com/mig-2g.10gb: 2",
        "nvidia.com/mig-3g.20gb: 1",
        "nvidia.com/mig-1g.5gb: 3, cpu: 20",
        "nvidia.com/mig-4g.20gb: 1, memory: 300Gi",
        "nvidia.com/mig-1g.10gb: 1",
        "nvidia.com/mig-7g.80gb: 1",
        "nvidia.com/mig-1g.5gb.shared: 1, cpu: 7",
        "cpu: 5",
    ]);
    let annotations = prop::sample::select(vec![
        "",
        "",
        "",
        "carve.dev/isolation: tenant",
        "nvidia.com/use-gputype: A100",
        "nvidia.com/nouse-gputype: H100",
    ]);
    (1_u32..12, limits.prop_map(str::to_owned), annotations.prop_map(str::to_owned))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_is_sound(asked in prop::collection::vec(random_deployment(), 1..6), which in 0..6_usize) {
        let text: String =
            asked.iter().enumerate().map(|(index, (pods, limits, notes))| deployment(&format!("d{index}"), *pods, notes, limits)).collect();
        let nodes = [
            "p4d.24xlarge=1,g5.2xlarge=3",
            "g5.12xlarge=1,g4dn.2xlarge=2",
            "a100-40gb:1=3",
            "h100-sxm-80gb:2=1,a100-40gb:2=1",
            "p4d.24xlarge=1,p5.48xlarge=1",
            "a100-40gb:3=2,a100-80gb:1=1,t4:1=1",
        ][which];
        let (plan, workloads) = planned(&text, nodes);
        prop_assert_eq!(plan.workloads.len(), workloads.len());
        for (index, (pods, ..)) in asked.iter().enumerate() {
            let (waiting, why) = pending(&plan, index);
            prop_assert_eq!(placed(&plan, index) + waiting, *pods);
            prop_assert!(waiting == 0 || !why.is_empty());
        }
    }
}
