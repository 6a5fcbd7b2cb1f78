//! What a pod wants of GPUs, container by container, after its dialect is gone.

use crate::offer::Gpu;
use carve_formats::workloads::Names;
use carve_gpu_model::{GpuUuid, Mebibytes};
use serde::{Deserialize, Serialize};

/// Thousandths of a GPU's compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Compute(pub u32);

impl Compute {
    /// All of it.
    pub const ALL: Compute = Compute(1000);
}

/// Memory of each GPU that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// All that the GPU has.
    All,
    /// So much.
    Amount(Mebibytes),
    /// So many thousandths of what the GPU has.
    Share(u32),
}

/// Whether one of the wanted names fits, where there are any, and none of the others.
fn allows<T>(names: &Names<T>, mut is: impl FnMut(&T) -> bool) -> bool {
    (names.wanted.is_empty() || names.wanted.iter().any(&mut is)) && !names.unwanted.iter().any(is)
}

/// Equal parts of different GPUs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// Of how many GPUs.
    pub count: u32,
    /// Memory of each.
    pub memory: Memory,
    /// Compute of each. Where nothing is said it is not limited, and nothing is kept for it.
    pub compute: Option<Compute>,
    /// Whether it may use what others leave beyond that.
    pub burst: bool,
    /// Models, by a part of their name without regard to case, blanks and dashes.
    pub models: Names<String>,
    /// GPUs by their ids.
    pub uuids: Names<GpuUuid>,
}

impl Part {
    /// What it takes of a GPU.
    pub(crate) fn of(&self, gpu: &Gpu) -> (Mebibytes, Compute) {
        let memory = match self.memory {
            Memory::All => gpu.memory,
            Memory::Amount(amount) => amount,
            // Down to a whole MiB, so that two halves fit.
            Memory::Share(thousandths) => {
                Mebibytes(gpu.memory.0.saturating_mul(u64::from(thousandths)) / 1000)
            }
        };
        (memory, self.compute.unwrap_or_default())
    }

    fn names_model(&self, gpu: &Gpu) -> bool {
        // Most name none, and every GPU of the cluster is asked about.
        if self.models == Names::default() {
            return true;
        }
        // The driver writes blanks where labels of nodes have dashes.
        let plain = |name: &str| name.to_lowercase().replace(' ', "-");
        let product = plain(&gpu.product);
        allows(&self.models, |name| product.contains(&plain(name)))
    }

    /// Whether a GPU is one of those it names.
    pub(crate) fn names(&self, gpu: &Gpu) -> bool {
        self.names_model(gpu) && allows(&self.uuids, |uuid| *uuid == gpu.uuid)
    }
}

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// By itself and to its end, before those that come later.
    Init,
    /// From its place among the init containers on, to the end of the pod.
    Sidecar,
    /// Together with the other ordinary ones.
    Main,
}

/// What a container wants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerWant {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub stage: Stage,
    /// What of GPUs.
    pub parts: Vec<Part>,
}

/// What a pod wants: init containers and sidecars in their order, then the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Want {
    /// Containers that want something.
    pub containers: Vec<ContainerWant>,
}
