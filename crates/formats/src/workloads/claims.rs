//! Resource claims and their templates: what each asks of NVIDIA's device classes.

use super::Manifests;
use super::ask::{Dialect, GpuAsk, MemoryAsk, Thousandths};
use super::cel;
use super::fields::{at, entries, field, items, quantity, scalar, text, text_at};
use super::objects::{Object, file};
use crate::diagnostic::{Finding, Place, Report};
use carve_gpu_model::Mechanism;
use std::collections::BTreeMap;

/// What a claim asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim {
    pub(super) asks: Vec<GpuAsk>,
    /// Its devices must be parts of one GPU.
    pub(super) same_gpu: bool,
}

/// All claims and templates of the manifests, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: BTreeMap<(String, String), Claim>,
    templates: BTreeMap<(String, String), Claim>,
}

impl Claims {
    /// Reads every claim and template among the objects.
    pub(super) fn collect(objects: &[Object<'_>], manifests: &mut Manifests) -> Self {
        let mut claims = Claims::default();
        for object in objects {
            let path: &[&str] = match object.kind.as_str() {
                "ResourceClaim" => &["spec"],
                "ResourceClaimTemplate" => &["spec", "spec"],
                _ => continue,
            };
            let mut report = Report::default();
            let claim = at(&object.place, path).map(|spec| claim(&spec, &mut report)).unwrap_or_default();
            file(object.source, object.document, object.title(), report, manifests);
            let key = (object.namespace.clone(), object.name.clone());
            let map = if path.len() == 1 { &mut claims.claims } else { &mut claims.templates };
            map.insert(key, claim);
        }
        claims
    }

    pub(super) fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn template(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.templates.get(&(namespace.to_owned(), name.to_owned()))
    }
}

fn claim(spec: &Place<'_>, report: &mut Report) -> Claim {
    let mut claim = Claim::default();
    if field(spec, "resourceClassName").is_some() {
        Finding::warning(
            spec,
            "a claim of the time before Kubernetes 1.31, which no cluster takes any more; it is not counted",
        )
        .hint("write it anew with spec.devices.requests and deviceClassName: gpu.nvidia.com")
        .report(report);
    }
    let Some(devices) = field(spec, "devices") else { return claim };
    for request in field(&devices, "requests").iter().flat_map(items) {
        let name = text_at(&request, "name").unwrap_or_default();
        let alternatives: Vec<Place<'_>> = field(&request, "firstAvailable").iter().flat_map(items).collect();
        if alternatives.len() > 1 {
            Finding::warning(
                &request,
                format!("of the {} alternatives the first is counted", alternatives.len()),
            )
            .report(report);
        }
        let body = match alternatives.into_iter().next() {
            Some(first) => first,
            // Before v1 the fields stood in the request itself.
            None => field(&request, "exactly").unwrap_or(request),
        };
        claim.asks.extend(ask(&body, name, report));
    }
    for constraint in field(&devices, "constraints").iter().flat_map(items) {
        let attribute = text_at(&constraint, "matchAttribute").unwrap_or_default();
        claim.same_gpu |= attribute.ends_with("/parentUUID");
    }
    for config in field(&devices, "config").iter().flat_map(items) {
        let named: Vec<String> =
            field(&config, "requests").iter().flat_map(items).filter_map(|p| scalar(&p)).collect();
        let strategy = at(&config, &["opaque", "parameters", "sharing", "strategy"]);
        let hint = match strategy.as_ref().and_then(text) {
            Some("MPS") => Mechanism::Mps,
            Some("TimeSlicing") => Mechanism::TimeSlicing,
            _ => continue,
        };
        for ask in claim.asks.iter_mut().filter(|ask| named.is_empty() || named.contains(&ask.asker)) {
            ask.hint = Some(hint);
        }
    }
    claim
}

fn ask(body: &Place<'_>, name: &str, report: &mut Report) -> Option<GpuAsk> {
    let class = text_at(body, "deviceClassName").unwrap_or_default();
    let mut ask = GpuAsk::whole(Dialect::Dra, name, 1);
    match class {
        "gpu.nvidia.com" | "gpu-manager" | "vgpu-manager" => {}
        "hami-core-gpu.project-hami.io" => ask.hint = Some(Mechanism::Limiter),
        "mig.nvidia.com" => ask.any_mig = true,
        _ => {
            let message = match class {
                "" => "this request names no device class and is not counted".to_owned(),
                class => format!("device class {class} is not known and not counted"),
            };
            Finding::warning(body, message)
                .hint("NVIDIA's classes are gpu.nvidia.com and mig.nvidia.com")
                .report(report);
            return None;
        }
    }
    if text_at(body, "allocationMode") == Some("All") {
        Finding::warning(body, "allocationMode All takes every device of a node and is not counted")
            .hint("write a count")
            .report(report);
        return None;
    }
    if let Some(count) = field(body, "count") {
        let written = quantity(&count, report)?.whole().filter(|count| (1..=1024).contains(count));
        let Some(written) = written else {
            Finding::error(&count, "expected a number of devices from 1 on")
                .hint("write count: 1")
                .report(report);
            return None;
        };
        ask.count = u32::try_from(written).unwrap_or(1);
    }
    for (resource, place) in at(body, &["capacity", "requests"]).iter().flat_map(entries) {
        let amount = quantity(&place, report)?;
        match resource.rsplit('/').next().unwrap_or(resource) {
            "memory" => ask.memory = Some(MemoryAsk::Amount(amount.mebibytes())),
            "cores" | "compute" => {
                let percent = amount.whole().filter(|percent| (1..=100).contains(percent));
                let Some(percent) = percent else {
                    Finding::error(&place, "expected a percentage of a GPU from 1 to 100")
                        .hint(format!("write {resource}: \"50\" for half of a GPU"))
                        .report(report);
                    return None;
                };
                ask.compute = Some(Thousandths(percent as u16 * 10));
            }
            _ => Finding::warning(&place, format!("capacity {resource} is not understood and not counted"))
                .report(report),
        }
    }
    for selector in field(body, "selectors").iter().flat_map(items) {
        let Some(expression) = at(&selector, &["cel", "expression"]) else { continue };
        let read = cel::selected(text(&expression).unwrap_or_default());
        if let Some(part) = read.not_understood {
            Finding::warning(&expression, format!("this selector is not understood and is left out: {part}"))
                .hint("understood are profile == '…', productName == '…' and productName.matches('…'), joined by &&")
                .report(report);
        }
        if let Some(profile) = read.profile {
            match profile.parse() {
                Ok(profile) => (ask.mig, ask.any_mig) = (Some(profile), false),
                Err(error) => {
                    let error: carve_gpu_model::ProfileNameError = error;
                    Finding::error(&expression, format!("'{profile}' is no MIG profile: {error}"))
                        .hint("write a profile such as 1g.5gb")
                        .report(report);
                }
            }
        }
        ask.any_mig |= read.kind.as_deref() == Some("mig") && ask.mig.is_none();
        ask.models.wanted.extend(read.product);
    }
    Some(ask)
}
