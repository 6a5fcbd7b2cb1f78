//! `docs/reference/machines.md`: its example is a machine, and names every field, preset and product that there is.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_gpu_host::Machine;
use carve_gpu_host::machine::preset_names;
use carve_gpu_model::products::CATALOGUE;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/machines.md");
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fields that the reader names when it meets another one.
fn known(text: &str) -> Vec<String> {
    let error = serde_json::from_str::<Machine>(text).expect_err("nobody knows that field").to_string();
    let all = error.split("expected one of ").nth(1).unwrap_or_else(|| panic!("{error}"));
    all.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_example_of_the_reference_is_a_machine_with_every_field() {
    let page = page();
    let example =
        page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    Machine::parse(example).unwrap_or_else(|error| panic!("{error}"));
    let gpu = r#"{"name": "x", "gpus": [{"product": "t4", "qqqqqqqq": 1}]}"#;
    let fields = [known(r#"{"qqqqqqqq": 1}"#), known(gpu)].concat();
    assert!(fields.len() > 8, "{fields:?}");
    for field in fields {
        assert!(example.contains(&format!("{field}:")), "docs/reference/machines.md says nothing of {field}");
    }
}

#[test]
fn the_reference_names_every_preset_and_product() {
    let page = page();
    for name in preset_names().chain(CATALOGUE.iter().map(|product| product.key)) {
        assert!(page.contains(&format!("`{name}`")), "docs/reference/machines.md does not name {name}");
    }
}
