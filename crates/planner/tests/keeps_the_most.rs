//! The diff against exhaustive search, the independent checker, and random cases with instances in use.

use carve_gpu_model::products::CATALOGUE;
use carve_gpu_model::{
    ComputeInstanceId, Geometry, GpuInstanceId, Placed, Product, ProfileName, ProfileTable,
};
use carve_planner::{
    InfeasibleReason, PresentCompute, PresentInstance, Recut, RecutError, WantedError, WantedInstance, recut,
    verify, wanted,
};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

fn table(key: &str) -> ProfileTable {
    Product::by_key(key).and_then(Product::profile_table).unwrap()
}

fn present(table: &ProfileTable, state: &[Placed], in_use: &[bool]) -> Vec<PresentInstance> {
    let instance = |(position, placed): (usize, &Placed)| PresentInstance {
        id: GpuInstanceId(position as u32),
        placed: *placed,
        compute: vec![PresentCompute {
            id: ComputeInstanceId(0),
            slices: table.get(placed.profile).unwrap().slices,
            in_use: in_use.get(position).copied().unwrap_or(false),
        }],
    };
    state.iter().enumerate().map(instance).collect()
}

fn target(table: &ProfileTable, geometry: &Geometry) -> Vec<WantedInstance> {
    wanted(table, geometry.iter().map(|(name, count)| (name, u64::from(count)))).unwrap()
}

/// The most instances that any placement of the geometry shares with the state, by looking at all states.
fn most_shared(states: &[(Geometry, Vec<Placed>)], state: &[Placed], geometry: &Geometry) -> usize {
    let shared = |other: &Vec<Placed>| other.iter().filter(|placed| state.contains(placed)).count();
    states.iter().filter(|(other, _)| other == geometry).map(|(_, other)| shared(other)).max().unwrap()
}

fn all_states(table: &ProfileTable) -> Vec<(Geometry, Vec<Placed>)> {
    let mut states = Vec::new();
    table.visit_states(|state| states.push((Geometry::of(table, state), state.to_vec())));
    states
}

#[test]
fn all_pairs_of_maximal_layouts_keep_the_exhaustive_optimum() {
    for (key, pairs) in [("a100-40gb", 1892), ("a30-24gb", 56), ("rtx-pro-6000-96gb", 4032)] {
        let table = table(key);
        let states = all_states(&table);
        let maximal = table.maximal_geometries();
        let (mut seen, mut kept, mut instances) = (0, 0, 0);
        for from in &maximal {
            let present = present(&table, &from.example, &[]);
            for to in maximal.iter().filter(|to| to.geometry != from.geometry) {
                let target = target(&table, &to.geometry);
                let diff = recut(&table, &present, &target).unwrap();
                verify(&table, &present, &target, &diff).unwrap();
                assert_eq!(
                    diff.keep.len(),
                    most_shared(&states, &from.example, &to.geometry),
                    "{from:?} {to:?}"
                );
                seen += 1;
                kept += diff.keep.len();
                instances += from.example.len();
            }
        }
        assert_eq!(seen, pairs, "{key}");
        let share = 100 * kept / instances;
        println!("{key}: {kept} of {instances} instances kept over {seen} ordered pairs ({share} %)");
        if key == "a100-40gb" {
            assert!((31..=35).contains(&share), "about a third is kept on 8-slot parts, not {share} %");
        }
    }
}

#[test]
fn compute_instances_share_gpu_instances() {
    let table = table("h200-141gb");
    let name = |text: &str| text.parse::<ProfileName>().unwrap();
    let (three, four) = (name("1c.3g.71gb"), name("2c.4g.71gb"));
    let instances = wanted(&table, [(&three, 3), (&four, 2)]).unwrap();
    let divisions: Vec<&[u8]> = instances.iter().map(|instance| instance.compute.as_slice()).collect();
    assert_eq!(divisions, [&[1, 1, 1][..], &[2, 2]]);
    let four_of_three = wanted(&table, [(&three, 4)]).unwrap();
    assert_eq!(four_of_three.len(), 2);
    let explicit = name("1c.1g.18gb");
    assert_eq!(wanted(&table, [(&explicit, 2)]).unwrap().len(), 2);
    assert!(matches!(wanted(&table, [(&name("2c.1g.18gb"), 1)]), Err(WantedError::Division { .. })));
    assert!(matches!(wanted(&table, [(&name("3c.4g.71gb"), 1)]), Err(WantedError::Division { .. })));
    assert!(matches!(
        wanted(&table, [(&name("1g.18gb"), 1_000_000)]),
        Err(WantedError::TooMany { most: 7, .. })
    ));
    let Err(WantedError::Unknown(unknown)) = wanted(&table, [(&name("3g.70gb"), 1)]) else { panic!() };
    assert_eq!(unknown.nearest, Some(name("3g.71gb")));
}

