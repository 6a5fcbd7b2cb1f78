//! The shared libraries that an executable needs, as the dynamic linker would find them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every library that the files need, and the dynamic linker itself, by absolute path.
pub(crate) fn needed_by(files: &[&Path]) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for file in files {
        let output = Command::new("ldd").arg(file).output()?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("ldd {}: {told}", file.display())));
        }
        found.extend(String::from_utf8_lossy(&output.stdout).lines().filter_map(path_in));
    }
    Ok(found)
}

/// `libc.so.6 => /lib/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`; the kernel's own has no path.
fn path_in(line: &str) -> Option<PathBuf> {
    let place = line.split_once("=>").map_or(line, |(_, place)| place);
    let place = place.split_whitespace().next()?;
    place.starts_with('/').then(|| PathBuf::from(place))
}

#[cfg(test)]
mod tests {
    use super::path_in;
    use std::path::PathBuf;

    #[test]
    fn lines_of_ldd() {
        assert_eq!(
            path_in("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)"),
            Some(PathBuf::from("/lib/libc.so.6"))
        );
        assert_eq!(path_in("\t/lib64/ld-linux.so.2 (0x00007f)"), Some(PathBuf::from("/lib64/ld-linux.so.2")));
        assert_eq!(path_in("\tlinux-vdso.so.1 (0x00007f)"), None);
        assert_eq!(path_in("\tlibgone.so => not found"), None);
    }
}
