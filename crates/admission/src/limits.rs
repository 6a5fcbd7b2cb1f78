//! Whether what a pod asks for is within what its namespace may have.

use crate::claims::{ContainerClaim, Part, PodClaims, Share};
use crate::fleet::{Fleet, FleetProduct};
use crate::policy::Policy;
use crate::reading::is_in_annotations;
use crate::refusal::Refusal;
use crate::way::{Way, way};
use carve_formats::workloads::{ContainerKind, Mechanism, MemoryAsk};
use carve_gpu_model::Mebibytes;
use serde_json::Value;

/// Init containers that nobody could start with their parts: kubelet does not tell whose tokens these are, unless another container of the pod has
/// them later.
pub(crate) fn unstartable(claims: &PodClaims, pod: &Value) -> Vec<Refusal> {
    let all = claims.containers().iter().all(|container| container.kind == ContainerKind::Init);
    let parts = claims.parts().filter(|_| all);
    let refusal = |(container, part): (&ContainerClaim, &Part)| {
        Refusal::new(
            field_of(pod, container, part),
            format!(
                "only init containers of this pod have parts of GPUs, and kubelet does not tell when {} starts with which",
                container.name
            ),
            "ask for the same part in a container that stays, which holds it from then on, or make it an ordinary container",
        )
    };
    parts.map(refusal).collect()
}

/// Parts that only claims can be served with: on the scheduler road the limiter holds parts, and nothing else does.
pub(crate) fn unserved(claims: &PodClaims, pod: &Value) -> Vec<Refusal> {
    let why = |part: &Part| match way(part).ok()? {
        Way::Whole | Way::Fraction | Way::Mig { otherwise: Some(Mechanism::Limiter) } => None,
        Way::Profile(_) | Way::Mig { otherwise: None } => Some((
            "MIG devices are the device plugin's in a cluster without claims (DRA), and are asked for by their names",
            "write resources.limits nvidia.com/mig-1g.10gb: 1, in a pod that asks for no other parts",
        )),
        Way::Mig { .. } => Some((
            "only MIG or a whole GPU keeps tenants apart, and in a cluster without claims (DRA) MIG devices are the device plugin's",
            "write carve.dev/gpu: 1 for a whole GPU, or nvidia.com/mig-1g.10gb: 1",
        )),
        Way::Mps => Some((
            "MPS is given out by claims, and this cluster has none (DRA)",
            "leave it out: the limiter holds the part then, or let the device plugin share GPUs by MPS",
        )),
        Way::Turn => Some((
            "turns without a size are given out by claims, and this cluster has none (DRA)",
            "say how much memory it needs, such as carve.dev/gpu-memory: 4096",
        )),
    };
    let refusal = |(container, part): (&ContainerClaim, &Part)| {
        let (reason, example) = why(part)?;
        Some(Refusal::new(field_of(pod, container, part), reason, example))
    };
    claims.parts().filter_map(refusal).collect()
}

/// Everything in which claims go beyond the policy, or that nothing can serve.
pub(crate) fn check(claims: &PodClaims, pod: &Value, policy: &Policy, fleet: &Fleet) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (container, part) in claims.parts() {
        let field = field_of(pod, container, part);
        let way = match way(part) {
            Ok(way) => way,
            Err((reason, example)) => {
                refusals.push(Refusal::new(field, reason, example));
                continue;
            }
        };
        if !policy.dialects.contains(&part.dialect) {
            let allowed: Vec<&str> = policy.dialects.iter().map(|dialect| dialect.title()).collect();
            refusals.push(Refusal::new(
                &field,
                format!(
                    "the policy of this namespace does not take requests in the words of {}",
                    part.dialect
                ),
                match allowed.as_slice() {
                    [] => "it takes none; ask whoever keeps the policy".to_owned(),
                    some => format!("ask in the words of {}", some.join(" or ")),
                },
            ));
        }
        let mechanisms = way.mechanisms();
        if let Some(refused) = mechanisms.iter().find(|one| !policy.mechanisms.contains(**one)) {
            let allowed: Vec<&str> = policy.mechanisms.iter().map(|one| one.name()).collect();
            refusals.push(Refusal::new(
                &field,
                format!("it would be served by {refused}, which the policy of this namespace does not allow"),
                match allowed.as_slice() {
                    [] => "it allows none; ask whoever keeps the policy".to_owned(),
                    some => format!("it allows {}; name one with carve.dev/mechanism", some.join(", ")),
                },
            ));
        }
    }
    for container in claims.containers() {
        refusals.extend(memory(container, pod, policy, fleet));
        refusals.extend(compute(container, pod, policy));
    }
    if let Some(most) = policy.most_gpus.filter(|most| claims.devices() > u64::from(*most)) {
        refusals.push(Refusal::new(
            "spec.containers",
            format!(
                "the pod holds {} GPUs or parts of GPUs at once, and the policy of this namespace allows {most}",
                claims.devices()
            ),
            format!("ask for {most} at most, or spread the work over several pods"),
        ));
    }
    refusals
}

