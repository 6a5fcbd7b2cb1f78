//! GPUs that MIG cuts: by people, on demand, or once and for all as mig-parted's files say it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Who decides how GPUs are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum MigMode {
    /// People do, by the label `nvidia.com/mig.config`.
    #[default]
    Manual,
    /// This policy does, by `layout`.
    Fixed,
    /// Plans are made and shown, and nothing is cut.
    DryRun,
    /// GPUs are cut for pods that wait.
    Automatic,
}

/// How MIG is cut.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.mode in ['DryRun', 'Automatic'] || (!has(self.profiles) && !self.switchModeOn)",
        "message": "profiles and switchModeOn say what may be cut on demand; with modes Manual and Fixed nothing is, write DryRun or Automatic",
    },
    {
        "rule": "(self.mode == 'Fixed') == has(self.layout)",
        "message": "layout says how GPUs are cut with mode Fixed: write both or neither",
    },
]))]
pub struct Mig {
    /// Who decides: `Manual` leaves it to people and their label `nvidia.com/mig.config`; `Fixed` cuts as `layout` says; `Automatic` cuts for pods that wait for
    /// `nvidia.com/mig-…`, keeps what is in use, and shows its plans as SlicePlans; `DryRun` only shows them.
    #[serde(default)]
    pub mode: MigMode,
    /// What GPUs are cut into with mode `Fixed`, as a config of mig-parted says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64))]
    pub layout: Vec<LayoutEntry>,
    /// Profiles that may be made on demand, such as `1g.5gb`; without any, every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub profiles: Vec<String>,
    /// Whether GPUs whose MIG mode is off, and which nobody uses, may be switched to it. They are then no longer offered as whole GPUs.
    #[serde(default)]
    pub switch_mode_on: bool,
}

const fn on() -> bool {
    true
}

/// What some GPUs of a node are cut into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.enabled || !has(self.instances)",
    "message": "instances need MIG mode: leave enabled away, or instances",
}]))]
pub struct LayoutEntry {
    /// Which GPUs, by their index on the node; without any, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64))]
    pub gpus: Vec<u32>,
    /// Only GPUs with one of these PCI ids, such as `0x20B010DE`; without any, every product.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    pub pci_ids: Vec<String>,
    /// Whether MIG mode is on; off, they are whole GPUs.
    #[serde(default = "on")]
    pub enabled: bool,
    /// How many instances of which profile, such as `{1g.5gb: 2, 3g.20gb: 1}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instances: BTreeMap<String, u32>,
}

impl LayoutEntry {
    fn to_config(&self) -> Value {
        let mut entry = json!({"mig-enabled": self.enabled, "mig-devices": self.instances});
        entry["devices"] = if self.gpus.is_empty() { "all".into() } else { json!(self.gpus) };
        if !self.pci_ids.is_empty() {
            entry["device-filter"] = json!(self.pci_ids);
        }
        entry
    }
}

impl Mig {
    /// The layout as a file of mig-parted that has one config; none where nothing is fixed.
    pub fn to_config(&self, name: &str) -> Option<String> {
        let entries: Vec<Value> = self.layout.iter().map(LayoutEntry::to_config).collect();
        (self.mode == MigMode::Fixed && !entries.is_empty())
            .then(|| json!({"version": "v1", "mig-configs": {name: entries}}).to_string())
    }
}
