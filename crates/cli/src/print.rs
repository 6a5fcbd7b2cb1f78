//! Puts data on stdout. A reader that closes the pipe early is not an error.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Writes text as it is.
pub(crate) fn out(text: &str) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("can not write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a value as JSON for people: indented, one final newline.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::of(&error))?;
    out(&format!("{text}\n"))
}

/// Writes a value as YAML.
pub(crate) fn yaml(value: &impl Serialize) -> Outcome {
    let text = serde_saphyr::to_string(value).map_err(|error| Failure::of(&error))?;
    out(&text)
}
