//! `docs/reference/config.md`: every field of the files that carve reads as NVIDIA's programs do, and what becomes of it here. Each is fed to the
//! code: one that is called honoured changes something, one that is called passed over changes nothing, and none is missing.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::{DevicePluginConfig, Diagnostic, MigHooks, MigPartedConfig, Severity};
use carve_slicing::{Settings, offer};
use carve_test_support::reference::check_page;
use recorded::machine;
use std::collections::BTreeSet;

const HEAD: &str = "# Files that carve is given

`carve validate FILE` recognises each of NVIDIA's files, says with line and field what is wrong, and what NVIDIA's program says of it. Fields that are not here are not read; of mig-parted's file they are refused.

carve has no file of settings of its own: it is told by [options and variables](cli.md), [SlicePolicies](policies.md) and [values of the chart](values.md).
";

const REST: &str = "## Files of carve's own

| file | given to | what it is |
|---|---|---|
| machine description | `--machine`, `CARVE_SIM_MACHINE` | [a simulated machine](machines.md), as YAML |
| fleet | `carve up --fleet` | [machines by name and type](../operations/up.md), as YAML |
| prices | `--prices` of `carve agent` and `carve advise` | [a type of machine and dollars an hour](../operations/cost.md) on each line; `#` begins a comment |
| trace | `carve simulate` | [pods and nodes](../operations/simulate.md), as CSV or as kubectl prints them |
";

/// What becomes of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Becomes {
    Honoured,
    /// Where `--honour-choices` says so.
    OnWish,
    /// Where labels are made, which no settings show.
    InLabels,
    PassedOver,
}
use Becomes::{Honoured, InLabels, OnWish, PassedOver};

/// Path, the field with a value that is not the usual one, what becomes of it, and words.
type Field = (&'static str, &'static str, Becomes, &'static str);

/// Whatever a field of sharing stands beside.
const SHARED: &str = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}";

