//! Reads the files of a simulation: bounded, unpacked where they are packed, with the file's name in every error.

use crate::failure::{Failure, UNREADABLE};
use crate::input::shown;
use carve_simulator::TraceError;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Larger than any trace; what is larger is refused before it is read.
const MOST_BYTES: u64 = 512 << 20;

/// A failure to read a file.
pub(crate) fn unreadable(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure { code: UNREADABLE, ..Failure::new(format!("{}: {what}", shown(path))) }
}

/// An error in what a file says.
pub(crate) fn wrong(path: &Path, error: &TraceError) -> Failure {
    unreadable(path, error)
}

/// The text of a file, unpacked if gzip packed it.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    bounded(path, MOST_BYTES)
}

fn bounded(path: &Path, most: u64) -> Result<String, Failure> {
    let refuse = |what: String| unreadable(path, what);
    let too_large = || refuse(format!("larger than {} MiB; simulate it in parts", most >> 20));
    let file: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        let cannot_open = |error: std::io::Error| refuse(format!("can not open it: {error}"));
        let about = std::fs::metadata(path).map_err(cannot_open)?;
        if about.is_dir() {
            return Err(refuse("a folder; name the file in it that holds the trace".to_owned()));
        }
        if about.len() > most {
            return Err(too_large());
        }
        Box::new(std::fs::File::open(path).map_err(cannot_open)?)
    };
    let cannot_read = |error: std::io::Error| refuse(format!("can not read it: {error}"));
    let mut bytes = Vec::new();
    // A pipe or a file that grows has no size to look at beforehand.
    file.take(most + 1).read_to_end(&mut bytes).map_err(cannot_read)?;
    if bytes.len() as u64 <= most && bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        let unpacked = flate2::read::MultiGzDecoder::new(&packed[..]).take(most + 1).read_to_end(&mut bytes);
        unpacked
            .map_err(|error| refuse(format!("begins like a gzip file, but can not be unpacked: {error}")))?;
    }
    if bytes.len() as u64 > most {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refuse(format!("not text (first wrong byte at offset {at}); a trace is CSV or JSON in UTF-8"))
    })
}

/// Where the nodes are if nobody says: beside the trace, under a usual name.
pub(crate) fn nodes_beside(trace: &Path) -> Option<PathBuf> {
    let folder = trace.parent()?;
    ["openb_node_list_gpu_node.csv", "nodes.csv"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::bounded;
    use std::io::Write;

    fn written(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("carve-files-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn packed_files_are_unpacked_and_large_ones_refused_packed_or_not() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&[b'a'; 1000]).unwrap();
        let packed = packer.finish().unwrap();
        assert!(packed.len() < 100);
        let packed = written("packed.gz", &packed);
        assert_eq!(bounded(&packed, 1000).unwrap(), "a".repeat(1000));
        let refused = bounded(&packed, 999).unwrap_err();
        assert!(refused.message.contains("larger than"), "{}", refused.message);
        let plain = written("plain", &[b'a'; 1000]);
        assert_eq!(bounded(&plain, 1000).unwrap().len(), 1000);
        assert!(bounded(&plain, 999).is_err());
        let half = written("half.gz", &[0x1f, 0x8b, 8, 0, 1]);
        assert!(bounded(&half, 999).unwrap_err().message.contains("unpacked"));
        for path in [packed, plain, half] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
