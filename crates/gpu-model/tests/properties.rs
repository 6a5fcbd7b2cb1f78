//! Legality and naming against independent, exhaustive or random references.

use carve_gpu_model::products::CATALOGUE;
use carve_gpu_model::{Geometry, Placed, Product, ProfileName, ProfileSlot, ProfileTable};
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;

/// Legality spelled out by brute force from the rules, sharing nothing with `check` but the table.
fn legal_by_the_rules(table: &ProfileTable, instances: &[Placed]) -> bool {
    let mut slots = vec![0u32; usize::from(table.slots())];
    let mut slices = 0;
    let mut engines = [0u32; 5];
    let mut counts = vec![0u32; table.profiles().len()];
    for placed in instances {
        let Some(profile) = table.profiles().get(usize::from(placed.profile.0)) else { return false };
        let Some(at) = profile.placements.iter().find(|at| at.start == placed.start) else { return false };
        for slot in at.start..at.start + at.size {
            slots[usize::from(slot)] += 1;
        }
        slices += u32::from(profile.slices);
        counts[usize::from(placed.profile.0)] += 1;
        let each = [
            profile.engines.copy,
            profile.engines.decoder,
            profile.engines.encoder,
            profile.engines.jpeg,
            profile.engines.ofa,
        ];
        for (sum, number) in engines.iter_mut().zip(each) {
            *sum += u32::from(number);
        }
    }
    let full = table.profiles().iter().max_by_key(|profile| (profile.slices, profile.size())).unwrap();
    let total =
        [full.engines.copy, full.engines.decoder, full.engines.encoder, full.engines.jpeg, full.engines.ofa];
    slots.iter().all(|uses| *uses <= 1)
        && slices <= u32::from(full.slices)
        && engines.iter().zip(total).all(|(sum, most)| *sum <= u32::from(most))
        && counts
            .iter()
            .zip(table.profiles())
            .all(|(count, profile)| *count <= u32::from(profile.max_instances))
}

fn tables() -> impl Iterator<Item = (&'static str, ProfileTable)> {
    CATALOGUE.iter().filter_map(|product| Some((product.key, product.profile_table()?)))
}

/// Every subset of all (profile, start) pairs that the rules allow, found by growing legal sets one pair at a time.
fn all_states_by_the_rules(table: &ProfileTable) -> BTreeSet<Vec<Placed>> {
    let pairs: Vec<Placed> = table
        .enumerate()
        .flat_map(|(profile, row)| row.placements.iter().map(move |at| Placed { profile, start: at.start }))
        .collect();
    let mut known = BTreeSet::from([Vec::new()]);
    let mut frontier = vec![Vec::new()];
    while let Some(state) = frontier.pop() {
        for pair in &pairs {
            let mut more: Vec<Placed> = state.clone();
            more.push(*pair);
            more.sort_unstable();
            if legal_by_the_rules(table, &more) && known.insert(more.clone()) {
                frontier.push(more);
            }
        }
    }
    known
}

#[test]
fn enumeration_finds_exactly_the_states_the_rules_allow() {
    let mut seen = BTreeSet::new();
    for (key, table) in tables() {
        let expected = all_states_by_the_rules(&table);
        let mut found = BTreeSet::new();
        table.visit_states(|state| {
            let mut state = state.to_vec();
            state.sort_unstable();
            assert!(table.check(&state).is_ok(), "{key}: {state:?}");
            assert!(found.insert(state), "{key}: a state twice");
        });
        assert_eq!(found, expected, "{key}");
        let census = table.census();
        seen.insert((census.placed_states, census.geometries, census.maximal));
    }
    assert_eq!(seen, BTreeSet::from([(2319, 128, 44), (76, 20, 8), (717, 115, 64)]));
}

