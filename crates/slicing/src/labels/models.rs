//! Labels for what one value can not tell: several models in a node, and parts that are shared in different ways.

use super::devices::{GPU, Single, by_profile, family, single, way_of_most};
use super::names::{LabelSet, MOST, NAMELESS, cut, fitting, sanitise};
use super::ways::{Way, Ways, tally};
use crate::{MigStrategy, NodeGpu, NodeGpus};
use carve_formats::device_plugin::ResourceName;

/// Labels that a node of one model, shared in one way, does not have.
pub(super) fn label(node: &NodeGpus, strategy: MigStrategy, ways: &Ways<'_>, set: &mut LabelSet) {
    models(node, ways, set);
    let name = ResourceName::gpu();
    let whole = node.gpus.iter().filter(|gpu| !gpu.mig_enabled);
    sharing(GPU, whole.filter_map(|gpu| ways.of(&gpu.part(), &name)), set);
    match strategy {
        MigStrategy::None => {}
        MigStrategy::Single => {
            if let Single::Alike(migs) = single(node) {
                sharing(GPU, migs.iter().filter_map(|(_, mig)| ways.of(&mig.part(), &name)), set);
            }
        }
        MigStrategy::Mixed => {
            for (profile, migs) in by_profile(node) {
                let key = format!("mig-{profile}");
                let Ok(name) = key.parse() else { continue };
                sharing(&key, migs.iter().filter_map(|(_, mig)| ways.of(&mig.part(), &name)), set);
            }
        }
    }
}

/// Every model, where there are several.
fn models(node: &NodeGpus, ways: &Ways<'_>, set: &mut LabelSet) {
    let models = tally(node.gpus.iter().map(|gpu| &gpu.gpu.name));
    if models.len() < 2 {
        return;
    }
    let mut keys: Vec<String> = Vec::new();
    for (model, count) in models {
        let key = model_key(model, &keys);
        let alike: Vec<&NodeGpu> = node.gpus.iter().filter(|gpu| gpu.gpu.name == *model).collect();
        let Some(first) = alike.first() else { continue };
        let (major, minor) = first.gpu.compute_capability;
        let sharing = way_of_most(&alike, ways).map_or_else(|| "mig".to_owned(), |way| way.to_string());
        set.carve(format_args!("model.{key}.count"), count);
        set.carve(format_args!("model.{key}.memory"), first.gpu.memory.whole_mebibytes().0);
        set.carve(format_args!("model.{key}.family"), family((major, minor)));
        set.carve(format_args!("model.{key}.compute"), format_args!("{major}.{minor}"));
        set.carve(format_args!("model.{key}.sharing"), sharing);
        keys.push(key);
    }
}

/// Room that a model's name has in a key, beside the longest of what stands around it.
const MOST_OF_MODEL: usize = MOST - "model.".len() - ".compute".len();

/// The name of a model in a key: that of its product, and a number behind it where another model has that already.
fn model_key(model: &str, taken: &[String]) -> String {
    let mut name = cut(&fitting(&sanitise(model)), MOST_OF_MODEL);
    if name.is_empty() {
        NAMELESS.clone_into(&mut name);
    }
    let numbered = (2..).map(|number| {
        let behind = format!("-{number}");
        cut(&name, MOST_OF_MODEL.saturating_sub(behind.len())) + &behind
    });
    std::iter::once(name.clone()).chain(numbered).find(|key| !taken.contains(key)).unwrap_or(name)
}

/// How many parts are shared in each way, where there are several ways.
fn sharing(key: &str, ways: impl Iterator<Item = Way>, set: &mut LabelSet) {
    // Whether the shares have another name is told by the resources themselves.
    let ways = tally(ways.map(|way| way.to_string()));
    if ways.len() < 2 {
        return;
    }
    for (way, count) in ways {
        set.carve(format_args!("sharing.{key}.{way}"), count);
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_OF_MODEL, model_key};

    #[test]
    fn models_never_get_the_same_key() {
        let long = "x".repeat(200);
        let mut keys: Vec<String> = Vec::new();
        for model in ["Tesla T4", "Tesla-T4", "™", "®", &format!("{long}1"), &format!("{long}2")] {
            let key = model_key(model, &keys);
            assert!(!keys.contains(&key) && key.len() <= MOST_OF_MODEL, "{key}");
            keys.push(key);
        }
        assert_eq!(keys[..4], ["Tesla-T4", "Tesla-T4-2", "unknown", "unknown-2"]);
        // The longest name of a product so far is not cut.
        let longest = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation";
        assert_eq!(model_key(longest, &[]), longest.replace(' ', "-"));
    }
}
