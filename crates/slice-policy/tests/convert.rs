//! From NVIDIA's ConfigMaps to policies and back: nothing changes on the way, and what has no words on the other side is told.

use carve_formats::mig_parted::ConfigEntry;
use carve_formats::{DevicePluginConfig, MigPartedConfig};
use carve_slice_policy::convert::{
    Files, MIG_LABEL, Named, SHARING_LABEL, device_plugin_configs, mig_parted_configs, policies,
};
use carve_slice_policy::{MigMode, SlicePolicy, SlicePolicySpec};
use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::collections::{BTreeMap, BTreeSet};

fn plugin(text: &str) -> DevicePluginConfig {
    let parsed = DevicePluginConfig::parse(text);
    parsed.value.unwrap_or_else(|| panic!("{text}: {:?}", parsed.diagnostics))
}

fn parted(text: &str) -> BTreeMap<String, Vec<ConfigEntry>> {
    let parsed = MigPartedConfig::parse(text);
    parsed.value.unwrap_or_else(|| panic!("{text}: {:?}", parsed.diagnostics)).configs
}

fn specs(policies: &[SlicePolicy]) -> Vec<(String, SlicePolicySpec)> {
    let name = |policy: &SlicePolicy| policy.metadata.name.clone().unwrap_or_default();
    policies.iter().map(|policy| (name(policy), policy.spec.clone())).collect()
}

const SEED: &str = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: false\n    failRequestsGreaterThanOne: true\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n    - name: nvidia.com/mig-1g.5gb\n      replicas: 2\n";
const LAYOUTS: &str = "version: v1\nmig-configs:\n  all-balanced:\n  - device-filter: [\"0x20B010DE\", \"0x20B110DE\"]\n    devices: all\n    mig-enabled: true\n    mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}\n  half_and_half:\n  - devices: [0, 1]\n    mig-enabled: false\n  - devices: [2, 3]\n    mig-enabled: true\n    mig-devices: {1g.5gb+me: 1, 7g.40gb: 0}\n";

#[test]
fn nodes_get_what_their_labels_chose() {
    let configs = [("any", SEED), ("one", "version: v1\n")];
    let sharing = Named {
        configs: configs.into_iter().map(|(name, text)| (name.to_owned(), plugin(text))).collect(),
        default: Some("any".to_owned()),
    };
    let mig = Named { configs: parted(LAYOUTS), default: None };
    let converted = policies(&Files { sharing: sharing.clone(), mig: mig.clone() }).expect("policies");
    assert_eq!(converted.left_out, Vec::<String>::new());
    assert_eq!(converted.policies.len(), 9, "three choices of each");
    let of = |labels: &[(&str, &str)]| {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let fits = |policy: &&SlicePolicy| {
            policy
                .spec
                .node_selector
                .iter()
                .all(|(key, value)| labels.get(key.as_str()) == Some(&value.as_str()))
        };
        let mut fitting: Vec<&SlicePolicy> = converted.policies.iter().filter(fits).collect();
        fitting.sort_by_key(|policy| std::cmp::Reverse(policy.spec.priority));
        let highest = fitting.first().map(|policy| policy.spec.priority);
        let equal = fitting.iter().filter(|policy| Some(policy.spec.priority) == highest).count();
        assert_eq!(equal, 1, "no conflict for {labels:?}");
        fitting[0].spec.clone()
    };
    let plain = of(&[]);
    assert_eq!((plain.sharing.map(|one| one.replicas), plain.mig), (Some(4), None));
    let one = of(&[(SHARING_LABEL, "one")]);
    assert_eq!((one.sharing, one.mig), (None, None));
    let cut = of(&[(MIG_LABEL, "half_and_half")]);
    assert_eq!(cut.sharing.map(|one| one.replicas), Some(4), "the default counts beside it");
    let cut = cut.mig.expect("a layout");
    assert_eq!((cut.mode, cut.layout.len(), cut.layout[1].gpus.as_slice()), (MigMode::Fixed, 2, &[2, 3][..]));
    let both = of(&[(SHARING_LABEL, "one"), (MIG_LABEL, "all-balanced")]);
    assert_eq!((both.sharing, both.mig.map(|mig| mig.layout.len())), (None, Some(1)));
    let names: BTreeSet<String> = specs(&converted.policies).into_iter().map(|(name, _)| name).collect();
    assert!(
        names.contains("one.half-and-half") && names.contains("default") && names.len() == 9,
        "{names:?}"
    );

    let back = device_plugin_configs(&specs(&converted.policies));
    assert_eq!((back.named, back.left_out), (sharing, Vec::new()));
    let back = mig_parted_configs(&specs(&converted.policies));
    assert_eq!((back.named, back.left_out), (mig, Vec::new()));
}

