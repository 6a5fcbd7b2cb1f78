//! MIG GPUs are cut for the most devices on the fewest GPUs: against simple orders, against every cut, and with the bound told.

use carve_fleet_plan::{Plan, Settings, plan, pools};
use carve_formats::workloads::{Source, read};
use carve_gpu_model::{GpuIndex, Product, ProfileTable};
use carve_planner::{
    ClaimName, Demand, Effort, FleetGpu, Generation, GpuAt, HostName, MigMode, PendingClaim, PoolName, Wants,
    check_plan,
};
use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};
use std::fmt::Write as _;
use std::sync::Arc;

fn planned(text: &str, nodes: &str) -> Plan {
    let read = read(&[Source { name: "test", text }]);
    assert!(!read.has_errors(), "{:?}", read.findings);
    let plan = plan(&read.workloads, &pools(nodes).expect("machines"), Settings::default()).expect("a plan");
    assert_eq!(check_plan(&plan.mig.gpus, &plan.mig.demand, &plan.mig.plan), Ok(()));
    plan
}

/// A deployment for each request; the annotations are for all.
fn deployments(asked: &[(&str, u32)], annotations: &str) -> String {
    let mut text = String::new();
    for (number, (limits, replicas)) in asked.iter().enumerate() {
        let _ = write!(
            text,
            "---\nkind: Deployment\nmetadata: {{name: d{number}}}\nspec:\n  replicas: {replicas}\n  template:\n    metadata: \
             {{annotations: {{{annotations}}}}}\n    spec: {{containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]}}\n"
        );
    }
    text
}

fn devices(asked: &[(&str, u32)]) -> String {
    let limits: Vec<(String, u32)> =
        asked.iter().map(|(profile, count)| (format!("nvidia.com/mig-{profile}: 1"), *count)).collect();
    let limits: Vec<(&str, u32)> = limits.iter().map(|(limits, count)| (limits.as_str(), *count)).collect();
    deployments(&limits, "")
}

fn placed(plan: &Plan, workload: usize) -> u32 {
    plan.workloads[workload].landings.iter().map(|landing| landing.pods).sum()
}

fn a100() -> ProfileTable {
    Product::by_key("a100-40gb").and_then(Product::profile_table).expect("a table")
}

/// GPU by GPU, each cut as looks best for itself. Devices made and GPUs cut.
fn greedy(table: &ProfileTable, demand: &[u32], gpus: usize, large_first: bool) -> (u32, usize) {
    let geometries = table.geometries();
    let mut left = demand.to_vec();
    let (mut made, mut cut) = (0, 0);
    while cut < gpus {
        let within =
            |counts: &&Vec<u8>| counts.iter().zip(&left).all(|(count, left)| u32::from(*count) <= *left);
        let worth = |counts: &&Vec<u8>| {
            let number: u32 = counts.iter().map(|count| u32::from(*count)).sum();
            let slices =
                counts.iter().zip(table.profiles()).map(|(count, one)| u32::from(*count * one.slices)).sum();
            if large_first {
                counts.iter().rev().map(|count| u32::from(*count)).collect()
            } else {
                vec![number, slices]
            }
        };
        let Some(best) = geometries.keys().filter(within).max_by_key(worth) else { break };
        let number: u32 = best.iter().map(|count| u32::from(*count)).sum();
        if number == 0 {
            break;
        }
        left.iter_mut().zip(best).for_each(|(left, count)| *left -= u32::from(*count));
        (made, cut) = (made + number, cut + 1);
    }
    (made, cut)
}

fn counts(table: &ProfileTable, asked: &[(&str, u32)]) -> Vec<u32> {
    let count = |name: String| asked.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
    table.profiles().iter().map(|profile| count(profile.name.to_string())).collect()
}

/// Seven 3g and twenty-eight 1g fill seven GPUs exactly, if every 3g has four 1g beside it. Cut GPU by GPU they take eight, and the pod that
/// wants a whole GPU has none.
#[test]
fn a_gpu_that_simple_orders_cut_stays_whole() {
    let asked = [("3g.20gb", 7), ("1g.5gb", 28)];
    let table = a100();
    for large_first in [true, false] {
        assert_eq!(greedy(&table, &counts(&table, &asked), 8, large_first), (35, 8));
    }
    let text = format!(
        "{}---\nkind: Pod\nmetadata: {{name: whole}}\nspec: {{containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}\n",
        devices(&asked)
    );
    let plan = planned(&text, "p4d.24xlarge=1");
    assert_eq!((plan.mig.made(), plan.mig.gpus_cut(), plan.mig.gpus_at_least), (35, 7, Some(7)));
    assert_eq!(placed(&plan, 2), 1, "{:?}", plan.workloads[2].pending);
}

