//! What is left of GPUs that claims share, in words: a scheduler says of a claim only that it can not be allocated.

use super::story::text;
use carve_formats::workloads::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// How many GPUs are named.
const NAMED: usize = 4;

/// An amount of memory in MiB and of compute in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Share {
    memory: u64,
    compute: u64,
}

impl Share {
    /// What an object says of both, each as itself or below `value`.
    fn of(amounts: &Value) -> Self {
        let amount = |name: &str| {
            let said = &amounts[name];
            said.as_str().or(said["value"].as_str()).and_then(|text| text.parse::<Quantity>().ok())
        };
        Share {
            memory: amount("memory").map_or(0, |memory| memory.mebibytes().0),
            compute: amount("compute").and_then(Quantity::whole).unwrap_or(0),
        }
    }

    fn words(self) -> String {
        format!("{} MiB and {} %", self.memory, self.compute)
    }
}

/// A GPU that claims share in one way.
#[derive(Debug)]
struct Shared<'a> {
    pool: &'a str,
    /// The GPU's own name.
    gpu: &'a str,
    all: Share,
    left: Share,
    /// A device of the same GPU that is given away in another way, which keeps this one from everybody.
    otherwise: Option<&'a str>,
}

/// How devices of a class are called after their GPU.
fn ending(class: &str) -> Option<&'static str> {
    match class.split('.').next()? {
        "fraction" => Some("-frac"),
        "mps" => Some("-mps"),
        "timeslicing" => Some("-ts"),
        _ => None,
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Every GPU that is offered in one way, and what claims have left of it.
fn shared<'a>(ending: &str, slices: &'a [Value], claims: &'a [Value]) -> Vec<Shared<'a>> {
    let mut given: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for result in claims.iter().flat_map(|claim| array(&claim["status"]["allocation"]["devices"]["results"]))
    {
        given.entry(text(result, "/pool")).or_default().push(result);
    }
    let mut found: BTreeMap<(&str, &str), Shared<'a>> = BTreeMap::new();
    for slice in slices {
        let pool = text(slice, "/spec/pool/name");
        for device in array(&slice["spec"]["devices"]) {
            let name = text(device, "/name");
            let Some(gpu) = name.strip_suffix(ending).filter(|gpu| !gpu.contains("-mig-")) else { continue };
            let all = Share::of(&device["capacity"]);
            let (mut left, mut otherwise) = (all, None);
            for result in given.get(pool).into_iter().flatten() {
                let other = text(result, "/device");
                if other == name {
                    let taken = Share::of(&result["consumedCapacity"]);
                    left.memory = left.memory.saturating_sub(taken.memory);
                    left.compute = left.compute.saturating_sub(taken.compute);
                } else if other.strip_prefix(gpu).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                {
                    otherwise = Some(other);
                }
            }
            found.insert((pool, gpu), Shared { pool, gpu, all, left, otherwise });
        }
    }
    found.into_values().collect()
}

/// Why a claim that waits has nothing, as far as sizes tell.
pub(super) fn why_not(claim: &Value, slices: &[Value], claims: &[Value]) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    for request in array(&claim["spec"]["devices"]["requests"]) {
        let exactly = &request["exactly"];
        let Some(ending) = ending(text(exactly, "/deviceClassName")) else { continue };
        let (wanted, count) =
            (Share::of(&exactly["capacity"]["requests"]), exactly["count"].as_u64().unwrap_or(1));
        told.extend(of_request(wanted, count, shared(ending, slices, claims)));
    }
    told
}

