//! The manifests under `deploy/crds` are those of the types.

use carve_formats::DevicePluginConfig;
use carve_formats::device_plugin::SharingStrategy;
use carve_slice_policy::{Mechanism, Sharing, definitions};
use std::path::Path;

#[test]
fn manifests_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    for (file, definition) in definitions() {
        let path = folder.join(file);
        let made = serde_saphyr::to_string(&definition).expect("a definition can be written");
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::create_dir_all(&folder).expect("deploy/crds");
            std::fs::write(&path, &made).expect("the manifest");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            made == kept,
            "{} is not what the types say; UPDATE_CRDS=1 cargo test -p carve-slice-policy writes it",
            path.display()
        );
    }
}

/// Schemas that the API server would refuse, found before it is asked: references, and types with alternatives.
#[test]
fn schemas_are_structural() {
    fn look(value: &serde_json::Value, at: &str) {
        if let Some(fields) = value.as_object() {
            assert!(!fields.contains_key("$ref"), "{at} refers");
            assert!(
                fields.get("type").is_none_or(|kind| kind.is_string() || kind.is_object()),
                "{at}: two types"
            );
            fields.iter().for_each(|(name, inner)| look(inner, &format!("{at}.{name}")));
        }
        value.as_array().into_iter().flatten().for_each(|inner| look(inner, at));
    }
    for (file, definition) in definitions() {
        look(&serde_json::to_value(definition).expect("a definition"), file);
    }
}

#[test]
fn sharing_is_a_configuration_of_the_device_plugin() {
    for (mechanism, strategy) in
        [(Mechanism::TimeSlicing, SharingStrategy::TimeSlicing), (Mechanism::Mps, SharingStrategy::Mps)]
    {
        let parsed = DevicePluginConfig::parse(
            &Sharing { mechanism, replicas: 4, renamed: true, one_share_each: None, resources: Vec::new() }
                .to_config(),
        );
        assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
        assert_eq!(parsed.value.map(|config| config.sharing.strategy()), Some(strategy));
    }
}
