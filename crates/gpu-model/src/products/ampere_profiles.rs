//! MIG profile figures of the Ampere products, one row a profile.
//!
//! Columns: name, profile id, NVML index, compute slices, most instances, memory in MiB, multiprocessors,
//! engines (copy, decoder, encoder, JPEG, OFA), legal first slots, slots taken. `None` is unknown, never zero.

use super::rows::{A30_HALVES, EVEN, EVEN_LOW, HALVES, QUARTERS, Row, SEVEN, WHOLE, row};

pub(super) const A30_24GB_PROFILES: &[Row] = &[
    row("1g.6gb", 14, 0, 1, 4, Some(5949), Some(14), [1, 1, 0, 0, 0], QUARTERS, 1),
    row("1g.6gb+me", 21, 7, 1, 1, Some(5949), Some(14), [1, 1, 0, 1, 1], QUARTERS, 1),
    row("2g.12gb", 5, 1, 2, 2, Some(11971), Some(28), [2, 2, 0, 0, 0], A30_HALVES, 2),
    row("2g.12gb+me", 6, 8, 2, 1, Some(11971), Some(28), [2, 2, 0, 1, 1], A30_HALVES, 2),
    row("4g.24gb", 0, 3, 4, 1, Some(24003), Some(56), [4, 4, 0, 1, 1], WHOLE, 4),
];

pub(super) const A100_40GB_PROFILES: &[Row] = &[
    row("1g.5gb", 19, 0, 1, 7, Some(4864), Some(14), [1, 0, 0, 0, 0], SEVEN, 1),
    row("1g.5gb+me", 20, 7, 1, 1, Some(4864), Some(14), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.10gb", 15, 9, 1, 4, Some(9984), Some(14), [1, 1, 0, 0, 0], EVEN, 2),
    row("2g.10gb", 14, 1, 2, 3, Some(9984), Some(28), [2, 1, 0, 0, 0], EVEN_LOW, 2),
    row("3g.20gb", 9, 2, 3, 2, Some(20091), Some(42), [3, 2, 0, 0, 0], HALVES, 4),
    row("4g.20gb", 5, 3, 4, 1, Some(20091), Some(56), [4, 2, 0, 0, 0], WHOLE, 4),
    row("7g.40gb", 0, 4, 7, 1, Some(40325), Some(98), [7, 5, 0, 1, 1], WHOLE, 8),
];

pub(super) const A100_80GB_PROFILES: &[Row] = &[
    row("1g.10gb", 19, 0, 1, 7, Some(9728), Some(14), [1, 0, 0, 0, 0], SEVEN, 1),
    row("1g.10gb+me", 20, 7, 1, 1, Some(9728), Some(14), [1, 1, 0, 1, 1], SEVEN, 1),
    row("1g.20gb", 15, 9, 1, 4, Some(19968), Some(14), [1, 1, 0, 0, 0], EVEN, 2),
    row("2g.20gb", 14, 1, 2, 3, Some(19968), Some(28), [2, 1, 0, 0, 0], EVEN_LOW, 2),
    row("3g.40gb", 9, 2, 3, 2, Some(40192), Some(42), [3, 2, 0, 0, 0], HALVES, 4),
    row("4g.40gb", 5, 3, 4, 1, Some(40192), Some(56), [4, 2, 0, 0, 0], WHOLE, 4),
    row("7g.80gb", 0, 4, 7, 1, Some(80896), Some(98), [7, 5, 0, 1, 1], WHOLE, 8),
];
