//! Ledgers on disk: a file for each hour, written beside and renamed, so that a killed agent leaves the old one or the new one.

use carve_economics::LedgerDocument;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Seconds of an hour.
pub(super) const HOUR: i64 = 3600;
/// How long ledgers are kept: a month and a bit.
const KEPT: i64 = 35 * 24 * HOUR;

/// The folder of them.
#[derive(Debug, Clone)]
pub(super) struct Store {
    folder: PathBuf,
}

/// The hour that a moment is in.
pub(super) fn hour_of(seconds: i64) -> i64 {
    seconds - seconds.rem_euclid(HOUR)
}

impl Store {
    pub(super) fn new(state_dir: &Path) -> Self {
        Store { folder: state_dir.join("ledger") }
    }

    fn file(&self, hour: i64) -> PathBuf {
        self.folder.join(format!("{hour}.json"))
    }

    /// Hours of which there is a ledger, in their order.
    pub(super) fn hours(&self) -> Vec<i64> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let hour = |name: &str| name.strip_suffix(".json")?.parse().ok();
        let mut hours: Vec<i64> = entries.filter_map(|entry| hour(entry.file_name().to_str()?)).collect();
        hours.sort_unstable();
        hours
    }

    /// The ledger of an hour. One that can not be read is put aside, so that it is neither counted nor lost.
    pub(super) fn read(&self, hour: i64) -> Option<LedgerDocument> {
        let file = self.file(hour);
        let text = fs::read_to_string(&file).ok()?;
        match LedgerDocument::read(&text).and_then(|document| document.ledger().map(|_| document)) {
            Ok(document) => Some(document),
            Err(error) => {
                let aside = file.with_extension("broken");
                let moved = fs::rename(&file, &aside);
                tracing::warn!(file = %aside.display(), %error, moved = moved.is_ok(), "an hour's ledger can not be read and is put aside");
                None
            }
        }
    }

    /// Writes the ledger of an hour, and forgets those that are too old.
    pub(super) fn write(&self, document: &LedgerDocument) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let hour = hour_of(document.from);
        let beside = self.folder.join(format!("{hour}.new"));
        let mut file = File::create(&beside)?;
        file.write_all(serde_json::to_string(document)?.as_bytes())?;
        file.sync_data()?;
        fs::rename(&beside, self.file(hour))?;
        for old in self.hours().into_iter().filter(|old| *old < hour - KEPT) {
            fs::remove_file(self.file(old))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{HOUR, KEPT, Store};
    use carve_economics::{Ledger, LedgerDocument, Span};

    fn document(from: i64) -> LedgerDocument {
        let span = Span { from, until: from + 60, ..Span::default() };
        LedgerDocument::of(&Ledger::default(), "a", &span, None)
    }

    #[test]
    fn hours_are_kept_for_a_month_and_what_is_broken_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::new(folder.path());
        let first = 500_000 * HOUR;
        store.write(&document(first + 17)).expect("it is written");
        store.write(&document(first + HOUR)).expect("it is written");
        assert_eq!(store.hours(), [first, first + HOUR]);
        assert_eq!(store.read(first).map(|document| document.from), Some(first + 17));
        std::fs::write(folder.path().join(format!("ledger/{}.json", first + HOUR)), "{")
            .expect("it is spoilt");
        assert_eq!(store.read(first + HOUR), None);
        assert_eq!(store.hours(), [first], "it is not counted");
        assert!(folder.path().join(format!("ledger/{}.broken", first + HOUR)).exists(), "and not lost");
        // What a killed agent had not finished is nothing.
        std::fs::write(folder.path().join(format!("ledger/{}.new", first + 2 * HOUR)), "{").expect("half");
        assert_eq!(store.hours(), [first]);
        store.write(&document(first + KEPT + 2 * HOUR)).expect("it is written");
        assert_eq!(store.hours(), [first + KEPT + 2 * HOUR]);
    }
}
