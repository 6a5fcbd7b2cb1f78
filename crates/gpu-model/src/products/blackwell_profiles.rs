//! MIG profile figures of the Blackwell products, one row a profile.
//!
//! Columns: name, profile id, NVML index, compute slices, most instances, memory in MiB, multiprocessors,
//! engines (copy, decoder, encoder, JPEG, OFA), legal first slots, slots taken. `None` is unknown, never zero.

use super::rows::{EVEN, EVEN_LOW, HALVES, HALVES_OF_TWELVE, QUARTERS_OF_TWELVE, Row, SEVEN, WHOLE, row};

pub(super) const B200_180GB_PROFILES: &[Row] = &[
    row("1g.23gb", 19, 0, 1, 7, Some(22528), Some(18), [2, 1, 0, 1, 0], SEVEN, 1),
    row("1g.23gb+me", 20, 7, 1, 1, Some(22528), Some(18), [2, 1, 0, 1, 1], SEVEN, 1),
    row("1g.45gb", 15, 9, 1, 4, Some(45312), Some(30), [2, 1, 0, 1, 0], EVEN, 2),
    row("2g.45gb", 14, 1, 2, 3, Some(45312), Some(36), [4, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.90gb", 9, 2, 3, 2, None, None, [6, 3, 0, 3, 0], HALVES, 4),
    row("4g.90gb", 5, 3, 4, 1, None, None, [8, 4, 0, 4, 0], WHOLE, 4),
    row("7g.180gb", 0, 4, 7, 1, None, None, [16, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const GB200_186GB_PROFILES: &[Row] = &[
    row("1g.23gb", 19, 0, 1, 7, Some(22528), Some(18), [2, 1, 0, 1, 0], SEVEN, 1),
    row("1g.23gb+me", 20, 7, 1, 1, Some(22528), Some(18), [2, 1, 0, 1, 1], SEVEN, 1),
    row("1g.47gb", 15, 9, 1, 4, Some(46592), Some(32), [2, 1, 0, 1, 0], EVEN, 2),
    row("2g.47gb", 14, 1, 2, 3, Some(46592), Some(38), [4, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.93gb", 9, 2, 3, 2, None, None, [6, 3, 0, 3, 0], HALVES, 4),
    row("4g.93gb", 5, 3, 4, 1, None, None, [8, 4, 0, 4, 0], WHOLE, 4),
    row("7g.186gb", 0, 4, 7, 1, None, None, [16, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const B300_269GB_PROFILES: &[Row] = &[
    row("1g.34gb", 19, 0, 1, 7, None, Some(18), [2, 1, 0, 1, 0], SEVEN, 1),
    row("1g.34gb+me", 20, 7, 1, 1, None, Some(18), [2, 1, 0, 1, 1], SEVEN, 1),
    row("1g.67gb", 15, 9, 1, 4, None, None, [2, 1, 0, 1, 0], EVEN, 2),
    row("2g.67gb", 14, 1, 2, 3, None, None, [4, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.135gb", 9, 2, 3, 2, None, None, [6, 3, 0, 3, 0], HALVES, 4),
    row("4g.135gb", 5, 3, 4, 1, None, None, [8, 4, 0, 4, 0], WHOLE, 4),
    row("7g.269gb", 0, 4, 7, 1, None, None, [16, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const GB300_278GB_PROFILES: &[Row] = &[
    row("1g.35gb", 19, 0, 1, 7, None, None, [2, 1, 0, 1, 0], SEVEN, 1),
    row("1g.35gb+me", 20, 7, 1, 1, None, None, [2, 1, 0, 1, 1], SEVEN, 1),
    row("1g.70gb", 15, 9, 1, 4, None, None, [2, 1, 0, 1, 0], EVEN, 2),
    row("2g.70gb", 14, 1, 2, 3, None, None, [4, 2, 0, 2, 0], EVEN_LOW, 2),
    row("3g.139gb", 9, 2, 3, 2, None, None, [6, 3, 0, 3, 0], HALVES, 4),
    row("4g.139gb", 5, 3, 4, 1, None, None, [8, 4, 0, 4, 0], WHOLE, 4),
    row("7g.278gb", 0, 4, 7, 1, None, None, [16, 7, 0, 7, 1], WHOLE, 8),
];

pub(super) const RTX_PRO_6000_96GB_PROFILES: &[Row] = &[
    row("1g.24gb", 14, 0, 1, 4, Some(24187), Some(46), [1, 1, 1, 1, 0], QUARTERS_OF_TWELVE, 3),
    row("1g.24gb+me", 21, 7, 1, 1, Some(24187), Some(46), [1, 1, 1, 1, 1], QUARTERS_OF_TWELVE, 3),
    row("1g.24gb+gfx", 47, 10, 1, 4, Some(24187), Some(46), [1, 1, 1, 1, 0], QUARTERS_OF_TWELVE, 3),
    row("1g.24gb+me.all", 65, 15, 1, 1, Some(24187), Some(46), [1, 4, 4, 4, 1], QUARTERS_OF_TWELVE, 3),
    row("1g.24gb-me", 67, 13, 1, 4, Some(24187), Some(46), [1, 0, 0, 0, 0], QUARTERS_OF_TWELVE, 3),
    row("2g.48gb", 5, 1, 2, 2, Some(48517), Some(94), [2, 2, 2, 2, 0], HALVES_OF_TWELVE, 6),
    row("2g.48gb+gfx", 35, 11, 2, 2, Some(48517), Some(94), [2, 2, 2, 2, 0], HALVES_OF_TWELVE, 6),
    row("2g.48gb+me.all", 64, 16, 2, 1, Some(48517), Some(94), [2, 4, 4, 4, 1], HALVES_OF_TWELVE, 6),
    row("2g.48gb-me", 66, 14, 2, 2, Some(48517), Some(94), [2, 0, 0, 0, 0], HALVES_OF_TWELVE, 6),
    row("4g.96gb", 0, 3, 4, 1, Some(97403), Some(188), [4, 4, 4, 4, 1], WHOLE, 12),
    row("4g.96gb+gfx", 32, 12, 4, 1, Some(97403), Some(188), [4, 4, 4, 4, 1], WHOLE, 12),
];
