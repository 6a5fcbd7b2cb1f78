//! What the chart's roles grant, read from the manifests that Helm renders: one right at a time, with the comment that says what it is for.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;

/// Where a right counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Everywhere.
    Cluster,
    /// In the namespace of the release.
    Own,
}

/// One verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// The account that has it.
    pub(crate) who: String,
    pub(crate) scope: Scope,
    pub(crate) group: String,
    /// With its subresource, as roles write it.
    pub(crate) resource: String,
    /// The only object it counts for.
    pub(crate) name: Option<String>,
    pub(crate) verb: String,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        let name = self.name.as_ref().map(|name| format!(" '{name}'")).unwrap_or_default();
        let place = if self.scope == Scope::Own { " in the release's namespace" } else { "" };
        write!(f, "{}: {} {}{group}{name}{place}", self.who, self.verb, self.resource)
    }
}

/// The rule of a role, and what the comment above it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) rights: Vec<Right>,
    pub(crate) why: String,
}

/// Every rule of the roles in rendered manifests, in their order. A role that the chart binds to no account is `unbound`'s.
pub(crate) fn rules(manifests: &str, unbound: &str) -> Result<Vec<Rule>> {
    let texts: Vec<&str> = manifests.split("\n---\n").filter(|text| text.contains("kind: ")).collect();
    let documents = texts.iter().map(|text| Ok((*text, serde_saphyr::from_str::<Value>(text)?)));
    let documents = documents.collect::<Result<Vec<(&str, Value)>>>().context("what Helm renders")?;
    let bound: BTreeMap<(&str, &str), &str> = documents.iter().flat_map(|(_, one)| binding(one)).collect();
    let mut all = Vec::new();
    for (text, role) in &documents {
        let scope = match role["kind"].as_str() {
            Some("ClusterRole") => Scope::Cluster,
            Some("Role") => Scope::Own,
            _ => continue,
        };
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        let kind = role["kind"].as_str().unwrap_or_default();
        let who = bound.get(&(kind, name)).copied().unwrap_or(unbound);
        let written = role["rules"].as_array().cloned().unwrap_or_default();
        let whys = reasons(text).with_context(|| format!("{kind} {name}"))?;
        if whys.len() != written.len() {
            bail!("{kind} {name} has {} rules, and comments were read of {}", written.len(), whys.len());
        }
        for (rule, why) in written.iter().zip(whys) {
            let rights = rights(rule, who, scope).with_context(|| format!("{kind} {name}"))?;
            all.push(Rule { rights, why });
        }
    }
    Ok(all)
}

/// A role by kind and name, and the account that a binding gives it to.
fn binding(document: &Value) -> Option<((&str, &str), &str)> {
    document["kind"].as_str().filter(|kind| kind.ends_with("Binding"))?;
    let (role, subject) = (&document["roleRef"], &document["subjects"][0]);
    Some(((role["kind"].as_str()?, role["name"].as_str()?), subject["name"].as_str()?))
}

fn rights(rule: &Value, who: &str, scope: Scope) -> Result<Vec<Right>> {
    let list = |key: &str| -> Vec<String> {
        let words = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.map(str::to_owned).collect()
    };
    let names = list("resourceNames");
    let names: Vec<Option<String>> =
        if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    let mut found = Vec::new();
    for (group, resource, verb) in product(&list("apiGroups"), &list("resources"), &list("verbs")) {
        if [&group, &resource, &verb].iter().any(|word| word.contains('*')) {
            bail!("{who} may {verb} {resource} of '{group}': a star grants what nobody has thought of");
        }
        for name in names.clone() {
            let (who, group) = (who.to_owned(), group.clone());
            found.push(Right { who, scope, group, resource: resource.clone(), name, verb: verb.clone() });
        }
    }
    if found.is_empty() {
        bail!("a rule of {who} grants nothing: {rule}");
    }
    Ok(found)
}

fn product(groups: &[String], resources: &[String], verbs: &[String]) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for group in groups {
        for resource in resources {
            all.extend(verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
        }
    }
    all
}

/// What the comments above the rules say, one for each rule; a rule without one goes on with what the last one said.
fn reasons(role: &str) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in role.lines().skip_while(|line| *line != "rules:") {
        if let Some(words) = line.strip_prefix("# ") {
            comment.push(words.trim());
        } else if line.starts_with("- apiGroups:") {
            let said = if comment.is_empty() { all.last().cloned() } else { Some(comment.join(" ")) };
            all.push(said.context("no comment above its first rule says what it is for")?);
            comment.clear();
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{Scope, rules};

    const ROLE: &str = "# Source: carve/templates/x.yaml
kind: Role
metadata: {name: keeper}
rules:
# Its own, and
# nobody else's.
- apiGroups: [\"\"]
  resources: [secrets]
  resourceNames: [a, b]
  verbs: [get, update]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list]
---
kind: RoleBinding
roleRef: {kind: Role, name: keeper}
subjects: [{kind: ServiceAccount, name: who}]
---
kind: ClusterRole
metadata: {name: keeper}
rules:
# For people.
- apiGroups: [\"\"]
  resources: [pods/proxy]
  verbs: [get]
";

    #[test]
    fn every_verb_of_every_object_is_one_right() {
        let all = rules(ROLE, "people").expect("rules");
        let said: Vec<String> = all.iter().flat_map(|rule| &rule.rights).map(ToString::to_string).collect();
        let own = "in the release's namespace";
        let expected = [
            format!("who: get secrets 'a' {own}"),
            format!("who: get secrets 'b' {own}"),
            format!("who: update secrets 'a' {own}"),
            format!("who: update secrets 'b' {own}"),
            format!("who: list deployments.apps {own}"),
            "people: get pods/proxy".to_owned(),
        ];
        assert_eq!(said, expected);
        let whys: Vec<&str> = all.iter().map(|rule| rule.why.as_str()).collect();
        assert_eq!(whys, ["Its own, and nobody else's.", "Its own, and nobody else's.", "For people."]);
        assert_eq!(all[2].rights[0].scope, Scope::Cluster);
    }

    #[test]
    fn stars_and_rules_without_a_word_are_refused() {
        let star = ROLE.replace("[list]", "[\"*\"]");
        assert!(format!("{:#}", rules(&star, "people").expect_err("a star")).contains("nobody has thought"));
        let silent = ROLE.replace("# For people.\n", "");
        assert!(format!("{:#}", rules(&silent, "people").expect_err("no word")).contains("no comment"));
    }
}
