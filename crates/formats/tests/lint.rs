//! What a person is told about a document: recognised formats, doubts, places and hints.

use carve_formats::{DevicePluginConfig, Diagnostic, Format, MigPartedConfig, Severity, lint};
use carve_test_support::fixture_text;

fn summary(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(ToString::to_string).collect()
}

fn formats(text: &str) -> Vec<(Option<Format>, String)> {
    lint(text).documents.into_iter().map(|document| (document.format, document.name)).collect()
}

#[test]
fn each_format_is_recognised() {
    for (text, format) in [
        ("version: v1\nmig-configs: {}\n", Format::MigPartedConfig),
        ("mig-config: {}\n", Format::MigPartedConfig),
        ("version: v1\nhooks: {}\n", Format::MigPartedHooks),
        ("{\"Version\":\"v1\",\"MigState\":{\"Devices\":null}}", Format::MigPartedCheckpoint),
        ("flags: {}\n", Format::DevicePluginConfig),
        ("version: v1\nsharring: {}\n", Format::DevicePluginConfig),
    ] {
        assert_eq!(formats(text), [(Some(format), String::new())], "{text}");
    }
}

#[test]
fn what_is_not_recognised_is_described() {
    let report = lint("server: x\nclient: y\n");
    assert!(report.has_errors());
    let text = report.to_string();
    assert!(text.contains("neither a mig-parted config") && text.contains("keys server, client"), "{text}");
    assert!(lint("just text").to_string().contains("it is the text 'just text'"));
    assert!(lint("a: [1\n").to_string().contains("a [ or { above is not closed"));
}

#[test]
fn nothing_and_a_bare_version_are_valid_for_both() {
    for text in ["", "# comment\n", "---\n", "{}\n"] {
        let report = lint(text);
        assert!(!report.has_errors(), "{text:?}: {report}");
        assert!(report.to_string().contains("empty"), "{text:?}: {report}");
    }
    assert!(lint("version: v1\n").to_string().contains("only a version"));
}

#[test]
fn files_in_config_maps_keep_the_lines_of_the_whole() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mig\ndata:\n  config.yaml: |\n    version: v1\n    mig-configs:\n      c:\n      - devices: some\n        mig-enabled: false\n";
    let report = lint(text);
    assert_eq!(formats(text), [(Some(Format::MigPartedConfig), "ConfigMap/mig: config.yaml".to_owned())]);
    let diagnostic = &report.documents[0].diagnostics[0];
    assert_eq!(diagnostic.at.map(|at| (at.line, at.column)), Some((10, 18)), "{diagnostic}");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", text.replace('\n', "\n  "));
    let report = lint(&list);
    assert_eq!(report.documents[0].name, "item 1, ConfigMap/mig: config.yaml");
    assert_eq!(report.documents[0].diagnostics[0].at.map(|at| at.line), Some(13));
}

#[test]
fn the_config_maps_of_the_operator_are_clean() {
    let Some(text) = fixture_text("mig/upstream/gpu-operator-0400_configmap.yaml") else { return };
    let report = lint(&text);
    assert_eq!(report.documents.len(), 1);
    assert_eq!(report.documents[0].format, Some(Format::MigPartedConfig));
    assert_eq!(summary(&report.documents[0].diagnostics), [""; 0]);
    let Some(text) = fixture_text("mig/upstream/gpu-operator-0410_configmap.yaml") else { return };
    assert!(!lint(&text).has_errors(), "a file of another program is no error");
}

#[test]
fn only_the_first_document_of_a_config_counts() {
    let report = lint("flags: {}\n---\nflags: {}\n");
    assert_eq!(report.documents.len(), 2);
    assert!(report.documents[0].diagnostics.is_empty());
    assert!(report.to_string().contains("read only the first document"), "{report}");
}

/// The warnings for a document that is accepted.
fn warnings(diagnostics: Vec<Diagnostic>) -> String {
    assert!(diagnostics.iter().all(|d| d.severity == Severity::Warning), "{:?}", summary(&diagnostics));
    summary(&diagnostics).join("\n")
}

