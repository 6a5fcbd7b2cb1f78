//! Every recorded session of NVIDIA's device plugin, replayed: resources, devices, answers and refusals.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_formats::device_plugin::PluginFlags;
use carve_slicing::{Answer, AnswerContext, Resource, Settings, answer, offer};
use carve_test_support::fixtures;
use serde_json::{Map, Value, json};

/// Where carve means to differ: the recording, what differs, and why. Everything else must agree.
const INTENDED: &[(&str, &str, &str)] = &[
    ("full2__mps4", "allocate", "each GPU has an MPS daemon of its own, so that a pod sees only its GPU"),
    (
        "full2__mps4-rename",
        "allocate",
        "each GPU has an MPS daemon of its own, so that a pod sees only its GPU",
    ),
    (
        "full2__mps4-and-ts2",
        "allocate",
        "each GPU has an MPS daemon of its own, so that a pod sees only its GPU",
    ),
    ("mig7__single-mps4", "start", "carve shares MIG devices by MPS"),
];

/// Puts the recorded command line into a configuration, as flags win over the file.
fn with_arguments(mut config: DevicePluginConfig, arguments: &str) -> DevicePluginConfig {
    for argument in arguments.split_whitespace() {
        let (name, value) = argument.split_once('=').unwrap_or((argument, "true"));
        let (flags, text) = (&mut config.flags, value.to_owned());
        let plugin = flags.plugin.get_or_insert_with(PluginFlags::default);
        match name {
            "--mig-strategy" => flags.mig_strategy = Some(text),
            "--device-list-strategy" => {
                plugin.device_list_strategy = Some(value.split(',').map(str::to_owned).collect());
            }
            "--device-id-strategy" => plugin.device_id_strategy = Some(text),
            "--shared-devices-allocation-policy" => plugin.shared_devices_allocation_policy = Some(text),
            "--pass-device-specs" => plugin.pass_device_specs = Some(true),
            "--nvidia-dev-root" => flags.nvidia_dev_root = Some(text),
            "--gds-enabled" => flags.gds_enabled = Some(true),
            "--mofed-enabled" => flags.mofed_enabled = Some(true),
            "--gdrcopy-enabled" => flags.gdrcopy_enabled = Some(true),
            "--device-discovery-strategy" => flags.device_discovery_strategy = Some(text),
            "--imex-channel-ids" => config.imex.channel_ids = vec![value.parse().expect("a channel")],
            "--cdi-annotation-prefix" => plugin.cdi_annotation_prefix = Some(text),
            "--fail-on-init-error" => flags.fail_on_init_error = Some(value == "true"),
            other => panic!("a recording uses {other}, which this test does not know"),
        }
    }
    config
}

