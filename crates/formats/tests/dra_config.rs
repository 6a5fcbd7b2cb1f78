//! Opaque configs: what NVIDIA's driver accepts and refuses, what ours add, and that nothing makes the reader panic.

use carve_formats::dra_config::{
    ComputePolicy, FractionConfig, Interval, MpsLimitError, MpsLimits, OpaqueConfig, Sharing, WithoutLimiter,
};
use carve_formats::workloads::Quantity;
use carve_test_support::fixture_text;
use proptest::prelude::{any, proptest};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn cases() -> Option<Value> {
    fixture_text("dra/nvidia/sharing-validation-cases.json")
        .map(|text| serde_json::from_str(&text).expect("the recorded cases"))
}

fn decode(mut config: Value) -> Result<OpaqueConfig, String> {
    if let Some(config) = config.as_object_mut() {
        config.entry("apiVersion").or_insert_with(|| "resource.nvidia.com/v1beta1".into());
    }
    OpaqueConfig::decode(&config).map_err(|error| error.to_string())
}

#[test]
fn configs_are_taken_and_refused_as_by_nvidias_driver() {
    let Some(cases) = cases() else { return };
    let mut seen = 0;
    for case in cases["validate_cases"].as_array().expect("cases") {
        let (name, config) = (case["name"].as_str().expect("a name"), case["config"].clone());
        // What only switches of that driver forbid, ours serves; the empty one crashes it, and ours takes the default.
        let refused = case.get("upstream_prepare_error").is_some()
            || case["error"].as_str().is_some_and(|error| !error.contains("feature gate"));
        assert_eq!(decode(config).is_err(), refused, "{name}");
        seen += 1;
    }
    assert!(seen >= 9, "{seen} cases");
}

#[test]
fn memory_limits_of_mps_are_worked_out_as_by_nvidias_driver() {
    let Some(cases) = cases() else { return };
    let amount = |value: &Value| value.as_str().map(|text| text.parse::<Quantity>().expect("an amount"));
    let mut seen = 0;
    for case in cases["mps_per_device_pinned_memory_limit_normalize"].as_array().expect("cases") {
        let uuids: Vec<String> = serde_json::from_value(case["uuids"].clone()).expect("UUIDs");
        let devices = case["perDevice"].as_object().expect("limits").iter();
        let devices = devices.map(|(device, limit)| (device.clone(), amount(limit).expect("an amount")));
        let limits = MpsLimits { default: amount(&case["default"]), devices: devices.collect() };
        let told = limits.for_devices(&uuids).map(|limits| {
            limits
                .into_iter()
                .map(|(uuid, limit)| (uuid, format!("{}M", limit.0)))
                .collect::<BTreeMap<_, _>>()
        });
        let name = &case["name"];
        match (case["error"].as_str(), told) {
            (None, Ok(told)) => assert_eq!(json!(told), case["expect"], "{name}"),
            (Some("invalid device"), Err(MpsLimitError::NoDevice { .. })) => {}
            (Some("invalid limit"), Err(MpsLimitError::TooLow { .. })) => {}
            (wanted, told) => panic!("{name}: {told:?} instead of {wanted:?}"),
        }
        seen += 1;
    }
    assert!(seen >= 14, "{seen} cases");
}

