//! Machines described in YAML: which GPUs, how connected, which driver. For simulating them.

mod presets;

use crate::Fabric;
use carve_gpu_model::{PciId, Product, products::CATALOGUE};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use presets::preset_names;

/// How the GPUs of a group are joined by NVLink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NvLink {
    /// Not at all.
    #[default]
    None,
    /// In pairs: 0 with 1, 2 with 3, and so on.
    Pairs,
    /// All with all, through switches.
    Switched,
}

/// GPUs of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GpuGroup {
    /// Key of the product, such as `a100-40gb`.
    pub product: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// What the driver calls the board, where it is not the product's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,
    /// PCI subsystem id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<PciId>,
    /// Memory the driver keeps for itself, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_mib: Option<u64>,
    /// NUMA node of each GPU in turn; the last one holds for the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_nodes: Vec<u32>,
    /// NVLink among the GPUs of this group.
    #[serde(default)]
    pub nvlink: NvLink,
    /// The fabric over several machines that the GPUs of this group belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// Whether MIG mode is on when the machine starts.
    #[serde(default)]
    pub mig_enabled: bool,
}

fn one() -> u32 {
    1
}

/// A machine as it was written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default = "default_driver")]
    driver: String,
    #[serde(default = "default_cuda")]
    cuda: String,
    gpus: Vec<GpuGroup>,
}

fn default_driver() -> String {
    "580.159.04".to_owned()
}

fn default_cuda() -> String {
    "13.0".to_owned()
}

/// A machine that can be simulated: every product exists and every number makes sense.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Machine {
    written: Written,
    cuda: (u32, u32),
}

/// Why a machine can not be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MachineError {
    /// The YAML does not read.
    #[error("the machine description does not read: {0}")]
    Syntax(String),
    /// No such product.
    #[error("gpus[{group}].product: there is no product '{product}'; the nearest is '{nearest}'")]
    UnknownProduct {
        /// Position of the group.
        group: usize,
        /// What was written.
        product: String,
        /// The nearest key.
        nearest: &'static str,
    },
    /// The product's MIG table is known to its driver only.
    #[error(
        "gpus[{group}].product: '{product}' can not be simulated, because only its driver knows what it holds"
    )]
    UnknownTable {
        /// Position of the group.
        group: usize,
        /// What was written.
        product: String,
    },
    /// The product has no such board.
    #[error("gpus[{group}].board: '{board}' is not a board of {product}; known boards are {known}")]
    UnknownBoard {
        /// Position of the group.
        group: usize,
        /// What was written.
        board: String,
        /// Key of the product.
        product: &'static str,
        /// Boards there are.
        known: String,
    },
    /// MIG on a product that has none.
    #[error("gpus[{group}].mig-enabled: {product} has no MIG")]
    NoMig {
        /// Position of the group.
        group: usize,
        /// Key of the product.
        product: &'static str,
    },
    /// A number out of range.
    #[error("{field}: {found} is out of range; expected {expected}")]
    Range {
        /// Path of the field.
        field: String,
        /// What was written.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// No such preset.
    #[error(
        "there is no machine '{name}'; presets are {presets}, and PRODUCT or PRODUCT:COUNT makes a plain one \
         (for example h200-141gb:2)"
    )]
    UnknownPreset {
        /// What was asked for.
        name: String,
        /// What there is.
        presets: String,
    },
}

/// More GPUs than any machine has; keeps a typo from filling the memory.
const MOST_GPUS: u32 = 64;

