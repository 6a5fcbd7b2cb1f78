//! The real loader in a real root finds a library through the cache that the hook wrote, and ldconfig reads that cache.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod container;

use carve_cdi::hook::CacheOutcome;
use carve_cdi::ld_cache::{LdCache, Machine};
use container::{Container, compile, skip};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = "int answer(void); int main(void) { return answer(); }";

/// A root with this machine's loader and C library, and a program that needs `libfoo.so.1`, which no usual folder has.
fn with_program() -> Option<Container> {
    let container = Container::new();
    compile(
        "int answer(void) { return 42; }",
        &container.path("/odd/place/libfoo.so.1.0"),
        &["-shared", "-fPIC", "-Wl,-soname,libfoo.so.1"],
    )?;
    let library = container.path("/odd/place/libfoo.so.1.0");
    compile(PROGRAM, &container.path("/program"), &[library.to_str().unwrap()])?;
    let libc = Command::new("cc").arg("-print-file-name=libc.so.6").output().unwrap();
    let libc = String::from_utf8(libc.stdout).unwrap().trim().to_owned();
    for path in [Machine::this().expect("a known machine").loader(), &libc] {
        let inside =
            container.path(&fs::canonicalize(Path::new(path).parent().unwrap()).unwrap().to_string_lossy());
        fs::create_dir_all(&inside).unwrap();
        fs::copy(path, inside.join(Path::new(path).file_name().unwrap())).unwrap();
    }
    // A merged /usr, as this machine may have it.
    for folder in ["lib", "lib64"] {
        let target = Path::new("usr").join(folder);
        if fs::symlink_metadata(Path::new("/").join(folder)).is_ok_and(|found| found.is_symlink()) {
            fs::create_dir_all(container.path(target.to_str().unwrap())).unwrap();
            container.link(target.to_str().unwrap(), folder);
        }
    }
    Some(container)
}

fn run(container: &Container) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        skip("chroot needs root");
        return None;
    }
    let mut command = Command::new("chroot");
    command.arg(container.path("/")).arg("/program").env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Some(command.output().unwrap())
}

const FOO: &[&str] = &[
    "--link",
    "libfoo.so.1.0::/odd/place/libfoo.so.1",
    "--library",
    "libfoo.so.1::/odd/place/libfoo.so.1",
    "--folder",
    "/odd/place",
];

#[test]
fn the_loader_finds_the_library_through_our_cache() {
    let Some(container) = with_program() else { return };
    let Some(before) = run(&container) else { return };
    let message = String::from_utf8_lossy(&before.stderr).into_owned();
    assert!(
        before.status.code() == Some(127) && message.contains("libfoo.so.1"),
        "without the hook: {before:?}"
    );
    let report = container.hook(FOO).unwrap();
    assert_eq!(report.cache, CacheOutcome::New);
    let after = run(&container).unwrap();
    assert_eq!(after.status.code(), Some(42), "{after:?}");
    // It is the cache that does it, not the link.
    fs::remove_file(container.path("/etc/ld.so.cache")).unwrap();
    assert_eq!(run(&container).unwrap().status.code(), Some(127));
}

#[test]
fn our_library_wins_over_one_of_the_image_and_the_images_others_stay() {
    let Some(container) = with_program() else { return };
    for (name, value) in [("libfoo.so.1", 13), ("libbar.so.1", 1)] {
        let source = format!("int answer(void) {{ return {value}; }}");
        let soname = format!("-Wl,-soname,{name}");
        compile(&source, &container.path(&format!("/image/{name}")), &["-shared", "-fPIC", &soname]).unwrap();
    }
    let mut cache = LdCache::default();
    let machine = Machine::this().unwrap();
    for name in ["libfoo.so.1", "libbar.so.1"] {
        cache.put(machine, name, &format!("/image/{name}"));
    }
    container.write("/etc/ld.so.cache", cache.to_bytes());
    let Some(before) = run(&container) else { return };
    assert_eq!(before.status.code(), Some(13), "the image's own library: {before:?}");
    assert_eq!(container.hook(FOO).unwrap().cache, CacheOutcome::Changed);
    assert_eq!(run(&container).unwrap().status.code(), Some(42));
    let lines = listed(&container.path("/etc/ld.so.cache"));
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("libfoo.so.1 ") && line.ends_with("=> /odd/place/libfoo.so.1"))
    );
    assert!(
        lines.iter().any(|line| line.starts_with("libbar.so.1 ") && line.ends_with("=> /image/libbar.so.1"))
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
}

/// What ldconfig lists of a cache.
fn listed(cache: &Path) -> Vec<String> {
    let path = "/sbin:/usr/sbin:/usr/bin:/bin";
    let output = Command::new("ldconfig").env("PATH", path).arg("-p").arg("-C").arg(cache).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.strip_prefix('\t')?.to_owned())).collect()
}

/// Caches of both layouts, with libraries for processor features, written by ldconfig and then by us.
#[test]
fn what_ldconfig_wrote_is_kept_with_the_order_and_the_features() {
    let container = Container::new();
    for path in [
        "/l/liba.so.1",
        "/l/libb.so.10",
        "/l/libb.so.9",
        "/l/glibc-hwcaps/x86-64-v2/liba.so.1",
        "/l/glibc-hwcaps/x86-64-v3/liba.so.1",
    ] {
        let soname = format!("-Wl,-soname,{}", path.rsplit('/').next().unwrap());
        let Some(()) = compile("int x;", &container.path(path), &["-shared", "-fPIC", &soname]) else {
            return;
        };
    }
    if !rustix::process::geteuid().is_root() {
        return skip("ldconfig needs root to work in another root, and must not touch this machine");
    }
    container.write("/etc/ld.so.conf", "/l\n");
    let (theirs, ours) = (container.path("/theirs"), container.path("/ours"));
    let mut expected = Vec::new();
    for layout in ["new", "compat"] {
        let done = Command::new("ldconfig")
            .env("PATH", "/sbin:/usr/sbin:/usr/bin:/bin")
            .args(["-c", layout, "-X", "-C", "/theirs", "-r"])
            .arg(container.path("/"))
            .output();
        let Ok(done) = done else { return skip("no ldconfig here") };
        assert!(done.status.success(), "{done:?}");
        // ldconfig itself misreads the names of features in a file of both layouts; the newer one alone is the measure.
        if layout == "new" {
            expected = listed(&theirs);
        }
        let cache = LdCache::parse(&fs::read(&theirs).unwrap()).unwrap();
        fs::write(&ours, cache.to_bytes()).unwrap();
        assert!(listed(&ours) == expected, "{layout}: the lists differ");
        if Machine::this() == Some(Machine::X86_64) {
            let own =
                listed(&ours).into_iter().filter(|line| line.starts_with("liba.so.1 ")).collect::<Vec<_>>();
            assert!(
                own.len() == 3 && own.iter().any(|line| line.contains("hwcap: \"x86-64-v3\"")),
                "{own:?}"
            );
        }
    }
}
