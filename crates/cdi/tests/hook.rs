//! The hook in containers that are ordinary, that lack things, and that attack it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod container;

use carve_cdi::hook::{CacheOutcome, HookArgs, HookError, run, state_of};
use carve_cdi::ld_cache::LdCache;
use container::Container;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

const CUDA: &[&str] = &[
    "--link",
    "libcuda.so.1::/usr/lib/libcuda.so",
    "--link",
    "libcuda.so.580.65.06::/usr/lib/libcuda.so.1",
    "--library",
    "libcuda.so.1::/usr/lib/libcuda.so.1",
    "--folder",
    "/usr/lib",
];

fn names(cache: &Path) -> Vec<(String, String)> {
    let cache = LdCache::parse(&fs::read(cache).unwrap()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    cache.entries().iter().map(|entry| (text(&entry.name), text(&entry.path))).collect()
}

#[test]
fn links_cache_and_folders_are_made_and_a_second_run_changes_nothing() {
    let container = Container::new().with_loader();
    let report = container.hook(CUDA).unwrap();
    assert_eq!((report.links_made, report.cache), (2, CacheOutcome::New));
    assert_eq!(fs::read_link(container.path("/usr/lib/libcuda.so")).unwrap(), Path::new("libcuda.so.1"));
    let cache = container.path("/etc/ld.so.cache");
    assert_eq!(names(&cache), [("libcuda.so.1".to_owned(), "/usr/lib/libcuda.so.1".to_owned())]);
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o644);
    let conf = container.path("/etc/ld.so.conf.d/00-carve-gpu.conf");
    assert_eq!(fs::read_to_string(conf).unwrap(), "/usr/lib\n");
    let inode = fs::metadata(&cache).unwrap().ino();
    let again = container.hook(CUDA).unwrap();
    assert_eq!((again.links_made, again.cache), (0, CacheOutcome::Unchanged));
    assert_eq!(fs::metadata(&cache).unwrap().ino(), inode);
    container.nothing_half_done();
}

#[test]
fn folders_for_links_are_made() {
    let container = Container::new();
    container.hook(&["--link", "../x.so.1::/opt/a/b/gbm/y.so"]).unwrap();
    assert_eq!(fs::read_link(container.path("/opt/a/b/gbm/y.so")).unwrap(), Path::new("../x.so.1"));
}

#[test]
fn a_container_without_glibc_gets_links_and_no_cache() {
    let container = Container::new();
    let report = container.hook(CUDA).unwrap();
    assert_eq!((report.links_made, report.cache), (2, CacheOutcome::NoGlibc));
    assert!(report.notes.iter().any(|note| note.contains("no glibc")), "{:?}", report.notes);
    assert!(!container.path("/etc/ld.so.cache").exists() && !container.path("/etc/ld.so.conf.d").exists());
}

#[test]
fn what_the_image_has_under_the_names_is_replaced() {
    let container = Container::new().with_loader();
    container.write("/usr/lib/libcuda.so.1", "a stub of the image");
    container.link("elsewhere", "/usr/lib/libcuda.so");
    assert_eq!(container.hook(CUDA).unwrap().links_made, 2);
    assert_eq!(
        fs::read_link(container.path("/usr/lib/libcuda.so.1")).unwrap(),
        Path::new("libcuda.so.580.65.06")
    );
    let folder = Container::new();
    fs::create_dir_all(folder.path("/usr/lib/libcuda.so.1/full")).unwrap();
    let error = folder.hook(CUDA).unwrap_err();
    assert!(matches!(&error, HookError::Write { path, .. } if path == "/usr/lib/libcuda.so.1"), "{error:?}");
    folder.nothing_half_done();
}

/// Every way in which a container may point a path that the hook writes at something outside.
#[test]
fn links_never_lead_out_of_the_container() {
    for (target, path) in [
        ("../outside", "/etc"),
        ("../outside", "/usr"),
        ("../../outside", "/usr/lib"),
        ("../../outside", "/etc/ld.so.conf.d"),
        ("../../outside/new-cache", "/etc/ld.so.cache"),
        ("../../../../../../../../../../OUT", "/etc"),
        ("OUT", "/etc"),
        ("OUT/new-cache", "/etc/ld.so.cache"),
        ("OUT/precious", "/etc/ld.so.cache"),
        ("OUT", "/etc/ld.so.conf.d"),
        ("OUT/precious", "/etc/ld.so.conf.d/00-carve-gpu.conf"),
        ("OUT", "/usr/lib"),
        ("OUT", "/usr"),
        ("OUT/precious", "/usr/lib/libcuda.so"),
        ("OUT/precious", "/etc/.ld.so.cache.carve"),
        ("OUT/precious", "/usr/lib/.libcuda.so.carve"),
        ("/proc/self/cwd", "/usr/lib"),
        ("/proc/1/root", "/etc"),
        ("/proc/self/root", "/usr"),
    ] {
        let container = Container::new().with_loader();
        let outside = container.outside();
        let _ = fs::remove_dir_all(container.path(path));
        container.link(&target.replace("OUT", outside.to_str().unwrap().trim_start_matches('/')), path);
        if target.starts_with("OUT") {
            // Absolute, as an attacker would write it.
            fs::remove_file(container.path(path)).unwrap();
            symlink(target.replace("OUT", outside.to_str().unwrap()), container.path(path)).unwrap();
        }
        // Whether it is done inside or refused is all one; what counts is that nothing happens elsewhere.
        let done = container.hook(CUDA);
        container.outside_is_untouched();
        container.nothing_half_done();
        // What was written stands under the container's root.
        if done.is_ok() && path == "/etc/ld.so.cache" {
            let cache = fs::symlink_metadata(container.path(path)).unwrap();
            assert!(cache.is_file(), "{target}: the link itself is replaced, not what it names");
        }
    }
}

