//! What a claim gets of each device, under the configs of its class and its own.

use carve_dra::{
    Allocated, Allocation, Claim, ClaimConfig, ConfigSource, GrantTrouble, Usage, excludes, grants,
};
use carve_formats::dra_config::{ComputePolicy, Interval};
use carve_gpu_model::Mebibytes;
use proptest::prelude::*;
use serde_json::{Value, json};

const DRIVER: &str = "gpu.carve.dev";

fn result(request: &str, device: &str, consumed: &[(&str, &str)]) -> Allocated {
    Allocated {
        request: request.to_owned(),
        driver: DRIVER.to_owned(),
        pool: "node0".to_owned(),
        device: device.to_owned(),
        share: device.contains("-frac").then(|| "s".to_owned()),
        consumed: consumed.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect(),
        admin: false,
    }
}

fn config(source: ConfigSource, requests: &[&str], parameters: Value) -> ClaimConfig {
    let requests = requests.iter().map(|request| (*request).to_owned()).collect();
    ClaimConfig { source, requests, driver: DRIVER.to_owned(), parameters }
}

fn turns(interval: &str) -> Value {
    json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
           "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}}})
}

fn claim(results: Vec<Allocated>, configs: Vec<ClaimConfig>) -> Claim {
    Claim {
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        uid: "u".to_owned(),
        allocation: Some(Allocation { results, configs }),
    }
}

fn usages(results: Vec<Allocated>, configs: Vec<ClaimConfig>) -> Result<Vec<Usage>, GrantTrouble> {
    let granted = grants(&claim(results, configs), DRIVER, "node0").map_err(|error| error.trouble)?;
    Ok(granted.into_iter().map(|grant| grant.usage).collect())
}

#[test]
fn the_claim_wins_over_its_class_and_later_over_earlier() {
    let gpu = || vec![result("a", "gpu-0", &[])];
    let (class, own) = (ConfigSource::Class, ConfigSource::Claim);
    let of = |configs| usages(gpu(), configs).expect("a usage").remove(0);
    assert_eq!(of(vec![]), Usage::Alone);
    assert_eq!(of(vec![config(class, &[], turns("Short"))]), Usage::AloneByTurns(Interval::Short));
    let both = vec![config(own, &[], turns("Long")), config(class, &[], turns("Short"))];
    assert_eq!(of(both), Usage::AloneByTurns(Interval::Long));
    let two = vec![config(own, &["a"], turns("Long")), config(own, &[], turns("Medium"))];
    assert_eq!(of(two), Usage::AloneByTurns(Interval::Medium));
    // Another driver's config is another driver's business, whatever it says.
    let mut foreign = config(own, &[], json!({"kind": 7}));
    foreign.driver = "nic.example.com".to_owned();
    assert_eq!(of(vec![foreign]), Usage::Alone);
}

#[test]
fn configs_go_by_request_by_alternative_and_by_kind_of_device() {
    let results = || {
        vec![
            result("a/small", "gpu-0", &[]),
            result("b", "gpu-1-mig-1g10gb-19-6", &[]),
            result("c", "gpu-2-frac", &[("memory", "5Gi"), ("compute", "25")]),
        ]
    };
    let own = ConfigSource::Claim;
    let burst = json!({"apiVersion": "carve.dev/v1alpha1", "kind": "FractionConfig", "compute": "Burst"});
    let all = vec![config(own, &[], turns("Long")), config(own, &[], burst.clone())];
    let usages_of = usages(results(), all).expect("usages");
    assert_eq!(usages_of[0], Usage::AloneByTurns(Interval::Long));
    assert_eq!(usages_of[1], Usage::Alone);
    match usages_of[2] {
        Usage::Fraction { memory: Mebibytes(5120), compute: 25, config } => {
            assert_eq!(config.compute, ComputePolicy::Burst);
        }
        ref other => panic!("{other:?}"),
    }
    for named in ["a", "a/small"] {
        let usages = usages(results(), vec![config(own, &[named], turns("Short"))]).expect("usages");
        assert_eq!(usages[0], Usage::AloneByTurns(Interval::Short), "{named}");
    }
    for (request, parameters, kind) in [("b", turns("Long"), "GpuConfig"), ("a", burst, "FractionConfig")] {
        match usages(results(), vec![config(own, &[request], parameters)]) {
            Err(GrantTrouble::Misfit { kind: found, .. }) => assert_eq!(found, kind),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn mps_needs_a_request_of_its_own_for_each_device() {
    let over_mps = json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS"}});
    let configs = || vec![config(ConfigSource::Claim, &[], over_mps.clone())];
    let apart = usages(vec![result("a", "gpu-0", &[]), result("b", "gpu-1", &[])], configs());
    assert!(apart.is_ok_and(|usages| usages.iter().all(Usage::is_mps)));
    let together = usages(vec![result("a", "gpu-0", &[]), result("a", "gpu-1", &[])], configs());
    assert_eq!(together, Err(GrantTrouble::SeveralDaemons { request: "a".to_owned() }));
}

/// A claim that says MPS and has a fraction: the device decides, and a config that names the wrong one is refused.
#[test]
fn a_fraction_is_never_over_mps() {
    let (own, amounts) = (ConfigSource::Claim, &[("memory", "5Gi"), ("compute", "25")]);
    let over_mps = json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS",
        "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "2Gi", "defaultActiveThreadPercentage": 10}}});
    let results = || {
        let devices = [("a", "gpu-0-frac"), ("b", "gpu-1-mps"), ("c", "gpu-2")];
        devices.map(|(request, device)| result(request, device, amounts)).to_vec()
    };
    let found = usages(results(), vec![config(own, &[], over_mps.clone())]).expect("usages");
    assert!(matches!(found[0], Usage::Fraction { memory: Mebibytes(5120), compute: 25, .. }), "{found:?}");
    // What the claim has is not what each of its clients may have.
    let share = Usage::MpsShare { memory: Mebibytes(5120), each: Mebibytes(2048), threads: 10 };
    assert_eq!(found[1], share);
    assert!(matches!(found[2], Usage::AloneOverMps(_)), "{found:?}");
    let named = usages(results(), vec![config(own, &["a"], over_mps)]);
    assert!(matches!(named, Err(GrantTrouble::Misfit { kind: "GpuConfig", .. })), "{named:?}");
}

proptest! {
    /// Whatever a claim's configs hold, it is read or refused.
    #[test]
    fn any_config_is_read_or_refused(text in "[ -~]{0,60}", deep in 0usize..40) {
        let mut value = json!(text);
        for _ in 0..deep {
            value = json!({ "sharing": value });
        }
        let _ = usages(vec![result("a", "gpu-0", &[])], vec![config(ConfigSource::Claim, &[], value)]);
    }

    /// Two claims exclude each other the same way round.
    #[test]
    fn exclusion_has_no_side(one in 0usize..8, other in 0usize..8, shares in any::<(bool, bool, bool)>()) {
        let names = [
            "gpu-0", "gpu-0-frac", "gpu-0-mps", "gpu-0-ts", "gpu-0-mig-1g10gb-19-6", "gpu-0-mig-1g10gb-19-5",
            "gpu-0-mig-1g10gb-19-6-frac", "gpu-1",
        ];
        let (one, other) = (names[one].parse().expect("a name"), names[other].parse().expect("a name"));
        let share = |has: bool, same: bool| has.then_some(if same { "s" } else { "t" });
        let (first, second) = ((&one, share(shares.0, true)), (&other, share(shares.1, shares.2)));
        prop_assert_eq!(excludes(first, second), excludes(second, first));
    }
}
