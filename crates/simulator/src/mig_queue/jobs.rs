//! Traces of jobs: read from JSON lines, or made from a seed exactly as the published benchmark makes them.

use thiserror::Error;

/// A job that needs one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// When it arrives, in milliseconds.
    pub arrival_ms: u64,
    /// Which of [`PROFILES`] it needs.
    pub profile: usize,
    /// How long it runs, in milliseconds.
    pub run_ms: u64,
}

/// A profile of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobProfile {
    /// Its name on an H100 with 80 GB.
    pub name: &'static str,
    /// Percent of the GPU's compute, by which the benchmark derives run times.
    pub percent: u64,
    /// How often it is drawn.
    weight: f64,
}

/// The profiles of the benchmark, small to large. It leaves out 4g, which one of the systems compared does not offer.
pub const PROFILES: [JobProfile; 4] = [
    JobProfile { name: "1g.10gb", percent: 14, weight: 35.0 },
    JobProfile { name: "2g.20gb", percent: 28, weight: 25.0 },
    JobProfile { name: "3g.40gb", percent: 42, weight: 25.0 },
    JobProfile { name: "7g.80gb", percent: 100, weight: 5.0 },
];

/// What is wrong with a trace of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "line {line}: {what}; a line looks like {{\"id\":1,\"arrivalMs\":0,\"profile\":\"1g.10gb\",\"computeCoreMS\":9588810}}"
)]
pub struct JobsError {
    /// The line.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// Jobs from JSON lines: `id`, `arrivalMs`, `profile` and `computeCoreMS` (run time times percent of the GPU).
pub fn read(text: &str) -> Result<Vec<Job>, JobsError> {
    let mut jobs: Vec<Job> = Vec::new();
    for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let wrong = |what: String| JobsError { line: line + 1, what };
        let number = |key: &str| {
            let value = field(text, key).ok_or_else(|| wrong(format!("'{key}' is missing")))?;
            value.parse::<u64>().map_err(|_| wrong(format!("'{key}' is '{value}', not a whole number")))
        };
        let name = field(text, "profile").ok_or_else(|| wrong("'profile' is missing".to_owned()))?;
        let profile = PROFILES.iter().position(|profile| profile.name == name);
        let profile =
            profile.ok_or_else(|| wrong(format!("there is no profile '{name}' in this benchmark")))?;
        jobs.push(Job {
            id: number("id")?,
            arrival_ms: number("arrivalMs")?,
            profile,
            run_ms: number("computeCoreMS")? / PROFILES[profile].percent,
        });
    }
    Ok(jobs)
}

/// The value of a key in one flat JSON object without escapes, which is all that such traces hold.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let body = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let pairs = body.split(',').filter_map(|pair| pair.split_once(':'));
    let mut values = pairs.filter(|(known, _)| known.trim().trim_matches('"') == key);
    values.next().map(|(_, value)| value.trim().trim_matches('"'))
}

/// The benchmark's saturated workload from a seed: 56 small jobs at once, then 444 of all sizes, 15 s apart on average, with run times
/// around ten minutes. The same seed gives the same jobs as the benchmark's own program.
pub fn generate(seed: u64) -> Vec<Job> {
    let tables = Tables::new();
    let mut random = Pcg::new(seed, seed ^ 0x9E37_79B9_7F4A_7C15);
    let mut arrival_ms = 0;
    let total: f64 = PROFILES.iter().map(|profile| profile.weight).sum();
    let job = |number: u64| {
        let filling = number < 56;
        if !filling {
            arrival_ms += (random.exponential(&tables) * 15_000.0) as u64;
        }
        let mut left = random.fraction() * total;
        let drawn = PROFILES.iter().position(|profile| {
            left -= profile.weight;
            left <= 0.0
        });
        let run = (600_000f64.ln() + 0.8 * random.normal(&tables)).exp();
        let profile = if filling { 0 } else { drawn.unwrap_or(PROFILES.len() - 1) };
        Job { id: number + 1, arrival_ms, profile, run_ms: (run as u64).max(1) }
    };
    (0..500).map(job).collect()
}

/// PCG-DXSM with 128 bits of state, the generator of Go's `math/rand/v2`.
struct Pcg(u128);