/// An answer as the recordings write one.
fn written(answer: &Answer) -> Value {
    let mut object = Map::new();
    if !answer.envs.is_empty() {
        object.insert("envs".to_owned(), json!(answer.envs));
    }
    if !answer.mounts.is_empty() {
        let mounts = answer.mounts.iter();
        let mounts =
            mounts.map(|mount| json!({"container_path": mount.container_path, "host_path": mount.host_path}));
        object.insert("mounts".to_owned(), mounts.collect());
    }
    if !answer.devices.is_empty() {
        let node = |node: &carve_slicing::DeviceNode| json!({"container_path": node.container_path, "host_path": node.host_path, "permissions": "rw"});
        object.insert("devices".to_owned(), answer.devices.iter().map(node).collect());
    }
    if !answer.annotations.is_empty() {
        object.insert("annotations".to_owned(), json!(answer.annotations));
    }
    if !answer.cdi_devices.is_empty() {
        let devices = answer.cdi_devices.iter().map(|name| json!({"name": name}));
        object.insert("cdi_devices".to_owned(), devices.collect());
    }
    Value::Object(object)
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Checks one recorded call, and says how it differs.
fn check_call(resource: &Resource, settings: &Settings, call: &Value) -> Result<(), String> {
    let ids = texts(&call["IDs"]);
    if ids.is_empty() {
        return Ok(());
    }
    let annotation = call["Allocate"]["annotations"].as_object().and_then(|all| all.keys().next());
    let id = annotation.and_then(|key| key.rsplit_once('_')).map_or(String::new(), |(_, id)| id.to_owned());
    let context = AnswerContext { id, ..AnswerContext::default() };
    let ours = answer(resource, &ids, settings, &context);
    match (call.get("Error").and_then(Value::as_str), ours) {
        (Some(error), Err(ours)) if error.ends_with(&format!("desc = {ours}")) => Ok(()),
        (None, Ok(ours)) if written(&ours) == call["Allocate"] => Ok(()),
        (None, Ok(ours)) if settings.device_ids == carve_slicing::DeviceIds::Index => {
            // The order of indices is random in the recordings.
            let sorted = |value: &Value| {
                let list = value["envs"]["NVIDIA_VISIBLE_DEVICES"].as_str().unwrap_or_default().to_owned();
                let mut list: Vec<String> = list.split(',').map(str::to_owned).collect();
                list.sort();
                list
            };
            let (ours, theirs) = (sorted(&written(&ours)), sorted(&call["Allocate"]));
            if ours == theirs { Ok(()) } else { Err(format!("{ours:?} is not {theirs:?}")) }
        }
        (error, ours) => Err(format!("{ours:?}\nrecorded: {error:?} {}", call["Allocate"])),
    }
}

/// Replays one session and says where it differs: at the start, or in an answer.
fn replay(recording: &Value) -> Result<(), (&'static str, String)> {
    let scenario = |name: &str| recording["scenario"][name].as_str().unwrap_or_default();
    let log = texts(&recording["log_errors"]).join("\n");
    let Some(config) = recorded::config(scenario("config")) else { return Ok(()) };
    let mut config = with_arguments(config, scenario("args"));
    if scenario("env").contains("MPS_ROOT=/run/nvidia/mps") {
        config.flags.mps_root = Some("/run/nvidia/mps".to_owned());
    }
    let observed = recording["observed"]["resources"].as_object().cloned().unwrap_or_default();
    let settings = match Settings::new(&config, false) {
        Ok(settings) => settings,
        Err(error) if observed.is_empty() && log.ends_with(&error.to_string()) => return Ok(()),
        Err(error) => return Err(("start", format!("{error}; recorded: {log}"))),
    };
    if scenario("env").contains("MOCK_INIT_FAIL") {
        // Nothing is offered without a driver; what the agent does then is a matter of its own tests.
        return if observed.is_empty() { Ok(()) } else { Err(("start", log)) };
    }
    let node = recorded::machine(scenario("gpus"), scenario("mig"));
    let offer = match offer(&node, &settings) {
        Ok(offer) => offer,
        Err(error) => {
            let same = error.upstream().is_some_and(|text| log.contains(text));
            return if observed.is_empty() && same {
                Ok(())
            } else {
                Err(("start", format!("{error}; {log}")))
            };
        }
    };
    let names = |names: Vec<String>| names.join(" ");
    let ours = names(offer.resources.keys().map(ToString::to_string).collect());
    let theirs = names(observed.keys().cloned().collect());
    if ours != theirs {
        return Err(("start", format!("resources {ours}; recorded {theirs}, {log}")));
    }
    for (resource, seen) in offer.resources.values().zip(observed.values()) {
        let ours: Vec<String> = resource.devices.iter().map(|device| device.id.to_string()).collect();
        let mut theirs: Vec<String> = seen["Devices"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["ID"].as_str().map(str::to_owned))
            .collect();
        theirs.sort();
        if ours != theirs {
            return Err(("devices", format!("{ours:?}\nrecorded: {theirs:?}")));
        }
        let endpoint = format!("nvidia-{}.sock", resource.name.local());
        if seen["Endpoint"] != endpoint.as_str() {
            return Err(("devices", format!("{endpoint}; recorded {}", seen["Endpoint"])));
        }
        for call in seen["Calls"].as_array().into_iter().flatten() {
            check_call(resource, &settings, call).map_err(|difference| ("allocate", difference))?;
        }
    }
    Ok(())
}

#[test]
fn recorded_sessions_agree() {
    let Some(folder) = fixtures("device-plugin/golden-plugin") else { return };
    let mut sessions = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the recordings") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let recording: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("a recording")).expect("JSON");
        sessions += 1;
        let intended = INTENDED.iter().find(|(session, _, _)| *session == name);
        match (replay(&recording), intended) {
            (Ok(()), None) => {}
            (Err((where_, _)), Some((_, meant, _))) if where_ == *meant => {}
            (Ok(()), Some((_, _, why))) => {
                wrong.push(format!("{name}: agrees, though meant to differ: {why}"))
            }
            (Err((where_, what)), _) => wrong.push(format!("{name}: {where_}: {what}")),
        }
    }
    assert!(sessions >= 32, "only {sessions} recordings");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
