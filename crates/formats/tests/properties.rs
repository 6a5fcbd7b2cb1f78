//! What holds for every value and every text: printing and reading is identity, and nothing panics.

use carve_formats::device_plugin::{
    DevicePluginConfig, DeviceRef, Duration, Flags, GfdFlags, Imex, PluginFlags, ReplicatedDevices,
    ReplicatedResource, ReplicatedResources, ResourceRule, Resources, Sharing,
};
use carve_formats::mig_checkpoint::{ComputeInstanceState, DeviceState, GpuInstanceState, MigCheckpoint};
use carve_formats::mig_hooks::{Hook, MigHooks};
use carve_formats::mig_parted::{ConfigEntry, Devices, MigPartedConfig, WantedProfile};
use carve_formats::{At, kubernetes_yaml, lint};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// Texts that YAML likes to misunderstand, and any others.
fn any_text() -> impl Strategy<Value = String> + Clone {
    const TRAPS: &[&str] = &[
        "",
        " ",
        "yes",
        "No",
        "~",
        "null",
        "010",
        "1e3",
        "0x10",
        ".inf",
        "12:30",
        "2001-12-14",
        "a: b",
        "- a",
        "#",
        "a #b",
        "'",
        "\"",
        "\\",
        "[a",
        "{",
        "&a",
        "*a",
        "!x",
        "|",
        ">",
        "%",
        "@",
        "`",
        "<<",
        "a\nb",
        "\t",
        "é",
        "\u{85}",
        "?",
        ":",
        "---",
        "...",
        "a:",
        ",",
        "0x20B010DE",
        "\u{feff}",
        "\r",
        "-",
        "a ",
        " a",
        "=",
        "1_000",
        "+1",
        "!",
        "0b1",
        "\0",
    ];
    prop_oneof![proptest::sample::select(TRAPS).prop_map(str::to_owned), any::<String>(), "[a-z0-9.-]{0,12}"]
}

fn wanted_profile() -> impl Strategy<Value = WantedProfile> {
    let name = ("([1-7]c\\.)?[1-7]g\\.[1-9][0-9]{0,2}gb(\\+me|-me|\\+gfx,me|\\+me\\.all)?", 1..9_u64);
    name.prop_map(|(written, count)| {
        let name = written.parse().expect("the pattern gives names");
        WantedProfile { written, name, count, at: At::default() }
    })
}

fn config_entry() -> impl Strategy<Value = ConfigEntry> {
    let devices = prop_oneof![Just(Devices::All), vec(any::<i64>(), 0..40).prop_map(Devices::Listed)];
    (vec(any_text(), 0..8), devices, any::<bool>(), vec(wanted_profile(), 0..6)).prop_map(
        |(mut filter, devices, mig_enabled, mig_devices)| {
            if filter == [String::new()] {
                filter.push("0x20B010DE".to_owned());
            }
            let mut unique: Vec<WantedProfile> = Vec::new();
            for profile in mig_devices.into_iter().filter(|_| mig_enabled) {
                if unique.iter().all(|other| other.written != profile.written) {
                    unique.push(profile);
                }
            }
            ConfigEntry { filter, devices, mig_enabled, mig_devices: unique, at: At::default() }
        },
    )
}

fn mig_parted_config() -> impl Strategy<Value = MigPartedConfig> {
    btree_map(any_text(), vec(config_entry(), 1..4), 0..4).prop_map(|configs| MigPartedConfig { configs })
}

/// The order of profiles in an entry has no meaning; reading puts them into the natural one.
fn with_sorted_profiles(mut config: MigPartedConfig) -> MigPartedConfig {
    for entry in config.configs.values_mut().flatten() {
        entry.mig_devices.sort_by(|left, right| left.written.cmp(&right.written));
    }
    config
}

fn hooks() -> impl Strategy<Value = MigHooks> {
    let hook = (any_text(), vec(any_text(), 0..4), btree_map(any_text(), any_text(), 0..3), any_text());
    let hook = hook.prop_map(|(command, args, envs, workdir)| Hook {
        command,
        args,
        envs,
        workdir,
        at: At::default(),
    });
    btree_map(any_text(), vec(hook, 0..3), 0..4).prop_map(|hooks| MigHooks { hooks })
}

