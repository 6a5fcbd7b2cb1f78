//! Which specs there are, on which machine each is tried, and which are left out and why.

/// Folders below the fixtures whose every file is applied or left out for a reason.
pub(crate) const FOLDERS: [&str; 9] = [
    "nvidia/quickstart-v1",
    "nvidia/quickstart-misc",
    "nvidia/consumable-shares",
    "nvidia/extended-resources",
    "nvidia/bats-specs",
    "nvidia/e2e-specs",
    "dra-example",
    "hami",
    "vgpu-manager",
];

/// A file, or why it is not applied.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// Applied.
    Applied(Spec),
    /// Not applied: the file, and why.
    LeftOut(&'static str, &'static str),
}

/// A spec that is applied.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// The file.
    pub(crate) file: &'static str,
    /// What tells it from another row of the same file.
    pub(crate) variant: &'static str,
    /// Files that come first.
    pub(crate) with: &'static [&'static str],
    /// The machine it needs.
    pub(crate) machine: &'static str,
    /// Words that are replaced before it is applied.
    pub(crate) replace: &'static [(&'static str, &'static str)],
    /// What to know about it.
    pub(crate) note: &'static str,
}

const H100: &str = "h100-sxm-80gb:2";
const ONE_H100: &str = "h100-sxm-80gb:1";

fn spec(file: &'static str, machine: &'static str) -> Spec {
    Spec { file, variant: "", with: &[], machine, replace: &[], note: "" }
}

fn on(file: &'static str, machine: &'static str) -> Entry {
    Entry::Applied(spec(file, machine))
}

fn noted(file: &'static str, machine: &'static str, note: &'static str) -> Entry {
    Entry::Applied(Spec { note, ..spec(file, machine) })
}

/// A spec of NVIDIA's shares asked of another class.
fn shared(
    file: &'static str,
    variant: &'static str,
    replace: &'static [(&str, &str)],
    note: &'static str,
) -> Entry {
    Entry::Applied(Spec { variant, replace, note, ..spec(file, ONE_H100) })
}

/// A template whose values are filled in.
fn filled(file: &'static str, machine: &'static str, replace: &'static [(&str, &str)]) -> Entry {
    Entry::Applied(Spec { replace, ..spec(file, machine) })
}

/// A spec of the example driver, whose driver and class are both `gpu.example.com`.
fn example(file: &'static str, machine: &'static str, note: &'static str) -> Entry {
    const NAMES: &[(&str, &str)] = &[("gpu.example.com", "gpu.nvidia.com")];
    Entry::Applied(Spec { replace: NAMES, note, ..spec(file, machine) })
}

const VFIO: &str = "passes a GPU through to a virtual machine, which carve does not do";

