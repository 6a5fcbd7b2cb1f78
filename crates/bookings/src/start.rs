//! What is decided on a node before a container with parts of GPUs starts: whose tokens these are, and whether there is room.

use crate::offer::Offer;
use crate::room::Held;
use crate::slices::{ContainerSlices, Slices};
use crate::want::Compute;
use carve_gpu_model::GpuUuid;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Tokens for each GPU. A token stands for a part of unknown size, so there must be as many as parts could ever be: sixteen parts of an
/// 80 GiB GPU have 5 GiB each, of which a CUDA context takes half a GiB; smaller ones are of little use. Kubelet writes every
/// token into its checkpoint, so there are not more than that.
pub const TOKENS_FOR_EACH_GPU: usize = 16;

/// The tokens of a node with so many GPUs. A node with more has the same ones and others.
pub fn tokens(gpus: usize) -> Vec<String> {
    (0..gpus.saturating_mul(TOKENS_FOR_EACH_GPU)).map(|number| format!("slice-{number:03}")).collect()
}

/// A container that holds tokens, as kubelet tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHolder {
    /// `namespace/name` of its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// The tokens.
    pub tokens: BTreeSet<String>,
}

/// What is remembered on the node of a pod of which a container was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// `namespace/name`.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// What was decided for it, all containers together.
    pub slices: Vec<ContainerSlices>,
    /// Tokens of containers that were started so far.
    pub tokens: BTreeMap<String, BTreeSet<String>>,
}

impl Started {
    /// What it holds of each GPU.
    pub fn held(&self) -> BTreeMap<GpuUuid, Held> {
        Slices { containers: self.slices.clone() }.held()
    }

    /// All of its tokens.
    pub fn all_tokens(&self) -> BTreeSet<String> {
        self.tokens.values().flatten().cloned().collect()
    }

    /// Whether kubelet still has the pod with one of its tokens.
    pub fn is_held(&self, holders: &[TokenHolder]) -> bool {
        let own = self.all_tokens();
        holders.iter().any(|holder| holder.pod == self.pod && !holder.tokens.is_disjoint(&own))
    }
}

/// Why a container is not started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StartRefusal {
    /// Nothing was decided for a container of that many tokens.
    #[error(
        "pod {pod}: {container} holds {tokens} of kubelet's tokens, and its annotation gives it {slices} part(s) of GPUs; \
         the pod was changed after it was placed, so delete it and let it be made anew"
    )]
    Count {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// Tokens it holds.
        tokens: usize,
        /// Parts it was given.
        slices: usize,
    },
    /// The same tokens serve two containers one after the other, and it is not known whether the first has ended.
    #[error(
        "pod {pod}: {init} and {container} have the same tokens one after the other and different parts of GPUs, and the API server has not \
         heard that {init} has ended; kubelet tries again"
    )]
    Ambiguous {
        /// The pod.
        pod: String,
        /// The init container.
        init: String,
        /// The one after it.
        container: String,
    },
    /// A GPU is not here.
    #[error(
        "pod {pod} was given a part of {gpu}, and this node gives out no such GPU in parts; delete the pod, so that it is placed anew"
    )]
    NoGpu {
        /// The pod.
        pod: String,
        /// The GPU.
        gpu: GpuUuid,
    },
    /// A GPU is not well.
    #[error(
        "pod {pod} was given a part of {gpu}, which is withheld: {why}; it starts when the GPU is well, or delete the pod, so that it is \
         placed anew"
    )]
    Withheld {
        /// The pod.
        pod: String,
        /// The GPU.
        gpu: GpuUuid,
        /// Why.
        why: String,
    },
    /// Others hold too much of a GPU.
    #[error(
        "pod {pod} was given {} MiB and {} of {gpu}, and {} MiB and {} are left beside {others}; it starts when there is room, or \
         delete the pod, so that it is placed anew",
        .wants.memory.0, percent(.wants.compute), .left.memory.0, percent(.left.compute)
    )]
    NoRoom {
        /// The pod.
        pod: String,
        /// The GPU.
        gpu: GpuUuid,
        /// What it holds of it.
        wants: Held,
        /// What there is.
        left: Held,
        /// Who else is there.
        others: String,
    },
}

fn percent(compute: Compute) -> String {
    format!("{}.{} %", compute.0 / 10, compute.0 % 10)
}

/// Pods of which a container holds one of the tokens. Tokens of an ended pod are given away again while kubelet may still list
/// it, so there can be several; those that have ended are no candidates.
pub fn pods_with(tokens: &BTreeSet<String>, holders: &[TokenHolder]) -> BTreeSet<String> {
    let theirs = holders.iter().filter(|holder| !holder.tokens.is_disjoint(tokens));
    theirs.map(|holder| holder.pod.clone()).collect()
}

