//! NVIDIA's device plugin and feature discovery, and carve's agent, on the same machines: everybody learns the same.

#[path = "side_by_side/answers.rs"]
mod answers;
#[path = "side_by_side/cdi_files.rs"]
mod cdi_files;
#[path = "side_by_side/pair.rs"]
mod pair;

use carve_conformance::side_by_side::{LABELS, PLUGIN, between, check};
use pair::{Pair, Scenario};

const GPU: &[&str] = &["nvidia.com/gpu"];
const SHARED: &[&str] = &["nvidia.com/gpu.shared"];
const SEVEN: &[(u32, &str)] = &[
    (0, "1g.18gb"),
    (0, "1g.18gb"),
    (0, "1g.18gb"),
    (0, "1g.18gb"),
    (0, "1g.18gb"),
    (0, "1g.18gb"),
    (0, "1g.18gb"),
];
const SEVERAL: &[(u32, &str)] = &[(0, "3g.71gb"), (0, "2g.35gb"), (0, "1g.18gb"), (0, "1g.18gb")];
/// v0.19 switches these on unless told otherwise, v0.20 and carve off.
const GDRCOPY: &str = "--gdrcopy-enabled=false";
const GDS: &str = "--gds-enabled=false";
const MOFED: &str = "--mofed-enabled=false";

const TIME_SLICING: &str = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
const RENAMED: &str =
    "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
const ONE_SHARE: &str = "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, \
     resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
const SHARED_MIGS: &str = "sharing: {timeSlicing: {renameByDefault: true, \
     resources: [{name: nvidia.com/mig-1g.18gb, replicas: 2}, {name: nvidia.com/mig-3g.71gb, replicas: 3}]}}";
const MPS: &str = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}";

/// Two whole H200 and nothing special; the others say what is special about them.
const PLAIN: Scenario = Scenario {
    name: "two H200",
    machine: "h200-141gb:2",
    cut: &[],
    config: "",
    arguments: &[GDRCOPY, GDS, MOFED],
    resources: GPU,
    driver: true,
};

