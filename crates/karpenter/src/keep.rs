//! What a cluster has of Karpenter's objects beside what policies want of it: what is written, and what goes.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Label of our objects: the policy that they are made for. What does not have it is somebody else's.
pub const POLICY: &str = "carve.dev/policy";
/// Annotation: what was written last, in a number, so that what is not wanted any more is noticed.
pub const WRITTEN: &str = "carve.dev/written";
/// Annotation of a NodePool that goes when its policy does.
pub const REMOVE: &str = "carve.dev/remove-with-policy";

/// A kind of Karpenter's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What is told of machines.
    NodeOverlay,
    /// Which machines may come.
    NodePool,
}

/// An object by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

/// What a policy wants there to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Want {
    /// The policy; its NodePool has the same name.
    pub policy: String,
    /// NodeOverlays, and after them the NodePool.
    pub documents: Vec<Value>,
    /// Whether the NodePool, and with it its machines, goes when nobody wants it any more.
    pub remove: bool,
}

/// What there is, by name.
#[derive(Debug, Clone, Copy)]
pub struct There<'a> {
    /// NodePools.
    pub pools: &'a BTreeMap<String, Value>,
    /// NodeOverlays.
    pub overlays: &'a BTreeMap<String, Value>,
}

/// What is to be done for one policy, in this order. Where something can not be written, the rest waits: a pool that comes before its
/// overlays brings too many machines, and so does one that outlives them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicySteps {
    /// The policy.
    pub policy: String,
    /// What is written.
    pub apply: Vec<Value>,
    /// What goes after that.
    pub delete: Vec<Named>,
    /// Objects of names that are needed, which are somebody else's. Nothing is written then.
    pub taken: Vec<Named>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Steps {
    /// For every policy about which there is something to do or to say.
    pub policies: Vec<PolicySteps>,
    /// NodePools of ours that nobody wants any more and that stay: with a NodePool its machines go, and what runs on them.
    pub left: Vec<String>,
}

/// What is to be done so that the cluster has what policies want. Of policies that are `held` nothing is touched: what they want is not
/// known.
pub fn keep(wants: &[Want], held: &BTreeSet<String>, there: There<'_>) -> Steps {
    let mut steps = Steps::default();
    for want in wants.iter().filter(|want| !held.contains(&want.policy)) {
        let of_one = keep_one(want, there);
        if of_one != (PolicySteps { policy: want.policy.clone(), ..PolicySteps::default() }) {
            steps.policies.push(of_one);
        }
    }
    let wanted = |policy: &str| wants.iter().any(|want| want.policy == policy) || held.contains(policy);
    for (name, pool) in there.pools {
        let Some(policy) = owner(pool).filter(|policy| !wanted(policy)) else { continue };
        if is_going(pool) {
            continue;
        }
        if pool["metadata"]["annotations"][REMOVE] == "true" {
            let delete = vec![Named { kind: Kind::NodePool, name: name.clone() }];
            steps.policies.push(PolicySteps { policy: policy.to_owned(), delete, ..PolicySteps::default() });
        } else {
            steps.left.push(name.clone());
        }
    }
    // Overlays stay as long as their pool does.
    let mut orphans: BTreeMap<&str, Vec<Named>> = BTreeMap::new();
    for (name, overlay) in there.overlays {
        let Some(policy) = owner(overlay).filter(|policy| !wanted(policy)) else { continue };
        if !there.pools.contains_key(policy) && !is_going(overlay) {
            orphans.entry(policy).or_default().push(Named { kind: Kind::NodeOverlay, name: name.clone() });
        }
    }
    let gone = |(policy, delete): (&str, Vec<Named>)| PolicySteps {
        policy: policy.to_owned(),
        delete,
        ..PolicySteps::default()
    };
    steps.policies.extend(orphans.into_iter().map(gone));
    steps
}

fn keep_one(want: &Want, there: There<'_>) -> PolicySteps {
    let mut steps = PolicySteps { policy: want.policy.clone(), ..PolicySteps::default() };
    let mut names = BTreeSet::new();
    for document in &want.documents {
        let named = named(document);
        let found = match named.kind {
            Kind::NodePool => there.pools.get(&named.name),
            Kind::NodeOverlay => there.overlays.get(&named.name),
        };
        let marked = marked(document, want);
        match found {
            Some(found) if owner(found) != Some(&want.policy) => steps.taken.push(named.clone()),
            // It comes again when it is gone.
            Some(found) if is_going(found) => {}
            Some(found) if is_as_written(found, &marked) => {}
            _ => steps.apply.push(marked),
        }
        names.insert(named);
    }
    let mine = there.overlays.iter().filter(|(_, overlay)| owner(overlay) == Some(&want.policy));
    for (name, overlay) in mine {
        let named = Named { kind: Kind::NodeOverlay, name: name.clone() };
        if !names.contains(&named) && !is_going(overlay) {
            steps.delete.push(named);
        }
    }
    if !steps.taken.is_empty() {
        steps.apply.clear();
        steps.delete.clear();
    }
    steps
}

fn named(document: &Value) -> Named {
    let kind = if document["kind"] == "NodePool" { Kind::NodePool } else { Kind::NodeOverlay };
    Named { kind, name: document["metadata"]["name"].as_str().unwrap_or_default().to_owned() }
}

fn owner(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][POLICY].as_str()
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The document as it is written: with whose it is, and with a number that says what all of it was.
fn marked(document: &Value, want: &Want) -> Value {
    let mut marked = document.clone();
    marked["metadata"]["labels"][POLICY] = want.policy.clone().into();
    if want.remove && document["kind"] == "NodePool" {
        marked["metadata"]["annotations"][REMOVE] = "true".into();
    }
    let number = format!("{:016x}", number_of(&marked));
    marked["metadata"]["annotations"][WRITTEN] = json!(number);
    marked
}

/// FNV-1a of the text: the same in every release, unlike the standard library's.
fn number_of(document: &Value) -> u64 {
    let step = |number: u64, byte: u8| (number ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    document.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Whether the same was written last, and nobody has changed it since. The API server adds defaults, which count for nothing.
fn is_as_written(found: &Value, marked: &Value) -> bool {
    let number = |object: &Value| object["metadata"]["annotations"][WRITTEN].clone();
    number(found) == number(marked)
        && ["metadata", "spec"].iter().all(|part| holds(&found[part], &marked[part]))
}

/// Whether one value says everything that another says.
fn holds(found: &Value, said: &Value) -> bool {
    match (found, said) {
        (Value::Object(found), Value::Object(said)) => {
            said.iter().all(|(key, value)| found.get(key).is_some_and(|found| holds(found, value)))
        }
        (Value::Array(found), Value::Array(said)) => {
            found.len() == said.len() && found.iter().zip(said).all(|(found, said)| holds(found, said))
        }
        _ => found == said,
    }
}
