//! The page that tells every right of every account: what, where, with which value, and what for.

use super::rules::{Right, Rule, Scope};
use std::collections::BTreeMap;

/// Rights that a value brings, or takes away.
#[derive(Debug)]
pub(crate) struct Switched {
    /// As the page writes it: `agent.mode: claims`.
    pub(crate) shown: &'static str,
    /// What is granted with it alone, beside the chart's own values.
    pub(crate) rights: Vec<Right>,
}

/// Accounts in the order of the page, with what is said of them.
const ACCOUNTS: &[(&str, &str)] = &[
    (
        "carve-agent",
        "The agent, on every node with GPUs. RBAC can not say \"its own node\" for a DaemonSet; the agent touches no other.",
    ),
    (
        "carve-controller",
        "The controller. It reads no Secret but its own two, and of other pods it writes only on which node they run.",
    ),
    (
        "carve-scheduler",
        "The second scheduler, which is Kubernetes' own program: it has Kubernetes' own roles `system:kube-scheduler`, `system:volume-scheduler` and `extension-apiserver-authentication-reader`, and beside them:",
    ),
    ("carve-leave", "The Job of `helm uninstall`. Its account is made for it and deleted after it."),
    (
        "carve",
        "The role `carve-dashboard-viewer`, which the chart binds to nobody: give it to people who look with `carve top`. Other commands ask with whatever rights those have who type them.",
    ),
];

const OPENING: &str = "# Rights of carve's accounts

Every right that the chart gives, as Helm renders it with everything switched on. *Made by `cargo xtask permissions` from the chart's roles.*

The lab's API server writes down every call that carve's programs make in the suites. `cargo xtask suites` compares: a call without a right fails, and where all suites ran also a right
that no call needed, one that is wider than its use, and one that is granted twice. No rule has a star, and none reads Secrets beyond those named here.
";

/// The page. `own` are the rights with the chart's own values.
pub(crate) fn page(
    rules: &[Rule],
    own: &[Right],
    switched: &[Switched],
    unused: &[(String, &str)],
) -> String {
    let mut text = OPENING.to_owned();
    for (account, said) in ACCOUNTS {
        let title = if *account == "carve" { "People" } else { account };
        text.push_str(&format!(
            "\n## {title}\n\n{said}\n\n| right | of | where | with | for |\n|---|---|---|---|---|\n"
        ));
        for rule in rules.iter().filter(|rule| rule.rights.iter().any(|right| right.who == *account)) {
            text.push_str(&row(rule, own, switched));
        }
    }
    if !unused.is_empty() {
        text.push_str("\n## Granted, and not used in the suites\n\n| right | why |\n|---|---|\n");
        for (right, why) in unused {
            text.push_str(&format!("| {right} | {why} |\n"));
        }
    }
    text
}

fn row(rule: &Rule, own: &[Right], switched: &[Switched]) -> String {
    let mut verbs: Vec<&str> = Vec::new();
    // Resources with the only objects that are meant.
    let mut objects: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for right in &rule.rights {
        let group = if right.group.is_empty() { String::new() } else { format!(".{}", right.group) };
        let names = objects.entry(format!("`{}{group}`", right.resource)).or_default();
        if let Some(name) = right.name.as_deref().filter(|name| !names.contains(name)) {
            names.push(name);
        }
        if !verbs.contains(&right.verb.as_str()) {
            verbs.push(&right.verb);
        }
    }
    let objects: Vec<String> = objects
        .into_iter()
        .map(|(resource, names)| match names[..] {
            [] => resource,
            _ => format!(
                "{resource} {}",
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        })
        .collect();
    let place = match rule.rights.first().map(|right| right.scope) {
        Some(Scope::Own) => "its namespace",
        _ => "cluster",
    };
    let first = rule.rights.first();
    let there = |rights: &[Right]| first.is_some_and(|right| rights.contains(right));
    let switch = switched.iter().find(|switch| there(&switch.rights) != there(own));
    let with = switch.map(|switch| format!("`{}`", switch.shown)).unwrap_or_default();
    format!("| {} | {} | {place} | {with} | {} |\n", verbs.join(", "), objects.join(", "), rule.why)
}

#[cfg(test)]
mod tests {
    use super::{Switched, page};
    use crate::permissions::rules::rules;

    const ROLE: &str = "kind: Role
metadata: {name: carve-agent}
rules:
# What it says.
- apiGroups: [apps]
  resources: [daemonsets]
  resourceNames: [carve-agent]
  verbs: [get, delete]
---
kind: RoleBinding
roleRef: {kind: Role, name: carve-agent}
subjects: [{kind: ServiceAccount, name: carve-agent}]
";

    #[test]
    fn a_right_says_with_which_value_it_comes() {
        let rules = rules(ROLE, "carve").expect("rules");
        let rights: Vec<_> = rules.iter().flat_map(|rule| rule.rights.clone()).collect();
        let line = "| get, delete | `daemonsets.apps` `carve-agent` | its namespace |";
        let always = page(&rules, &rights, &[], &[]);
        assert!(always.contains(&format!("{line}  | What it says. |")), "{always}");
        let switch = Switched { shown: "a.b: c", rights };
        let sometimes = page(&rules, &[], &[switch], &[("a right".to_owned(), "a reason")]);
        assert!(sometimes.contains(&format!("{line} `a.b: c` | What it says. |")), "{sometimes}");
        assert!(sometimes.contains("| a right | a reason |"));
    }
}