#[test]
fn mig_parted_doubts() {
    let entry = |entry: &str| format!("version: v1\nmig-configs:\n  c:\n{entry}");
    for (text, expected) in [
        ("  - {devices: [], mig-enabled: false}", "selects no GPU"),
        ("  - {devices: [-1], mig-enabled: false}", "no GPU has the index -1"),
        ("  - {device-filter: A100, devices: all, mig-enabled: no}", "'A100' is no PCI id"),
        (
            "  - {devices: all, mig-enabled: yes, mig-devices: {1g.5gb: 0, 2g.10gb: 1}}",
            "1g.5gb: 0 creates nothing",
        ),
        ("  - {devices: all, mig-enabled: no, mig-enabled: no}", "written twice"),
        (
            "  - {devices: all, mig-enabled: no}\n  - {devices: [0], mig-enabled: yes, mig-devices: {}}",
            "entry [0] can both select GPU 0",
        ),
    ] {
        let found = warnings(MigPartedConfig::parse(&entry(text)).diagnostics);
        assert!(found.contains(expected), "{text}: {found}");
    }
    for clean in [
        "  - {device-filter: 0x20B010DE, devices: all, mig-enabled: no}"
            .replace("0x20B010DE", "'0x20B010DE'"),
        "  - {device-filter: '0x20B010DE:0x134F10DE', devices: [0], mig-enabled: no}".to_owned(),
        "  - {devices: [0], mig-enabled: no}\n  - {devices: [1], mig-enabled: yes, mig-devices: {}}"
            .to_owned(),
    ] {
        assert_eq!(warnings(MigPartedConfig::parse(&entry(&clean)).diagnostics), "", "{clean}");
    }
}

#[test]
fn mig_parted_errors_say_what_to_do() {
    let text =
        "version: v1\nmig-configs:\n  c:\n  - device: all\n    mig-enabled: true\n    migdevices: {}\n";
    let found = summary(&MigPartedConfig::parse(text).diagnostics).join("\n");
    assert!(found.contains("'device' should be 'devices'"), "{found}");
    assert!(found.contains("did you mean 'mig-devices'?"), "{found}");
    assert!(found.contains("in mig-configs.c[0]"), "{found}");
}

#[test]
fn device_plugin_doubts() {
    let shared = |item: &str| format!("sharing:\n  timeSlicing:\n    resources:\n    - {{{item}}}\n");
    for (text, expected) in [
        ("sharing: {renameByDefault: true}".to_owned(), "it belongs under sharing.timeSlicing"),
        ("flags: {deviceIDStrategy: uuid}".to_owned(), "it belongs under flags.plugin"),
        ("flags: {migstratgy: none}".to_owned(), "did you mean 'migStrategy'?"),
        ("flags: {gfd: {failOnInitError: true}}".to_owned(), "takes it for false"),
        ("flags: {gfd: {sleepInterval: 60}}".to_owned(), "this is 60ns"),
        ("resources: {gpus: [{pattern: '*', name: a}]}".to_owned(), "reads 'resources' and then ignores it"),
        (shared("name: gpu, replicas: 2, rename: fast"), "offers nvidia.com/gpu"),
        (shared("name: gpu, replicas: 2, devices: [0]"), "shares all of them"),
        (shared("name: gpuu, replicas: 2"), "matches no resource"),
        (shared("name: mig-1g5gb, replicas: 2"), "is no MIG profile"),
        (shared("name: gpu, replicas: 2}\n    - {name: gpu, replicas: 3"), "listed twice"),
        (
            "sharing:\n  mps: {resources: [{name: gpu, replicas: 2}]}\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}"
                .to_owned(),
            "'timeSlicing' has no effect",
        ),
        ("sharing: {mps: {resources: [{name: gpu, replicas: 49}]}}".to_owned(), "48 clients"),
        ("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}".to_owned(), "MPS_ROOT"),
    ] {
        let found = warnings(DevicePluginConfig::parse_alone(&text).diagnostics);
        assert!(found.contains(expected), "{text}: {found}");
    }
    let clean = shared("name: nvidia.com/mig-1g.5gb.me, replicas: 2");
    assert_eq!(warnings(DevicePluginConfig::parse_alone(&clean).diagnostics), "");
}

#[test]
fn a_flag_that_stands_too_deep_stops_the_plugin() {
    let parsed = DevicePluginConfig::parse_alone("flags: {plugin: {migStrategy: mixed}}\n");
    let error = parsed.errors().next().and_then(|error| error.upstream.clone());
    assert_eq!(error.as_deref(), Some("unknown MIG strategy: "));
}

#[test]
fn the_default_for_requests_of_several_replicas_differs() {
    let parse = |text: &str| DevicePluginConfig::parse(text).value.expect("accepted").sharing;
    let list = "resources: [{name: gpu, replicas: 2}]";
    assert!(!parse(&format!("sharing: {{timeSlicing: {{{list}}}}}")).fail_requests_greater_than_one());
    assert!(parse(&format!("sharing: {{mps: {{{list}}}}}")).fail_requests_greater_than_one());
    let explicit = format!("sharing: {{mps: {{failRequestsGreaterThanOne: false, {list}}}}}");
    assert!(!parse(&explicit).fail_requests_greater_than_one());
}