fn checkpoint() -> impl Strategy<Value = MigCheckpoint> {
    let compute = (any::<i64>(), any::<i64>())
        .prop_map(|(profile_id, eng_profile_id)| ComputeInstanceState { profile_id, eng_profile_id });
    let instance = (any::<i64>(), any::<u32>(), any::<u32>(), vec(compute, 0..3)).prop_map(
        |(profile_id, start, size, compute_instances)| GpuInstanceState {
            profile_id,
            start,
            size,
            compute_instances,
        },
    );
    let device = ("GPU-[0-9a-f]{8}", 0..2_i64, vec(instance, 0..3))
        .prop_map(|(uuid, mig_mode, gpu_instances)| DeviceState { uuid, mig_mode, gpu_instances });
    vec(device, 0..3).prop_map(|devices| MigCheckpoint { devices })
}

fn flags() -> impl Strategy<Value = Flags> {
    let text = || option::of(any_text());
    let flag = || option::of(any::<bool>());
    let plugin = (flag(), option::of(vec(any_text(), 0..3)), text(), text(), text(), text(), text())
        .prop_map(|(pass, list, id, prefix, ctk, root, policy)| PluginFlags {
            pass_device_specs: pass,
            device_list_strategy: list,
            device_id_strategy: id,
            cdi_annotation_prefix: prefix,
            nvidia_ctk_path: ctk,
            container_driver_root: root,
            shared_devices_allocation_policy: policy,
        });
    let interval = option::of(any::<i64>().prop_map(Duration::from_nanoseconds));
    let gfd = (flag(), flag(), interval, text(), text()).prop_map(
        |(oneshot, no_timestamp, sleep_interval, output_file, machine_type_file)| GfdFlags {
            oneshot,
            no_timestamp,
            sleep_interval,
            output_file,
            machine_type_file,
        },
    );
    let common = (text(), flag(), text(), text(), text(), flag(), flag(), flag(), flag(), text());
    (common, option::of(plugin), option::of(gfd)).prop_map(|(common, plugin, gfd)| Flags {
        mig_strategy: common.0,
        fail_on_init_error: common.1,
        mps_root: common.2,
        nvidia_driver_root: common.3,
        nvidia_dev_root: common.4,
        gdrcopy_enabled: common.5,
        gds_enabled: common.6,
        mofed_enabled: common.7,
        use_node_feature_api: common.8,
        device_discovery_strategy: common.9,
        plugin,
        gfd,
    })
}

fn replicated() -> impl Strategy<Value = ReplicatedResources> {
    let name = || "[a-z]([a-z0-9.]{0,8}[a-z0-9])?".prop_filter_map("labels", |name| name.parse().ok());
    let device = prop_oneof![
        any::<u64>().prop_map(DeviceRef::gpu_index),
        "[0-9]{1,2}:[0-9]{1,2}|(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
            .prop_map(|text| text.parse().expect("the pattern names devices")),
    ];
    let devices = prop_oneof![
        Just(ReplicatedDevices::All),
        (1..=i64::MAX as u64).prop_map(ReplicatedDevices::Count),
        vec(device, 0..4).prop_map(ReplicatedDevices::List),
    ];
    let resource = (name(), option::of(name()), devices, 2..=i64::MAX as u64).prop_map(
        |(name, rename, devices, replicas)| ReplicatedResource {
            name,
            rename,
            devices,
            replicas,
            at: At::default(),
        },
    );
    (any::<bool>(), option::of(any::<bool>()), vec(resource, 1..4)).prop_map(
        |(rename_by_default, fail_requests_greater_than_one, resources)| ReplicatedResources {
            rename_by_default,
            fail_requests_greater_than_one,
            resources,
        },
    )
}

fn device_plugin_config() -> impl Strategy<Value = DevicePluginConfig> {
    let rule = (any_text(), "[a-z][a-z0-9]{0,8}")
        .prop_map(|(pattern, name)| ResourceRule { pattern, name: name.parse().expect("a label") });
    let resources =
        (vec(rule.clone(), 0..3), vec(rule, 0..3)).prop_map(|(gpus, mig)| Resources { gpus, mig });
    let sharing = (option::of(replicated()), option::of(replicated()))
        .prop_map(|(time_slicing, mps)| Sharing { time_slicing, mps });
    let imex = (vec(any::<i64>(), 0..3), any::<bool>())
        .prop_map(|(channel_ids, required)| Imex { channel_ids, required });
    (flags(), resources, sharing, imex).prop_map(|(flags, resources, sharing, imex)| DevicePluginConfig {
        flags,
        resources,
        sharing,
        imex,
    })
}

