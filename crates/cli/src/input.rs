//! Reads the files that verbs are given, `-` being standard input.

use crate::failure::{Failure, UNREADABLE};
use std::io::Read;
use std::path::Path;

/// More than any of these files has; keeps a wrong path from filling the memory.
const MOST_BYTES: u64 = 16 << 20;

/// More than what a cluster of thousands of nodes prints or exports in a week.
const MOST_RECORDED: u64 = 1 << 30;

/// The text of a configuration file, or of standard input.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    read_up_to(path, MOST_BYTES, "16 MiB, which no configuration file is")
}

/// The text of what programs have recorded, which is larger.
pub(crate) fn read_recorded(path: &Path) -> Result<String, Failure> {
    read_up_to(path, MOST_RECORDED, "1 GiB; record fewer series, or in longer steps")
}

fn read_up_to(path: &Path, most: u64, beyond: &str) -> Result<String, Failure> {
    let shown = shown(path);
    let unreadable = |what: String| Failure { code: UNREADABLE, ..Failure::new(format!("{shown}: {what}")) };
    let mut bytes = Vec::new();
    let mut source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        let file =
            std::fs::File::open(path).map_err(|error| unreadable(format!("can not open it: {error}")))?;
        Box::new(file)
    };
    let read = source.by_ref().take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(format!("can not read it: {error}")))?;
    if bytes.len() as u64 > most {
        return Err(unreadable(format!("larger than {beyond}")));
    }
    String::from_utf8(bytes).map_err(|error| {
        unreadable(format!(
            "not UTF-8 text (first wrong byte at offset {})",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// A token from a file, for those who must know it.
pub(crate) fn token(path: &Path) -> Result<String, Failure> {
    let text = read(path)?.trim().to_owned();
    match text.len() {
        16.. => Ok(text),
        _ => {
            let words = format!("{}: a token has at least 16 letters", shown(path));
            Err(Failure { code: UNREADABLE, ..Failure::new(words) })
        }
    }
}

/// How a file is called in messages.
pub(crate) fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}