/// Where a part was asked for.
pub(crate) fn field_of(pod: &Value, container: &ContainerClaim, part: &Part) -> String {
    if is_in_annotations(part.dialect) {
        return "metadata.annotations".to_owned();
    }
    format!("{}.resources.limits", place_of(pod, container))
}

fn place_of(pod: &Value, container: &ContainerClaim) -> String {
    let list = if container.kind == ContainerKind::Main { "containers" } else { "initContainers" };
    let items = pod["spec"][list].as_array().into_iter().flatten();
    let index = items.into_iter().position(|item| item["name"] == container.name.as_str());
    format!("spec.{list}[{}]", index.unwrap_or_default())
}

fn memory(container: &ContainerClaim, pod: &Value, policy: &Policy, fleet: &Fleet) -> Option<Refusal> {
    let most = policy.most_memory?;
    let field = || format!("{}.resources.limits", place_of(pod, container));
    let example = format!("ask for an amount of {most} at most, such as carve.dev/gpu-memory: {}", most.0);
    let mut sum = 0_u64;
    for part in &container.parts {
        let Some(each) = largest(part, fleet) else {
            let reason = format!(
                "how much memory that is can not be known before a GPU is chosen, and the policy of this namespace allows {most} for a container"
            );
            return Some(Refusal::new(field(), reason, example));
        };
        sum = sum.saturating_add(each.0.saturating_mul(u64::from(part.count)));
    }
    (sum > most.0).then(|| {
        let reason = format!(
            "the container asks for up to {} of GPU memory, and the policy of this namespace allows {most}",
            Mebibytes(sum)
        );
        Refusal::new(field(), reason, example)
    })
}

/// The most memory of one GPU that a part can come to.
fn largest(part: &Part, fleet: &Fleet) -> Option<Mebibytes> {
    let all = fleet.most_memory(&part.models);
    match &part.share {
        Share::Part { memory: Some(MemoryAsk::Amount(amount)), .. } => Some(*amount),
        Share::Part { memory: Some(MemoryAsk::Share(share)), .. } => {
            // Claims ask for a step at least, also where a share is less than that.
            let exactly = |all: Mebibytes| Mebibytes((all.0 * u64::from(share.0)).div_ceil(1000));
            let asked = |product: &FleetProduct| product.share(*share).max(exactly(product.memory));
            fleet.allowed(&part.models).map(asked).max()
        }
        Share::Mig(profile) => {
            let offered = fleet.products.iter().flat_map(|product| &product.profiles);
            let known = offered.filter(|one| one.name == *profile).map(|one| one.memory).max();
            // Not offered anywhere yet: what it is called after is a little more than it has.
            Some(known.unwrap_or(Mebibytes(profile.gigabytes().saturating_mul(1024))))
        }
        Share::Whole | Share::Turn | Share::Part { memory: None, .. } => all,
    }
}

fn compute(container: &ContainerClaim, pod: &Value, policy: &Policy) -> Option<Refusal> {
    let most = policy.most_compute?;
    let each = |part: &Part| match &part.share {
        // Not limited, or lent what others leave: all of it at times.
        Share::Whole | Share::Turn | Share::Part { compute: None, .. } => 100,
        Share::Part { .. } if part.burst => 100,
        Share::Part { compute: Some(percent), .. } => u64::from(*percent),
        // Of seven slices, on every GPU that has more than four.
        Share::Mig(profile) => (profile.gpu_slices() * 100).div_ceil(7).min(100),
    };
    let sum: u64 = container.parts.iter().map(|part| each(part) * u64::from(part.count)).sum();
    (sum > u64::from(most)).then(|| {
        Refusal::new(
            format!("{}.resources.limits", place_of(pod, container)),
            format!(
                "the container may use up to {sum}% of a GPU's compute, and the policy of this namespace allows {most}%"
            ),
            format!("limit it, such as carve.dev/gpu-compute: {}, without carve.dev/burst", most.min(100)),
        )
    })
}