const PLUGIN: &[Field] = &[
    ("version", "version: v1", PassedOver, "`v1`, or nothing; another one is refused"),
    (
        "flags.migStrategy",
        "flags: {migStrategy: mixed}",
        Honoured,
        "how MIG devices are named: `none`, `single` or `mixed`",
    ),
    ("flags.mpsRoot", "flags: {mpsRoot: /mps}", Honoured, "where MPS daemons keep their files on the host"),
    ("flags.nvidiaDriverRoot", "flags: {nvidiaDriverRoot: /d}", Honoured, "where the driver is on the host"),
    ("flags.nvidiaDevRoot", "flags: {nvidiaDevRoot: /d}", Honoured, "where the device nodes are on the host"),
    ("flags.gdrcopyEnabled", "flags: {gdrcopyEnabled: true}", Honoured, "GDRCopy for containers"),
    ("flags.gdsEnabled", "flags: {gdsEnabled: true}", Honoured, "GPUDirect Storage for containers"),
    ("flags.mofedEnabled", "flags: {mofedEnabled: true}", Honoured, "InfiniBand for containers"),
    (
        "flags.failOnInitError",
        "flags: {failOnInitError: false}",
        PassedOver,
        "`--fail-on-init-error`: the file is read when there is a driver",
    ),
    ("flags.useNodeFeatureAPI", "flags: {useNodeFeatureAPI: false}", PassedOver, "`--labels-to`"),
    (
        "flags.deviceDiscoveryStrategy",
        "flags: {deviceDiscoveryStrategy: nvml}",
        PassedOver,
        "checked; devices are found by NVML",
    ),
    (
        "flags.plugin.passDeviceSpecs",
        "flags: {plugin: {passDeviceSpecs: true}}",
        Honoured,
        "device nodes in the answer to kubelet",
    ),
    (
        "flags.plugin.deviceListStrategy",
        "flags: {plugin: {deviceListStrategy: cdi-cri}}",
        Honoured,
        "how containers learn their devices: `envvar`, `volume-mounts`, `cdi-annotations`, `cdi-cri`, or a list of them",
    ),
    (
        "flags.plugin.deviceIDStrategy",
        "flags: {plugin: {deviceIDStrategy: index}}",
        Honoured,
        "what devices are called towards containers: `uuid` or `index`",
    ),
    (
        "flags.plugin.cdiAnnotationPrefix",
        "flags: {plugin: {cdiAnnotationPrefix: x/}}",
        Honoured,
        "prefix of CDI annotations",
    ),
    (
        "flags.plugin.sharedDevicesAllocationPolicy",
        "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}",
        Honoured,
        "where shares of several GPUs come from: `distributed` or `packed`",
    ),
    (
        "flags.plugin.nvidiaCTKPath",
        "flags: {plugin: {nvidiaCTKPath: /x}}",
        PassedOver,
        "`--nvidia-cdi-hook-path`",
    ),
    (
        "flags.plugin.containerDriverRoot",
        "flags: {plugin: {containerDriverRoot: /x}}",
        PassedOver,
        "`--driver-root-ctr-path`",
    ),
    ("flags.gfd.noTimestamp", "flags: {gfd: {noTimestamp: true}}", InLabels, "leave the timestamp label out"),
    (
        "flags.gfd.machineTypeFile",
        "flags: {gfd: {machineTypeFile: /x}}",
        InLabels,
        "where the machine type is read",
    ),
    ("flags.gfd.outputFile", "flags: {gfd: {outputFile: /x}}", PassedOver, "`--output-file`"),
    (
        "flags.gfd.oneshot",
        "flags: {gfd: {oneshot: true}}",
        PassedOver,
        "labels are written whenever something changes",
    ),
    ("flags.gfd.sleepInterval", "flags: {gfd: {sleepInterval: 5m}}", PassedOver, "likewise"),
    (
        "resources.gpus",
        "resources: {gpus: [{pattern: '*', name: card}]}",
        OnWish,
        "names for GPUs, by what the driver calls them",
    ),
    (
        "resources.gpus[].pattern",
        "resources: {gpus: [{pattern: '*', name: card}]}",
        OnWish,
        "with `*` for any letters; required",
    ),
    ("resources.gpus[].name", "resources: {gpus: [{pattern: '*', name: card}]}", OnWish, "required"),
    (
        "resources.mig",
        "resources: {mig: [{pattern: '*', name: piece}]}",
        OnWish,
        "names for MIG devices, by profile; fields as of GPUs",
    ),
    ("sharing.timeSlicing", SHARED, Honoured, "GPUs that several containers use in turns"),
    (
        "sharing.mps",
        "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
        Honoured,
        "GPUs that several containers use at once, with limits; wins over `timeSlicing` unless `--honour-choices` lets both stand. Fields as of `timeSlicing`",
    ),
    (
        "sharing.timeSlicing.renameByDefault",
        "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 2}]}}",
        Honoured,
        "`.shared` behind each name",
    ),
    (
        "sharing.timeSlicing.failRequestsGreaterThanOne",
        "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 2}]}}",
        Honoured,
        "refuse containers that ask for more than one share; unset means no, and yes with `mps`",
    ),
    ("sharing.timeSlicing.resources", SHARED, Honoured, "what is shared; required"),
    (
        "sharing.timeSlicing.resources[].name",
        "sharing: {timeSlicing: {resources: [{name: mig-1g.18gb, replicas: 2}]}}",
        Honoured,
        "`nvidia.com/gpu` or `nvidia.com/mig-PROFILE`, `nvidia.com/` may be left out; required",
    ),
    (
        "sharing.timeSlicing.resources[].replicas",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}",
        Honoured,
        "how often each is offered, 2 or more; required",
    ),
    (
        "sharing.timeSlicing.resources[].rename",
        "sharing: {timeSlicing: {resources: [{name: gpu, rename: gpu.turns, replicas: 2}]}}",
        OnWish,
        "another name for the shares",
    ),
    (
        "sharing.timeSlicing.resources[].devices",
        "sharing: {timeSlicing: {resources: [{name: gpu, devices: [1], replicas: 2}]}}",
        OnWish,
        "which devices: `all`, a count, or a list of indices and UUIDs",
    ),
    ("imex.channelIDs", "imex: {channelIDs: [0]}", Honoured, "IMEX channels for containers: none, or `[0]`"),
    (
        "imex.required",
        "imex: {channelIDs: [0], required: true}",
        Honoured,
        "refuse to offer anything without them",
    ),
];