impl Machine {
    /// Reads a machine description.
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        let written: Written =
            serde_saphyr::from_str(text).map_err(|error| MachineError::Syntax(error.to_string()))?;
        Self::try_from(written)
    }

    /// A preset by name, or `PRODUCT:COUNT`.
    pub fn named(name: &str) -> Result<Self, MachineError> {
        if let Some(text) = presets::preset(name) {
            return Self::parse(text);
        }
        let unknown = || MachineError::UnknownPreset {
            name: name.to_owned(),
            presets: preset_names().collect::<Vec<_>>().join(", "),
        };
        let (product, count) = match name.split_once(':') {
            Some((product, count)) => (product, count.parse::<u32>().map_err(|_| unknown())?),
            None => (name, 1),
        };
        let product = Product::by_key(product).ok_or_else(unknown)?;
        let group = GpuGroup {
            product: product.key.to_owned(),
            count,
            board: None,
            subsystem: None,
            reserved_mib: None,
            numa_nodes: Vec::new(),
            nvlink: NvLink::None,
            fabric: None,
            mig_enabled: false,
        };
        Self::try_from(Written {
            name: name.to_owned(),
            driver: default_driver(),
            cuda: default_cuda(),
            gpus: vec![group],
        })
    }

    /// The same machine under another name; its GPUs have ids of their own.
    pub fn named_as(mut self, name: &str) -> Self {
        name.clone_into(&mut self.written.name);
        self
    }

    /// What the machine is called.
    pub fn name(&self) -> &str {
        &self.written.name
    }

    /// Driver version.
    pub fn driver(&self) -> &str {
        &self.written.driver
    }

    /// Highest CUDA version the driver serves.
    pub fn cuda(&self) -> (u32, u32) {
        self.cuda
    }

    /// Groups of like GPUs, in the driver's order.
    pub fn groups(&self) -> &[GpuGroup] {
        &self.written.gpus
    }
}

impl TryFrom<Written> for Machine {
    type Error = MachineError;

    fn try_from(written: Written) -> Result<Self, MachineError> {
        let range = |field: String, found: &dyn ToString, expected| MachineError::Range {
            field,
            found: found.to_string(),
            expected,
        };
        let version = |text: &str| -> Option<(u32, u32)> {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let cuda = version(&written.cuda)
            .ok_or_else(|| range("cuda".to_owned(), &written.cuda, "a version such as \"13.0\""))?;
        let numeric = written
            .driver
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        if !numeric || !(2..=3).contains(&written.driver.split('.').count()) {
            return Err(range("driver".to_owned(), &written.driver, "a version such as \"580.65.06\""));
        }
        let total: u64 = written.gpus.iter().map(|group| u64::from(group.count)).sum();
        if total > u64::from(MOST_GPUS) {
            return Err(range("gpus".to_owned(), &total, "at most 64 GPUs in all"));
        }
        for (position, group) in written.gpus.iter().enumerate() {
            if group.count == 0 {
                return Err(range(format!("gpus[{position}].count"), &0, "1 or more"));
            }
            check_group(position, group)?;
        }
        Ok(Machine { written, cuda })
    }
}

fn check_group(position: usize, group: &GpuGroup) -> Result<(), MachineError> {
    let product = Product::by_key(&group.product).ok_or_else(|| MachineError::UnknownProduct {
        group: position,
        product: group.product.clone(),
        nearest: nearest_key(&group.product),
    })?;
    if product.memory().is_none() || (product.is_mig_capable() && product.profile_table().is_none()) {
        return Err(MachineError::UnknownTable { group: position, product: group.product.clone() });
    }
    if group.mig_enabled && !product.is_mig_capable() {
        return Err(MachineError::NoMig { group: position, product: product.key });
    }
    if let Some(board) = &group.board
        && !product.boards.iter().any(|known| known.name == board)
    {
        return Err(MachineError::UnknownBoard {
            group: position,
            board: board.clone(),
            product: product.key,
            known: product.boards.iter().map(|board| board.name).collect::<Vec<_>>().join(", "),
        });
    }
    Ok(())
}

/// The key that shares the longest start with what was written.
fn nearest_key(written: &str) -> &'static str {
    let alike =
        |key: &str| key.bytes().zip(written.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    CATALOGUE.iter().map(|product| product.key).max_by_key(|key| alike(key)).unwrap_or("a100-40gb")
}

impl From<Machine> for Written {
    fn from(machine: Machine) -> Written {
        machine.written
    }
}
