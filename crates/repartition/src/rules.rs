//! What policies allow on which nodes.

use std::collections::BTreeMap;

/// Who decides how GPUs are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// People do.
    Manual,
    /// Plans are shown, and nothing is cut.
    DryRun,
    /// GPUs are cut for pods that wait.
    Automatic,
}

/// What one policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Its name.
    pub name: String,
    /// Labels that a node must have.
    pub selector: BTreeMap<String, String>,
    /// The highest counts.
    pub priority: i32,
    /// Who decides.
    pub mode: Mode,
    /// Profiles that may be made, by the form that resources have; without any, every one.
    pub profiles: Vec<String>,
    /// Whether MIG mode may be switched on.
    pub switch_mode_on: bool,
    /// Nodes that are cut at the same time.
    pub nodes_at_once: u32,
    /// Seconds for which nothing of a GPU is destroyed after it was cut.
    pub pause: u64,
    /// Pods that may be asked to go at the same time; for 0 nobody ever is.
    pub evictions: u32,
    /// How many waiting pods must be gained for each pod that moves; none where nobody is to be moved.
    pub least_gain: Option<u32>,
}

impl Rules {
    /// Whether a profile may be made.
    pub(crate) fn allows(&self, profile: &str) -> bool {
        self.profiles.is_empty() || self.profiles.iter().any(|known| known == profile)
    }
}

/// Which rules count for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assigned<'a> {
    /// None.
    Nobody,
    /// These.
    To(&'a Rules),
    /// Several of the same priority, so none of them.
    Conflict(Vec<&'a Rules>),
}

/// Which rules count for a node with these labels.
pub fn assign<'a>(rules: &'a [Rules], labels: &BTreeMap<String, String>) -> Assigned<'a> {
    let fits = |rules: &&Rules| rules.selector.iter().all(|(label, value)| labels.get(label) == Some(value));
    let fitting: Vec<&Rules> = rules.iter().filter(fits).collect();
    let Some(highest) = fitting.iter().map(|rules| rules.priority).max() else { return Assigned::Nobody };
    let first: Vec<&Rules> = fitting.into_iter().filter(|rules| rules.priority == highest).collect();
    match first[..] {
        [one] => Assigned::To(one),
        _ => Assigned::Conflict(first),
    }
}
