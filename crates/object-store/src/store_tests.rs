//! Objects survive, in any order of changes and wherever the file ends.

use super::{Act, Changed, Settings, Store, WriteError};
use crate::{Key, OpenError, Resource, Version, What};
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fs;

fn key(resource: &str, name: &str) -> Key {
    Key { resource: Resource(resource.to_owned()), namespace: "n".to_owned(), name: name.to_owned() }
}

fn put(store: &Store, name: &str, number: u64) -> Changed {
    let put = |_: Option<&Value>| Ok::<_, Infallible>(Act::Put(json!({"number": number})));
    store.change(&key("pods", name), put).expect("written")
}

fn delete(store: &Store, name: &str) -> Changed {
    store.change(&key("pods", name), |_| Ok::<_, Infallible>(Act::Delete)).expect("written")
}

fn held(store: &Store) -> Vec<(Key, Value)> {
    store.all().into_iter().map(|(key, object)| (key, Value::clone(&object))).collect()
}

#[test]
fn objects_are_there_again_with_their_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = {
        let store = Store::open(folder.path(), Settings::default()).expect("it opens");
        put(&store, "a", 1);
        put(&store, "b", 2);
        put(&store, "a", 3);
        delete(&store, "b");
        let taken = Store::open(folder.path(), Settings::default()).unwrap_err();
        assert!(matches!(taken, OpenError::Taken(_)), "{taken}");
        (store.version(), held(&store))
    };
    let mut store = Store::open(folder.path(), Settings::default()).expect("it opens again");
    assert_eq!(held(&store), before.1);
    assert_eq!(before.1[0].1, json!({"number": 3, "metadata": {"resourceVersion": "3"}}));
    // A version that was given away once is not given away again, not even when nothing is left.
    assert_eq!(store.version(), before.0);
    delete(&store, "a");
    for _ in 0..2 {
        drop(store);
        store = Store::open(folder.path(), Settings::default()).expect("it opens again");
    }
    assert_eq!((store.version(), held(&store)), (Version(before.0.0 + 1), Vec::new()));
}

#[test]
fn what_passes_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { passing: |resource| resource.0 == "events", ..Settings::default() };
    {
        let store = Store::open(folder.path(), settings).expect("it opens");
        let put = |_: Option<&Value>| Ok::<_, Infallible>(Act::Put(json!({})));
        store.change(&key("events", "e"), put).expect("kept");
        assert_eq!(store.list(&Resource("events".to_owned()), None).objects.len(), 1);
    }
    assert!(held(&Store::open(folder.path(), settings).expect("it opens")).is_empty());
}

#[test]
fn whoever_decides_sees_it_and_may_refuse() {
    let store = Store::in_memory(Settings::default());
    put(&store, "a", 1);
    let refused = store.change(&key("pods", "a"), |object| {
        assert_eq!(object.expect("it is there")["number"], 1);
        Err("no")
    });
    assert!(matches!(refused, Err(WriteError::Refused("no"))));
    assert_eq!(store.version(), Version(1));
    assert!(matches!(delete(&store, "none"), Changed::Nothing(None)));
}

#[test]
fn what_is_closed_changes_no_more_and_can_be_opened_by_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Settings::default()).expect("it opens");
    put(&store, "a", 1);
    store.close();
    let refused = store.change(&key("pods", "a"), |_| Ok::<_, Infallible>(Act::Delete));
    assert!(refused.is_err() && held(&store).len() == 1);
    assert_eq!(held(&Store::open(folder.path(), Settings::default()).expect("it opens again")), held(&store));
}

#[tokio::test]
async fn whoever_watches_sees_every_change_in_order_or_is_told() {
    let store = Store::in_memory(Settings { recent: 3, ..Settings::default() });
    put(&store, "a", 1);
    let mut watch = store.watch(Some(Resource("pods".to_owned())), None, Version(0)).expect("kept");
    put(&store, "a", 2);
    delete(&store, "a");
    let seen: Vec<(u64, What)> =
        watch.next().await.expect("kept").iter().map(|change| (change.version.0, change.what)).collect();
    assert_eq!(seen, [(1, What::Added), (2, What::Modified), (3, What::Deleted)]);
    let later = tokio::spawn(async move { watch.next().await.expect("kept").len() });
    put(&store, "b", 1);
    assert_eq!(later.await.expect("it ends"), 1);
    for number in 0..5 {
        put(&store, "b", number);
    }
    assert_eq!(store.watch(None, None, Version(3)).unwrap_err().oldest, Version(6));
    // A watch that was slow is told, too.
    let mut slow = store.watch(None, None, Version(6)).expect("kept");
    for number in 0..5 {
        put(&store, "c", number);
    }
    assert!(slow.next().await.is_err());
}

#[test]
fn a_line_in_the_middle_that_is_not_whole_is_said_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let store = Store::open(folder.path(), Settings::default()).expect("it opens");
        put(&store, "a", 1);
        put(&store, "b", 2);
    }
    let path = folder.path().join("objects.log");
    let text = fs::read_to_string(&path).expect("the log");
    let damaged = text.replacen("\"number\":1", "\"number\":7", 1);
    fs::write(&path, &damaged).expect("written");
    let error = Store::open(folder.path(), Settings::default()).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("move the file away"), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("the log"), damaged);
}

