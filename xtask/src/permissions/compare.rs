//! What is granted against what is called: nothing may be missing, and nothing may be left over.

use super::calls::{ANY, Call, Place};
use super::rules::{Right, Scope};
use std::collections::BTreeSet;

/// A right that is granted although no suite uses it, and why; or a call that is made although it is not granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Excuse {
    pub(crate) who: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) why: &'static str,
    /// Whether it may be used all the same: where that depends on how long a run takes.
    pub(crate) sometimes: bool,
}

impl std::fmt::Display for Excuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        write!(f, "{}: {} {}{group}", self.who, self.verb, self.resource)
    }
}

impl Excuse {
    fn covers_right(&self, right: &Right) -> bool {
        (self.who, self.verb, self.group, self.resource)
            == (&right.who, &right.verb, &right.group, &right.resource)
    }

    fn covers_call(&self, call: &Call) -> bool {
        (self.who, self.verb, self.group, self.resource)
            == (&call.who, &call.verb, &call.group, &call.resource)
    }
}

/// What everybody who is somebody may do in any cluster.
const EVERYBODY: &[(&str, &str, &str)] = &[
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
    ("create", "authentication.k8s.io", "selfsubjectreviews"),
];

/// Whether a right allows a call.
pub(crate) fn allows(right: &Right, call: &Call) -> bool {
    let same = (&right.who, &right.verb, &right.group, &right.resource)
        == (&call.who, &call.verb, &call.group, &call.resource);
    let there = right.scope == Scope::Cluster || matches!(call.place, Place::Own | Place::Some);
    let named = right.name.is_none() || right.name == call.name || call.name.as_deref() == Some(ANY);
    same && there && named
}

/// Calls that nothing allows, of those whose calls the chart is to allow.
pub(crate) fn not_granted(
    rights: &[Right],
    calls: &BTreeSet<Call>,
    held: &[&str],
    known: &[Excuse],
) -> Vec<String> {
    let everybodys =
        |call: &Call| EVERYBODY.contains(&(call.verb.as_str(), call.group.as_str(), call.resource.as_str()));
    let missing = calls.iter().filter(|call| {
        held.contains(&call.who.as_str())
            && !everybodys(call)
            && !rights.iter().any(|right| allows(right, call))
            && !known.iter().any(|excuse| excuse.covers_call(call))
    });
    missing.map(|call| format!("{call}: called, and the chart does not grant it")).collect()
}

/// Rights that nothing needs: never used, wider than their use, or granted by another one already. `excused` are known and must stay unused.
pub(crate) fn left_over(rights: &[Right], calls: &BTreeSet<Call>, excused: &[Excuse]) -> Vec<String> {
    let mut found = granted_twice(rights);
    for right in rights {
        let uses: Vec<&Call> = calls.iter().filter(|call| allows(right, call)).collect();
        let excuse = excused.iter().find(|excuse| excuse.covers_right(right));
        let wide = uses.iter().any(|call| call.place != Place::Own);
        match (uses.is_empty(), excuse) {
            (true, None) => found.push(format!("{right}: granted, and never used")),
            (false, Some(excuse)) if !excuse.sometimes => {
                found.push(format!(
                    "{right}: used, and excused as unused ('{}'): take the excuse away",
                    excuse.why
                ));
            }
            (false, None) if right.scope == Scope::Cluster && !wide => {
                found.push(format!("{right}: granted everywhere, and used in the release's namespace only"));
            }
            _ => {}
        }
    }
    for excuse in excused.iter().filter(|excuse| !rights.iter().any(|right| excuse.covers_right(right))) {
        found.push(format!("{excuse}: excused, and not granted"));
    }
    found
}

