//! Where the books lie open: the keeper writes, whoever asks over HTTP reads.

use super::store::{HOUR, Store, hour_of};
use carve_economics::{LedgerDocument, Window};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The page of this hour, and the pages before it.
#[derive(Debug)]
pub(crate) struct Desk {
    store: Store,
    page: Mutex<Option<LedgerDocument>>,
    /// Whether it was said that nothing can be written.
    complained: Mutex<bool>,
}

impl Desk {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Desk { store: Store::new(state_dir), page: Mutex::new(None), complained: Mutex::new(false) }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    fn page(&self) -> MutexGuard<'_, Option<LedgerDocument>> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn show(&self, document: LedgerDocument) {
        *self.page() = Some(document);
    }

    /// Writes this hour's page to disk.
    pub(crate) fn save(&self) {
        let Some(document) = self.page().clone() else { return };
        let written = self.store.write(&document);
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Err(error), false) = (&written, *complained) {
            tracing::warn!(%error, "what the machine costs can not be written down and is lost when the agent ends");
        }
        *complained = written.is_err();
    }

    /// Hours that have to do with a window, in their order. Hours are whole: they are not cut at its ends.
    pub(super) fn hours(&self, window: Window) -> Vec<LedgerDocument> {
        let page = self.page().clone();
        let now = page.as_ref().map(|page| hour_of(page.from));
        let wanted = |hour: i64| hour + HOUR > window.from && hour < window.until;
        let before = self.store.hours().into_iter().filter(|hour| wanted(*hour) && Some(*hour) != now);
        let mut found: Vec<LedgerDocument> = before.filter_map(|hour| self.store.read(hour)).collect();
        found.extend(page.filter(|page| wanted(hour_of(page.from))));
        found
    }
}