#[test]
fn an_end_that_is_not_whole_is_kept_beside() {
    let folder = tempfile::tempdir().expect("a folder");
    put(&Store::open(folder.path(), Settings::default()).expect("it opens"), "a", 1);
    let path = folder.path().join("objects.log");
    let mut bytes = fs::read(&path).expect("the log");
    bytes.extend(b"0123 half");
    fs::write(&path, &bytes).expect("written");
    assert_eq!(held(&Store::open(folder.path(), Settings::default()).expect("it opens")).len(), 1);
    assert_eq!(fs::read(folder.path().join("objects.log.cut")).expect("what was cut off"), b"0123 half");
}

#[test]
fn what_would_not_be_read_again_is_not_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = (0..125).fold(json!(1), |inner, _| json!([inner]));
    {
        let store = Store::open(folder.path(), Settings::default()).expect("it opens");
        let refused =
            store.change(&key("pods", "a"), |_| Ok::<_, Infallible>(Act::Put(json!({"deep": deep}))));
        assert!(refused.is_err_and(|error| error.to_string().contains("nested deeper")));
        put(&store, "b", 2);
    }
    assert_eq!(held(&Store::open(folder.path(), Settings::default()).expect("it opens")).len(), 1);
}

#[test]
fn a_log_that_is_worn_is_written_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = "x".repeat(100_000);
    let store = Store::open(folder.path(), Settings::default()).expect("it opens");
    for _ in 0..200 {
        let put = |_: Option<&Value>| Ok::<_, Infallible>(Act::Put(json!({"large": large})));
        store.change(&key("pods", "a"), put).expect("written");
    }
    let length = fs::metadata(folder.path().join("objects.log")).expect("the log").len();
    assert!(length < 5 << 20, "{length}");
    assert_eq!(store.version(), Version(200));
}

/// One of a few objects is put, or deleted.
type Step = (u8, Option<u16>);

fn walk(store: &Store, steps: &[Step]) {
    for (name, number) in steps {
        match number {
            Some(number) => put(store, &name.to_string(), u64::from(*number)),
            None => delete(store, &name.to_string()),
        };
    }
}

/// The last line but one was acknowledged: it must not go with the last one because the byte between them is wrong.
#[test]
fn two_lines_that_became_one_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("objects.log");
    let steps = [(1, Some(1000)), (1, None), (0, Some(1000))];
    walk(&Store::open(folder.path(), Settings::default()).expect("it opens"), &steps);
    let mut text = fs::read(&path).expect("the log");
    let ends: Vec<usize> = (0..text.len()).filter(|place| text[*place] == b'\n').collect();
    let [.., before, _] = ends[..] else { panic!("there are only {} lines", ends.len()) };
    text[before] = 11;
    fs::write(&path, &text).expect("written");
    let refused = Store::open(folder.path(), Settings::default());
    assert!(matches!(refused, Err(OpenError::Damaged { line, .. }) if line == ends.len() - 1), "{refused:?}");
    assert_eq!(fs::read(&path).expect("the log"), text, "nothing was touched");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_byte_is_wrong_nothing_before_it_is_lost(
        steps in prop::collection::vec((0_u8..4, prop::option::of(any::<u16>())), 1..12),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("objects.log");
        walk(&Store::open(folder.path(), Settings::default()).expect("it opens"), &steps);
        let whole = fs::read(&path).expect("the log");
        let mut mangled = whole.clone();
        let at = at.index(mangled.len());
        mangled[at] = byte;
        fs::write(&path, &mangled).expect("written");
        let line = 1 + whole[..at].iter().filter(|letter| **letter == b'\n').count();
        match Store::open(folder.path(), Settings::default()) {
            Ok(store) => {
                // It is as it was, or the line is the last and all before it are there.
                let changes = crate::read_log(&whole).expect("it was whole").changes;
                let last = whole.iter().filter(|letter| **letter == b'\n').count();
                let kept = if mangled == whole { changes.len() } else { changes.len().saturating_sub(1) };
                assert!(mangled == whole || line == last, "line {line} of {last} is gone without a word");
                let mut expected = std::collections::BTreeMap::new();
                for (key, object) in changes.into_iter().take(kept) {
                    match object {
                        Some(object) => expected.insert(key, object),
                        None => expected.remove(&key),
                    };
                }
                assert_eq!(held(&store), expected.into_iter().collect::<Vec<_>>());
            }
            Err(OpenError::Damaged { line: said, .. }) => {
                assert_eq!(said, line);
                assert_eq!(fs::read(&path).expect("the log"), mangled, "nothing was touched");
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn wherever_the_file_ends_it_is_what_was_after_some_change(
        steps in prop::collection::vec((0_u8..4, prop::option::of(any::<u16>())), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("objects.log");
        // Every state, by how long the file was then.
        let mut states = Vec::new();
        {
            let store = Store::open(folder.path(), Settings::default()).expect("it opens");
            states.push((0, held(&store)));
            for step in &steps {
                walk(&store, std::slice::from_ref(step));
                states.push((fs::metadata(&path).expect("the log").len(), held(&store)));
            }
        }
        let whole = fs::read(&path).expect("the log");
        let length = cut.index(whole.len() + 1);
        fs::write(&path, &whole[..length]).expect("cut");
        let store = Store::open(folder.path(), Settings::default()).expect("it opens");
        let expected = states.iter().rev().find(|(at, _)| *at <= length as u64).expect("the first");
        assert_eq!(held(&store), expected.1);
    }
}
