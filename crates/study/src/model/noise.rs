//! Noise that is the same for the same seed.

use crate::Spread;

/// The most by which one window differs from what the model says, as a part.
const AMPLITUDE: f64 = 0.012;

/// A source of numbers without a pattern that anybody would see: splitmix64.
#[derive(Debug, Clone)]
pub(super) struct Noise(u64);

impl Noise {
    /// For one cell of a study: the same whichever cells came before.
    pub(super) fn of(seed: u64, cell: &str) -> Self {
        // FNV-1a, so that names that differ in one letter begin far apart.
        let hash = cell.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Noise(seed ^ hash)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A factor close to 1, more often closer.
    pub(super) fn factor(&mut self) -> f64 {
        let mut unit = || (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        1.0 + (unit() + unit() - 1.0) * AMPLITUDE
    }

    /// What so many windows would show of a value.
    pub(super) fn windows(&mut self, value: f64, times: u32) -> Vec<f64> {
        (0..times.max(1)).map(|_| short(value * self.factor())).collect()
    }

    /// The same as a spread.
    pub(super) fn spread(&mut self, value: f64, times: u32) -> Spread {
        spread(&self.windows(value, times))
    }
}

/// Six digits that count, as a harness would write them: more say nothing, and JSON readers differ in the last one.
pub(super) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The spread of windows; of none, nothing.
pub(super) fn spread(windows: &[f64]) -> Spread {
    let short: Vec<f64> = windows.iter().map(|one| short(*one)).collect();
    let spread = Spread::of(&short).unwrap_or(Spread { median: 0.0, low: 0.0, high: 0.0, times: 0 });
    Spread { median: self::short(spread.median), ..spread }
}

#[cfg(test)]
mod tests {
    use super::{AMPLITUDE, Noise};

    #[test]
    fn a_factor_is_close_to_one_and_a_seed_repeats_itself() {
        let mut noise = Noise::of(7, "light/mps/2");
        let factors: Vec<f64> = (0..1000).map(|_| noise.factor()).collect();
        assert!(factors.iter().all(|factor| (factor - 1.0).abs() <= AMPLITUDE));
        let mean = factors.iter().sum::<f64>() / 1000.0;
        assert!((mean - 1.0).abs() < 0.001, "{mean}");
        let mut again = Noise::of(7, "light/mps/2");
        assert_eq!(factors, (0..1000).map(|_| again.factor()).collect::<Vec<f64>>());
        assert_ne!(Noise::of(7, "light/mps/4").factor(), factors[0]);
        assert_ne!(Noise::of(8, "light/mps/2").factor(), factors[0]);
    }
}
