//! The shared libraries that a program needs, as the loader of this machine finds them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every library that a program or library needs, and the loader itself, by absolute path; none for a static program.
pub fn libraries_of(file: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("can not start ldd: {error}"));
    let output = Command::new("ldd").arg(file).env("LC_ALL", "C").output().map_err(named)?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(library_in).collect())
    } else if told.contains("not a dynamic executable") {
        Ok(BTreeSet::new())
    } else {
        Err(io::Error::other(format!("ldd {}: {}", file.display(), told.trim())))
    }
}

/// `libc.so.6 => /lib/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`; the kernel's own has no path.
fn library_in(line: &str) -> Option<PathBuf> {
    let place = line.split_once("=>").map_or(line, |(_, place)| place);
    let place = place.split_whitespace().next()?;
    place.starts_with('/').then(|| PathBuf::from(place))
}

#[cfg(test)]
mod tests {
    use super::{libraries_of, library_in};
    use std::path::{Path, PathBuf};

    #[test]
    fn lines_of_ldd() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(library_in("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)"), path("/lib/libc.so.6"));
        assert_eq!(library_in("\t/lib64/ld-linux.so.2 (0x00007f)"), path("/lib64/ld-linux.so.2"));
        assert_eq!(library_in("\tlinux-vdso.so.1 (0x00007f)"), None);
        assert_eq!(library_in("\tlibgone.so => not found"), None);
    }

    #[test]
    fn a_program_needs_its_loader_and_a_file_that_is_not_there_is_told() {
        let own = std::env::current_exe().unwrap();
        let needed = libraries_of(&own).unwrap();
        assert!(needed.iter().any(|path| path.to_string_lossy().contains("libc.so")), "{needed:?}");
        assert!(needed.iter().all(|path| path.exists()), "{needed:?}");
        let absent = libraries_of(Path::new("/nowhere/program")).unwrap_err().to_string();
        assert!(absent.contains("/nowhere/program"), "{absent}");
    }
}
