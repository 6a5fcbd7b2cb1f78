//! What was seen of a workload: how much of a GPU its pods used, and for how long that was watched.

use crate::input::{Evidence, Sample, Settings, Workload};
use carve_gpu_model::{Bytes, Mebibytes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of a GPU's time, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub u32);

impl Ratio {
    /// All of it.
    pub const ALL: Ratio = Ratio(1_000_000);

    /// From a number between 0 and 1; what is beyond is cut off.
    pub fn from_fraction(fraction: f64) -> Self {
        Ratio((fraction.clamp(0.0, 1.0) * 1e6).round() as u32)
    }

    /// Thousandths in whole percents, rounded up: the least share that holds it, and at least one percent.
    pub fn share(self) -> u16 {
        (self.0.min(Self::ALL.0).div_ceil(10_000).max(1) * 10) as u16
    }
}

/// `25.0%`
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 + 500) / 1000;
        write!(f, "{}.{}%", tenths / 10, tenths % 10)
    }
}

/// What was seen of a workload. Percentiles are over all samples of all its pods, by the nearest rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Pods of which something was seen.
    pub pods: u32,
    /// Samples of use.
    pub samples: usize,
    /// Seconds from the first sample to the last, of the pod that was watched longest; 0 where nobody noted when.
    pub window_seconds: i64,
    /// Half of the time less than this, in millionths.
    pub p50: Ratio,
    /// In 95 of 100 samples not more.
    pub p95: Ratio,
    /// In 99 of 100 samples not more.
    pub p99: Ratio,
    /// The most.
    pub max: Ratio,
    /// The most memory that a pod had, in MiB rounded up; none where it was not told.
    pub peak_memory: Option<Mebibytes>,
    /// By how much the peak of the second half of the window exceeds that of the first half, in the pod in which it does most.
    pub memory_growth: Mebibytes,
    /// Whether memory never changed and is most of the GPU, as with frameworks that take it all at once.
    pub preallocated: bool,
    /// How the figures are known, the worst of the pods.
    pub evidence: Option<Evidence>,
}

/// Bytes in whole MiB, rounded up: a peak must never be told too small.
fn up(bytes: Bytes) -> Mebibytes {
    Mebibytes(bytes.0.div_ceil(1 << 20))
}