#[test]
fn errors_say_where_what_and_what_to_write() {
    let gpu = |sharing: Value| decode(json!({"kind": "GpuConfig", "sharing": sharing}));
    for (told, words) in [
        (
            decode(json!({"kind": "GpuConfig", "shraing": {}})),
            "shraing: nobody knows this field; did you mean 'sharing'?",
        ),
        (
            gpu(json!({"strategy": "Time-Slicing"})),
            "sharing.strategy: nobody knows \"Time-Slicing\"; write TimeSlicing or MPS",
        ),
        (gpu(json!({})), "sharing.strategy: it is missing; write TimeSlicing or MPS"),
        (
            gpu(json!({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Tiny"}})),
            "sharing.timeSlicingConfig.interval: nobody knows \"Tiny\"; write one of Default, Short, Medium, Long",
        ),
        (
            gpu(json!({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}})),
            "sharing.mpsConfig.defaultActiveThreadPercentage: it is 101; write a number from 0 to 100",
        ),
        (
            gpu(json!({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "5G1"}})),
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: \"5G1\" is no amount; write an amount of memory such as 4Gi",
        ),
        (
            decode(
                json!({"kind": "MigDeviceConfig", "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {}}}),
            ),
            "sharing.timeSlicingConfig: nobody knows this field; take it out; known here: mpsConfig, strategy",
        ),
        (
            decode(json!({"kind": "VfioDeviceConfig"})),
            "VfioDeviceConfig is not served here: GPUs are not passed through to virtual machines; take the config out of the claim",
        ),
        (decode(json!("GpuConfig")), "it is \"GpuConfig\"; write an object with fields"),
    ] {
        assert_eq!(told, Err(words.to_owned()));
    }
    let nothing = OpaqueConfig::decode(&json!({})).map_err(|error| error.to_string());
    assert!(nothing.is_err_and(|error| error.starts_with("the config has neither apiVersion nor kind; ")));
}

#[test]
fn what_is_left_out_has_a_default() {
    let plain = |sharing| decode(json!({"kind": "GpuConfig", "sharing": sharing}));
    assert_eq!(decode(json!({"kind": "GpuConfig"})), Ok(OpaqueConfig::Gpu(None)));
    assert_eq!(
        plain(json!({"strategy": "TimeSlicing", "timeSlicingConfig": {}})),
        Ok(OpaqueConfig::Gpu(Some(Sharing::TimeSlicing(Interval::Default))))
    );
    assert_eq!(
        plain(json!({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})),
        Ok(OpaqueConfig::Gpu(Some(Sharing::TimeSlicing(Interval::Long))))
    );
    assert_eq!(Interval::Long.number(), 3);
    assert!(matches!(plain(json!({"strategy": "MPS"})), Ok(OpaqueConfig::Gpu(Some(Sharing::Mps(_))))));
    let fraction = |config: Value| OpaqueConfig::decode(&config).map_err(|error| error.to_string());
    assert_eq!(
        fraction(json!({"apiVersion": "carve.dev/v1alpha1", "kind": "FractionConfig"})),
        Ok(OpaqueConfig::Fraction(FractionConfig::default()))
    );
    assert_eq!(
        fraction(json!({
            "apiVersion": "carve.dev/v1alpha1", "kind": "FractionConfig", "compute": "Burst", "withoutLimiter": "Pass",
        })),
        Ok(OpaqueConfig::Fraction(FractionConfig {
            compute: ComputePolicy::Burst,
            without_limiter: WithoutLimiter::Pass
        }))
    );
}

/// Anything JSON can say, built around the names that are known.
fn value(seed: &[u8], depth: usize) -> Value {
    const NAMES: [&str; 14] = [
        "apiVersion",
        "kind",
        "sharing",
        "strategy",
        "timeSlicingConfig",
        "interval",
        "mpsConfig",
        "defaultActiveThreadPercentage",
        "defaultPinnedDeviceMemoryLimit",
        "defaultPerDevicePinnedMemoryLimit",
        "multiUser",
        "compute",
        "withoutLimiter",
        "0",
    ];
    const TEXTS: [&str; 11] = [
        "resource.nvidia.com/v1beta1",
        "carve.dev/v1alpha1",
        "GpuConfig",
        "MigDeviceConfig",
        "FractionConfig",
        "TimeSlicing",
        "MPS",
        "Long",
        "1Gi",
        "",
        "Burst",
    ];
    let Some((first, rest)) = seed.split_first() else { return Value::Null };
    match first % 8 {
        0 => Value::Null,
        1 => json!(first % 2 == 0),
        2 => json!(i64::from(*first) - 100),
        3 | 4 => json!(TEXTS[usize::from(first / 8) % TEXTS.len()]),
        5 => json!([value(rest, depth + 1)]),
        _ if depth > 5 => json!({}),
        _ => {
            let pieces = rest.chunks(rest.len() / 4 + 1);
            let named = pieces.map(|piece| {
                let name = NAMES[usize::from(piece.first().copied().unwrap_or(0)) % NAMES.len()];
                (name.to_owned(), value(piece.get(1..).unwrap_or_default(), depth + 1))
            });
            Value::Object(named.collect())
        }
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(seed in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut config = value(&seed, 0);
        let _ = OpaqueConfig::decode(&config);
        if let Some(config) = config.as_object_mut() {
            config.insert("apiVersion".to_owned(), "resource.nvidia.com/v1beta1".into());
            config.insert("kind".to_owned(), if seed.len() % 2 == 0 { "GpuConfig" } else { "MigDeviceConfig" }.into());
        }
        let _ = OpaqueConfig::decode(&config);
    }
}
