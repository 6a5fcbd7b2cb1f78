//! What becomes of a pod that asks for GPUs in any dialect.
//!
//! ```text
//!   pod ──reading──▶ claims ──limits──▶ within the policy? ──guard──▶ does it get around it? ──marks──▶ patch
//!                      │                                                                          │
//!                      └───────────────────────────── request ──▶ ResourceClaimTemplates (claims road) ┘
//! ```
//! [`admit`] is a function of the pod, the policy of its namespace, the road of the cluster and what is known of its GPUs. The same pod
//! admitted twice is changed once. Whatever is wrong comes back as [`Refusal`]s: field, reason, and what to write instead.
#![warn(clippy::disallowed_methods)]

mod claims;
mod fleet;
mod guard;
mod guarded_env;
mod guarded_paths;
pub mod keys;
mod limits;
mod marks;
mod patch;
mod policy;
mod reading;
mod refusal;
mod request;
mod selector;
mod sums;
mod update;
mod way;
mod wire;

pub use carve_formats::workloads::ContainerKind;
pub use claims::{ClaimError, ContainerClaim, Part, PodClaims, Share};
pub use fleet::{Fleet, FleetProduct, FleetProfile};
pub use patch::JsonPatchOp;
pub use policy::{Conduct, Policy, PolicyError, WholeGpus};
pub use refusal::Refusal;
pub use request::Template;
pub use update::update;

use serde_json::Value;
use std::collections::BTreeMap;

/// How pods get their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Road {
    /// By claims, which the stock scheduler serves.
    Claims,
    /// By our scheduler, which reads the claim in an annotation.
    Scheduler,
}

impl Road {
    /// What the label [`keys::ADMITTED`] says.
    pub const fn word(self) -> &'static str {
        match self {
            Road::Claims => "claims",
            Road::Scheduler => "scheduler",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Road::Claims, Road::Scheduler].into_iter().find(|road| road.word() == word)
    }

    /// Who places its pods.
    pub const fn scheduler(self) -> &'static str {
        match self {
            Road::Claims => keys::DEFAULT_SCHEDULER,
            Road::Scheduler => keys::SCHEDULER,
        }
    }
}

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It asks for nothing that is ours to give.
    NotOurs,
    /// It is let in, with changes.
    Admitted(Admission),
    /// It is not let in.
    Refused(Vec<Refusal>),
}

/// How a pod is let in.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// What is changed about it.
    pub patch: Vec<JsonPatchOp>,
    /// What it needs in its namespace, each once; claims road only.
    pub templates: Vec<Template>,
    /// What it was understood to ask for; nothing where only marks were taken out that it should not have.
    pub claims: PodClaims,
    /// What its author is to know.
    pub warnings: Vec<String>,
}

/// What becomes of a pod that is created in a namespace.
pub fn admit(pod: &Value, namespace: &str, policy: &Policy, road: Road, fleet: &Fleet) -> Outcome {
    if !is_shaped(pod) || !reading::speaks_of_gpus(pod) {
        return Outcome::NotOurs;
    }
    let mut warnings = Vec::new();
    let claims = match marks::confirmed(pod) {
        Some(claims) => claims,
        None => {
            let asked = match reading::read(pod) {
                Ok(asked) => asked,
                Err(refusals) => return Outcome::Refused(refusals),
            };
            let mut asks = asked.containers.iter().flat_map(|container| &container.gpus);
            if asks.all(|ask| reading::is_left_alone(ask, policy, road)) {
                return unmarked(pod);
            }
            warnings = asked.warnings;
            match reading::claims(&asked.containers) {
                Ok(claims) => claims,
                Err(refusals) => return Outcome::Refused(refusals),
            }
        }
    };
    let mut refusals = limits::check(&claims, pod, policy, fleet);
    if road == Road::Scheduler {
        // What the policy forbids need not be told how else it could be had.
        if refusals.is_empty() {
            refusals.extend(limits::unserved(&claims, pod));
        }
        refusals.extend(limits::unstartable(&claims, pod));
    }
    let mut admitted = pod.clone();
    marks::strip(&mut admitted);
    let guarded = guard::guard(&mut admitted, &claims, policy, road);
    refusals.extend(guarded.refusals);
    warnings.extend(guarded.warnings);
    let mut templates: Vec<(Part, Template)> = Vec::new();
    if road == Road::Claims && refusals.is_empty() {
        for (container, part) in claims.parts() {
            if templates.iter().any(|(known, _)| known.is_alike(part)) {
                continue;
            }
            match request::template(part, namespace, fleet) {
                Ok((template, warning)) => {
                    templates.push((part.clone(), template));
                    warnings.extend(warning);
                }
                Err((reason, example)) => {
                    refusals.push(Refusal::new(limits::field_of(pod, container, part), reason, example));
                }
            }
        }
    }
    if !refusals.is_empty() {
        refusals.sort();
        refusals.dedup();
        return Outcome::Refused(refusals);
    }
    let template = |part: &Part| {
        let found = templates.iter().find(|(known, _)| known.is_alike(part));
        found.map(|(_, template)| template.name.clone()).unwrap_or_default()
    };
    marks::write(&mut admitted, &claims, road, template, |container| sums::sums(container, fleet));
    marks::keep_wording(pod, &mut admitted);
    // Parts that are written differently may come to the same.
    let by_name: BTreeMap<String, Template> =
        templates.into_iter().map(|(_, template)| (template.name.clone(), template)).collect();
    Outcome::Admitted(Admission {
        patch: patch::difference(pod, &admitted),
        templates: by_name.into_values().collect(),
        claims,
        warnings,
    })
}

/// A pod that asks for nothing of ours may still carry marks that others wrote.
fn unmarked(pod: &Value) -> Outcome {
    if !marks::are_there(pod) {
        return Outcome::NotOurs;
    }
    let mut without = pod.clone();
    marks::strip(&mut without);
    Outcome::Admitted(Admission {
        patch: patch::difference(pod, &without),
        templates: Vec::new(),
        claims: PodClaims::default(),
        warnings: vec![format!(
            "{}, {}, {}, {}, {}, {}, {} and templates called carve-… are written by carve alone and were taken out; to ask for a part of a GPU \
             write resources.limits carve.dev/gpu-memory: 4096 (MiB) and carve.dev/gpu-compute: 25 (percent)",
            keys::CLAIM,
            keys::SLICES,
            keys::UNDERSTOOD_AS,
            keys::ADMITTED,
            keys::SLICE,
            keys::MEMORY,
            keys::COMPUTE
        )],
    })
}

/// Whether a document has the outline of a pod; the API server refuses one that has not.
fn is_shaped(pod: &Value) -> bool {
    let outline = |value: &Value| value.is_null() || value.is_object();
    pod["spec"].is_object()
        && outline(&pod["metadata"])
        && reading::containers(pod).all(|(_, container)| container.is_object())
}