const SERVED: &[Scenario] = &[
    PLAIN,
    Scenario { name: "no flags", arguments: &[], ..PLAIN },
    Scenario { name: "no driver files", driver: false, ..PLAIN },
    Scenario { name: "eight A100", machine: "p4d.24xlarge", ..PLAIN },
    Scenario { name: "mixed models", machine: "mixed", ..PLAIN },
    Scenario { name: "seven, none", machine: "h200", cut: SEVEN, ..PLAIN },
    Scenario {
        name: "seven, single",
        machine: "h200",
        cut: SEVEN,
        arguments: &["--mig-strategy=single", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
    Scenario {
        name: "seven, mixed",
        machine: "h200",
        cut: SEVEN,
        arguments: &["--mig-strategy=mixed", GDRCOPY, GDS, MOFED],
        resources: &["nvidia.com/mig-1g.18gb"],
        ..PLAIN
    },
    Scenario {
        name: "several sizes, mixed, nodes",
        cut: SEVERAL,
        arguments: &["--mig-strategy=mixed", "--pass-device-specs=true", GDRCOPY, GDS, MOFED],
        resources: &[
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.18gb",
            "nvidia.com/mig-2g.35gb",
            "nvidia.com/mig-3g.71gb",
        ],
        ..PLAIN
    },
    Scenario {
        name: "several sizes, mixed, index, mounts",
        cut: SEVERAL,
        arguments: &[
            "--mig-strategy=mixed",
            "--device-id-strategy=index",
            "--device-list-strategy=volume-mounts",
            GDRCOPY,
            GDS,
            MOFED,
        ],
        resources: &[
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.18gb",
            "nvidia.com/mig-2g.35gb",
            "nvidia.com/mig-3g.71gb",
        ],
        ..PLAIN
    },
    Scenario {
        name: "several sizes, mixed, shared",
        cut: SEVERAL,
        config: SHARED_MIGS,
        arguments: &["--mig-strategy=mixed", GDRCOPY, GDS, MOFED],
        resources: &[
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.18gb.shared",
            "nvidia.com/mig-2g.35gb",
            "nvidia.com/mig-3g.71gb.shared",
        ],
        ..PLAIN
    },
    Scenario { name: "time-slicing", config: TIME_SLICING, ..PLAIN },
    Scenario { name: "time-slicing, renamed", config: RENAMED, resources: SHARED, ..PLAIN },
    Scenario { name: "time-slicing, one share each", config: ONE_SHARE, ..PLAIN },
    Scenario {
        name: "time-slicing, nodes",
        config: TIME_SLICING,
        arguments: &["--pass-device-specs=true", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
    Scenario {
        name: "time-slicing, index",
        config: TIME_SLICING,
        arguments: &["--device-id-strategy=index", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
    Scenario { name: "index", arguments: &["--device-id-strategy=index", GDRCOPY, GDS, MOFED], ..PLAIN },
    Scenario {
        name: "mounts",
        arguments: &["--device-list-strategy=volume-mounts", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
    Scenario {
        name: "envvar and mounts",
        arguments: &["--device-list-strategy=envvar,volume-mounts", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
    Scenario { name: "nodes", arguments: &["--pass-device-specs", GDRCOPY, GDS, MOFED], ..PLAIN },
    Scenario {
        name: "nodes elsewhere",
        arguments: &["--pass-device-specs", "--dev-root=/run/nvidia/driver", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
    Scenario {
        name: "nodes, no driver files",
        arguments: &["--pass-device-specs", GDRCOPY, GDS, MOFED],
        driver: false,
        ..PLAIN
    },
    Scenario {
        name: "additions",
        arguments: &["--gdrcopy-enabled", "--gds-enabled", "--mofed-enabled"],
        ..PLAIN
    },
    Scenario {
        name: "CDI annotations",
        arguments: &[
            "--device-list-strategy=cdi-annotations",
            "--driver-root-ctr-path=/",
            GDRCOPY,
            GDS,
            MOFED,
        ],
        ..PLAIN
    },
    Scenario {
        name: "CDI annotations, prefix",
        arguments: &[
            "--device-list-strategy=cdi-annotations",
            "--cdi-annotation-prefix=example.com/",
            "--driver-root-ctr-path=/",
            GDRCOPY,
            GDS,
            MOFED,
        ],
        config: TIME_SLICING,
        ..PLAIN
    },
    Scenario {
        name: "CDI request",
        arguments: &["--device-list-strategy=cdi-cri", "--driver-root-ctr-path=/", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
    Scenario {
        name: "CDI request and envvar, index, MIG",
        cut: SEVERAL,
        arguments: &[
            "--device-list-strategy=cdi-cri,envvar",
            "--device-id-strategy=index",
            "--mig-strategy=mixed",
            "--driver-root-ctr-path=/",
            GDRCOPY,
            GDS,
            MOFED,
        ],
        resources: &[
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.18gb",
            "nvidia.com/mig-2g.35gb",
            "nvidia.com/mig-3g.71gb",
        ],
        ..PLAIN
    },
    Scenario {
        name: "CDI request, additions",
        arguments: &[
            "--device-list-strategy=cdi-cri",
            "--driver-root-ctr-path=/",
            "--gdrcopy-enabled",
            "--gds-enabled",
            "--mofed-enabled",
        ],
        ..PLAIN
    },
    Scenario { name: "IMEX", arguments: &["--imex-channel-ids=0", GDRCOPY, GDS, MOFED], ..PLAIN },
    Scenario {
        name: "IMEX, no such channel",
        arguments: &["--imex-channel-ids=0", GDRCOPY, GDS, MOFED],
        driver: false,
        ..PLAIN
    },
    Scenario {
        name: "IMEX, mounts, nodes",
        arguments: &[
            "--imex-channel-ids=0",
            "--device-list-strategy=volume-mounts",
            "--pass-device-specs",
            GDRCOPY,
            GDS,
            MOFED,
        ],
        ..PLAIN
    },
    Scenario {
        name: "IMEX, CDI request",
        arguments: &[
            "--imex-channel-ids=0",
            "--device-list-strategy=cdi-cri",
            "--driver-root-ctr-path=/",
            GDRCOPY,
            GDS,
            MOFED,
        ],
        ..PLAIN
    },
    Scenario {
        name: "MPS",
        config: MPS,
        arguments: &["--mps-root=/run/nvidia/mps", GDRCOPY, GDS, MOFED],
        ..PLAIN
    },
];

const LABELLED: &[Scenario] = &[
    Scenario { arguments: &[], ..PLAIN },
    Scenario { name: "eight A100", machine: "p4d.24xlarge", arguments: &[], ..PLAIN },
    Scenario { name: "eight H200", machine: "p5en.48xlarge", arguments: &[], ..PLAIN },
    Scenario { name: "eight B200", machine: "p6-b200.48xlarge", arguments: &[], ..PLAIN },
    Scenario { name: "T4", machine: "g4dn.12xlarge", arguments: &[], ..PLAIN },
    Scenario { name: "L40S", machine: "g6e.12xlarge", arguments: &["--mig-strategy=mixed"], ..PLAIN },
    Scenario {
        name: "seven, none",
        machine: "h200",
        cut: SEVEN,
        arguments: &["--mig-strategy=none"],
        ..PLAIN
    },
    Scenario {
        name: "seven, single",
        machine: "h200",
        cut: SEVEN,
        arguments: &["--mig-strategy=single"],
        ..PLAIN
    },
    Scenario {
        name: "seven, mixed",
        machine: "h200",
        cut: SEVEN,
        arguments: &["--mig-strategy=mixed"],
        ..PLAIN
    },
    Scenario { name: "several sizes, mixed", cut: SEVERAL, arguments: &["--mig-strategy=mixed"], ..PLAIN },
    Scenario { name: "several sizes, single", cut: SEVERAL, arguments: &["--mig-strategy=single"], ..PLAIN },
    Scenario {
        name: "empty, single",
        cut: &[(0, ""), (1, "")],
        arguments: &["--mig-strategy=single"],
        ..PLAIN
    },
    Scenario {
        name: "empty, mixed",
        cut: &[(0, ""), (1, "")],
        arguments: &["--mig-strategy=mixed"],
        ..PLAIN
    },
    Scenario { name: "time-slicing", config: TIME_SLICING, arguments: &[], ..PLAIN },
    Scenario { name: "time-slicing, renamed", config: RENAMED, arguments: &[], ..PLAIN },
    Scenario {
        name: "several sizes, mixed, shared",
        cut: SEVERAL,
        config: SHARED_MIGS,
        arguments: &["--mig-strategy=mixed"],
        ..PLAIN
    },
    Scenario { name: "MPS", config: MPS, arguments: &[], ..PLAIN },
];

const NOTHING: &[&str] = &[];

/// What NVIDIA's plugin refuses: the state, the heart of what each says, and what carve offers.
const REFUSED: &[(Scenario, &str, &str, &[&str])] = &[
    (
        Scenario {
            name: "one of two, single",
            cut: &[(0, "1g.18gb")],
            arguments: &["--mig-strategy=single"],
            ..PLAIN
        },
        "all devices on the node must be configured with the same migEnabled value",
        "MIG is on for GPU 0 and off for GPU 1",
        NOTHING,
    ),
    (
        Scenario {
            name: "several sizes, single",
            machine: "h200",
            cut: SEVERAL,
            arguments: &["--mig-strategy=single"],
            ..PLAIN
        },
        "more than one MIG device type present on node",
        "needs one size of MIG device on the node, but there are",
        NOTHING,
    ),
    (
        Scenario {
            name: "empty, single",
            machine: "h200",
            cut: &[(0, "")],
            arguments: &["--mig-strategy=single"],
            ..PLAIN
        },
        "at least one device with migEnabled=true was not configured correctly",
        "MIG is on for GPU 0, but it holds no MIG device",
        NOTHING,
    ),
    (
        Scenario { name: "unknown strategy", arguments: &["--mig-strategy=some"], ..PLAIN },
        "unknown MIG strategy: some",
        "unknown MIG strategy: some",
        NOTHING,
    ),
    (
        Scenario { name: "unknown list", arguments: &["--device-list-strategy=smoke"], ..PLAIN },
        "invalid --device-list-strategy option: invalid strategy: smoke",
        "invalid --device-list-strategy option: invalid strategy: smoke",
        NOTHING,
    ),
    (
        Scenario {
            name: "fewer than no replica",
            config: "sharing: {timeSlicing: {resources: [{name: gpu, replicas: -1}]}}",
            ..PLAIN
        },
        "number of replicas must be >= 2",
        "-1 replicas is no sharing; there must be at least 2",
        NOTHING,
    ),
];

#[test]
fn what_nvidia_refuses_carve_does_not_offer() {
    let Some(pair) = Pair::new() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (scenario, their_words, our_words, offered) in REFUSED {
        let (theirs, ours, resources) = runtime.block_on(pair.refuse(scenario));
        assert!(theirs.contains(their_words), "{}: {theirs}", scenario.name);
        assert!(ours.contains(our_words), "{}: {ours}", scenario.name);
        assert_eq!(resources, *offered, "{}: {ours}", scenario.name);
    }
}

#[test]
fn kubelet_learns_the_same_from_both_plugins() {
    let Some(pair) = Pair::new() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut found = Vec::new();
    let mut compared = 0;
    for scenario in SERVED {
        let (theirs, ours) = runtime.block_on(pair.serve(scenario));
        compared += theirs.len();
        found.extend(between(scenario.name, &theirs, &ours));
    }
    eprintln!("{} scenarios, {compared} answers compared", SERVED.len());
    check(&found, PLUGIN);
}

#[test]
fn nodes_are_labelled_alike() {
    let Some(pair) = Pair::new() else { return };
    let mut found = Vec::new();
    let mut compared = 0;
    for scenario in LABELLED {
        let (theirs, ours) = pair.label(scenario);
        compared += theirs.len();
        found.extend(between(scenario.name, &theirs, &ours));
    }
    eprintln!("{} scenarios, {compared} labels compared", LABELLED.len());
    check(&found, LABELS);
}
