//! What one container asks for in its resources, in every dialect that uses them.

use super::ask::{Dialect, GpuAsk, MemoryAsk, Thousandths};
use super::fields::{entries, field, quantity, text_at};
use super::names::{Meaning, NVIDIA_NAMES, is_of_another_maker, known};
use super::quantity::Quantity;
use crate::diagnostic::{Finding, Place, Report};
use crate::suggestion::did_you_mean;
use carve_gpu_model::Mebibytes;
use std::collections::BTreeMap;

/// More GPUs than any machine has; a number beyond it is a slip of the pen.
const MOST_GPUS: u64 = 1024;
/// gpushare counts in GiB or MiB by choice of the cluster. No GPU has this many GiB, and nobody asks for so few MiB.
const NO_LONGER_GIB: u64 = 512;

/// A request of one dialect while its resources are put together.
#[derive(Debug, Default)]
struct Draft {
    count: Option<u64>,
    shares: Option<u64>,
    memory: Option<MemoryAsk>,
    /// Memory of all GPUs together.
    memory_of_all: Option<Mebibytes>,
    compute: Option<Thousandths>,
}

/// The requests of a container.
pub(super) fn asks(container: &Place<'_>, report: &mut Report) -> Vec<GpuAsk> {
    let name = text_at(container, "name").unwrap_or_default();
    let Some(resources) = field(container, "resources") else { return Vec::new() };
    let mut drafts: BTreeMap<Dialect, Draft> = BTreeMap::new();
    let mut asks = Vec::new();
    let limits = field(&resources, "limits");
    let requests = field(&resources, "requests");
    for (resource, place) in limits.iter().flat_map(entries) {
        let (dialect, meaning) = match known(resource) {
            Some(Ok(found)) => found,
            Some(Err(why)) => {
                Finding::error(&place, format!("'{resource}' names no MIG profile: {why}"))
                    .hint("write a profile of your GPU, such as nvidia.com/mig-1g.5gb: 1 (carve mig profiles lists them)")
                    .report(report);
                continue;
            }
            None => {
                stranger(resource, &place, report);
                continue;
            }
        };
        let Some(amount) = quantity(&place, report) else { continue };
        let whole = if meaning == Meaning::MemoryBytes { Some(0) } else { amount.whole() };
        let Some(whole) = whole else {
            fraction(resource, dialect, amount, &place, report);
            continue;
        };
        match meaning {
            Meaning::Mig { profile, shared } => {
                if let Some(count) = few(whole, resource, &place, report).filter(|count| *count > 0) {
                    asks.push(GpuAsk { mig: Some(profile), shared, ..GpuAsk::whole(dialect, name, count) });
                }
            }
            meaning => {
                let draft = drafts.entry(dialect).or_default();
                draft.take(meaning, whole, amount, resource, &place, report);
            }
        }
    }
    for (resource, place) in requests.iter().flat_map(entries) {
        let limited = limits.as_ref().is_some_and(|limits| field(limits, resource).is_some());
        if !limited && matches!(known(resource), Some(Ok((_, meaning))) if meaning != Meaning::Nothing) {
            Finding::error(
                &place,
                format!("'{resource}' is requested without a limit, which the API server refuses"),
            )
            .hint(format!("write it under resources.limits: {resource}: {}", shown(&place)))
            .report(report);
        }
    }
    // HAMi takes the number of GPUs from NVIDIA's own name.
    if let Some(hami) =
        drafts.get(&Dialect::Hami).map(|draft| draft.memory.is_some() || draft.compute.is_some())
    {
        let count = drafts.get_mut(&Dialect::Nvidia).and_then(|draft| draft.count.take());
        match (hami, drafts.get_mut(&Dialect::Hami)) {
            (true, Some(draft)) => draft.count = count,
            _ => drafts.entry(Dialect::Nvidia).or_default().count = count,
        }
    }
    asks.extend(drafts.into_iter().filter_map(|(dialect, draft)| draft.finish(dialect, name)));
    asks
}

impl Draft {
    fn take(
        &mut self,
        meaning: Meaning,
        whole: u64,
        amount: Quantity,
        resource: &str,
        place: &Place<'_>,
        report: &mut Report,
    ) {
        match meaning {
            Meaning::Count => self.count = few(whole, resource, place, report).map(u64::from),
            Meaning::Shares => self.shares = few(whole, resource, place, report).map(u64::from),
            Meaning::Memory { unit } => self.memory = whole_memory(whole.saturating_mul(unit), place, report),
            Meaning::MemoryBytes => self.memory_of_all = Some(amount.mebibytes()),
            Meaning::MemoryEither => {
                let (mebibytes, unit) =
                    if whole < NO_LONGER_GIB { (whole * 1024, "GiB") } else { (whole, "MiB") };
                Finding::warning(
                    place,
                    format!("{whole} is taken for {unit}; gpushare leaves the unit to the cluster"),
                )
                .hint("write nvidia.com/gpumem or carve.dev/gpu-memory, which are always MiB")
                .report(report);
                self.memory = whole_memory(mebibytes, place, report);
            }
            Meaning::MemoryPercent => {
                self.memory = percent(whole, resource, place, report).map(MemoryAsk::Share);
            }
            Meaning::ComputePercent => self.compute = percent(whole, resource, place, report),
            Meaning::ComputeHundreds => self.compute = self.hundreds(whole, resource, place, report),
            Meaning::MemoryHundreds => {
                self.memory = self.hundreds(whole, resource, place, report).map(MemoryAsk::Share);
            }
            Meaning::BothHundreds => {
                self.compute = self.hundreds(whole, resource, place, report);
                self.memory = self.compute.map(MemoryAsk::Share);
            }
            Meaning::Mig { .. } | Meaning::Nothing => {}
        }
    }

