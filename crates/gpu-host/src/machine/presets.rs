//! Machines that come with carve: cloud instances people rent, single boards, and a mixed box.

const PRESETS: &[(&str, &str)] = &[
    ("g4dn.2xlarge", "name: g4dn.2xlarge\ngpus: [{product: t4}]"),
    ("g4dn.12xlarge", "name: g4dn.12xlarge\ngpus: [{product: t4, count: 4}]"),
    ("g5.2xlarge", "name: g5.2xlarge\ngpus: [{product: a10g}]"),
    ("g5.12xlarge", "name: g5.12xlarge\ngpus: [{product: a10g, count: 4}]"),
    ("g6.2xlarge", "name: g6.2xlarge\ngpus: [{product: l4}]"),
    ("g6e.12xlarge", "name: g6e.12xlarge\ngpus: [{product: l40s, count: 4}]"),
    (
        "p4d.24xlarge",
        "name: p4d.24xlarge
gpus:
- {product: a100-40gb, count: 8, subsystem: '0x134F10DE', numa-nodes: [0, 0, 0, 0, 1, 1, 1, 1], nvlink: switched}",
    ),
    (
        "p4de.24xlarge",
        "name: p4de.24xlarge
gpus:
- {product: a100-80gb, count: 8, numa-nodes: [0, 0, 0, 0, 1, 1, 1, 1], nvlink: switched}",
    ),
    (
        "p5.48xlarge",
        "name: p5.48xlarge
gpus:
- product: h100-sxm-80gb
  count: 8
  subsystem: '0x16C110DE'
  numa-nodes: [0, 0, 0, 0, 1, 1, 1, 1]
  nvlink: switched",
    ),
    (
        "p5en.48xlarge",
        "name: p5en.48xlarge
gpus:
- product: h200-141gb
  count: 8
  subsystem: '0x18BF10DE'
  reserved-mib: 615
  numa-nodes: [0, 0, 0, 0, 1, 1, 1, 1]
  nvlink: switched",
    ),
    (
        "p6-b200.48xlarge",
        "name: p6-b200.48xlarge
gpus:
- product: b200-180gb
  count: 8
  subsystem: '0x199910DE'
  numa-nodes: [0, 0, 0, 0, 1, 1, 1, 1]
  nvlink: switched",
    ),
    // One pass-through GPU, as it reports itself (nvidia-smi rounds what the driver keeps up to 616 MiB).
    ("h200", "name: h200\ngpus: [{product: h200-141gb, subsystem: '0x18BF10DE', reserved-mib: 615}]"),
    ("b200", "name: b200\ngpus: [{product: b200-180gb, subsystem: '0x199910DE'}]"),
    ("a30", "name: a30\ngpus: [{product: a30-24gb}]"),
    ("rtx-pro-6000", "name: rtx-pro-6000\ngpus: [{product: rtx-pro-6000-96gb}]"),
    (
        "mixed",
        "name: mixed
gpus:
- {product: a100-40gb, count: 2, numa-nodes: [0], nvlink: pairs}
- {product: h100-pcie-80gb, numa-nodes: [1]}
- {product: t4, numa-nodes: [1]}",
    ),
    ("none", "name: none\ngpus: []"),
];

/// The description of a preset.
pub(super) fn preset(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Names of all presets.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}