#[test]
fn a_division_changes_inside_its_instance() {
    let table = table("h200-141gb");
    let name: ProfileName = "1c.3g.71gb".parse().unwrap();
    let (profile, _) = table.by_name(&name).unwrap();
    let part = |id, slices, in_use| PresentCompute { id: ComputeInstanceId(id), slices, in_use };
    let present = [PresentInstance {
        id: GpuInstanceId(2),
        placed: Placed { profile, start: 4 },
        compute: vec![part(0, 2, false), part(1, 1, true)],
    }];
    let target = wanted(&table, [(&name, 3)]).unwrap();
    let diff = recut(&table, &present, &target).unwrap();
    assert!(diff.destroy.is_empty() && diff.create.is_empty());
    assert_eq!(diff.keep[0].destroy, [ComputeInstanceId(0)]);
    assert_eq!(diff.keep[0].create, [1, 1]);
    verify(&table, &present, &target, &diff).unwrap();
    let whole: ProfileName = "3g.71gb".parse().unwrap();
    let blocked = recut(&table, &present, &wanted(&table, [(&whole, 2)]).unwrap());
    assert!(matches!(blocked, Err(RecutError::InUse { start: 4, .. })), "{blocked:?}");
}

#[test]
fn an_infeasible_target_is_explained_with_the_nearest_that_fits() {
    let reason = |key: &str, counts: &[(&str, u64)]| {
        let table = table(key);
        let names: Vec<ProfileName> = counts.iter().map(|(name, _)| name.parse().unwrap()).collect();
        let counts = names.iter().zip(counts).map(|(name, (_, count))| (name, *count));
        let Err(RecutError::Infeasible(error)) = recut(&table, &[], &wanted(&table, counts).unwrap()) else {
            panic!()
        };
        (error.reason, error.nearest.to_string())
    };
    let (why, nearest) = reason("h200-141gb", &[("3g.71gb", 2), ("1g.18gb", 1)]);
    assert_eq!(why, InfeasibleReason::Slots { asked: 9, available: 8 });
    assert_eq!(nearest, "2× 3g.71gb");
    let (why, _) = reason("h200-141gb", &[("4g.71gb", 1), ("3g.71gb", 1), ("1g.18gb", 1)]);
    assert_eq!(why, InfeasibleReason::ComputeSlices { asked: 8, available: 7 });
    let (why, nearest) = reason("rtx-pro-6000-96gb", &[("1g.24gb+me.all", 1), ("1g.24gb", 3)]);
    assert!(matches!(why, InfeasibleReason::Engines { .. }), "{why:?}");
    assert_eq!(nearest, "3× 1g.24gb");
    let (why, _) = reason("a100-40gb", &[("1g.5gb", 3), ("1g.5gb+me", 1), ("1g.10gb", 2), ("2g.10gb", 1)]);
    assert_eq!(why, InfeasibleReason::ComputeSlices { asked: 8, available: 7 });
}

/// The optimum when some instances must stay, by looking at all states.
fn optimum(
    states: &[(Geometry, Vec<Placed>)],
    present: &[PresentInstance],
    geometry: &Geometry,
) -> Option<usize> {
    let must = |state: &Vec<Placed>| present.iter().filter(|p| p.in_use()).all(|p| state.contains(&p.placed));
    let shared = |state: &Vec<Placed>| present.iter().filter(|p| state.contains(&p.placed)).count();
    states
        .iter()
        .filter(|(other, state)| other == geometry && must(state))
        .map(|(_, state)| shared(state))
        .max()
}

proptest! {
    #[test]
    fn random_states_with_instances_in_use_keep_the_optimum(
        product in 0..CATALOGUE.len(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
        in_use in prop::collection::vec(prop::bool::weighted(0.3), 12),
    ) {
        let Some(table) = CATALOGUE[product].profile_table() else { return Ok(()) };
        let states = all_states(&table);
        let (_, from) = from.get(&states);
        let (geometry, _) = to.get(&states);
        let present = present(&table, from, &in_use);
        let target = target(&table, geometry);
        match recut(&table, &present, &target) {
            Ok(diff) => {
                prop_assert_eq!(verify(&table, &present, &target, &diff), Ok(()));
                prop_assert_eq!(Some(diff.keep.len()), optimum(&states, &present, geometry));
            }
            Err(RecutError::InUse { start, .. }) => {
                prop_assert_eq!(optimum(&states, &present, geometry), None);
                prop_assert!(present.iter().any(|instance| instance.in_use() && instance.placed.start == start));
            }
            Err(RecutError::Infeasible(error)) => prop_assert!(false, "every state is feasible: {error}"),
        }
    }
}

#[test]
fn the_checker_finds_a_forged_diff() {
    let table = table("a100-40gb");
    let seven = table.maximal_geometries().into_iter().max_by_key(|found| found.example.len()).unwrap();
    let before = present(&table, &seven.example, &[true]);
    let goal = target(&table, &seven.geometry);
    let diff = recut(&table, &before, &goal).unwrap();
    assert!(diff.is_empty());
    let forged = Recut { destroy: before[..1].to_vec(), keep: diff.keep[1..].to_vec(), create: Vec::new() };
    assert!(verify(&table, &before, &goal, &forged).is_err());
    let forgetful = Recut { keep: diff.keep[1..].to_vec(), ..Recut::default() };
    assert!(verify(&table, &before, &goal, &forgetful).is_err());
    assert!(verify(&table, &before, &goal[1..], &diff).is_err());
}