#[test]
fn catalogue_rows_all_have_names_and_unique_keys() {
    let keys: BTreeSet<&str> = CATALOGUE.iter().map(|product| product.key).collect();
    assert_eq!(keys.len(), CATALOGUE.len());
    let mut ids = BTreeSet::new();
    for board in CATALOGUE.iter().flat_map(|product| product.boards) {
        for id in board.pci_devices {
            assert!(ids.insert(id), "0x{id:04X} belongs to two products");
        }
    }
    for product in CATALOGUE {
        for name in product.documented_profiles() {
            name.parse::<ProfileName>().unwrap();
        }
        assert!(product.profile_table().is_none_or(|table| !table.profiles().is_empty()), "{}", product.key);
    }
}

#[test]
fn slot_by_slot_profile_names_are_what_people_write() {
    let table = Product::by_key("rtx-pro-6000-96gb").and_then(Product::profile_table).unwrap();
    let names: Vec<String> = table.profiles().iter().map(|profile| profile.name.resource_form()).collect();
    assert!(
        names.contains(&"1g.24gb.me.all".to_owned()) && names.contains(&"1g.24gb-me".to_owned()),
        "{names:?}"
    );
}

fn any_instances(profiles: u8, slots: u8) -> impl Strategy<Value = Vec<Placed>> {
    let placed = (0..=profiles, 0..=slots)
        .prop_map(|(profile, start)| Placed { profile: ProfileSlot(profile), start });
    prop::collection::vec(placed, 0..9)
}

proptest! {
    #[test]
    fn check_agrees_with_the_rules(product in 0..CATALOGUE.len(), instances in any_instances(11, 12)) {
        if let Some(table) = CATALOGUE[product].profile_table() {
            prop_assert_eq!(table.check(&instances).is_ok(), legal_by_the_rules(&table, &instances));
        }
    }

    #[test]
    fn names_print_and_parse_to_themselves(
        c in 0u64..10, g in 0u64..10, gb in 0u64..300, sign in any::<bool>(),
        attributes in prop::collection::btree_set("[a-z]{1,4}(\\.[a-z]{1,3})?", 0..3),
    ) {
        let attributes: Vec<String> = attributes.into_iter().collect();
        let suffix = if attributes.is_empty() {
            String::new()
        } else {
            format!("{}{}", if sign { '+' } else { '-' }, attributes.join(","))
        };
        let name: ProfileName = format!("{c}c.{g}g.{gb}gb{suffix}").parse().unwrap();
        prop_assert_eq!(name.to_string().parse::<ProfileName>(), Ok(name));
    }

    #[test]
    fn no_text_makes_the_name_parser_panic(text in "\\PC{0,24}") {
        if let Ok(name) = text.parse::<ProfileName>() {
            prop_assert_eq!(name.to_string().parse::<ProfileName>(), Ok(name));
        }
        let _ = text.parse::<Geometry>();
    }

    #[test]
    fn a_feasible_geometry_has_an_arrangement_and_an_infeasible_one_has_none(
        product in 0..CATALOGUE.len(), counts in prop::collection::vec(0u32..4, 11),
    ) {
        if let Some(table) = CATALOGUE[product].profile_table() {
            let counts = &counts[..table.profiles().len()];
            let mut found = false;
            table.visit_arrangements(&[], counts, |state| {
                found = table.check(state).is_ok();
                false
            });
            let key: Vec<u8> = counts.iter().map(|count| *count as u8).collect();
            prop_assert_eq!(found, table.geometries().contains_key(&key));
        }
    }

    #[test]
    fn the_nearest_name_always_exists(product in 0..CATALOGUE.len(), g in 1u64..9, gb in 1u64..300) {
        if let Some(table) = CATALOGUE[product].profile_table() {
            let name = ProfileName::whole(g, gb, None);
            if let Err(unknown) = table.by_name(&name) {
                let nearest = unknown.nearest.expect("a table has profiles");
                prop_assert!(table.by_name(&nearest).is_ok());
            }
        }
    }
}