    /// A percentage of one GPU, or whole GPUs at a hundred each, which then are counted.
    fn hundreds(
        &mut self,
        value: u64,
        resource: &str,
        place: &Place<'_>,
        report: &mut Report,
    ) -> Option<Thousandths> {
        if value <= 100 {
            return percent(value, resource, place, report);
        }
        if !value.is_multiple_of(100) {
            let down = value / 100 * 100;
            Finding::error(
                place,
                format!("{value} is neither part of one GPU (up to 100) nor whole GPUs (a multiple of 100)"),
            )
            .hint(format!("write {resource}: {down} or {resource}: {}", down + 100))
            .report(report);
            return None;
        }
        self.count = few(value / 100, resource, place, report).map(u64::from).or(self.count);
        Some(Thousandths::WHOLE)
    }

    fn finish(self, dialect: Dialect, container: &str) -> Option<GpuAsk> {
        let sized = self.memory.is_some() || self.compute.is_some() || self.memory_of_all.is_some();
        let count = match (self.count, self.shares) {
            (Some(count), _) | (None, Some(count)) => count,
            // Memory or compute alone is a request for one GPU's.
            (None, None) => u64::from(sized),
        };
        let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
        let each =
            self.memory_of_all.map(|all| MemoryAsk::Amount(Mebibytes(all.0.div_ceil(u64::from(count)))));
        Some(GpuAsk {
            memory: self.memory.or(each),
            compute: self.compute,
            shared: self.shares.is_some() && !sized,
            ..GpuAsk::whole(dialect, container, count)
        })
    }
}

/// A number of GPUs.
fn few(whole: u64, resource: &str, place: &Place<'_>, report: &mut Report) -> Option<u32> {
    if whole > MOST_GPUS {
        Finding::error(place, format!("{whole} GPUs for one container; no machine has so many"))
            .hint(format!("write {resource}: 1, and the number of pods under replicas"))
            .report(report);
        return None;
    }
    u32::try_from(whole).ok()
}

/// Memory of each GPU. Nothing is the default of the cluster: all of it.
fn whole_memory(mebibytes: u64, place: &Place<'_>, report: &mut Report) -> Option<MemoryAsk> {
    // Memory of any GPU fits 32 bits of MiB by far.
    if mebibytes > u64::from(u32::MAX) {
        Finding::error(place, "more memory than any GPU has")
            .hint("the number counts MiB: 4096 is 4 GiB")
            .report(report);
        return None;
    }
    (mebibytes > 0).then_some(MemoryAsk::Amount(Mebibytes(mebibytes)))
}

/// 0 to 100; 0 is no limit.
fn percent(value: u64, resource: &str, place: &Place<'_>, report: &mut Report) -> Option<Thousandths> {
    if value > 100 {
        Finding::error(place, format!("{value} is no percentage of a GPU; it goes from 0 to 100"))
            .hint(format!("write {resource}: 100 for all of it, and the number of GPUs beside it"))
            .report(report);
        return None;
    }
    (value > 0).then_some(Thousandths(value as u16 * 10))
}

/// The API server takes whole numbers only; people write halves.
fn fraction(resource: &str, dialect: Dialect, amount: Quantity, place: &Place<'_>, report: &mut Report) {
    let thousandths = amount.thousandths();
    let hint = match dialect {
        Dialect::Nvidia if thousandths < 1000 => format!(
            "ask for a part with the annotation gpu-fraction: \"{}\" under metadata.annotations and without {resource}, or with \
             resources.limits nvidia.com/gpu: 1 and nvidia.com/gpumem-percentage: {}",
            shown(place),
            thousandths.div_ceil(10),
        ),
        _ => format!("write a whole number, such as {resource}: {}", thousandths.div_ceil(1000)),
    };
    let message = format!("'{}' of {resource}: the API server takes whole numbers of it only", shown(place));
    Finding::error(place, message).hint(hint).report(report);
}

fn shown(place: &Place<'_>) -> String {
    super::fields::scalar(place).unwrap_or_default().chars().take(40).collect()
}

/// A name that nobody knows is only told where it can be meant for a GPU of NVIDIA.
fn stranger(resource: &str, place: &Place<'_>, report: &mut Report) {
    if is_of_another_maker(resource) {
        Finding::warning(place, format!("{resource} is not a GPU of NVIDIA and is not counted"))
            .report(report);
    } else if resource.starts_with("nvidia.com/") || resource.starts_with("carve.dev/") {
        let hint = did_you_mean(resource, NVIDIA_NAMES.iter().copied());
        Finding::warning(place, format!("{resource} is not understood and not counted"))
            .maybe_hint(hint)
            .report(report);
    }
}
