//! What a pod's annotations ask for: whole requests in some dialects, wishes about models and mechanisms in others.

use super::ask::{Dialect, GpuAsk, MemoryAsk, Names, Thousandths};
use super::fields::{entries, quantity, scalar, text};
use crate::diagnostic::{Finding, Place, Report};
use crate::suggestion::did_you_mean;
use carve_gpu_model::{GpuUuid, Isolation, Mebibytes, Mechanism};

/// What the annotations say about all requests of the pod, and what they ask for themselves.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) models: Names<String>,
    pub(super) uuids: Names<GpuUuid>,
    pub(super) isolation: Isolation,
    pub(super) hint: Option<Mechanism>,
    pub(super) burst: bool,
    /// Percent of compute up to which gpu-manager lets its containers go.
    pub(super) ceiling: Option<u64>,
    pub(super) asks: Vec<GpuAsk>,
}

/// A request in annotations while it is put together.
#[derive(Debug, Default)]
struct Draft {
    container: Option<String>,
    count: Option<u32>,
    memory: Option<MemoryAsk>,
    compute: Option<Thousandths>,
}

impl Draft {
    fn ask(self, dialect: Dialect) -> Option<GpuAsk> {
        if self.count.is_none() && self.memory.is_none() && self.compute.is_none() {
            return None;
        }
        let container = self.container.unwrap_or_default();
        let ask = GpuAsk::whole(dialect, &container, self.count.unwrap_or(1).max(1));
        Some(GpuAsk { memory: self.memory, compute: self.compute, ..ask })
    }
}

const ISOLATIONS: [(&str, Isolation); 3] =
    [("tenant", Isolation::Tenant), ("fault", Isolation::Fault), ("performance", Isolation::Performance)];
const MECHANISMS: [(&str, Mechanism); 4] = [
    ("mig", Mechanism::Mig),
    ("mps", Mechanism::Mps),
    ("limiter", Mechanism::Limiter),
    ("time-slicing", Mechanism::TimeSlicing),
];

const TRUTHS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// Annotations that ask for GPUs or say something about what is asked for, in any dialect.
const KNOWN: &[&str] = &[
    "gpu-fraction",
    "gpu-memory",
    "gpu-fraction-num-devices",
    "gpu-fraction-container-name",
    "mps",
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
    "nvidia.com/use-gpuuuid",
    "nvidia.com/nouse-gpuuuid",
    "nvidia.com/vgpu-mode",
    "nvidia.com/gpumem",
    "nvidia.com/gpucores",
    "nvidia.com/gpumem-percentage",
    "volcano.sh/vgpu-use-gpuuuid",
    "volcano.sh/vgpu-nouse-gpuuuid",
    "volcano.sh/vgpu-mode",
    "tencent.com/vcuda-core-limit",
    "tensor-fusion.ai/vram-limit",
    "tensor-fusion.ai/vram-request",
    "tensor-fusion.ai/compute-percent-limit",
    "tensor-fusion.ai/compute-percent-request",
    "tensor-fusion.ai/gpu-count",
    "tensor-fusion.ai/vendor",
    "tensor-fusion.ai/inject-container",
    "tensor-fusion.ai/gpu-model",
    "tensor-fusion.ai/isolation",
    "carve.dev/isolation",
    "carve.dev/mechanism",
    "carve.dev/burst",
];

/// Whether an annotation of a pod asks for GPUs or says something about what is asked for, in any dialect.
pub fn is_request_annotation(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Every annotation of which that is so.
pub fn request_annotations() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().copied()
}

