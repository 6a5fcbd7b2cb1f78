//! How claims are written in an annotation: compact JSON with a version.

use crate::claims::{ClaimError, ContainerClaim, Part, PodClaims, Share};
use carve_formats::workloads::{ContainerKind, Dialect, Isolation, Mechanism, MemoryAsk, Names, Thousandths};
use carve_gpu_model::{GpuUuid, Mebibytes};
use serde::{Deserialize, Serialize};

const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    v: u64,
    containers: Vec<Container>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Container {
    name: String,
    kind: String,
    parts: Vec<Asked>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asked {
    count: u32,
    share: Size,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mechanism: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    isolation: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    models: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not_models: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uuids: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not_uuids: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    burst: bool,
    dialect: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Size {
    Whole,
    Mig(String),
    Turn,
    #[serde(rename_all = "camelCase")]
    Part {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_mib: Option<u64>,
        /// Thousandths of the GPU's memory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_share: Option<u16>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compute: Option<u8>,
    },
}

/// Words for things that have no serde of their own.
const KINDS: [(&str, ContainerKind); 3] =
    [("init", ContainerKind::Init), ("sidecar", ContainerKind::Sidecar), ("main", ContainerKind::Main)];
const ISOLATIONS: [(&str, Isolation); 4] = [
    ("unstated", Isolation::Unstated),
    ("performance", Isolation::Performance),
    ("fault", Isolation::Fault),
    ("tenant", Isolation::Tenant),
];
/// Words for mechanisms, here and in policies.
pub(crate) const MECHANISMS: [(&str, Mechanism); 5] = [
    ("exclusive", Mechanism::Exclusive),
    ("mig", Mechanism::Mig),
    ("mps", Mechanism::Mps),
    ("limiter", Mechanism::Limiter),
    ("time-slicing", Mechanism::TimeSlicing),
];

fn word<T: PartialEq>(words: &[(&'static str, T)], meant: &T) -> String {
    words.iter().find(|(_, meaning)| meaning == meant).map(|(word, _)| *word).unwrap_or_default().to_owned()
}

fn meant<T: Copy>(words: &[(&'static str, T)], written: &str) -> Result<T, ClaimError> {
    let found = words.iter().find(|(word, _)| *word == written).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| malformed(format!("'{written}' is not known")))
}

fn malformed(words: impl ToString) -> ClaimError {
    // A tenant may have written anything, and this goes into messages.
    ClaimError::Malformed(words.to_string().chars().take(200).collect())
}

pub(crate) fn write(claims: &PodClaims) -> String {
    let containers = claims.containers().iter().map(|container| Container {
        name: container.name.clone(),
        kind: word(&KINDS, &container.kind),
        parts: container.parts.iter().map(asked).collect(),
    });
    let claims = Claims { v: VERSION, containers: containers.collect() };
    serde_json::to_string(&claims).unwrap_or_default()
}

fn asked(part: &Part) -> Asked {
    let ids = |uuids: &[GpuUuid]| uuids.iter().map(|uuid| uuid.0.clone()).collect();
    Asked {
        count: part.count,
        share: match &part.share {
            Share::Whole => Size::Whole,
            Share::Mig(profile) => Size::Mig(profile.to_string()),
            Share::Turn => Size::Turn,
            Share::Part { memory, compute } => {
                let (memory_mib, memory_share) = match memory {
                    Some(MemoryAsk::Amount(amount)) => (Some(amount.0), None),
                    Some(MemoryAsk::Share(share)) => (None, Some(share.0)),
                    None => (None, None),
                };
                Size::Part { memory_mib, memory_share, compute: *compute }
            }
        },
        mechanism: part.mechanism.map(|mechanism| word(&MECHANISMS, &mechanism)),
        isolation: (part.isolation != Isolation::Unstated).then(|| word(&ISOLATIONS, &part.isolation)),
        models: part.models.wanted.clone(),
        not_models: part.models.unwanted.clone(),
        uuids: ids(&part.uuids.wanted),
        not_uuids: ids(&part.uuids.unwanted),
        burst: part.burst,
        dialect: part.dialect.word().to_owned(),
    }
}

pub(crate) fn read(text: &str) -> Result<PodClaims, ClaimError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
    // The version is looked at first: what another version says can not be known.
    match value.get("v").and_then(serde_json::Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => return Err(ClaimError::Version(other)),
        None => return Err(malformed("it has no version")),
    }
    let claims: Claims = serde_json::from_value(value).map_err(malformed)?;
    let mut containers = Vec::new();
    for container in claims.containers {
        let parts = container.parts.into_iter().map(part).collect::<Result<_, _>>()?;
        let kind = meant(&KINDS, &container.kind)?;
        containers.push(ContainerClaim { name: container.name, kind, parts });
    }
    Ok(PodClaims::new(containers))
}

fn part(asked: Asked) -> Result<Part, ClaimError> {
    let ids = |uuids: Vec<String>| uuids.into_iter().map(GpuUuid).collect();
    if asked.count == 0 {
        return Err(malformed("a part that is asked for no times"));
    }
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.word() == asked.dialect);
    Ok(Part {
        count: asked.count,
        share: match asked.share {
            Size::Whole => Share::Whole,
            Size::Mig(profile) => Share::Mig(profile.parse().map_err(malformed)?),
            Size::Turn => Share::Turn,
            Size::Part { memory_mib, memory_share, compute } => {
                let memory = match (memory_mib, memory_share) {
                    (Some(_), Some(_)) => return Err(malformed("memory is said twice")),
                    (Some(0), _) | (_, Some(0)) => return Err(malformed("no memory at all")),
                    (_, Some(share)) if share > 1000 => return Err(malformed("more than all memory")),
                    (Some(amount), None) => Some(MemoryAsk::Amount(Mebibytes(amount))),
                    (None, Some(share)) => Some(MemoryAsk::Share(Thousandths(share))),
                    (None, None) => None,
                };
                if compute.is_some_and(|percent| !(1..=100).contains(&percent)) {
                    return Err(malformed("compute goes from 1 to 100 percent"));
                }
                Share::Part { memory, compute }
            }
        },
        mechanism: asked.mechanism.map(|written| meant(&MECHANISMS, &written)).transpose()?,
        isolation: asked
            .isolation
            .map(|written| meant(&ISOLATIONS, &written))
            .transpose()?
            .unwrap_or_default(),
        models: Names { wanted: asked.models, unwanted: asked.not_models },
        uuids: Names { wanted: ids(asked.uuids), unwanted: ids(asked.not_uuids) },
        burst: asked.burst,
        dialect: dialect.ok_or_else(|| malformed(format!("'{}' is no dialect", asked.dialect)))?,
    })
}
