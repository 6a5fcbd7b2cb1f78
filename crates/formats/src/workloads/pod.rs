//! What a whole pod asks for: its containers, its annotations and its claims together.

use super::PodAsk;
use super::annotations::{Notes, notes};
use super::ask::{Dialect, GpuAsk};
use super::claims::Claims;
use super::container;
use super::fields::{at, entries, field, items, quantity, scalar, text_at};
use super::names::{Meaning, known};
use crate::diagnostic::{Finding, Place, Report};
use carve_gpu_model::Mebibytes;

/// CPU and memory of the machine.
#[derive(Debug, Clone, Copy, Default)]
struct Host {
    cpu: u64,
    memory: u64,
}

impl Host {
    fn and(self, other: Host) -> Host {
        Host { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }

    fn most(self, other: Host) -> Host {
        Host { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }
}

/// Reads a pod or pod template, in this namespace.
pub(super) fn pod(template: &Place<'_>, namespace: &str, claims: &Claims, report: &mut Report) -> PodAsk {
    let Some(spec) = field(template, "spec") else { return PodAsk::default() };
    let annotations = at(template, &["metadata", "annotations"]);
    let notes = notes(annotations.as_ref(), report);
    let (mut asks, mut total, mut containers) = (Vec::new(), Host::default(), 0_usize);
    for container in field(&spec, "containers").iter().flat_map(items) {
        containers += 1;
        asks.extend(container::asks(&container, report));
        total = total.and(host(&container, report));
    }
    if containers == 0 {
        Finding::error(&spec, "a pod without containers")
            .hint("write at least one under spec.containers")
            .report(report);
    }
    // An init container that stays is there beside the others; one that ends needs its share only before them.
    let mut first: Vec<GpuAsk> = Vec::new();
    let (mut staying, mut peak) = (Host::default(), Host::default());
    for container in field(&spec, "initContainers").iter().flat_map(items) {
        let own = container::asks(&container, report);
        let host = host(&container, report);
        if text_at(&container, "restartPolicy") == Some("Always") {
            asks.extend(own);
            staying = staying.and(host);
        } else {
            first = if devices(&own) > devices(&first) { own } else { first };
            peak = peak.most(staying.and(host));
        }
    }
    total = total.and(staying).most(peak);
    if devices(&first) > devices(&asks) {
        asks = first;
    }
    let mut same_gpu = false;
    for entry in field(&spec, "resourceClaims").iter().flat_map(items) {
        same_gpu |= claimed(&entry, namespace, claims, &mut asks, report);
    }
    together(&notes, &mut asks, &spec, report);
    for ask in &mut asks {
        apply(&notes, ask);
    }
    if let Some(overhead) = field(&spec, "overhead") {
        total = total.and(amounts(&overhead, report));
    }
    PodAsk {
        gpus: asks,
        cpu_milli: total.cpu,
        memory: Mebibytes(total.memory),
        products: products(&spec),
        same_gpu,
    }
}

fn devices(asks: &[GpuAsk]) -> u64 {
    asks.iter().map(|ask| u64::from(ask.count)).sum()
}

/// Requests in annotations stand for the pod; a container that asks as well would ask twice.
pub(super) fn together(notes: &Notes, asks: &mut Vec<GpuAsk>, spec: &Place<'_>, report: &mut Report) {
    for ask in &notes.asks {
        let twice = asks.iter().find(|own| own.dialect == Dialect::Nvidia);
        if let Some(own) = twice.filter(|_| ask.dialect == Dialect::Kai) {
            let message = format!(
                "the annotations ask for a part of a GPU and container '{}' asks for {}; the scheduler refuses both together",
                own.asker, own
            );
            Finding::error(spec, message)
                .hint("keep the annotation and take nvidia.com/gpu out of the limits, or the other way round")
                .report(report);
        }
        asks.push(ask.clone());
    }
}

pub(super) fn apply(notes: &Notes, ask: &mut GpuAsk) {
    ask.models.wanted.extend(notes.models.wanted.iter().cloned());
    ask.models.unwanted.extend(notes.models.unwanted.iter().cloned());
    ask.uuids.wanted.extend(notes.uuids.wanted.iter().cloned());
    ask.uuids.unwanted.extend(notes.uuids.unwanted.iter().cloned());
    ask.isolation = ask.isolation.max(notes.isolation);
    ask.hint = ask.hint.or(notes.hint);
    let above = |compute: u16| notes.ceiling.is_some_and(|ceiling| ceiling * 10 > u64::from(compute));
    let beyond = ask.dialect == Dialect::GpuManager && ask.compute.is_some_and(|compute| above(compute.0));
    ask.burst |= notes.burst || beyond;
}

/// Adds what a claim of the pod asks for; says whether its devices must be on one GPU.
fn claimed(
    entry: &Place<'_>,
    namespace: &str,
    claims: &Claims,
    asks: &mut Vec<GpuAsk>,
    report: &mut Report,
) -> bool {
    // Before 1.31 the names stood under `source`.
    let source = field(entry, "source").unwrap_or_else(|| entry.clone());
    let (name, found, once) =
        match (text_at(&source, "resourceClaimName"), text_at(&source, "resourceClaimTemplateName")) {
            (Some(name), _) => (name, claims.claim(namespace, name), Some(format!("{namespace}/{name}"))),
            (None, Some(name)) => (name, claims.template(namespace, name), None),
            (None, None) => {
                Finding::error(entry, "names neither a resource claim nor a template")
                    .hint("write resourceClaimTemplateName: NAME")
                    .report(report);
                return false;
            }
        };
    let Some(claim) = found else {
        Finding::warning(
            entry,
            format!("'{name}' is not among the manifests in namespace '{namespace}', so it is not counted"),
        )
        .hint("give its file with -f as well")
        .report(report);
        return false;
    };
    asks.extend(claim.asks.iter().map(|ask| GpuAsk { claim: once.clone(), ..ask.clone() }));
    claim.same_gpu
}

/// What a container reserves of the machine: requests, and limits where there is no request.
fn host(container: &Place<'_>, report: &mut Report) -> Host {
    let requests = at(container, &["resources", "requests"]);
    let limits = at(container, &["resources", "limits"]);
    let mut total = Host::default();
    for name in ["cpu", "memory"] {
        let place = [&requests, &limits].into_iter().flatten().find_map(|place| field(place, name));
        total = total.and(place.map(|place| amount(name, &place, report)).unwrap_or_default());
    }
    total
}

fn amounts(place: &Place<'_>, report: &mut Report) -> Host {
    entries(place)
        .into_iter()
        .fold(Host::default(), |sum, (name, place)| sum.and(amount(name, &place, report)))
}

fn amount(name: &str, place: &Place<'_>, report: &mut Report) -> Host {
    if matches!(known(name), Some(Ok((_, Meaning::Count)))) {
        return Host::default();
    }
    match (name, quantity(place, report)) {
        ("cpu", Some(amount)) => Host { cpu: amount.thousandths(), memory: 0 },
        ("memory", Some(amount)) => Host { cpu: 0, memory: amount.mebibytes().0 },
        _ => Host::default(),
    }
}

/// GPU products by node selector, or by the plain form of a node affinity.
fn products(spec: &Place<'_>) -> Vec<String> {
    const LABEL: &str = "nvidia.com/gpu.product";
    let selected = at(spec, &["nodeSelector", LABEL]).and_then(|place| scalar(&place));
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = at(spec, &["affinity", "nodeAffinity", required, "nodeSelectorTerms"]);
    let expressions = terms.iter().flat_map(items).filter_map(|term| field(&term, "matchExpressions"));
    let named = expressions.flat_map(|place| items(&place)).filter(|expression| {
        text_at(expression, "key") == Some(LABEL) && text_at(expression, "operator") == Some("In")
    });
    let values = named.filter_map(|expression| field(&expression, "values"));
    let values = values.flat_map(|place| items(&place)).filter_map(|place| scalar(&place));
    selected.into_iter().chain(values).collect()
}
