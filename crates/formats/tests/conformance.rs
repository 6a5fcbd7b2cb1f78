//! Every recorded answer of NVIDIA's programs against ours: verdict and, after the prefix, the very text.

use carve_formats::{DevicePluginConfig, MigCheckpoint, MigHooks, MigPartedConfig};
use carve_test_support::fixtures;
use serde_json::Value;

fn text(relative: &str) -> Option<String> {
    fixtures(relative).map(|path| std::fs::read_to_string(path).expect("fixtures are readable"))
}

fn json(relative: &str) -> Option<Value> {
    text(relative).map(|text| serde_json::from_str(&text).expect("fixtures are JSON"))
}

/// What `nvidia-mig-parted assert --valid-config -c c` prints for a text.
fn mig_parted_message(yaml: &str) -> String {
    let parsed = MigPartedConfig::parse(yaml);
    let error = parsed.errors().next().map(|error| error.upstream.clone().unwrap_or_default());
    match (parsed.value, error) {
        (Some(config), None) => match config.select(Some("c")) {
            Ok(_) => String::new(),
            Err(error) => format!("Error selecting MIG config: {error}"),
        },
        (None, Some(error)) => {
            let prefix = "Error parsing config file: unmarshal error";
            format!("{prefix}: error unmarshaling JSON: while decoding JSON: {error}")
        }
        (value, error) => panic!("a value exactly without an error, but {value:?} and {error:?} for {yaml}"),
    }
}

#[test]
fn the_mig_parted_battery_agrees_to_the_letter() {
    let Some(battery) = json("mig/golden/parse-battery.json") else { return };
    let cases = battery["cases"].as_array().expect("cases");
    for case in cases {
        let yaml = case["yaml"].as_str().expect("yaml");
        let expected = case["message"].as_str().expect("message");
        assert_eq!(mig_parted_message(yaml), expected, "case {}", case["case"]);
    }
    println!("{} cases agree", cases.len());
    assert!(cases.len() >= 60, "the battery was cut");
}

#[test]
fn what_nvidia_ships_is_accepted_and_survives_printing() {
    for name in ["config-default.yaml", "example-config.yaml", "dgx-station-80gb-config.yaml"] {
        let Some(text) = text(&format!("mig/upstream/{name}")) else { return };
        let parsed = MigPartedConfig::parse(&text);
        assert_eq!(parsed.diagnostics, [], "{name}");
        let config = parsed.value.expect(name);
        assert_eq!(MigPartedConfig::parse(&config.to_yaml()).value.as_ref(), Some(&config), "{name} as YAML");
        assert_eq!(MigPartedConfig::parse(&config.to_json()).value.as_ref(), Some(&config), "{name} as JSON");
    }
    for name in ["hooks-default.yaml", "hooks-minimal.yaml"] {
        let Some(text) = text(&format!("mig/upstream/{name}")) else { return };
        let parsed = MigHooks::parse(&text);
        assert_eq!(parsed.diagnostics, [], "{name}");
        let hooks = parsed.value.expect(name);
        assert_eq!(MigHooks::parse(&hooks.to_yaml()).value.as_ref(), Some(&hooks), "{name}");
    }
}

#[test]
fn generated_configs_are_accepted() {
    let Some(models) = json("mig/golden/generate-config-per-model.json") else { return };
    for (model, config) in models.as_object().expect("models") {
        let parsed = MigPartedConfig::parse(&config.to_string());
        assert_eq!(parsed.diagnostics, [], "{model}");
    }
}

/// The outputs of the export commands of the recorded session.
fn exports(session: &str, command: &str, end: &str) -> Vec<String> {
    let outputs = session.split("\n$ ").filter(|part| part.starts_with(command));
    outputs
        .filter_map(|part| part.split_once('\n'))
        .filter_map(|(_, output)| output.split_once("[rc]").map(|(output, _)| output.to_owned()))
        .filter(|output| output.trim_end().ends_with(end) || end.is_empty())
        .collect()
}