/// Reads the annotations of a pod.
pub(super) fn notes(annotations: Option<&Place<'_>>, report: &mut Report) -> Notes {
    let mut notes = Notes::default();
    let (mut kai, mut fusion) = (Draft::default(), Draft::default());
    let mut of_another_maker = false;
    for (name, place) in annotations.into_iter().flat_map(entries) {
        match name {
            "gpu-fraction" => {
                if let Some(share) = share(name, &place, report) {
                    (kai.memory, kai.compute) = (Some(MemoryAsk::Share(share)), Some(share));
                }
            }
            "gpu-memory" => kai.memory = mebibytes(name, &place, report),
            "gpu-fraction-num-devices" => kai.count = count(name, &place, report),
            "gpu-fraction-container-name" => kai.container = scalar(&place),
            "nvidia.com/use-gputype" => notes.models.wanted.extend(list(&place)),
            "nvidia.com/nouse-gputype" => notes.models.unwanted.extend(list(&place)),
            "nvidia.com/use-gpuuuid" | "volcano.sh/vgpu-use-gpuuuid" => {
                notes.uuids.wanted.extend(list(&place).map(GpuUuid));
            }
            "nvidia.com/nouse-gpuuuid" | "volcano.sh/vgpu-nouse-gpuuuid" => {
                notes.uuids.unwanted.extend(list(&place).map(GpuUuid));
            }
            "nvidia.com/vgpu-mode" | "volcano.sh/vgpu-mode" => match scalar(&place).as_deref() {
                Some("mig") => notes.hint = Some(Mechanism::Mig),
                Some("mps") => notes.hint = Some(Mechanism::Mps),
                Some("hami-core") => notes.hint = Some(Mechanism::Limiter),
                _ => Finding::warning(&place, "a mode that is not known; it is left open")
                    .hint(format!("write {name}: mig, mps or hami-core"))
                    .report(report),
            },
            "nvidia.com/gpumem" | "nvidia.com/gpucores" | "nvidia.com/gpumem-percentage" => {
                Finding::warning(&place, format!("{name} has no effect as an annotation"))
                    .hint(format!(
                        "write it under resources.limits of the container: {name}: {}",
                        shown(&place)
                    ))
                    .report(report);
            }
            "mps" if scalar(&place).as_deref() == Some("true") => notes.hint = Some(Mechanism::Mps),
            "tensor-fusion.ai/vram-limit" => fusion.memory = bytes(&place, report),
            "tensor-fusion.ai/vram-request" => {
                fusion.memory = fusion.memory.or_else(|| bytes(&place, report))
            }
            "tensor-fusion.ai/compute-percent-limit" => fusion.compute = percent(name, &place, report),
            "tensor-fusion.ai/compute-percent-request" => {
                fusion.compute = fusion.compute.or_else(|| percent(name, &place, report));
            }
            "tensor-fusion.ai/gpu-count" => fusion.count = count(name, &place, report),
            "tensor-fusion.ai/vendor" => {
                let maker = scalar(&place).unwrap_or_default();
                if !maker.eq_ignore_ascii_case("NVIDIA") {
                    Finding::warning(
                        &place,
                        format!(
                            "'{}' makes no GPUs of NVIDIA: what is asked of them is not counted",
                            shown(&place)
                        ),
                    )
                    .report(report);
                    of_another_maker = true;
                }
            }
            "tensor-fusion.ai/inject-container" => fusion.container = scalar(&place),
            "tensor-fusion.ai/gpu-model" => notes.models.wanted.extend(list(&place)),
            "tensor-fusion.ai/isolation" if scalar(&place).as_deref() == Some("partitioned") => {
                notes.hint = Some(Mechanism::Mig);
            }
            "tensor-fusion.ai/isolation" if scalar(&place).as_deref() == Some("hard") => {
                notes.isolation = Isolation::Performance;
            }
            "carve.dev/isolation" => {
                notes.isolation = word(name, &place, &ISOLATIONS, report).unwrap_or_default();
            }
            "carve.dev/mechanism" => notes.hint = word(name, &place, &MECHANISMS, report),
            "carve.dev/burst" => notes.burst = word(name, &place, &TRUTHS, report).unwrap_or_default(),
            "tencent.com/vcuda-core-limit" => {
                notes.ceiling = quantity(&place, report).and_then(|ceiling| ceiling.whole());
            }
            _ => {}
        }
    }
    notes.asks.extend(kai.ask(Dialect::Kai));
    notes.asks.extend(fusion.ask(Dialect::TensorFusion).filter(|_| !of_another_maker));
    notes
}

fn shown(place: &Place<'_>) -> String {
    scalar(place).unwrap_or_default().chars().take(40).collect()
}

fn list(place: &Place<'_>) -> impl Iterator<Item = String> {
    let text = text(place).unwrap_or_default().to_owned();
    let parts: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
    parts.into_iter().filter(|part| !part.is_empty())
}

/// More than 0 and at most 1.
fn share(name: &str, place: &Place<'_>, report: &mut Report) -> Option<Thousandths> {
    let thousandths = quantity(place, report)?.thousandths();
    if !(1..=1000).contains(&thousandths) {
        Finding::error(
            place,
            format!("'{}' is no part of a GPU; it is more than 0 and at most 1", shown(place)),
        )
        .hint(format!(
            "write {name}: \"0.5\" for half of a GPU; for several GPUs use resources.limits nvidia.com/gpu"
        ))
        .report(report);
        return None;
    }
    Some(Thousandths(thousandths as u16))
}

fn percent(name: &str, place: &Place<'_>, report: &mut Report) -> Option<Thousandths> {
    let thousandths = quantity(place, report)?.thousandths() / 100;
    if !(1..=1000).contains(&thousandths) {
        Finding::error(place, format!("'{}' is no percentage from 1 to 100", shown(place)))
            .hint(format!("write {name}: \"50\" for half of a GPU"))
            .report(report);
        return None;
    }
    Some(Thousandths(thousandths as u16))
}

fn count(name: &str, place: &Place<'_>, report: &mut Report) -> Option<u32> {
    let count = quantity(place, report)?.whole().filter(|count| (1..=1024).contains(count));
    if count.is_none() {
        Finding::error(place, format!("'{}' is no number of GPUs", shown(place)))
            .hint(format!("write {name}: \"1\""))
            .report(report);
    }
    count.and_then(|count| u32::try_from(count).ok())
}

fn mebibytes(name: &str, place: &Place<'_>, report: &mut Report) -> Option<MemoryAsk> {
    let amount = quantity(place, report)?.whole().filter(|mib| (1..=u64::from(u32::MAX)).contains(mib));
    if amount.is_none() {
        Finding::error(
            place,
            format!("'{}' is no amount of GPU memory: a whole number of MiB is expected", shown(place)),
        )
        .hint(format!("write {name}: \"4096\" for 4 GiB"))
        .report(report);
    }
    amount.map(|mib| MemoryAsk::Amount(Mebibytes(mib)))
}

fn bytes(place: &Place<'_>, report: &mut Report) -> Option<MemoryAsk> {
    let amount = quantity(place, report)?.mebibytes();
    (amount.0 > 0 && amount.0 <= u64::from(u32::MAX)).then_some(MemoryAsk::Amount(amount))
}

fn word<T: Copy>(name: &str, place: &Place<'_>, known: &[(&str, T)], report: &mut Report) -> Option<T> {
    let written = scalar(place).unwrap_or_default();
    let found = known.iter().find(|(word, _)| *word == written).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let hint = did_you_mean(&written, words.iter().copied());
        Finding::error(place, format!("'{}' is not one of {}", shown(place), words.join(", ")))
            .hint(hint.unwrap_or_else(|| format!("write {name}: {}", words.first().unwrap_or(&""))))
            .report(report);
    }
    found
}