/// A pod that either product can serve is cut out of the one that nobody wants whole, in whatever order the machines are listed.
#[test]
fn of_two_products_the_one_that_is_wanted_whole_stays_whole() {
    let tenant = deployments(&[("nvidia.com/gpumem: 4000", 3)], "carve.dev/isolation: tenant");
    let whole = "---\nkind: Pod\nmetadata: {name: whole, annotations: {nvidia.com/use-gputype: H100}}\nspec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n";
    let text = format!("{tenant}{whole}");
    for nodes in ["h100-sxm-80gb:1=1,a100-40gb:1=1", "a100-40gb:1=1,h100-sxm-80gb:1=1"] {
        let plan = planned(&text, nodes);
        assert_eq!((placed(&plan, 0), placed(&plan, 1)), (3, 1), "{nodes}");
        let cut: Vec<&str> =
            plan.nodes.iter().filter(|node| node.mig[0].is_some()).map(|node| node.name.as_str()).collect();
        assert_eq!(cut, ["a100-40gb:1-0"], "{nodes}");
    }
}

/// Pods that name a product get nothing from another, though its profiles have the same names.
#[test]
fn devices_come_from_the_product_that_is_named() {
    let named = deployments(&[("nvidia.com/mig-1g.10gb: 1", 20)], "nvidia.com/use-gputype: H100");
    let plan = planned(&named, "a100-80gb:8=1,h100-sxm-80gb:2=1");
    assert_eq!((placed(&plan, 0), plan.mig.at_most()), (14, 14));
    let on: Vec<&str> =
        plan.workloads[0].landings.iter().map(|landing| plan.nodes[landing.node].name.as_str()).collect();
    assert_eq!(on, ["h100-sxm-80gb:2-0"]);
}

/// What a machine has no CPU for is planned on the next one, and its devices are not made.
#[test]
fn machines_without_cpu_left_are_passed_over() {
    let asked = [("nvidia.com/mig-1g.5gb: 1, cpu: 4", 60), ("nvidia.com/mig-3g.20gb: 1, cpu: 1", 4)];
    let plan = planned(&deployments(&asked, ""), "p4d.24xlarge=2");
    // 96 cores each: four for the large ones, which take the least, and the rest by four.
    assert_eq!(placed(&plan, 1), 4);
    assert!((46..=47).contains(&placed(&plan, 0)), "{}", placed(&plan, 0));
    assert_eq!(plan.mig.made(), u64::from(placed(&plan, 0) + placed(&plan, 1)));
    assert_eq!(plan.mig.at_most(), 52, "48 by CPU, were they alone, and four");
    assert!(plan.mig.gpus_cut() < 16, "devices without pods are not made");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Never fewer devices than the simple orders make, never more GPUs for as many; and exactly as many as the planner makes when it is
    /// asked about all GPUs at once, of which its own tests prove that no cut makes more.
    #[test]
    fn no_cut_of_a_host_makes_more_or_needs_fewer_gpus(
        numbers in prop::collection::vec(0_u32..9, 5), gpus in 1_usize..5,
    ) {
        let names = ["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"];
        let asked: Vec<(&str, u32)> = names.into_iter().zip(numbers).filter(|(_, count)| *count > 0).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let plan = planned(&devices(&asked), &format!("a100-40gb:{gpus}=1"));
        let (made, cut) = (plan.mig.made(), plan.mig.gpus_cut());
        prop_assert_eq!(plan.mig.at_most(), made, "the bound of a host is met");
        let table = Arc::new(a100());
        for large_first in [true, false] {
            let (simple, on) = greedy(&table, &counts(&table, &asked), gpus, large_first);
            prop_assert!(made >= u64::from(simple));
            prop_assert!(made > u64::from(simple) || cut <= on, "{} GPUs, simply {}", cut, on);
        }
        let exact = |gpus: usize| {
            let gpu = |number| FleetGpu {
                at: GpuAt { host: HostName("h".to_owned()), gpu: GpuIndex(number as u32) },
                pool: PoolName::default(),
                table: table.clone(),
                mode: MigMode::Off,
                instances: Vec::new(),
            };
            let wants = asked.iter().flat_map(|(name, count)| std::iter::repeat_n(*name, *count as usize));
            let claim = |(number, name): (usize, &str)| PendingClaim {
                name: ClaimName(number.to_string()),
                wants: Wants::Profile(name.parse().expect("a profile")),
            };
            let demand = Demand { pending: wants.enumerate().map(claim).collect(), ..Demand::default() };
            let gpus: Vec<FleetGpu> = (0..gpus).map(gpu).collect();
            carve_planner::plan(&gpus, &demand, Generation(1), Effort::HOST).expect("a plan").served.len() as u64
        };
        prop_assert_eq!(made, exact(gpus));
        prop_assert!(cut == 0 || exact(cut - 1) < made, "one GPU fewer serves as many");
    }
}
