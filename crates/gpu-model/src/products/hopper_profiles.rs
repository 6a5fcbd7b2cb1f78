//! MIG profile figures of the Hopper products, one row a profile.
//!
//! Columns: name, profile id, NVML index, compute slices, most instances, memory in MiB, multiprocessors,
//! engines (copy, decoder, encoder, JPEG, OFA), legal first slots, slots taken. `None` is unknown, never zero.

use super::rows::{EVEN, EVEN_LOW, HALVES, Row, SEVEN, WHOLE, row};

pub(super) const H100_SXM_80GB_PROFILES: &[Row] = &[
    row("1g.10gb", 19, 0, 1, 7, Some(9984), Some(16), [1, 1, 0, 1, 0], SEVEN, 1),
    row("1g.10gb+me", 20, 7, 1, 1, Some(9984), Some(16), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.20gb", 15, 9, 1, 4, Some(20091), Some(26), [1, 1, 0, 1, 0], EVEN, 2),
    row("2g.20gb", 14, 1, 2, 3, Some(20091), Some(32), [2, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.40gb", 9, 2, 3, 2, Some(40448), Some(60), [3, 3, 0, 3, 0], HALVES, 4),
    row("4g.40gb", 5, 3, 4, 1, Some(40448), Some(64), [4, 4, 0, 4, 0], WHOLE, 4),
    row("7g.80gb", 0, 4, 7, 1, Some(81152), Some(132), [8, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const H100_PCIE_80GB_PROFILES: &[Row] = &[
    row("1g.10gb", 19, 0, 1, 7, Some(9984), Some(14), [1, 1, 0, 1, 0], SEVEN, 1),
    row("1g.10gb+me", 20, 7, 1, 1, Some(9984), Some(14), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.20gb", 15, 9, 1, 4, Some(20091), Some(14), [1, 1, 0, 1, 0], EVEN, 2),
    row("2g.20gb", 14, 1, 2, 3, Some(20091), Some(30), [2, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.40gb", 9, 2, 3, 2, Some(40448), Some(46), [3, 3, 0, 3, 0], HALVES, 4),
    row("4g.40gb", 5, 3, 4, 1, Some(40448), Some(62), [4, 4, 0, 4, 0], WHOLE, 4),
    row("7g.80gb", 0, 4, 7, 1, Some(81152), Some(114), [8, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const H100_NVL_94GB_PROFILES: &[Row] = &[
    row("1g.12gb", 19, 0, 1, 7, Some(11008), Some(16), [1, 1, 0, 1, 0], SEVEN, 1),
    row("1g.12gb+me", 20, 7, 1, 1, Some(11008), Some(16), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.24gb", 15, 9, 1, 4, Some(22139), Some(26), [1, 1, 0, 1, 0], EVEN, 2),
    row("2g.24gb", 14, 1, 2, 3, Some(22139), Some(32), [2, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.47gb", 9, 2, 3, 2, Some(47493), Some(60), [3, 3, 0, 3, 0], HALVES, 4),
    row("4g.47gb", 5, 3, 4, 1, Some(47493), Some(64), [4, 4, 0, 4, 0], WHOLE, 4),
    row("7g.94gb", 0, 4, 7, 1, Some(95355), Some(132), [8, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const GH200_96GB_PROFILES: &[Row] = &[
    row("1g.12gb", 19, 0, 1, 7, Some(11264), Some(16), [1, 1, 0, 1, 0], SEVEN, 1),
    row("1g.12gb+me", 20, 7, 1, 1, Some(11264), Some(16), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.24gb", 15, 9, 1, 4, Some(23552), Some(26), [1, 1, 0, 1, 0], EVEN, 2),
    row("2g.24gb", 14, 1, 2, 3, Some(23552), Some(32), [2, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.48gb", 9, 2, 3, 2, Some(47616), Some(60), [3, 3, 0, 3, 0], HALVES, 4),
    row("4g.48gb", 5, 3, 4, 1, Some(47616), Some(64), [4, 4, 0, 4, 0], WHOLE, 4),
    row("7g.96gb", 0, 4, 7, 1, Some(95232), Some(132), [8, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const GH200_144GB_PROFILES: &[Row] = &[
    row("1g.18gb", 19, 0, 1, 7, Some(17920), Some(16), [1, 1, 0, 1, 0], SEVEN, 1),
    row("1g.18gb+me", 20, 7, 1, 1, Some(17920), Some(16), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.36gb", 15, 9, 1, 4, Some(36096), Some(26), [1, 1, 0, 1, 0], EVEN, 2),
    row("2g.36gb", 14, 1, 2, 3, Some(36096), Some(32), [2, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.72gb", 9, 2, 3, 2, None, None, [3, 3, 0, 3, 0], HALVES, 4),
    row("4g.72gb", 5, 3, 4, 1, None, None, [4, 4, 0, 4, 0], WHOLE, 4),
    row("7g.144gb", 0, 4, 7, 1, None, None, [8, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const H200_141GB_PROFILES: &[Row] = &[
    row("1g.18gb", 19, 0, 1, 7, Some(16384), Some(16), [1, 1, 0, 1, 0], SEVEN, 1),
    row("1g.18gb+me", 20, 7, 1, 1, Some(16384), Some(16), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.35gb", 15, 9, 1, 4, Some(33280), Some(26), [1, 1, 0, 1, 0], EVEN, 2),
    row("2g.35gb", 14, 1, 2, 3, Some(33280), Some(32), [2, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.71gb", 9, 2, 3, 2, Some(71424), Some(60), [3, 3, 0, 3, 0], HALVES, 4),
    row("4g.71gb", 5, 3, 4, 1, Some(71424), Some(64), [4, 4, 0, 4, 0], WHOLE, 4),
    row("7g.141gb", 0, 4, 7, 1, Some(143360), Some(132), [8, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const H20_96GB_PROFILES: &[Row] = &[
    row("1g.12gb", 19, 0, 1, 7, None, None, [1, 1, 0, 1, 0], SEVEN, 1),
    row("1g.12gb+me", 20, 7, 1, 1, None, None, [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.24gb", 15, 9, 1, 4, None, None, [1, 1, 0, 1, 0], EVEN, 2),
    row("2g.24gb", 14, 1, 2, 3, None, None, [2, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.48gb", 9, 2, 3, 2, None, None, [3, 3, 0, 3, 0], HALVES, 4),
    row("4g.48gb", 5, 3, 4, 1, None, None, [4, 4, 0, 4, 0], WHOLE, 4),
    row("7g.96gb", 0, 4, 7, 1, None, None, [8, 7, 0, 7, 1], WHOLE, 8),
];
