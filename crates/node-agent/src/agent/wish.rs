//! What is wanted of the GPUs: a person's label wins, then the layout of a SlicePolicy, then the controller's order, then the default.

use super::Agent;
use crate::mig::Wish;
use carve_cluster_api::{NodeView, names};
use carve_formats::MigPartedConfig;
use carve_repartition::{Order, WireError};

/// The config that a person asks for, and the order that counts where nobody does.
fn asked(view: Option<&NodeView>) -> (Option<String>, Option<Result<Order, WireError>>) {
    let Some(view) = view else { return (None, None) };
    match view.labels.get(names::MIG_CONFIG).filter(|name| !name.is_empty()) {
        Some(name) => (Some(name.clone()), None),
        None => (None, view.annotations.get(Order::ANNOTATION).map(|text| Order::parse(text))),
    }
}

/// What the layout of a policy is called.
fn only_config(text: &str) -> Option<String> {
    MigPartedConfig::parse(text).value?.configs.into_keys().next()
}

impl Agent {
    /// What MIG config is wanted.
    pub(crate) fn learn_wish(&mut self) {
        let (manual, order) = asked(self.view.as_ref());
        let order = match order {
            Some(Err(error)) => {
                self.remark("MigPlanRefused", error.to_string());
                None
            }
            Some(Ok(order)) => Some(order),
            None => None,
        };
        let policy = self.view.as_ref().and_then(|view| view.annotations.get(names::POLICY_MIG)).cloned();
        let fixed = policy.as_deref().and_then(only_config);
        // Once there are orders, the default has had its time: it would undo them.
        let default = self.options.mig.default_config.as_ref().filter(|_| order.is_none());
        let name = manual.clone().or(fixed).or_else(|| default.cloned());
        let file = self.options.mig.config_file.as_ref().map(|path| {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        });
        self.wishes.send_if_modified(|wish| {
            let new = Wish { name, manual, order, file, policy, again: wish.again };
            let changed = *wish != new;
            *wish = new;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::asked;
    use carve_cluster_api::NodeView;
    use std::collections::BTreeMap;

    #[test]
    fn a_person_s_label_wins_over_orders() {
        let mut view = NodeView::default();
        let order = r#"{"generation":3,"gpus":{"GPU-1":[{"profile":"1g.5gb","start":0,"compute":[1]}]}}"#;
        view.annotations.insert("carve.dev/mig.plan".to_owned(), order.to_owned());
        let (manual, ordered) = asked(Some(&view));
        assert_eq!((manual, ordered.and_then(Result::ok).map(|order| order.generation)), (None, Some(3)));
        view.labels = BTreeMap::from([("nvidia.com/mig.config".to_owned(), String::new())]);
        assert!(asked(Some(&view)).1.is_some(), "an empty label asks for nothing");
        view.labels = BTreeMap::from([("nvidia.com/mig.config".to_owned(), "all-1g.5gb".to_owned())]);
        assert_eq!(asked(Some(&view)), (Some("all-1g.5gb".to_owned()), None));
        assert_eq!(asked(None), (None, None));
    }
}
