//! Who pays for the machines: an entry a second for each, an hour to a page, kept in files.

use carve_economics::{
    Covered, GpuTime, Ledger, LedgerDocument, Millis, NodeTime, Price, PriceDocument, Prices, Rate, Span,
    Window,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const HOUR: i64 = 3600;
/// Hours that are kept.
const KEPT: i64 = 72;

/// A page: a machine in an hour.
#[derive(Debug, Clone, Default)]
struct Page {
    ledger: Ledger,
    span: Span,
    price: Option<PriceDocument>,
}

/// The books; cheap to clone.
#[derive(Debug, Clone)]
pub struct Books(Arc<Mutex<Shelf>>);

#[derive(Debug)]
struct Shelf {
    /// Where hours are kept, if anywhere.
    folder: Option<PathBuf>,
    /// By hour and machine.
    pages: BTreeMap<(i64, String), Page>,
    prices: Prices,
}

fn hour_of(seconds: i64) -> i64 {
    seconds - seconds.rem_euclid(HOUR)
}

impl Books {
    /// Opens the books in a folder. What does not read is left where it is, and said.
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let folder = folder.map(|folder| folder.join("ledger"));
        let mut pages = BTreeMap::new();
        let entries =
            folder.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
        for file in
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"))
        {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            match LedgerDocument::read_all(&text) {
                Ok(documents) => {
                    for document in documents {
                        let Ok(ledger) = document.ledger() else { continue };
                        let page = Page { ledger, span: document.span(), price: document.price.clone() };
                        pages.insert((hour_of(document.from), document.node.clone()), page);
                    }
                }
                Err(error) => {
                    tracing::warn!(file = %file.display(), %error, "an hour of the books does not read, and does not count");
                }
            }
        }
        Books(Arc::new(Mutex::new(Shelf { folder, pages, prices: Prices::default() })))
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a machine of a type costs.
    pub(crate) fn price(&self, kind: &str) -> Option<Price> {
        self.shelf().prices.of(kind)
    }

    /// Writes down how a machine was used for a while, until now.
    pub(crate) fn enter(&self, node: &str, kind: &str, gpus: Vec<GpuTime>, time: Millis, now: i64) {
        let price = self.price(kind);
        let mut shelf = self.shelf();
        let fresh = || Page { span: Span { from: now, until: now, ..Span::default() }, ..Page::default() };
        let page = shelf.pages.entry((hour_of(now), node.to_owned())).or_insert_with(fresh);
        let rate = price.as_ref().map_or(Rate::from_micros(0), |price| price.per_hour);
        page.ledger.add(&NodeTime { node: node.to_owned(), price: rate, time, gpus });
        page.span.until = page.span.until.max(now);
        if price.is_none() {
            page.span.unpriced.0 += time.0;
        }
        page.price = Some(PriceDocument {
            instance_type: kind.to_owned(),
            micros_per_hour: price.as_ref().map(|price| price.per_hour.micros()),
            source: price.map_or_else(String::new, |price| price.source),
        });
        let old = hour_of(now) - KEPT * HOUR;
        shelf.pages.retain(|(hour, _), _| *hour >= old);
    }

    /// Hours that have to do with a window, machine by machine.
    pub fn hours(&self, window: Window) -> Vec<LedgerDocument> {
        let shelf = self.shelf();
        let wanted = |hour: i64| hour + HOUR > window.from && hour < window.until;
        let pages = shelf.pages.iter().filter(|((hour, _), _)| wanted(*hour));
        pages
            .map(|((_, node), page)| LedgerDocument::of(&page.ledger, node, &page.span, page.price.clone()))
            .collect()
    }

    /// The same as one.
    pub fn covered(&self, window: Window) -> Covered {
        let mut covered = Covered::default();
        for document in self.hours(window) {
            // What was made a moment ago reads.
            let _ = covered.take(&document);
        }
        covered
    }

    /// Keeps this hour, and the one before in case it has just ended.
    pub(crate) fn save(&self, now: i64) {
        let Some(folder) = self.shelf().folder.clone() else { return };
        for hour in [hour_of(now) - HOUR, hour_of(now)] {
            let documents = self.hours(Window { from: hour, until: hour + 1 });
            let of_hour: Vec<&LedgerDocument> =
                documents.iter().filter(|one| hour_of(one.from) == hour).collect();
            if of_hour.is_empty() {
                continue;
            }
            let written = write(&folder, hour, &of_hour);
            if let Err(error) = written {
                tracing::warn!(%error, folder = %folder.display(), "the books can not be kept, and are lost when this ends");
            }
        }
    }
}

fn write(folder: &Path, hour: i64, documents: &[&LedgerDocument]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let beside = folder.join(format!("{hour}.new"));
    let mut file = std::fs::File::create(&beside)?;
    let list = serde_json::json!({"apiVersion": carve_economics::API_VERSION, "kind": "LedgerList", "items": documents});
    file.write_all(list.to_string().as_bytes())?;
    file.sync_data()?;
    std::fs::rename(&beside, folder.join(format!("{hour}.json")))
}