fn of_request(wanted: Share, count: u64, mut gpus: Vec<Shared<'_>>) -> Vec<(&'static str, String)> {
    let Some(largest) = gpus.iter().map(|gpu| gpu.all).max() else {
        return vec![(
            "does not fit",
            "no node offers GPUs in this way; is an agent there that serves claims?".to_owned(),
        )];
    };
    if wanted.memory > largest.memory {
        let (wanted, largest) = (wanted.memory, largest.memory);
        return vec![(
            "does not fit",
            format!("{wanted} MiB is more than any GPU has to give; the largest has {largest} MiB"),
        )];
    }
    let mut of_nodes: BTreeMap<&str, u64> = BTreeMap::new();
    gpus.iter().for_each(|gpu| *of_nodes.entry(gpu.pool).or_default() += 1);
    let most = of_nodes.values().max().copied().unwrap_or(0);
    if count > most {
        return vec![(
            "does not fit",
            format!("it wants {count} different GPUs of one node, and no node has more than {most}"),
        )];
    }
    // Those with the most room first, since they are the nearest to enough.
    gpus.sort_by_key(|gpu| (gpu.otherwise.is_some(), std::cmp::Reverse(gpu.left)));
    let words = |gpu: &Shared<'_>| match gpu.otherwise {
        Some(other) => format!("{} of {}: nothing, it is given away as {other}", gpu.gpu, gpu.pool),
        None => format!("{} of {}: {}", gpu.gpu, gpu.pool, gpu.left.words()),
    };
    let more = gpus.len().saturating_sub(NAMED);
    let mut told: Vec<_> = gpus.iter().take(NAMED).map(|gpu| ("left", words(gpu))).collect();
    if more > 0 {
        told.push(("", format!("and less of {more} more")));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::why_not;
    use serde_json::{Value, json};

    fn slice() -> Value {
        let device = |name: &str| {
            json!({"name": name, "allowMultipleAllocations": true,
                "capacity": {"memory": {"value": "40704Mi"}, "compute": {"value": "100"}}})
        };
        json!({"spec": {"pool": {"name": "a"}, "devices": [
            device("gpu-0-frac"), device("gpu-1-frac"), device("gpu-0-mps"), {"name": "gpu-0"},
            device("gpu-0-mig-1g5gb-19-0-frac"), device("gpu-10-frac")]}})
    }

    fn claim(memory: &str, count: u64) -> Value {
        json!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
            "deviceClassName": "fraction.carve.dev", "count": count,
            "capacity": {"requests": {"memory": memory, "compute": "25"}}}}]}}})
    }

    fn given(device: &str, memory: &str) -> Value {
        json!({"status": {"allocation": {"devices": {"results": [
            {"pool": "a", "device": device, "consumedCapacity": {"memory": memory, "compute": "25"}}]}}}})
    }

    fn told(claim: &Value, claims: &[Value]) -> String {
        let told = why_not(claim, &[slice()], claims);
        told.iter().map(|(about, words)| format!("{about}: {words}\n")).collect()
    }

    #[test]
    fn what_is_left_of_each_gpu_is_told_and_who_has_it_in_another_way() {
        let claims = [given("gpu-0-frac", "10Gi"), given("gpu-0-frac", "20Gi"), given("gpu-1", "0")];
        assert_eq!(
            told(&claim("10Gi", 1), &claims),
            "left: gpu-10 of a: 40704 MiB and 100 %\nleft: gpu-0 of a: 9984 MiB and 50 %\n\
             left: gpu-1 of a: nothing, it is given away as gpu-1\n"
        );
    }

    #[test]
    fn what_can_never_fit_is_told_as_that() {
        assert_eq!(
            told(&claim("50000Mi", 1), &[]),
            "does not fit: 50000 MiB is more than any GPU has to give; the largest has 40704 MiB\n"
        );
        assert!(
            told(&claim("1Gi", 4), &[]).contains("4 different GPUs of one node, and no node has more than 3")
        );
        let nowhere = why_not(&claim("1Gi", 1), &[], &[]);
        assert!(nowhere[0].1.contains("no node offers GPUs in this way"), "{nowhere:?}");
        // Whole GPUs and MIG devices have no size of their own to tell of.
        let whole =
            json!({"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu.carve.dev"}}]}}});
        assert_eq!(told(&whole, &[]), "");
    }
}
