//! Variables of a container's environment that would give it more than it asked for.

use crate::claims::{ContainerClaim, Share};
use carve_formats::workloads::MemoryAsk;

/// Why a variable would widen what a container has; nothing if it does not. A value that is not known is the worst it can be.
pub(crate) fn widens(
    name: &str,
    value: Option<&str>,
    claim: Option<&ContainerClaim>,
) -> Option<&'static str> {
    let value = value.map(str::trim);
    let off =
        |words: &[&str]| value.is_some_and(|value| words.contains(&value.to_ascii_lowercase().as_str()));
    match name {
        // Older container runtimes read it, and give whatever it names.
        "NVIDIA_VISIBLE_DEVICES" => {
            (!off(&["", "none", "void"])).then_some("it names devices that the container did not get")
        }
        "NVIDIA_MIG_CONFIG_DEVICES" | "NVIDIA_MIG_MONITOR_DEVICES" => {
            (!off(&["", "none"])).then_some("with it a container may cut the GPUs of others")
        }
        "CUDA_DISABLE_CONTROL" | "CUDA_OVERSUBSCRIBE" => {
            (!off(&["", "0", "false"])).then_some("it asks not to be held to limits")
        }
        name if name.starts_with("CUDA_MPS_") => {
            Some("it leads around the daemon that holds the container to its part")
        }
        name if name.starts_with("CUDA_DEVICE_MEMORY_LIMIT") => {
            let limit = value.and_then(mebibytes);
            let within = limit.is_some_and(|limit| asked_memory(claim).is_none_or(|most| limit <= most));
            (!within).then_some("it is a limit of memory beyond what the container asks for")
        }
        "CUDA_DEVICE_SM_LIMIT" => {
            let limit = value.and_then(|value| value.parse::<u64>().ok());
            let within = limit.is_some_and(|limit| asked_compute(claim).is_none_or(|most| limit <= most));
            (!within).then_some("it is a limit of compute beyond what the container asks for")
        }
        _ => None,
    }
}

/// The most memory of one GPU that is asked for as an amount; nothing where it is not limited or not known as an amount.
fn asked_memory(claim: Option<&ContainerClaim>) -> Option<u64> {
    let parts = claim.map(|claim| claim.parts.as_slice()).unwrap_or_default();
    let amounts = parts.iter().map(|part| match part.share {
        Share::Part { memory: Some(MemoryAsk::Amount(amount)), .. } => Some(amount.0),
        Share::Part { memory: Some(MemoryAsk::Share(_)), .. } => Some(0),
        _ => None,
    });
    most(amounts)
}

/// The most percent of compute of one GPU; nothing where it is not limited.
fn asked_compute(claim: Option<&ContainerClaim>) -> Option<u64> {
    let parts = claim.map(|claim| claim.parts.as_slice()).unwrap_or_default();
    most(parts.iter().map(|part| match part.share {
        Share::Part { compute, .. } => compute.map(u64::from),
        _ => None,
    }))
}

/// The largest; nothing as soon as one is not limited. Who has no parts has nothing that could be widened.
fn most(amounts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    amounts.collect::<Option<Vec<u64>>>().and_then(|amounts| amounts.into_iter().max())
}

/// `3000m`, `3g`, or bytes; the letters are HAMi's.
fn mebibytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let suffix = lower.strip_prefix(digits)?;
    match suffix {
        "" => Some(number.div_ceil(1 << 20)),
        "k" => Some(number.div_ceil(1 << 10)),
        "m" => Some(number),
        "g" => number.checked_mul(1 << 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::widens;
    use crate::claims::ContainerClaim;
    use crate::{Part, Share};
    use carve_formats::workloads::{ContainerKind, Dialect, Isolation, MemoryAsk, Names};
    use carve_gpu_model::Mebibytes;

    fn claim() -> ContainerClaim {
        let memory = Some(MemoryAsk::Amount(Mebibytes(3000)));
        let part = Part {
            count: 1,
            share: Share::Part { memory, compute: Some(30) },
            mechanism: None,
            isolation: Isolation::Unstated,
            models: Names::default(),
            uuids: Names::default(),
            burst: false,
            dialect: Dialect::Hami,
        };
        ContainerClaim { name: "c".to_owned(), kind: ContainerKind::Main, parts: vec![part] }
    }

    #[test]
    fn only_what_widens_is_found() {
        let claim = claim();
        for (name, value, found) in [
            ("NVIDIA_VISIBLE_DEVICES", Some("all"), true),
            ("NVIDIA_VISIBLE_DEVICES", Some("void"), false),
            ("NVIDIA_VISIBLE_DEVICES", Some(" "), false),
            ("NVIDIA_VISIBLE_DEVICES", None, true),
            ("CUDA_MPS_PIPE_DIRECTORY", Some("/tmp"), true),
            ("CUDA_DISABLE_CONTROL", Some("TRUE"), true),
            ("CUDA_DISABLE_CONTROL", Some("false"), false),
            ("CUDA_DEVICE_MEMORY_LIMIT_0", Some("3000m"), false),
            ("CUDA_DEVICE_MEMORY_LIMIT_0", Some("3g"), true),
            ("CUDA_DEVICE_MEMORY_LIMIT", Some("999g"), true),
            ("CUDA_DEVICE_MEMORY_LIMIT", Some("much"), true),
            ("CUDA_DEVICE_SM_LIMIT", Some("30"), false),
            ("CUDA_DEVICE_SM_LIMIT", Some("31"), true),
            ("CUDA_VISIBLE_DEVICES", Some("0"), false),
            ("NVIDIA_DRIVER_CAPABILITIES", Some("all"), false),
            ("PATH", None, false),
        ] {
            assert_eq!(widens(name, value, Some(&claim)).is_some(), found, "{name}={value:?}");
        }
        assert_eq!(widens("CUDA_DEVICE_MEMORY_LIMIT", Some("4g"), None), None, "nothing to be widened");
    }
}
