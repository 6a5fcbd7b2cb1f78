//! A container's bundle in a temporary folder, and a compiler for what is to run in it.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_cdi::hook::{HookArgs, HookError, HookReport, run, state_of};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A bundle with an empty root, and beside it a folder that nothing may touch.
pub(crate) struct Container {
    folder: tempfile::TempDir,
}

impl Container {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rootfs/etc", "rootfs/usr/lib", "outside"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("outside/precious"), "mine").unwrap();
        fs::write(folder.path().join("config.json"), r#"{"ociVersion":"1.0.2","root":{"path":"rootfs"}}"#)
            .unwrap();
        Container { folder }
    }

    pub(crate) fn bundle(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the container, as the host sees it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("rootfs").join(path.trim_start_matches('/'))
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), content).unwrap();
    }

    pub(crate) fn link(&self, target: &str, path: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        symlink(target, self.path(path)).unwrap();
    }

    /// Makes the root look as if it had glibc.
    pub(crate) fn with_loader(self) -> Self {
        self.write("/lib64/ld-linux-x86-64.so.2", "");
        self.write("/lib/ld-linux-aarch64.so.1", "");
        self
    }

    pub(crate) fn hook(&self, args: &[&str]) -> Result<HookReport, HookError> {
        let args = HookArgs::parse(args.iter().map(|arg| (*arg).to_owned()))?;
        run(state_of(self.bundle()).as_bytes(), &args)
    }

    /// Everything under the folder that nothing may touch, with what it is.
    #[track_caller]
    pub(crate) fn outside_is_untouched(&self) {
        let names: Vec<_> =
            fs::read_dir(self.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["precious"], "something was written outside of the container");
        assert_eq!(fs::read_to_string(self.outside().join("precious")).unwrap(), "mine");
    }

    /// No file of ours is left under the container's root but the ones meant to be there.
    #[track_caller]
    pub(crate) fn nothing_half_done(&self) {
        let output =
            Command::new("find").arg(self.folder.path()).args(["-name", ".*.carve"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    }
}

/// Says why a test does not run here; under `CI=true` that is a failure.
pub(crate) fn skip(why: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{why}, and CI must not skip");
    eprintln!("SKIPPED: {why}");
}

/// Compiles a C text; `None`, visibly, where there is no compiler.
pub(crate) fn compile(source: &str, out: &Path, options: &[&str]) -> Option<()> {
    let text = out.with_extension("c");
    fs::create_dir_all(out.parent().unwrap()).unwrap();
    fs::write(&text, source).unwrap();
    let done = Command::new("cc").arg("-o").arg(out).arg(&text).args(options).output();
    fs::remove_file(&text).unwrap();
    match done {
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Some(())
        }
        Err(_) => {
            skip("no C compiler here");
            None
        }
    }
}
