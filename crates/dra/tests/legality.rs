//! The counters of a layout allow exactly what MIG allows, on every product whose table is known.

use carve_dra::{Device, GpuFacts, Layout, Quantity, Sharing, Ways, layout};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::{GpuIndex, Placed, Product, ProfileTable, products::CATALOGUE};
use std::collections::{BTreeMap, BTreeSet};

/// A machine with one GPU of a product, laid out.
fn laid_out(product: &Product, ways: &Ways) -> Option<(ProfileTable, Layout)> {
    let machine = Machine::named(&format!("{}:1", product.key)).ok()?;
    let host = SimulatedHost::new(machine);
    let gpu = host.gpus().expect("GPUs").remove(0);
    let table = product.profile_table();
    let reserved = host.memory(GpuIndex(0)).expect("memory").reserved;
    let facts = GpuFacts {
        gpu,
        reserved,
        table: table.clone(),
        pcie_root: None,
        taints: Vec::new(),
        mig_taints: BTreeMap::new(),
    };
    Some((table?, layout(&host.driver().expect("a driver"), &[facts], ways)))
}

/// What is left of the counters after a device is held, or nothing where it does not fit.
fn held(left: &BTreeMap<String, u64>, device: &Device) -> Option<BTreeMap<String, u64>> {
    let mut left = left.clone();
    for (counter, amount) in &device.consumes.as_ref().expect("it takes something").counters {
        let Quantity::Count(amount) = amount else { panic!("{counter} is no number") };
        let there = left.get_mut(counter).unwrap_or_else(|| panic!("there is no counter {counter}"));
        *there = there.checked_sub(*amount)?;
    }
    Some(left)
}

fn all(layout: &Layout) -> BTreeMap<String, u64> {
    let count = |quantity: &Quantity| match quantity {
        Quantity::Count(count) => *count,
        Quantity::Memory(_) => panic!("memory is not counted"),
    };
    layout.sets[0].counters.iter().map(|(name, quantity)| (name.clone(), count(quantity))).collect()
}

fn placed(table: &ProfileTable, device: &Device) -> Placed {
    let mig = device.name.mig.as_ref().expect("an instance");
    Placed { profile: table.by_id(mig.id).expect("a profile").0, start: mig.start }
}

/// Walks through every set of instances that the counters allow, and says how many there are.
fn walk(
    table: &ProfileTable,
    migs: &[&Device],
    left: &BTreeMap<String, u64>,
    state: &mut Vec<Placed>,
) -> usize {
    let mut found = 1;
    for (position, device) in migs.iter().enumerate() {
        state.push(placed(table, device));
        match held(left, device) {
            Some(left) => {
                assert_eq!(table.check(state), Ok(()), "{state:?}");
                found += walk(table, &migs[position + 1..], &left, state);
            }
            None => assert!(table.check(state).is_err(), "{state:?}"),
        }
        state.pop();
    }
    found
}

#[test]
fn counters_allow_what_mig_allows_and_nothing_else() {
    let only_mig =
        Ways { exclusive: false, shared: BTreeSet::new(), shared_mig: BTreeSet::new(), ..Ways::default() };
    let mut seen = 0;
    for product in CATALOGUE {
        let Some((table, layout)) = laid_out(product, &only_mig) else { continue };
        let migs: Vec<&Device> = layout.gpus[0].iter().collect();
        let mut legal = 0;
        table.visit_states(|_| legal += 1);
        assert_eq!(walk(&table, &migs, &all(&layout), &mut Vec::new()), legal, "{}", product.key);
        seen += 1;
    }
    assert!(seen >= 5, "only {seen} products have a table");
}

#[test]
fn a_gpu_used_in_one_way_is_not_used_in_another() {
    for product in CATALOGUE {
        let Some((table, layout)) = laid_out(product, &Ways::default()) else { continue };
        let everything = all(&layout);
        for one in &layout.gpus[0] {
            let left = held(&everything, one).expect("it fits an empty GPU");
            for other in &layout.gpus[0] {
                let fits = held(&left, other).is_some();
                let (ours, theirs) = (one.name.mig.is_some(), other.name.mig.is_some());
                if !ours || !theirs {
                    assert!(!fits, "{} beside {} on {}", other.name, one.name, product.key);
                } else {
                    let legal = table.check(&[placed(&table, one), placed(&table, other)]).is_ok();
                    assert_eq!(fits, legal, "{} beside {} on {}", other.name, one.name, product.key);
                }
            }
        }
    }
}

#[test]
fn names_are_unique_and_short_enough() {
    for product in CATALOGUE {
        let ways = Ways { shared_mig: BTreeSet::from(Sharing::ALL), ..Ways::default() };
        let Some((_, layout)) = laid_out(product, &ways) else { continue };
        let names: BTreeSet<String> = layout.gpus[0].iter().map(|device| device.name.to_string()).collect();
        assert_eq!(names.len(), layout.gpus[0].len(), "{}", product.key);
        for name in &names {
            let label =
                |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            assert!(name.len() <= 63 && name.chars().all(label) && !name.ends_with('-'), "{name}");
            assert_eq!(name.parse::<carve_dra::DeviceName>().map(|name| name.to_string()).as_ref(), Ok(name));
        }
        let set = &layout.sets[0];
        assert!(set.counters.len() <= 32, "{}: {} counters", product.key, set.counters.len());
        for device in &layout.gpus[0] {
            assert!(device.attributes.len() + device.capacity.len() <= 32, "{}", device.name);
        }
    }
}