/// The value below or at which so many of a hundred values are; values are sorted.
fn percentile(sorted: &[Ratio], percent: usize) -> Ratio {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

fn window<T>(samples: &[Sample<T>]) -> i64 {
    let times = || samples.iter().filter_map(|sample| sample.at);
    times().max().zip(times().min()).map_or(0, |(last, first)| last - first)
}

/// By how much the peak of the later half exceeds that of the earlier one.
fn growth(samples: &[Sample<Bytes>]) -> Mebibytes {
    let mut by_time: Vec<(i64, Bytes)> =
        samples.iter().filter_map(|sample| Some((sample.at?, sample.value))).collect();
    by_time.sort();
    let (earlier, later) = by_time.split_at(by_time.len() / 2);
    let peak = |half: &[(i64, Bytes)]| half.iter().map(|(_, bytes)| bytes.0).max().unwrap_or(0);
    match earlier.is_empty() {
        true => Mebibytes(0),
        false => up(Bytes(peak(later).saturating_sub(peak(earlier)))),
    }
}

/// What was seen of a workload on GPUs with so much memory; nothing where no use was seen.
pub(crate) fn observed(workload: &Workload, gpu_memory: Option<Mebibytes>) -> Option<Observed> {
    let seen = || workload.replicas.iter().filter(|replica| !replica.busy.is_empty());
    let mut busy: Vec<Ratio> = seen().flat_map(|replica| &replica.busy).map(|sample| sample.value).collect();
    busy.sort();
    let max = *busy.last()?;
    let memory: Vec<Bytes> =
        workload.replicas.iter().flat_map(|replica| &replica.memory).map(|sample| sample.value).collect();
    let (least, most) = (memory.iter().min(), memory.iter().max());
    let is_most = |bytes: &Bytes| gpu_memory.is_some_and(|all| up(*bytes).0 * 10 >= all.0 * 7);
    Some(Observed {
        pods: seen().count() as u32,
        samples: busy.len(),
        window_seconds: seen().map(|replica| window(&replica.busy)).max().unwrap_or(0),
        p50: percentile(&busy, 50),
        p95: percentile(&busy, 95),
        p99: percentile(&busy, 99),
        max,
        peak_memory: most.map(|bytes| up(*bytes)),
        memory_growth: workload
            .replicas
            .iter()
            .map(|replica| growth(&replica.memory))
            .max()
            .unwrap_or_default(),
        preallocated: least == most && most.is_some_and(is_most),
        evidence: seen().filter_map(|replica| replica.evidence.clone()).max(),
    })
}

impl Observed {
    /// Memory that must be given: the peak, a margin, and once more what it grew by while it was watched.
    pub fn memory_needed(&self, settings: &Settings) -> Option<Mebibytes> {
        let peak = self.peak_memory?.0;
        let margin = (peak * settings.margin_percent).div_ceil(100).max(LEAST_MARGIN);
        Some(Mebibytes(peak + margin + self.memory_growth.0))
    }

    /// What is missing before advice can be given; nothing where it was watched enough.
    pub(crate) fn missing(&self, workload: &Workload, settings: &Settings) -> Option<String> {
        let unseen = workload.replicas.len() as u32 - self.pods.min(workload.replicas.len() as u32);
        if self.window_seconds == 0 && self.samples > 0 {
            return Some(format!(
                "{} samples without a time between them; give samples with timestamps over at least {}",
                self.samples,
                span(settings.window)
            ));
        }
        if self.window_seconds < settings.window {
            return Some(format!(
                "it was watched for {}, and at least {} are needed",
                span(self.window_seconds),
                span(settings.window)
            ));
        }
        if self.samples < settings.samples {
            return Some(format!("{} samples, and at least {} are needed", self.samples, settings.samples));
        }
        if unseen > 0 {
            return Some(format!("nothing was seen of {unseen} of its {} pods", workload.replicas.len()));
        }
        if workload.replicas.iter().any(|replica| replica.memory.is_empty()) {
            return Some(
                "its memory was not told; export DCGM_FI_DEV_FB_USED or carve_container_memory_used_bytes"
                    .to_owned(),
            );
        }
        None
    }
}

/// The least margin of memory, in MiB: a context and its libraries take about that much.
const LEAST_MARGIN: u64 = 256;

/// `7 days`, `36 hours`, `90 seconds`.
pub(crate) fn span(seconds: i64) -> String {
    let (number, word) = match seconds {
        s if s >= 86_400 && s % 86_400 == 0 => (s / 86_400, "day"),
        s if s >= 3600 => (s / 3600, "hour"),
        s if s >= 60 => (s / 60, "minute"),
        s => (s, "second"),
    };
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{Ratio, growth, percentile, span};
    use crate::input::Sample;
    use carve_gpu_model::{Bytes, Mebibytes};

    #[test]
    fn ranks_are_the_nearest() {
        let values: Vec<Ratio> = (1..=20).map(Ratio).collect();
        assert_eq!([50, 95, 99, 100].map(|percent| percentile(&values, percent).0), [10, 19, 20, 20]);
        assert_eq!(percentile(&[Ratio(7)], 95), Ratio(7));
    }

    #[test]
    fn shares_are_never_less_than_what_they_hold() {
        assert_eq!(
            [0, 1, 10_000, 10_001, 250_000, 1_000_000].map(|ratio| Ratio(ratio).share()),
            [10, 10, 10, 20, 250, 1000]
        );
        assert_eq!(Ratio(253_412).to_string(), "25.3%");
        assert_eq!(Ratio::from_fraction(1.7), Ratio::ALL);
    }

    #[test]
    fn growth_is_of_the_later_half_and_never_below_nothing() {
        let samples = |amounts: &[u64]| -> Vec<Sample<Bytes>> {
            amounts
                .iter()
                .enumerate()
                .map(|(at, mib)| Sample { at: Some(at as i64), value: Bytes(mib << 20) })
                .collect()
        };
        assert_eq!(growth(&samples(&[10, 20, 25, 30])), Mebibytes(10));
        assert_eq!(growth(&samples(&[30, 20, 25, 30])), Mebibytes(0));
        assert_eq!(growth(&samples(&[30])), Mebibytes(0));
    }

    #[test]
    fn spans_in_words() {
        assert_eq!(
            [90, 60, 86_400, 90_000, 1].map(span),
            ["1 minute", "1 minute", "1 day", "25 hours", "1 second"]
        );
    }
}
