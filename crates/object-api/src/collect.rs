//! What belongs to something that is gone goes, too.

use crate::resources::{KINDS, Kind};
use crate::write::ended;
use carve_object_store::{Act, Changed, Key, Store};
use serde_json::Value;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

fn kind_of(key: &Key) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.resource() == key.resource)
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.filter_map(|owner| owner["uid"].as_str())
}

/// Ends an object as if somebody had deleted it.
fn end(store: &Store, key: &Key) -> Option<Arc<Value>> {
    let kind = kind_of(key)?;
    let decide = |object: Option<&Value>| {
        Ok::<_, Infallible>(object.map_or(Act::Leave, |object| ended(object, kind, None)))
    };
    match store.change(key, decide) {
        Ok(Changed::Deleted(object)) => Some(object),
        Ok(_) => None,
        Err(error) => {
            tracing::error!(%error, %key, "what belongs to nothing any more can not be taken away");
            None
        }
    }
}

/// Kinds of which something may be made for something else.
fn owns(object: &Value) -> bool {
    !matches!(object["kind"].as_str(), Some("Pod" | "Event" | "Lease" | "ConfigMap" | "Secret"))
}

/// Ends all that belonged to an object and to nobody else.
pub(crate) fn dependents(store: &Store, gone: &Value) {
    if !owns(gone) {
        return;
    }
    let Some(uid) = gone["metadata"]["uid"].as_str() else { return };
    let all = store.all();
    let there: BTreeSet<&str> =
        all.iter().filter_map(|(_, object)| object["metadata"]["uid"].as_str()).collect();
    for (key, object) in &all {
        let is_its = owners(object).any(|owner| owner == uid);
        if is_its && !owners(object).any(|owner| there.contains(owner)) {
            // One that only ends later may still own something, which goes with it.
            if let Some(gone) = end(store, key) {
                dependents(store, &gone);
            }
        }
    }
}

/// Ends all whose owners are gone: a process that was killed may have ended an owner and nothing else.
pub(crate) fn sweep(store: &Store) {
    let all = store.all();
    let there: BTreeSet<&str> =
        all.iter().filter_map(|(_, object)| object["metadata"]["uid"].as_str()).collect();
    let spaces: BTreeSet<&str> = all
        .iter()
        .filter(|(key, _)| key.resource.0 == "namespaces")
        .map(|(key, _)| key.name.as_str())
        .collect();
    for (key, object) in &all {
        let lost = owners(object).next().is_some() && !owners(object).any(|owner| there.contains(owner));
        let nowhere = !key.namespace.is_empty() && !spaces.contains(key.namespace.as_str());
        if nowhere {
            remove(store, key);
        } else if lost && let Some(gone) = end(store, key) {
            dependents(store, &gone);
        }
    }
}

fn remove(store: &Store, key: &Key) {
    if let Err(error) = store.change(key, |_| Ok::<_, Infallible>(Act::Delete)) {
        tracing::error!(%error, %key, "what is in a namespace that is gone can not be taken away");
    }
}

/// Takes away all that is in a namespace.
pub(crate) fn empty(store: &Store, namespace: &str) {
    for (key, _) in store.all().iter().filter(|(key, _)| key.namespace == namespace) {
        remove(store, key);
    }
}

/// Lets all that belonged to an object be.
pub(crate) fn orphan(store: &Store, gone: &Value) {
    let Some(uid) = gone["metadata"]["uid"].as_str() else { return };
    for (key, _) in store.all().iter().filter(|(_, object)| owners(object).any(|owner| owner == uid)) {
        let decide = |object: Option<&Value>| {
            let Some(mut object) = object.cloned() else { return Ok(Act::Leave) };
            if let Some(list) = object["metadata"]["ownerReferences"].as_array_mut() {
                list.retain(|owner| owner["uid"] != uid);
            }
            Ok::<_, Infallible>(Act::Put(object))
        };
        if let Err(error) = store.change(key, decide) {
            tracing::error!(%error, %key, "it can not be let alone");
        }
    }
}
