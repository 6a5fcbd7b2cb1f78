//! Helpers that only tests and their tools use: where the fixtures are, a kubelet, sessions, the book's commands, pages of the reference, what a program needs, objects that are almost right.

pub mod book;
#[cfg(feature = "kubelet")]
mod kubelet;
mod libraries;
#[cfg(feature = "mangle")]
pub mod mangle;
#[cfg(feature = "kubelet")]
mod plugin_watcher;
pub mod reference;
mod session;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "kubelet")]
pub use kubelet::FakeKubelet;
pub use libraries::libraries_of;
#[cfg(feature = "kubelet")]
pub use plugin_watcher::PluginWatcher;
pub use session::check_session;

/// How long tests wait for what must come. Long, because machines are busy at times, and free where things come soon.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The path of a fixture that lives beside the checkout, or `None` (with a line on stderr) where it is absent.
///
/// Under `CI=true` an absent fixture is a failure, so that a test can not pass there by not running.
#[allow(clippy::panic, reason = "a test helper: the panic is the test's failure")]
pub fn fixtures(relative: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let path = root.join(relative);
    if path.exists() {
        return Some(path);
    }
    if std::env::var("CI").as_deref() == Ok("true") {
        panic!("fixture ../shared/fixtures/{relative} is absent, and CI must not skip");
    }
    eprintln!("SKIPPED: fixture ../shared/fixtures/{relative} is absent");
    None
}

/// The text of a fixture, or `None` where it is absent (see [`fixtures`]).
#[allow(clippy::panic, reason = "a test helper: the panic is the test's failure")]
pub fn fixture_text(relative: &str) -> Option<String> {
    let path = fixtures(relative)?;
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => panic!("cannot read {}: {error}", path.display()),
    }
}

/// The lines in which two texts differ, as people read them: what is gone, then what is new.
pub fn lines_that_differ(recorded: &str, now: &str) -> String {
    let recorded: BTreeSet<&str> = recorded.lines().collect();
    let now: BTreeSet<&str> = now.lines().collect();
    let gone = recorded.difference(&now).map(|line| format!("- {line}"));
    let new = now.difference(&recorded).map(|line| format!("+ {line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n")
}