/// All of them, in the order of the table.
pub(crate) fn entries() -> Vec<Entry> {
    const BATS_SHARED: &[&str] = &["nvidia/bats-specs/rc-shared-gpu.yaml"];
    const NAMESPACE: (&str, &str) = ("{{ .Namespace }}", "ignored");
    const CORES: &[(&str, &str)] = &[
        ("deviceClassName: hami-core-gpu.project-hami.io", "deviceClassName: fraction.nvidia.com"),
        ("cores:", "compute:"),
    ];
    let hami = |file| {
        let with: &[&str] = &["hami/setup.yaml"];
        let note = "its class is `fraction.nvidia.com`, its `cores` are `compute`";
        Entry::Applied(Spec { with, replace: CORES, note, ..spec(file, ONE_H100) })
    };
    let vgpu = |file| {
        const NAMES: &[(&str, &str)] = &[
            ("deviceClassName: vgpu-manager", "deviceClassName: fraction.nvidia.com"),
            ("cores:", "compute:"),
        ];
        let note = "its class is `fraction.nvidia.com`, its `cores` are `compute`";
        Entry::Applied(Spec { replace: NAMES, note, ..spec(file, H100) })
    };
    vec![
        on("nvidia/quickstart-v1/gpu-test1.yaml", H100),
        on("nvidia/quickstart-v1/gpu-test2.yaml", ONE_H100),
        on("nvidia/quickstart-v1/gpu-test3.yaml", ONE_H100),
        on("nvidia/quickstart-v1/gpu-test4.yaml", "a100-40gb:4"),
        on("nvidia/quickstart-v1/gpu-test5.yaml", H100),
        noted(
            "nvidia/quickstart-v1/gpu-test6.yaml",
            "a100-40gb:8",
            "asks for an attribute that NVIDIA's driver does not publish any more",
        ),
        on("nvidia/quickstart-v1/gpu-test-mps.yaml", ONE_H100),
        Entry::LeftOut("nvidia/quickstart-v1/gpu-test-vfio-config.yaml", VFIO),
        Entry::LeftOut("nvidia/quickstart-v1/gpu-test-vfiopci.yaml", VFIO),
        Entry::LeftOut(
            "nvidia/quickstart-v1/imex-test1.yaml",
            "asks for IMEX channels, which NVIDIA's driver for compute domains serves; its class is not shipped any more",
        ),
        noted("nvidia/quickstart-misc/gpu-test7.yaml", H100, "written for v1beta1, read as v1"),
        noted("nvidia/quickstart-misc/gpu-test8.yaml", H100, "written for v1beta1, read as v1"),
        Entry::LeftOut(
            "nvidia/quickstart-misc/mig-parted-config.yaml",
            "is a MIG layout for `carve mig apply`, not a spec",
        ),
        noted(
            "nvidia/consumable-shares/integer-sharing.yaml",
            H100,
            "`gpu.nvidia.com` is a whole GPU here, whatever the node; whoever shares asks for it",
        ),
        shared(
            "nvidia/consumable-shares/integer-sharing.yaml",
            "-turns",
            &[("deviceClassName: gpu.nvidia.com", "deviceClassName: timeslicing.nvidia.com")],
            "asked of `timeslicing.nvidia.com`",
        ),
        noted("nvidia/consumable-shares/memory-sharing.yaml", H100, "a whole GPU each"),
        shared(
            "nvidia/consumable-shares/memory-sharing.yaml",
            "-fraction",
            &[("deviceClassName: gpu.nvidia.com", "deviceClassName: fraction.nvidia.com")],
            "asked of `fraction.nvidia.com`: who names no compute gets all of it",
        ),
        shared(
            "nvidia/consumable-shares/memory-sharing.yaml",
            "-fraction-compute",
            &[
                ("deviceClassName: gpu.nvidia.com", "deviceClassName: fraction.nvidia.com"),
                ("memory: 4Gi\n", "memory: 4Gi\n              compute: 50\n"),
            ],
            "asked of `fraction.nvidia.com`, with compute",
        ),
        on("nvidia/consumable-shares/unlimited-sharing.yaml", H100),
        shared(
            "nvidia/consumable-shares/unlimited-sharing.yaml",
            "-turns",
            &[("deviceClassName: gpu.nvidia.com", "deviceClassName: timeslicing.nvidia.com")],
            "asked of `timeslicing.nvidia.com`",
        ),
        on("nvidia/extended-resources/gpu-full.yaml", ONE_H100),
        on("nvidia/extended-resources/mig-1g-12gb.yaml", "gh200-96gb:1"),
        on("nvidia/bats-specs/gpu-1pod-2cnt-1gpu.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-2pods-1gpu.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-2pods-2gpus.yaml", H100),
        on("nvidia/bats-specs/gpu-anymig.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-cel-nomatch.yaml", ONE_H100),
        noted(
            "nvidia/bats-specs/gpu-consumable-shares-integer.yaml",
            ONE_H100,
            "a whole GPU has no `shares`; `replicas` of `timeslicing.nvidia.com` are what is meant",
        ),
        shared(
            "nvidia/bats-specs/gpu-consumable-shares-integer.yaml",
            "-turns",
            &[
                ("deviceClassName: gpu.nvidia.com", "deviceClassName: timeslicing.nvidia.com"),
                ("shares:", "replicas:"),
            ],
            "asked of `timeslicing.nvidia.com`, by its name for shares",
        ),
        noted("nvidia/bats-specs/gpu-consumable-shares-memory.yaml", H100, "a whole GPU each"),
        on("nvidia/bats-specs/gpu-cuda-busgrind.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-cuda-demo-suite.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-job-rct-parallel.yaml", H100),
        on("nvidia/bats-specs/gpu-job-rct.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-mps.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-multiple-mig.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-pod-fail-restart.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-simple-full.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-simple-mig-ts.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-simple-mig.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-timeslicing.yaml", ONE_H100),
        on("nvidia/bats-specs/gpu-two-claims-one-pod.yaml", H100),
        Entry::LeftOut(
            "nvidia/bats-specs/nvb.tmpl.yaml",
            "is a compute domain and an MPIJob, which other controllers serve",
        ),
        Entry::Applied(Spec {
            with: BATS_SHARED,
            replace: &[("__INDEX__", "0")],
            ..spec("nvidia/bats-specs/pods-shared-gpu.yaml", ONE_H100)
        }),
        Entry::LeftOut(
            "nvidia/bats-specs/rc-opaque-cfg-unknown-field.yaml.tmpl",
            "is a config of a compute domain",
        ),
        Entry::LeftOut("nvidia/bats-specs/rc-shared-gpu.yaml", "is applied with `pods-shared-gpu.yaml`"),
        filled("nvidia/e2e-specs/consumable-shares-memory.yaml.tmpl", H100, &[NAMESPACE]),
        filled("nvidia/e2e-specs/consumable-shares-unlimited.yaml.tmpl", H100, &[NAMESPACE]),
        filled(
            "nvidia/e2e-specs/driver-version.yaml.tmpl",
            ONE_H100,
            &[NAMESPACE, ("{{ .DriverVersion }}", "550.0.0")],
        ),
        filled("nvidia/e2e-specs/error-handling.yaml.tmpl", H100, &[NAMESPACE]),
        filled(
            "nvidia/e2e-specs/memory-size.yaml.tmpl",
            ONE_H100,
            &[NAMESPACE, ("{{ .RequiredMemoryGi }}", "40")],
        ),
        filled(
            "nvidia/e2e-specs/product-type.yaml.tmpl",
            ONE_H100,
            &[NAMESPACE, ("{{ .ProductPattern }}", "h100")],
        ),
        filled("nvidia/e2e-specs/timeslicing.yaml.tmpl", ONE_H100, &[NAMESPACE, ("{{ .Replicas }}", "4")]),
        example("dra-example/admin-access.yaml", H100, ""),
        example("dra-example/basic-multiple-requests.yaml", H100, ""),
        example(
            "dra-example/basic-resourceclaim-opaque-config.yaml",
            H100,
            "the config is refused when it is prepared",
        ),
        example("dra-example/basic-resourceclaimtemplate.yaml", H100, ""),
        example("dra-example/basic-shared-claim-across-containers.yaml", ONE_H100, ""),
        example("dra-example/basic-shared-claim-across-pods.yaml", ONE_H100, ""),
        Entry::LeftOut(
            "dra-example/binding-conditions.yaml",
            "is about a device that is attached to the node while the pod waits",
        ),
        example(
            "dra-example/cel-selector.yaml",
            ONE_H100,
            "`model` is an attribute of the example driver alone",
        ),
        Entry::Applied(Spec {
            replace: &[("gpu.example.com", "gpu.nvidia.com"), ("example.com/gpu:", "nvidia.com/gpu:")],
            ..spec("dra-example/extended-resource-request.yaml", H100)
        }),
        Entry::Applied(Spec {
            replace: &[("gpu.example.com", "mig-fraction.nvidia.com")],
            note: "its class is `mig-fraction.nvidia.com`",
            ..spec("dra-example/gpu-allow-multiple-allocations-partitionable.yaml", ONE_H100)
        }),
        Entry::Applied(Spec {
            replace: &[("gpu.example.com", "fraction.nvidia.com")],
            note: "its class is `fraction.nvidia.com`",
            ..spec("dra-example/gpu-allow-multiple-allocations.yaml", ONE_H100)
        }),
        example("dra-example/initcontainer-shared-gpu.yaml", ONE_H100, ""),
        Entry::LeftOut("dra-example/native-resource-request.yaml", "asks for CPUs"),
        Entry::LeftOut("dra-example/net-consumable-capacity.yaml", "asks for network bandwidth"),
        Entry::Applied(Spec {
            replace: &[("gpu.example.com", "mig.nvidia.com")],
            note: "its class is `mig.nvidia.com`",
            ..spec("dra-example/partitionable-devices.yaml", ONE_H100)
        }),
        Entry::LeftOut(
            "dra-example/podgroup-resourceclaimtemplate.yaml",
            "asks for pod groups, which are off in this Kubernetes",
        ),
        example(
            "dra-example/prioritized-alternatives.yaml",
            H100,
            "`model` is an attribute of the example driver alone",
        ),
        Entry::LeftOut("hami/chart-test.yaml", "is HAMi's own driver"),
        Entry::LeftOut("hami/ds.yaml", "is HAMi's own driver"),
        hami("hami/pod-0.yaml"),
        hami("hami/pod-1.yaml"),
        hami("hami/pod-tpl-0.yaml"),
        Entry::LeftOut("hami/rbac.yaml", "is HAMi's own driver"),
        Entry::LeftOut("hami/setup.yaml", "is applied with the pods"),
        vgpu("vgpu-manager/pod-multi-vgpu.yaml"),
        vgpu("vgpu-manager/pod-single-vgpu.yaml"),
    ]
}