/// Levels of the file, and a key that nobody knows on each.
const LEVELS: &[(&str, &str)] = &[
    ("", "qqqqqqqq: 1"),
    ("flags", "flags: {qqqqqqqq: 1}"),
    ("flags.plugin", "flags: {plugin: {qqqqqqqq: 1}}"),
    ("flags.gfd", "flags: {gfd: {qqqqqqqq: 1}}"),
    ("resources", "resources: {qqqqqqqq: 1}"),
    ("resources.gpus[]", "resources: {gpus: [{pattern: '*', name: card, qqqqqqqq: 1}]}"),
    ("sharing", "sharing: {qqqqqqqq: 1}"),
    ("sharing.timeSlicing", "sharing: {timeSlicing: {qqqqqqqq: 1, resources: [{name: gpu, replicas: 2}]}}"),
    (
        "sharing.timeSlicing.resources[]",
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, qqqqqqqq: 1}]}}",
    ),
    ("imex", "imex: {qqqqqqqq: 1}"),
];

fn config(text: &str) -> DevicePluginConfig {
    let parsed = DevicePluginConfig::parse(text);
    let wrong: Vec<&Diagnostic> = parsed
        .diagnostics
        .iter()
        .filter(|one| one.severity == Severity::Error || one.message.contains("not read"))
        .collect();
    assert!(wrong.is_empty(), "{text}: {wrong:?}");
    parsed.value.expect("a config")
}

/// What follows from a file: settings and what is offered, as text.
fn follows(text: &str, honour_choices: bool) -> String {
    let settings = Settings::new(&config(text), honour_choices).expect("settings");
    let node = machine("H200*3", "2=1g.18gb,1g.18gb");
    let offered = offer(&node, &settings);
    // What was written is no effect; what is offered by it is.
    let told = Settings { sharing: Default::default(), ..settings.clone() };
    let refused = settings.sharing.fail_requests_greater_than_one();
    format!("{told:?} {refused} {:?}", offered.map(|offer| offer.resources))
}

#[test]
fn every_field_does_what_the_page_says() {
    for (path, text, becomes, _) in PLUGIN {
        let beside = if path.starts_with("sharing.timeSlicing.") && *path != "sharing.timeSlicing.resources" {
            SHARED
        } else {
            ""
        };
        // MIG devices have names of their own under `mixed` only.
        let mixed = if path.starts_with("flags") { "" } else { "flags: {migStrategy: mixed}\n" };
        let whole = |text: &str| format!("{mixed}{text}");
        let changes = |wish: bool| follows(&whole(text), wish) != follows(&whole(beside), wish);
        let found = (changes(false), changes(true));
        let expected = match becomes {
            Honoured => (true, true),
            OnWish => (false, true),
            InLabels | PassedOver => (false, false),
        };
        assert_eq!(
            found, expected,
            "{path}: whether it changes anything, as it comes and with --honour-choices"
        );
        if *becomes == InLabels {
            let gfd = config(text).flags.gfd.expect("a section");
            assert!(gfd.no_timestamp.is_some() || gfd.machine_type_file.is_some(), "{path} is not read");
        }
    }
}

/// Names that a hint lists behind `before`.
fn listed(diagnostics: &[Diagnostic], before: &str) -> Vec<String> {
    let hints =
        diagnostics.iter().filter_map(|one| one.hint.as_deref()?.strip_prefix(before).map(str::to_owned));
    let names = hints
        .flat_map(|hint| hint.split(", ").map(|name| name.trim_matches('\'').to_owned()).collect::<Vec<_>>());
    names.collect()
}

#[test]
fn no_field_is_missing() {
    let told: BTreeSet<String> = PLUGIN.iter().map(|(path, ..)| (*path).to_owned()).collect();
    let mut known = BTreeSet::new();
    for (level, text) in LEVELS {
        let names = listed(&DevicePluginConfig::parse(text).diagnostics, "known here: ");
        assert!(!names.is_empty(), "{level}: nothing is said of what is known there");
        known.extend(
            names.iter().map(|name| if level.is_empty() { name.clone() } else { format!("{level}.{name}") }),
        );
    }
    // A section is told by its fields.
    let sections: BTreeSet<String> =
        ["flags", "flags.plugin", "flags.gfd", "resources", "sharing", "imex"].map(str::to_owned).into();
    let known: BTreeSet<String> = known.difference(&sections).cloned().collect();
    assert_eq!(known, told);
}

/// Path, and words.
type Other = (&'static str, &'static str);

