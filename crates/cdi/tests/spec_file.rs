//! The CDI file on disk: whole, readable, written once, gone when there is nothing to say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_cdi::{SPEC_FILE, Written, write_spec};
use carve_formats::cdi::{Device, Spec};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn spec(name: &str) -> Spec {
    let device = Device { name: name.to_owned(), ..Device::default() };
    Spec { kind: "a/b".to_owned(), devices: vec![device], ..Spec::default() }
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn written_once_and_left_alone_while_it_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let cdi = folder.path().join("var/run/cdi");
    assert_eq!(write_spec(&cdi, &spec("one")).unwrap(), Written::New);
    let path = cdi.join(SPEC_FILE);
    let first = fs::metadata(&path).unwrap();
    assert_eq!(first.permissions().mode() & 0o777, 0o644);
    assert_eq!(write_spec(&cdi, &spec("one")).unwrap(), Written::Unchanged);
    assert_eq!(fs::metadata(&path).unwrap().ino(), first.ino());
    assert_eq!(write_spec(&cdi, &spec("two")).unwrap(), Written::New);
    assert_ne!(fs::metadata(&path).unwrap().ino(), first.ino(), "renamed into place, never written over");
    assert_eq!(Spec::parse(&fs::read_to_string(&path).unwrap()).unwrap(), spec("two"));
    assert_eq!(names(&cdi), [SPEC_FILE], "nothing is left beside it");
}

#[test]
fn without_a_device_there_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(write_spec(folder.path(), &Spec::default()).unwrap(), Written::Unchanged);
    write_spec(folder.path(), &spec("one")).unwrap();
    assert_eq!(write_spec(folder.path(), &Spec::default()).unwrap(), Written::Removed);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_a_crash_left_is_cleared_and_a_failure_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(format!(".{SPEC_FILE}.carve")), "half").unwrap();
    write_spec(folder.path(), &spec("one")).unwrap();
    assert_eq!(names(folder.path()), [SPEC_FILE]);

    let blocked = tempfile::tempdir().unwrap();
    fs::create_dir_all(blocked.path().join(SPEC_FILE).join("full")).unwrap();
    let error = write_spec(blocked.path(), &spec("one")).unwrap_err();
    assert!(error.to_string().contains(SPEC_FILE), "{error}");
    assert_eq!(names(blocked.path()), [SPEC_FILE]);
}
