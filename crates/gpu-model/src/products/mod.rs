//! The NVIDIA products carve knows, with and without MIG, and what each can be cut into.
//!
//! The table is for planning and simulating. On a machine with a driver the driver's own report is used instead:
//! names, memory and even whole tables have changed between driver branches.

mod ampere_profiles;
mod blackwell_profiles;
mod catalogue;
mod hopper_profiles;
mod rows;

use crate::{Evidence, Fact, Mebibytes, PciId, ProfileTable};
use rows::Row;
use serde::{Deserialize, Serialize};
use std::fmt;

pub use catalogue::CATALOGUE;

/// Generation of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// P100, P4.
    Pascal,
    /// V100.
    Volta,
    /// T4.
    Turing,
    /// A100, A30, A10, A40.
    Ampere,
    /// L4, L40S.
    AdaLovelace,
    /// H100, H200, GH200.
    Hopper,
    /// B200, GB200, B300, GB300, RTX PRO, Thor.
    Blackwell,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::Pascal => "pascal",
            Architecture::Volta => "volta",
            Architecture::Turing => "turing",
            Architecture::Ampere => "ampere",
            Architecture::AdaLovelace => "ada-lovelace",
            Architecture::Hopper => "hopper",
            Architecture::Blackwell => "blackwell",
        })
    }
}

/// What switching MIG mode on or off takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModeSwitch {
    /// The GPU must be reset before the new mode holds; the mode then survives a reboot.
    NeedsReset,
    /// The mode changes at once and is lost when the driver is reloaded.
    Immediate,
}

/// One marketing name with the PCI ids it is sold under.
#[derive(Debug)]
pub struct Board {
    /// What the driver calls it.
    pub name: &'static str,
    /// PCI device ids (NVIDIA's vendor id left out).
    pub pci_devices: &'static [u16],
}

/// What is known about a product's MIG support.
#[derive(Debug)]
enum Mig {
    /// The product has none.
    None,
    /// A full table, with how its figures and its placements are known.
    Table { rows: &'static [Row], figures: Evidence, placements: Evidence, switch: ModeSwitch },
    /// MIG-capable, but no table with placements has been seen; only the driver can tell.
    OnlyTheDriverKnows { names: &'static [&'static str] },
}

/// One product line: boards that share a die and a MIG table.
#[derive(Debug)]
pub struct Product {
    /// Short stable name, used in machine descriptions (`a100-40gb`).
    pub key: &'static str,
    /// Generation.
    pub architecture: Architecture,
    /// CUDA compute capability.
    pub compute_capability: (u8, u8),
    /// Boards of this product; the first is the usual one.
    pub boards: &'static [Board],
    memory: Option<(u64, Evidence)>,
    multiprocessors: Option<u16>,
    mig: Mig,
}

impl Product {
    /// The product with a key such as `a100-40gb`.
    pub fn by_key(key: &str) -> Option<&'static Product> {
        CATALOGUE.iter().find(|product| product.key == key)
    }

    /// The product a PCI device id belongs to.
    pub fn by_pci_id(id: PciId) -> Option<&'static Product> {
        if id.vendor() != PciId::NVIDIA {
            return None;
        }
        CATALOGUE
            .iter()
            .find(|product| product.boards.iter().any(|board| board.pci_devices.contains(&id.device())))
    }

    /// The product the driver calls by this name.
    pub fn by_name(name: &str) -> Option<&'static Product> {
        CATALOGUE.iter().find(|product| product.boards.iter().any(|board| board.name == name))
    }

    /// What the driver calls the usual board.
    pub fn name(&self) -> &'static str {
        self.boards.first().map_or(self.key, |board| board.name)
    }

    /// PCI id of the usual board, where known.
    pub fn pci_id(&self) -> Option<PciId> {
        self.boards.iter().flat_map(|board| board.pci_devices).next().map(|device| PciId::nvidia(*device))
    }

    /// Memory of the whole GPU, where known.
    pub fn memory(&self) -> Option<Fact<Mebibytes>> {
        self.memory.map(|(mebibytes, evidence)| Fact::new(Mebibytes(mebibytes), evidence))
    }

    /// Multiprocessors of the whole GPU, where known.
    pub fn multiprocessors(&self) -> Option<u16> {
        self.multiprocessors
    }

    /// Whether the product can be cut by MIG at all.
    pub fn is_mig_capable(&self) -> bool {
        !matches!(self.mig, Mig::None)
    }

    /// What the product can be cut into, where a table is known.
    pub fn profile_table(&self) -> Option<ProfileTable> {
        match &self.mig {
            Mig::Table { rows, figures, placements, .. } => Some(ProfileTable::new(
                rows.iter().filter_map(|row| row.profile(*figures, *placements)).collect(),
            )),
            Mig::None | Mig::OnlyTheDriverKnows { .. } => None,
        }
    }

    /// What switching MIG mode takes, where the product has a table.
    pub fn mode_switch(&self) -> Option<ModeSwitch> {
        match &self.mig {
            Mig::Table { switch, .. } => Some(*switch),
            Mig::None | Mig::OnlyTheDriverKnows { .. } => None,
        }
    }

    /// Profile names that documents mention for a product whose table only its driver knows.
    pub fn documented_profiles(&self) -> &'static [&'static str] {
        match &self.mig {
            Mig::OnlyTheDriverKnows { names } => names,
            Mig::None | Mig::Table { .. } => &[],
        }
    }
}