/// A readable document with something cut out of it and something put in.
fn bent_document() -> impl Strategy<Value = String> {
    let documents = prop_oneof![
        mig_parted_config().prop_map(|config| config.to_yaml()),
        mig_parted_config().prop_map(|config| config.to_json()),
        device_plugin_config().prop_map(|config| config.to_yaml()),
        hooks().prop_map(|hooks| hooks.to_yaml()),
        checkpoint().prop_map(|checkpoint| checkpoint.to_json()),
    ];
    (documents, any::<prop::sample::Index>(), 0..5_usize, any_text()).prop_map(|(text, at, cut, put)| {
        let characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len() + 1);
        let (before, after) = characters.split_at(at);
        before.iter().copied().chain(put.chars()).chain(after.iter().copied().skip(cut)).collect()
    })
}

/// Characters that JSON writes as they are and YAML does not read as they are.
fn yaml_special(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
}

/// Reads a text as everything that it might be.
fn read_as_everything(text: &str) {
    let node = kubernetes_yaml::parse(text);
    if let Ok(node) = &node {
        let json = node.to_json();
        let again = kubernetes_yaml::parse(&json).map(|node| node.to_json());
        // JSON is YAML, but for keys beyond the reach of a simple key and characters YAML forbids or folds.
        if json.len() < 1000 && !json.contains(yaml_special) {
            assert_eq!(again.as_deref(), Ok(json.as_str()), "{text:?}");
        }
    }
    for parsed in [
        MigPartedConfig::parse(text).diagnostics,
        MigHooks::parse(text).diagnostics,
        MigCheckpoint::parse(text).diagnostics,
        DevicePluginConfig::parse_alone(text).diagnostics,
    ] {
        for diagnostic in parsed {
            assert!(!diagnostic.message.is_empty());
            let _ = diagnostic.to_string();
        }
    }
    let _ = lint(text).to_string();
    let config_map = format!(
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n{}",
        text.lines().map(|line| format!("    {line}\n")).collect::<String>()
    );
    let _ = lint(&config_map).to_string();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_mig_parted_config_survives_both_forms(config in mig_parted_config()) {
        let config = with_sorted_profiles(config);
        for text in [config.to_yaml(), config.to_json()] {
            if text.contains(yaml_special) {
                continue;
            }
            let parsed = MigPartedConfig::parse(&text);
            prop_assert_eq!(parsed.errors().next(), None, "{}", text);
            prop_assert_eq!(parsed.value.map(with_sorted_profiles), Some(config.clone()), "{}", text);
        }
    }

    #[test]
    fn hooks_survive(hooks in hooks()) {
        let text = hooks.to_yaml();
        prop_assert_eq!(MigHooks::parse(&text).value, Some(hooks), "{}", text);
    }

    #[test]
    fn a_checkpoint_survives(checkpoint in checkpoint()) {
        let text = checkpoint.to_json();
        prop_assert_eq!(MigCheckpoint::parse(&text).value, Some(checkpoint), "{}", text);
    }

    #[test]
    fn a_device_plugin_config_survives(config in device_plugin_config()) {
        let text = config.to_yaml();
        let parsed = DevicePluginConfig::parse(&text);
        prop_assert_eq!(parsed.errors().next(), None, "{}", text);
        prop_assert_eq!(parsed.value, Some(config), "{}", text);
    }

    #[test]
    fn a_duration_survives(nanoseconds in any::<i64>()) {
        let duration = Duration::from_nanoseconds(nanoseconds);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in any::<String>()) {
        read_as_everything(&text);
    }

    #[test]
    fn no_bent_document_makes_a_reader_panic(text in bent_document()) {
        read_as_everything(&text);
    }

    #[test]
    fn no_soup_of_indicators_makes_a_reader_panic(text in "[\\[\\]{}:,?!&*|>'\"%@`#a1\\-.~<= \t\n]{0,60}") {
        read_as_everything(&text);
    }
}