/// Rights that another right includes.
fn granted_twice(rights: &[Right]) -> Vec<String> {
    let includes = |wide: &Right, right: &Right| {
        (&wide.who, &wide.verb, &wide.group, &wide.resource)
            == (&right.who, &right.verb, &right.group, &right.resource)
            && (wide.scope == Scope::Cluster || right.scope == Scope::Own)
            && (wide.name.is_none() || wide.name == right.name)
    };
    let mut found = Vec::new();
    for (number, right) in rights.iter().enumerate() {
        let mut others = rights.iter().enumerate().filter(|(other, _)| *other != number);
        if let Some((_, wide)) =
            others.find(|(other, wide)| includes(wide, right) && (*wide != right || *other < number))
        {
            found.push(format!("{right}: granted already by '{wide}'"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Excuse, left_over, not_granted};
    use crate::permissions::calls::{ANY, Call, Place};
    use crate::permissions::rules::{Right, Scope};
    use std::collections::BTreeSet;

    fn right(scope: Scope, verb: &str, name: Option<&str>) -> Right {
        Right {
            who: "agent".to_owned(),
            scope,
            group: String::new(),
            resource: "secrets".to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    fn call(place: Place, verb: &str, name: Option<&str>) -> Call {
        Call {
            who: "agent".to_owned(),
            verb: verb.to_owned(),
            group: String::new(),
            resource: "secrets".to_owned(),
            place,
            name: name.map(str::to_owned),
        }
    }

    fn missing(right: &Right, call: Call) -> usize {
        not_granted(std::slice::from_ref(right), &BTreeSet::from([call]), &["agent"], &[]).len()
    }

    #[test]
    fn a_call_needs_a_right_for_its_verb_its_place_and_its_name() {
        let own = right(Scope::Own, "get", Some("a"));
        assert_eq!(missing(&own, call(Place::Own, "get", Some("a"))), 0);
        assert_eq!(missing(&own, call(Place::Some, "get", Some("a"))), 0);
        assert_eq!(missing(&own, call(Place::Own, "get", Some(ANY))), 0);
        assert_eq!(missing(&own, call(Place::Own, "update", Some("a"))), 1);
        assert_eq!(missing(&own, call(Place::Own, "get", Some("b"))), 1);
        assert_eq!(missing(&own, call(Place::Own, "get", None)), 1);
        assert_eq!(missing(&own, call(Place::Elsewhere, "get", Some("a"))), 1);
        assert_eq!(missing(&own, call(Place::Cluster, "get", Some("a"))), 1);
        let everywhere = right(Scope::Cluster, "get", None);
        assert_eq!(missing(&everywhere, call(Place::Elsewhere, "get", Some("a"))), 0);
        assert_eq!(missing(&everywhere, call(Place::Cluster, "get", None)), 0);
        // People's calls are theirs.
        let calls = BTreeSet::from([call(Place::Own, "delete", None)]);
        assert!(not_granted(&[], &calls, &["controller"], &[]).is_empty());
    }

    #[test]
    fn what_is_not_used_is_too_wide_or_is_there_twice_is_left_over() {
        let none = BTreeSet::new();
        let own = right(Scope::Own, "get", None);
        assert!(left_over(std::slice::from_ref(&own), &none, &[])[0].contains("never used"));
        let calls = BTreeSet::from([call(Place::Own, "get", Some("a"))]);
        assert!(left_over(std::slice::from_ref(&own), &calls, &[]).is_empty());
        let everywhere = right(Scope::Cluster, "get", None);
        assert!(left_over(std::slice::from_ref(&everywhere), &calls, &[])[0].contains("namespace only"));
        let there =
            BTreeSet::from([call(Place::Elsewhere, "get", Some("a")), call(Place::Own, "get", Some("a"))]);
        assert!(left_over(std::slice::from_ref(&everywhere), &there, &[]).is_empty());
        let twice = left_over(&[everywhere, own.clone()], &there, &[]);
        assert!(twice.len() == 1 && twice[0].contains("granted already"), "{twice:?}");
        assert_eq!(left_over(&[own.clone(), own], &calls, &[]).len(), 1);
    }

    #[test]
    fn an_excuse_counts_while_it_is_true() {
        let excuse = Excuse {
            who: "agent",
            verb: "get",
            group: "",
            resource: "secrets",
            why: "nobody can try it",
            sometimes: false,
        };
        let own = right(Scope::Own, "get", None);
        assert!(left_over(std::slice::from_ref(&own), &BTreeSet::new(), &[excuse]).is_empty());
        let calls = BTreeSet::from([call(Place::Own, "get", Some("a"))]);
        assert!(left_over(std::slice::from_ref(&own), &calls, &[excuse])[0].contains("take the excuse away"));
        let sometimes = Excuse { sometimes: true, ..excuse };
        for calls in [&calls, &BTreeSet::new()] {
            assert!(left_over(std::slice::from_ref(&own), calls, &[sometimes]).is_empty());
        }
        assert!(left_over(&[], &calls, &[excuse])[0].contains("not granted"));
        assert!(not_granted(&[], &calls, &["agent"], &[excuse]).is_empty());
    }
}