/// Whether the GPUs of a container are well, and have room for its pod beside the others. The last resort: whoever placed the pod has
/// seen to it already, unless two did at once.
pub fn may_start<'a>(
    pod: &str,
    container: &ContainerSlices,
    slices: &Slices,
    offer: &Offer,
    others: impl Iterator<Item = &'a Started> + Clone,
) -> Result<(), StartRefusal> {
    let held = slices.held();
    let gpus: BTreeSet<&GpuUuid> = container.slices.iter().map(|slice| &slice.gpu).collect();
    for uuid in gpus {
        let Some(gpu) = offer.gpus.iter().find(|gpu| gpu.uuid == *uuid) else {
            return Err(StartRefusal::NoGpu { pod: pod.to_owned(), gpu: uuid.clone() });
        };
        if let Some(why) = &gpu.withheld {
            return Err(StartRefusal::Withheld { pod: pod.to_owned(), gpu: uuid.clone(), why: why.clone() });
        }
        let mut left = Held { memory: gpu.memory, compute: Compute::ALL };
        let mut beside = Vec::new();
        for other in others.clone() {
            if let Some(theirs) = other.held().get(uuid) {
                left = left.less(*theirs);
                beside.push(other.pod.clone());
            }
        }
        let wants = held.get(uuid).copied().unwrap_or_default();
        if !wants.is_within(left) {
            let others = if beside.is_empty() { "nobody".to_owned() } else { beside.join(", ") };
            return Err(StartRefusal::NoRoom { pod: pod.to_owned(), gpu: uuid.clone(), wants, left, others });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{StartRefusal, Started, TokenHolder, may_start, pods_with, tokens};
    use crate::{Compute, ContainerSlices, Gpu, Offer, Slice, Slices, Stage};
    use carve_gpu_model::{GpuUuid, Mebibytes};
    use std::collections::{BTreeMap, BTreeSet};

    fn set(tokens: &[&str]) -> BTreeSet<String> {
        tokens.iter().map(|&token| token.to_owned()).collect()
    }

    fn holder(pod: &str, container: &str, tokens: &[&str]) -> TokenHolder {
        TokenHolder { pod: pod.to_owned(), container: container.to_owned(), tokens: set(tokens) }
    }

    fn container(name: &str, stage: Stage, parts: &[(&str, u64, u32)]) -> ContainerSlices {
        let slice = |&(gpu, memory, compute): &(&str, u64, u32)| Slice {
            gpu: GpuUuid(gpu.to_owned()),
            memory: Mebibytes(memory),
            compute: Compute(compute),
            burst: false,
        };
        ContainerSlices { name: name.to_owned(), stage, slices: parts.iter().map(slice).collect() }
    }

    fn offer(withheld: Option<&str>) -> Offer {
        let gpu = Gpu {
            uuid: GpuUuid("GPU-0".to_owned()),
            product: "T4".to_owned(),
            memory: Mebibytes(15_000),
            withheld: withheld.map(str::to_owned),
        };
        Offer { gpus: vec![gpu] }
    }

    fn started(pod: &str, containers: Vec<ContainerSlices>, tokens: &[&str]) -> Started {
        Started {
            pod: pod.to_owned(),
            uid: format!("uid-{pod}"),
            slices: containers,
            tokens: BTreeMap::from([("main".to_owned(), set(tokens))]),
        }
    }

    #[test]
    fn more_gpus_keep_the_tokens_of_fewer() {
        let (one, two) = (tokens(1), tokens(2));
        assert_eq!((one.len(), two.len()), (16, 32));
        assert_eq!(one, two[..16]);
        assert_eq!(two[31], "slice-031");
    }

    #[test]
    fn pods_are_found_by_any_of_their_tokens() {
        let holders = [holder("a/x", "main", &["s0", "s1"]), holder("a/x", "side", &["s2"])];
        assert_eq!(pods_with(&set(&["s1"]), &holders), set(&["a/x"]));
        assert_eq!(pods_with(&set(&["s9"]), &holders), set(&[]));
    }

    #[test]
    fn what_does_not_fit_beside_the_others_is_refused_by_name() {
        let wanted = |memory, compute| container("main", Stage::Main, &[("GPU-0", memory, compute)]);
        let other = started("a/y", vec![wanted(10_000, 500)], &["s1"]);
        let judge = |memory, compute, withheld| {
            let (one, others) = (wanted(memory, compute), [other.clone()]);
            let slices = Slices { containers: vec![one.clone()] };
            may_start("a/x", &one, &slices, &offer(withheld), others.iter()).map_err(|e| e.to_string())
        };
        assert_eq!(judge(5_000, 500, None), Ok(()));
        let memory = judge(5_001, 500, None).unwrap_err();
        assert!(memory.contains("5000 MiB and 50.0 % are left beside a/y"), "{memory}");
        assert!(judge(5_000, 501, None).unwrap_err().contains("50.1 %"));
        assert!(judge(1, 1, Some("XID 79")).unwrap_err().contains("withheld: XID 79"));
        let elsewhere = container("main", Stage::Main, &[("GPU-9", 1, 1)]);
        let slices = Slices { containers: vec![elsewhere.clone()] };
        let none: [Started; 0] = [];
        let gone = may_start("a/x", &elsewhere, &slices, &offer(None), none.iter()).unwrap_err();
        assert!(matches!(gone, StartRefusal::NoGpu { .. }), "{gone}");
    }

    #[test]
    fn a_pod_is_held_by_its_own_tokens_only() {
        let record = started("a/x", Vec::new(), &["s0", "s1"]);
        assert!(record.is_held(&[holder("a/x", "main", &["s1"])]));
        assert!(!record.is_held(&[holder("a/x", "main", &["s2"]), holder("a/y", "main", &["s1"])]));
    }
}