const PARTED: &[Other] = &[
    ("version", "`v1`; required"),
    ("mig-configs", "configs by name; each is a list of entries; required"),
    ("mig-configs.NAME[].devices", "which GPUs: `all`, or a list of indices; required"),
    (
        "mig-configs.NAME[].device-filter",
        "only GPUs with this PCI id, such as `0x20B010DE`, or one of a list",
    ),
    ("mig-configs.NAME[].mig-enabled", "whether MIG mode is on; required"),
    (
        "mig-configs.NAME[].mig-devices",
        "how many instances of which profile: `{1g.5gb: 7}`; required where MIG mode is on, and `{}` for none",
    ),
];

const HOOKS: &[Other] = &[
    ("version", "not looked at; write `v1`"),
    (
        "hooks",
        "lists of commands by the name of the hook: `apply-start`, `pre-apply-mode`, `pre-apply-config`, `apply-exit`",
    ),
    ("hooks.NAME[].command", "the program"),
    ("hooks.NAME[].args", "its arguments"),
    (
        "hooks.NAME[].envs",
        "its environment, to which [variables](environment.md#what-other-programs-get) are added",
    ),
    ("hooks.NAME[].workdir", "its working directory"),
];

fn names_of(fields: &[Other], prefix: &str) -> BTreeSet<String> {
    let below = |path: &&str| !path[prefix.len()..].contains(['.', '[']);
    let paths = fields.iter().filter_map(|(path, _)| path.starts_with(prefix).then_some(*path));
    paths.filter(below).map(|path| path[prefix.len()..].to_owned()).collect()
}

#[test]
fn fields_of_mig_parted_and_of_hooks_are_all_there() {
    let entry =
        "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {}, qqqqqqqq: 1}]}";
    let known = listed(&MigPartedConfig::parse(entry).diagnostics, "an entry may have ");
    assert_eq!(BTreeSet::from_iter(known), names_of(PARTED, "mig-configs.NAME[]."));
    let top = MigPartedConfig::parse("version: v1\nqqqqqqqq: 1\n");
    let hint = top.diagnostics.iter().find_map(|one| one.hint.clone()).unwrap_or_default();
    assert_eq!(hint, "only 'version' and 'mig-configs' may stand at the top");
    assert_eq!(names_of(PARTED, "").into_iter().collect::<Vec<_>>(), ["mig-configs", "version"]);
    for (text, prefix) in
        [("qqqqqqqq: 1", ""), ("hooks: {apply-start: [{command: x, qqqqqqqq: 1}]}", "hooks.NAME[].")]
    {
        let known = listed(&MigHooks::parse(&format!("version: v1\n{text}")).diagnostics, "known here: ");
        assert_eq!(BTreeSet::from_iter(known), names_of(HOOKS, prefix), "{text}");
    }
}

fn table(head: &str, rows: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    let rows: String =
        rows.map(|(path, words)| format!("| `{path}` | {} |\n", words.replace('|', "\\|"))).collect();
    format!("\n| {head} | |\n|---|---|\n{rows}")
}

#[test]
fn the_page_is_the_reference_of_these_fields() {
    let of = |becomes: &'static [Becomes]| {
        PLUGIN
            .iter()
            .filter(|(_, _, found, _)| becomes.contains(found))
            .map(|(path, _, _, words)| (*path, *words))
    };
    let mut text = HEAD.to_owned();
    text.push_str("\n## The device plugin's configuration\n\n`carve agent --config-file`, or an entry of a ConfigMap ([which](../operations/agent.md#configuration)). What options and variables say wins over the file.\n");
    text.push_str(&table("honoured", of(&[Honoured, InLabels])));
    text.push_str(&table(
        "honoured with `--honour-choices`; NVIDIA's plugin, and the agent without it, pass it over",
        of(&[OnWish]),
    ));
    text.push_str(&table("read, checked and passed over; what says the same instead", of(&[PassedOver])));
    text.push_str("\n## mig-parted's configuration\n\n`carve mig apply -f`, `carve agent --mig-config-file`. Every field is honoured.\n");
    text.push_str(&table("field", PARTED.iter().copied()));
    text.push_str("\n## mig-parted's hooks\n\n`carve mig apply --hooks-file` ([how](../operations/mig.md)). Every field is honoured.\n");
    text.push_str(&table("field", HOOKS.iter().copied()));
    text.push('\n');
    text.push_str(REST);
    check_page("config.md", &text);
}