#[test]
fn what_has_no_words_is_told() {
    let odd = "version: v1\nflags: {migStrategy: mixed}\nresources: {gpus: [{pattern: '*', name: nvidia.com/gpu}]}\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 100, rename: nvidia.com/slow, devices: [0]}\n";
    let configs = BTreeMap::from([("odd".to_owned(), plugin(odd))]);
    let sharing = Named { configs, default: None };
    let converted = policies(&Files { sharing, mig: Named::default() }).expect("policies");
    for word in ["flags:", "resources:", "rename of", "devices of", "100 are more than the 48"] {
        assert!(
            converted.left_out.iter().any(|line| line.contains(word)),
            "{word}: {:?}",
            converted.left_out
        );
    }
    assert_eq!(converted.policies[0].spec.sharing.as_ref().map(|one| one.replicas), Some(48));
    let missing = Named::<DevicePluginConfig> { configs: BTreeMap::new(), default: Some("x".to_owned()) };
    assert!(policies(&Files { sharing: missing, mig: Named::default() }).is_err());

    let policy = |text: &str| serde_json::from_str::<SlicePolicySpec>(text).expect("a policy");
    let own = vec![
        (
            "a".to_owned(),
            policy(
                r#"{"nodeSelector": {"pool": "x"}, "mig": {"mode": "Automatic"}, "sharing": {"mechanism": "MPS", "replicas": 2}}"#,
            ),
        ),
        (
            "b".to_owned(),
            policy(
                r#"{"sharing": {"mechanism": "MPS", "replicas": 3}, "namespaces": [{"names": ["n"], "limits": {}}]}"#,
            ),
        ),
        ("c".to_owned(), policy(r#"{"sharing": {"mechanism": "MPS", "replicas": 5}}"#)),
    ];
    let back = device_plugin_configs(&own);
    assert_eq!(back.named.default.as_deref(), Some("b"));
    for word in [
        "not by pool; give its nodes nvidia.com/device-plugin.config=a",
        "namespaces",
        "'b' and 'c' both are for nodes without",
    ] {
        assert!(back.left_out.iter().any(|line| line.contains(word)), "{word}: {:?}", back.left_out);
    }
    assert!(mig_parted_configs(&own).left_out[0].contains("on demand"));
}

fn configs() -> impl Strategy<Value = BTreeMap<String, String>> {
    let way = prop_oneof![Just("timeSlicing"), Just("mps")];
    let one =
        (way, 2_u32..=48, prop::option::of(2_u32..=48), prop::bool::ANY, prop::option::of(prop::bool::ANY));
    let text = prop::option::of(one).prop_map(|sharing| match sharing {
        None => "version: v1\n".to_owned(),
        Some((way, gpus, mig, renamed, one)) => {
            let mig = mig.map(|replicas| format!(", {{name: nvidia.com/mig-2g.10gb, replicas: {replicas}}}"));
            let one = one.map(|one| format!("failRequestsGreaterThanOne: {one}, ")).unwrap_or_default();
            format!(
                "version: v1\nsharing: {{{way}: {{renameByDefault: {renamed}, {one}resources: [{{name: nvidia.com/gpu, replicas: {gpus}}}{}]}}}}\n",
                mig.unwrap_or_default()
            )
        }
    });
    prop::collection::btree_map("[a-zA-Z][a-z0-9_.-]{0,8}", text, 0..5)
}

proptest! {
    #[test]
    fn there_and_back_nothing_changes(texts in configs(), chosen in prop::option::of(0_usize..5)) {
        let default = chosen.and_then(|chosen| texts.keys().nth(chosen).cloned());
        let configs = texts.iter().map(|(name, text)| (name.clone(), plugin(text))).collect();
        let sharing = Named { configs, default };
        let mig = Named { configs: parted(LAYOUTS), default: Some("all-balanced".to_owned()) };
        let converted = policies(&Files { sharing: sharing.clone(), mig: mig.clone() }).expect("policies");
        prop_assert!(converted.left_out.is_empty(), "{:?}", converted.left_out);
        let specs = specs(&converted.policies);
        let names: BTreeSet<&String> = specs.iter().map(|(name, _)| name).collect();
        prop_assert_eq!(names.len(), specs.len());
        let back = device_plugin_configs(&specs);
        prop_assert_eq!(&back.named.configs, &sharing.configs);
        // A default that shares nothing needs no policy of its own; another one with the same contents may stand for it.
        let of = |named: &Named<DevicePluginConfig>| {
            let chosen = named.default.as_ref().and_then(|name| named.configs.get(name)).cloned();
            chosen.filter(|config| config.sharing.active().is_some())
        };
        prop_assert_eq!(of(&back.named), of(&sharing));
        prop_assert_eq!(mig_parted_configs(&specs).named, mig);
    }
}