impl Pcg {
    fn new(high: u64, low: u64) -> Self {
        Pcg(u128::from(high) << 64 | u128::from(low))
    }

    fn next(&mut self) -> u64 {
        const MULTIPLIER: u128 = 2_549_297_995_355_413_924 << 64 | 4_865_540_595_714_422_341;
        const INCREMENT: u128 = 6_364_136_223_846_793_005 << 64 | 1_442_695_040_888_963_407;
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        let (mut high, low) = ((self.0 >> 64) as u64, self.0 as u64);
        high ^= high >> 32;
        high = high.wrapping_mul(0xDA94_2042_E4DD_58B5);
        high ^= high >> 48;
        high.wrapping_mul(low | 1)
    }

    fn fraction(&mut self) -> f64 {
        (self.next() << 11 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed with mean one, by the ziggurat of Marsaglia and Tsang.
    fn exponential(&mut self, tables: &Tables) -> f64 {
        loop {
            let bits = self.next();
            let (draw, strip) = (bits as u32, usize::from((bits >> 32) as u8));
            let (limit, width, height) = tables.exponential[strip];
            let x = f64::from(draw) * f64::from(width);
            if draw < limit {
                return x;
            }
            if strip == 0 {
                return EXPONENTIAL_TAIL - self.fraction().ln();
            }
            let above = tables.exponential[strip - 1].2;
            if height + self.fraction() as f32 * (above - height) < (-x).exp() as f32 {
                return x;
            }
        }
    }

    /// Normally distributed, by the same method.
    fn normal(&mut self, tables: &Tables) -> f64 {
        loop {
            let bits = self.next();
            let (draw, strip) = (bits as i32, (bits >> 32 & 0x7F) as usize);
            let (limit, width, height) = tables.normal[strip];
            let x = f64::from(draw) * f64::from(width);
            if draw.unsigned_abs() < limit {
                return x;
            }
            if strip == 0 {
                loop {
                    let x = -self.fraction().ln() * (1.0 / NORMAL_TAIL);
                    let y = -self.fraction().ln();
                    if y + y >= x * x {
                        return if draw > 0 { NORMAL_TAIL + x } else { -NORMAL_TAIL - x };
                    }
                }
            }
            let above = tables.normal[strip - 1].2;
            if height + self.fraction() as f32 * (above - height) < (-0.5 * x * x).exp() as f32 {
                return x;
            }
        }
    }
}

const EXPONENTIAL_TAIL: f64 = 7.697_117_470_131_05;
const NORMAL_TAIL: f64 = 3.442_619_855_899;

/// The strips of both ziggurats: limit of the quick test, width, height.
struct Tables {
    exponential: Vec<(u32, f32, f32)>,
    normal: Vec<(u32, f32, f32)>,
}

impl Tables {
    fn new() -> Self {
        let exponential = strips(
            256,
            EXPONENTIAL_TAIL,
            3.949_659_822_581_572e-3,
            2f64.powi(32),
            |x| (-x).exp(),
            |y| -y.ln(),
        );
        let normal = strips(
            128,
            NORMAL_TAIL,
            9.912_563_035_262_17e-3,
            2f64.powi(31),
            |x| (-0.5 * x * x).exp(),
            |y| (-2.0 * y.ln()).sqrt(),
        );
        Tables { exponential, normal }
    }
}

/// Strips of equal area under a falling density, from its tail inwards.
fn strips(
    number: usize,
    tail: f64,
    area: f64,
    scale: f64,
    density: impl Fn(f64) -> f64,
    inverse: impl Fn(f64) -> f64,
) -> Vec<(u32, f32, f32)> {
    let mut strips = vec![(0, 0.0, 0.0); number];
    let base = area / density(tail);
    strips[0] = ((tail / base * scale) as u32, (base / scale) as f32, 1.0);
    strips[number - 1].1 = (tail / scale) as f32;
    strips[number - 1].2 = density(tail) as f32;
    let mut outer = tail;
    for strip in (1..number - 1).rev() {
        let inner = inverse(area / outer + density(outer));
        strips[strip + 1].0 = (inner / outer * scale) as u32;
        strips[strip].1 = (inner / scale) as f32;
        strips[strip].2 = density(inner) as f32;
        outer = inner;
    }
    strips
}
