//! The catalogue against the lists it was made from, read in place.

use carve_economics::{CATALOGUE, InstanceType, Rate};
use std::collections::BTreeSet;

#[test]
fn every_listed_machine_is_there_with_its_price() {
    let mut seen = 0;
    for (file, price_column, count_column) in [
        ("aws", "on_demand_usd_per_hour_us_east_1", "gpu_count"),
        ("azure", "on_demand_usd_per_hour", "gpu_count"),
        ("gcp", "on_demand_usd_per_hour", "gpu_count"),
    ] {
        let Some(text) = carve_test_support::fixture_text(&format!("cost/{file}-gpu-instances.csv")) else {
            return;
        };
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
        let column = |name: &str| header.iter().position(|column| *column == name).expect("a column");
        for line in lines {
            let cells: Vec<&str> = line.split(',').collect();
            let machine = InstanceType::named(cells[0]).unwrap_or_else(|| panic!("{} is missing", cells[0]));
            let price = cells[column(price_column)];
            match machine.price {
                None => assert_eq!(price, "", "{line}"),
                Some(rate) => assert_eq!(micros(price), rate, "{line}"),
            }
            assert_eq!(machine.gpus.to_string(), cells[column(count_column)], "{line}");
            if let Some(host) = machine.host {
                assert_eq!(host.cpus.to_string(), cells[column("vcpu")], "{line}");
                assert_eq!(
                    host.memory.gibibytes(),
                    cells[column("mem_gib")].parse::<f64>().expect("GiB"),
                    "{line}"
                );
            }
            seen += 1;
        }
    }
    assert_eq!(seen, CATALOGUE.len());
}

/// By digits, so that no float is between the list and the catalogue.
fn micros(price: &str) -> Rate {
    let (whole, fraction) = price.split_once('.').unwrap_or((price, ""));
    Rate::from_micros(format!("{whole}{fraction:0<6}").parse().expect("a price"))
}

#[test]
fn names_are_different_and_products_exist() {
    let names: BTreeSet<&str> = CATALOGUE.iter().map(|machine| machine.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for machine in CATALOGUE {
        assert_eq!(machine.gpu().is_some(), machine.product.is_some(), "{}", machine.name);
        assert!(machine.gpus > 0 || machine.product.is_none(), "{}", machine.name);
    }
}