#[test]
fn exports_are_printed_byte_for_byte() {
    let Some(session) = text("mig/golden/cli-session-h200x2.txt") else { return };
    let yaml = exports(&session, "nvidia-mig-parted export\n", "");
    let json = exports(&session, "nvidia-mig-parted export -o json", "}");
    assert!(yaml.len() >= 3 && json.len() >= 2, "{} and {} exports found", yaml.len(), json.len());
    for output in yaml {
        let config = MigPartedConfig::parse(&output).value.expect("an export is a config");
        assert_eq!(config.to_yaml(), output);
    }
    for output in json {
        let config = MigPartedConfig::parse(&output).value.expect("an export is a config");
        assert_eq!(config.to_json(), output);
    }
}

#[test]
fn the_checkpoint_is_written_byte_for_byte() {
    let Some(session) = text("mig/golden/cli-session-h200x2.txt") else { return };
    let lines: Vec<&str> = session.lines().filter(|line| line.starts_with("{\"Version\"")).collect();
    assert!(!lines.is_empty());
    for line in lines {
        let parsed = MigCheckpoint::parse(line);
        assert_eq!(parsed.diagnostics, []);
        assert_eq!(parsed.value.expect("a checkpoint").to_json(), line);
    }
}

#[test]
fn the_device_plugin_cases_agree_to_the_letter() {
    let Some(cases) = json("device-plugin/golden-config-errors/config-cases.json") else { return };
    let cases = cases.as_array().expect("cases");
    for case in cases {
        let yaml = case["yaml"].as_str().expect("yaml");
        let ours = device_plugin_message(yaml);
        let expected = case["messages"][0].as_str().unwrap_or_default();
        let name = &case["case"];
        assert_eq!(ours.is_none(), case["accepted"] == true, "case {name}: {ours:?}");
        assert_eq!(ours.unwrap_or_default(), expected, "case {name}");
    }
    println!("{} cases agree", cases.len());
    assert!(cases.len() >= 30, "the cases were cut");
}

/// What the plugin prints for a file when it does not start.
fn device_plugin_message(yaml: &str) -> Option<String> {
    let file = DevicePluginConfig::parse(yaml);
    if let Some(error) = file.errors().next() {
        let upstream = error.upstream.clone().unwrap_or_default();
        let step = if upstream.starts_with("yaml: ") {
            "unmarshal error: error converting YAML to JSON: "
        } else if upstream.starts_with("unknown version") {
            ""
        } else {
            "unmarshal error: error unmarshaling JSON: while decoding JSON: "
        };
        let load = "unable to load config: unable to finalize config: unable to parse config file";
        return Some(format!("error starting plugins: {load}: error parsing config file: {step}{upstream}"));
    }
    let alone = DevicePluginConfig::parse_alone(yaml);
    let error = alone.errors().next()?;
    let upstream = error.upstream.clone().unwrap_or_default();
    Some(format!("error starting plugins: unable to validate flags: {upstream}"))
}

#[test]
fn device_plugin_configs_survive_printing() {
    let Some(folder) = fixtures("device-plugin/configs") else { return };
    for entry in std::fs::read_dir(folder).expect("fixtures are readable").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("fixtures are readable");
        let config = DevicePluginConfig::parse(&text).value.expect("accepted by NVIDIA");
        assert_eq!(DevicePluginConfig::parse(&config.to_yaml()).value.as_ref(), Some(&config), "{text}");
    }
}

/// Printed by the YAML library of mig-parted itself for the same value.
const LONG_EXPORT: &str = r#"version: v1
mig-configs:
  'cur: rent':
  - device-filter: ["0x20B010DE", '0x20B210DE:0x134F10DE', MODEL, 'a,b', it's, "",
      "0x20B010DE", "0x20B010DE", "0x20B010DE", "0x20B010DE", "0x20B010DE"]
    devices: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
      20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38,
      39]
    mig-enabled: true
    mig-devices:
      1c.2g.10gb: 1
      1g.5gb: 1
      1g.5gb+me: 3
      1g.10gb: 2
      2g.10gb-me: 4
      7g.40gb: 1
  "no":
  - device-filter: "0x20B010DE"
    devices: []
    mig-enabled: false
    mig-devices: {}
  "é\tx":
  - device-filter: MODEL
    devices: all
    mig-enabled: false
    mig-devices: {}
"#;

#[test]
fn quotes_order_and_line_breaks_are_those_of_the_go_library() {
    let config = MigPartedConfig::parse(LONG_EXPORT).value.expect("a config");
    assert_eq!(config.to_yaml(), LONG_EXPORT);
}
