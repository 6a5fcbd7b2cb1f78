//! Files that are there whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file beside its place and puts it there when it is whole, so that neither a kill nor a full disk leaves half of one.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let written = (|| {
        let mut file = fs::File::create(beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(beside, path)
    })();
    if written.is_err() {
        // What could not be finished is no use to anybody; the error of the write is the one to tell.
        let _ = fs::remove_file(beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::put;

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.yaml");
        put(&path, b"old").unwrap();
        // Something that can not be written over stands where the new file would be written.
        let beside = folder.path().join("plan.yaml.new");
        std::fs::create_dir(&beside).unwrap();
        put(&path, b"new").unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        std::fs::remove_dir(&beside).unwrap();
        put(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
