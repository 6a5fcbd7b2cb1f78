//! The CDI files on disk: whole, readable, written once, gone when there is nothing to say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_cdi::{Written, remove_ours, write_all, write_spec};
use carve_formats::cdi::{ContainerEdits, Device, Hook, Spec};
use carve_slicing::{CdiClass, ClassSpecs};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// As NVIDIA's plugin calls it.
const SPEC_FILE: &str = "k8s.device-plugin.nvidia.com-gpu.json";

fn spec(name: &str) -> Spec {
    let device = Device { name: name.to_owned(), ..Device::default() };
    Spec { kind: "a/b".to_owned(), devices: vec![device], ..Spec::default() }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
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

fn beside(classes: &[CdiClass]) -> ClassSpecs {
    let specs = classes.iter().map(|class| (*class, Spec { kind: class.kind(), ..spec("all") })).collect();
    ClassSpecs { specs, absent: Vec::new() }
}

fn file(class: &str) -> String {
    format!("k8s.device-plugin.nvidia.com-{class}.json")
}

#[test]
fn a_file_for_every_class_and_none_for_one_that_is_not_asked_for_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let cdi = folder.path().join("cdi");
    write_all(&cdi, &spec("one"), &beside(&CdiClass::ALL[1..])).unwrap();
    assert_eq!(names(&cdi), ["gdrcopy", "gds", "gpu", "imex-channel", "mofed"].map(file));
    let gds = cdi.join(file("gds"));
    let text = fs::read_to_string(&gds).unwrap();
    assert_eq!(Spec::parse(&text).unwrap().kind, "k8s.device-plugin.nvidia.com/gds", "each its own content");
    let before = fs::metadata(&gds).unwrap().ino();

    // Files of others in the folder are none of ours, however alike they are called.
    fs::write(cdi.join("nvidia.com-gds.json"), "{}").unwrap();
    write_all(&cdi, &spec("two"), &beside(&[CdiClass::Gds])).unwrap();
    assert_eq!(names(&cdi), [file("gds"), file("gpu"), "nvidia.com-gds.json".to_owned()]);
    assert_eq!(fs::metadata(&gds).unwrap().ino(), before, "it says the same, so it is left alone");
    assert!(fs::read_to_string(cdi.join(SPEC_FILE)).unwrap().contains("two"));

    write_all(&cdi, &Spec::default(), &beside(&[])).unwrap();
    assert_eq!(names(&cdi), ["nvidia.com-gds.json"]);
}

/// A description whose hook is called with these words.
fn hooked(words: &[&str]) -> Spec {
    let args = words.iter().map(|word| (*word).to_owned()).collect();
    let hook = Hook {
        hook_name: "createContainer".to_owned(),
        path: "/bin/hook".to_owned(),
        args,
        ..Hook::default()
    };
    Spec { container_edits: ContainerEdits { hooks: vec![hook], ..ContainerEdits::default() }, ..spec("one") }
}

#[test]
fn our_files_are_taken_away_and_those_of_nvidias_plugin_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let cdi = folder.path();
    assert!(!remove_ours(cdi).unwrap(), "there are none");
    let theirs = hooked(&["nvidia-cdi-hook", "update-ldcache"]);
    write_all(cdi, &theirs, &beside(&[CdiClass::Gds])).unwrap();
    assert!(!remove_ours(cdi).unwrap());
    assert_eq!(names(cdi), [file("gds"), file("gpu")], "the same names, and not ours");
    fs::write(cdi.join(SPEC_FILE), "no description").unwrap();
    assert!(!remove_ours(cdi).unwrap());
    assert_eq!(names(cdi), [file("gds"), file("gpu")]);

    fs::write(cdi.join("vendor.com-nic.json"), "{}").unwrap();
    write_all(cdi, &hooked(&["carve", "cdi-hook"]), &beside(&[CdiClass::Gds])).unwrap();
    assert!(remove_ours(cdi).unwrap());
    assert_eq!(names(cdi), ["vendor.com-nic.json"]);
}

#[test]
fn one_file_that_can_not_be_written_does_not_hold_up_the_others() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(file("gdrcopy")).join("full")).unwrap();
    let error =
        write_all(folder.path(), &spec("one"), &beside(&[CdiClass::Gdrcopy, CdiClass::Mofed])).unwrap_err();
    assert_eq!(error.path, folder.path().join(file("gdrcopy")));
    assert_eq!(names(folder.path()), [file("gdrcopy"), file("gpu"), file("mofed")]);
}
