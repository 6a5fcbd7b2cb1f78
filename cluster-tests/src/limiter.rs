//! The limiter's library, as the tests' own command builds it.

use std::path::PathBuf;

/// Where it is; `None` (said aloud) where it was not built.
pub fn limiter_library() -> Option<PathBuf> {
    let found = std::env::var_os("CARVE_LIMITER_LIBRARY").map(PathBuf::from).filter(|path| path.exists());
    if found.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CARVE_LIMITER_LIBRARY must name the limiter");
        eprintln!("SKIPPED: CARVE_LIMITER_LIBRARY does not name the limiter (cargo xtask limiter builds it)");
    }
    found
}