#[test]
fn a_link_to_an_absolute_folder_is_one_inside() {
    let container = Container::new().with_loader();
    fs::remove_dir(container.path("/usr/lib")).unwrap();
    fs::create_dir_all(container.path("/real")).unwrap();
    container.link("/real", "/usr/lib");
    container.hook(CUDA).unwrap();
    assert!(fs::symlink_metadata(container.path("/real/libcuda.so")).unwrap().is_symlink());
}

#[test]
fn a_cache_that_would_block_or_hurt_does_neither() {
    let fifo = Container::new().with_loader();
    assert!(Command::new("mkfifo").arg(fifo.path("/etc/ld.so.cache")).status().unwrap().success());
    let report = fifo.hook(CUDA).unwrap();
    assert_eq!(report.cache, CacheOutcome::New);
    assert!(fs::symlink_metadata(fifo.path("/etc/ld.so.cache")).unwrap().is_file());

    let damaged = Container::new().with_loader();
    damaged.write("/etc/ld.so.cache", [0xff_u8; 4096]);
    let report = damaged.hook(CUDA).unwrap();
    assert_eq!(report.cache, CacheOutcome::New);
    assert!(report.notes.iter().any(|note| note.contains("no cache of glibc")));

    let huge = Container::new().with_loader();
    fs::File::create(huge.path("/etc/ld.so.cache")).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(huge.hook(CUDA), Err(HookError::Cache(_))), "a terabyte is not read");
}

#[test]
fn arguments_that_carve_never_writes_are_refused() {
    for args in [
        &["--link"][..],
        &["--link", "nothing"],
        &["--link", "::/usr/lib/x"],
        &["--link", "x::relative"],
        &["--link", "x::/usr/../../x"],
        &["--link", "x::/usr//x"],
        &["--link", "x::/"],
        &["--library", "x::/a/./b"],
        &["--folder", "/a\n/b"],
        &["--folder", ""],
        &["--run", "/bin/sh"],
    ] {
        let parsed = HookArgs::parse(args.iter().map(|arg| (*arg).to_owned()));
        assert!(matches!(parsed, Err(HookError::Arguments(_))), "{args:?}: {parsed:?}");
    }
}

#[test]
fn a_state_that_says_nothing_is_an_error_with_its_reason() {
    let container = Container::new();
    for state in ["", "{}", r#"{"bundle":7}"#, r#"{"bundle":"/nowhere/at/all"}"#] {
        assert!(
            matches!(run(state.as_bytes(), &HookArgs::default()), Err(HookError::State { .. })),
            "{state}"
        );
    }
    fs::write(container.bundle().join("config.json"), r#"{"root":{"path":"missing"}}"#).unwrap();
    let state = state_of(container.bundle());
    assert!(matches!(run(state.as_bytes(), &HookArgs::default()), Err(HookError::Root { .. })));
    // An absolute path of the root is one, too.
    let root = container.path("/");
    let config = format!(r#"{{"root":{{"path":{root:?}}}}}"#);
    fs::write(container.bundle().join("config.json"), config).unwrap();
    container.hook(CUDA).unwrap();
    assert!(fs::symlink_metadata(container.path("/usr/lib/libcuda.so")).unwrap().is_symlink());
}

/// What is mounted into a container belongs to somebody else: a volume is not written to.
#[test]
fn nothing_is_written_across_a_mount() {
    let (dev, shm) = (fs::metadata("/dev"), fs::metadata("/dev/shm"));
    if !matches!((dev, shm), (Ok(dev), Ok(shm)) if dev.dev() != shm.dev()) {
        return container::skip("/dev/shm is not a mount of its own here");
    }
    let container = Container::new();
    fs::write(container.bundle().join("config.json"), r#"{"root":{"path":"/dev"}}"#).unwrap();
    let name = container.bundle().file_name().unwrap().to_str().unwrap();
    let error = container.hook(&["--link", &format!("nothing::/shm/{name}")]).unwrap_err();
    assert!(fs::symlink_metadata(Path::new("/dev/shm").join(name)).is_err(), "it was written to");
    assert!(matches!(&error, HookError::Write { .. }) && error.to_string().contains("volume"), "{error:?}");
}
