//! Keeps the books: an entry every few seconds and whenever somebody comes or goes, an hour to a page, and nothing forgotten when the agent is killed.

use super::desk::Desk;
use super::interval::{GpuNow, as_of, between, same, slices};
use super::store::{HOUR, hour_of};
use carve_economics::{
    Account, Bill, Ledger, LedgerDocument, Millis, NodeTime, Price, PriceDocument, Rate, Span,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often an entry is made while nothing changes.
const ENTRY: u64 = 5_000;
/// How often the page is written to disk.
const SAVE: u64 = 30_000;

/// A moment, by two clocks: one that only goes forward, and everybody's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Milliseconds since the agent began.
    pub(super) millis: u64,
    /// Seconds since 1970.
    pub(super) wall: i64,
    /// Seconds since the machine was started.
    pub(super) up: i64,
}

/// What the machine is and costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Priced {
    pub(crate) instance_type: String,
    pub(crate) price: Option<Price>,
}

impl Priced {
    fn document(&self) -> PriceDocument {
        PriceDocument {
            instance_type: self.instance_type.clone(),
            micros_per_hour: self.price.as_ref().map(|price| price.per_hour.micros()),
            source: self.price.as_ref().map_or_else(String::new, |price| price.source.clone()),
        }
    }

    fn rate(&self) -> Rate {
        self.price.as_ref().map_or(Rate::from_micros(0), |price| price.per_hour)
    }
}

/// What is told as series.
#[derive(Debug, Clone, Default)]
pub(crate) struct CostRows {
    pub(crate) node: String,
    pub(crate) priced: Priced,
    /// Since the agent began.
    pub(crate) total: Bill,
    /// Who has something now, since the agent began.
    pub(crate) present: BTreeMap<Account, Bill>,
}

#[derive(Debug)]
struct Look {
    millis: u64,
    gpus: Vec<GpuNow>,
}

/// The keeper.
#[derive(Debug)]
pub(super) struct Keeper {
    node: String,
    desk: Arc<Desk>,
    page: Page,
    /// Where the next entry begins.
    begin: Option<Look>,
    last: Option<Look>,
    priced: Priced,
    saved: u64,
    rows: CostRows,
}

/// An hour.
#[derive(Debug, Default)]
struct Page {
    ledger: Ledger,
    span: Span,
}

impl Keeper {
    pub(super) fn new(node: String, desk: Arc<Desk>) -> Self {
        let rows = CostRows { node: node.clone(), ..CostRows::default() };
        Keeper {
            node,
            desk,
            page: Page::default(),
            begin: None,
            last: None,
            priced: Priced::default(),
            saved: 0,
            rows,
        }
    }

    /// What is told now.
    pub(super) fn rows(&self) -> CostRows {
        self.rows.clone()
    }

    /// Looks at who has what and has used how much, at what price.
    pub(super) fn look(&mut self, mut gpus: Vec<GpuNow>, priced: Priced, at: Moment) {
        self.rows.priced = priced.clone();
        let Some(begin) = self.begin.take() else {
            self.priced = priced;
            self.open(at);
            self.begin = Some(Look { millis: at.millis, gpus: gpus.clone() });
            self.last = Some(Look { millis: at.millis, gpus });
            return;
        };
        let unchanged = same(&begin.gpus, &gpus);
        let turned = hour_of(at.wall) != hour_of(self.page.span.from);
        let due = at.millis.saturating_sub(begin.millis) >= ENTRY || turned || priced != self.priced;
        if unchanged && due {
            self.enter(&begin, &gpus, at.millis, at.wall);
            self.begin = Some(Look { millis: at.millis, gpus: gpus.clone() });
        } else if unchanged {
            self.begin = Some(begin);
        } else {
            // Whoever was there before was there until the last look; since then it is as it is now.
            let last = self.last.take().unwrap_or(Look { millis: begin.millis, gpus: begin.gpus.clone() });
            self.enter(&begin, &last.gpus, last.millis, at.wall);
            let mut since = gpus.clone();
            as_of(&mut since, &last.gpus);
            self.begin = Some(Look { millis: last.millis, gpus: since });
        }
        self.priced = priced;
        let present: Vec<&Account> = slices(&gpus).map(|slice| &slice.account).collect();
        self.rows.present.retain(|account, _| present.contains(&account));
        for account in present {
            self.rows.present.entry(account.clone()).or_default();
        }
        self.last = Some(Look { millis: at.millis, gpus: std::mem::take(&mut gpus) });
        if turned {
            self.save(at.millis);
            self.turn(at.wall);
        } else if at.millis.saturating_sub(self.saved) >= SAVE {
            self.save(at.millis);
        }
    }

    /// Writes down what happened since the last entry.
    fn enter(&mut self, begin: &Look, end: &[GpuNow], millis: u64, wall: i64) {
        let time = Millis(millis.saturating_sub(begin.millis));
        if time.0 == 0 {
            return;
        }
        let gpus = between(&begin.gpus, end, time);
        let entry = NodeTime { node: self.node.clone(), price: self.priced.rate(), time, gpus };
        let mut entered = Ledger::default();
        entered.add(&entry);
        for (_, owner, bill) in entered.rows() {
            self.rows.total += *bill;
            if let Some(account) = owner {
                *self.rows.present.entry(account.clone()).or_default() += *bill;
            }
        }
        self.page.ledger.merge(&entered);
        self.page.span.until = self.page.span.until.max(wall);
        if self.priced.price.is_none() {
            self.page.span.unpriced.0 += time.0;
        }
        self.show();
    }

    /// Goes on with what an agent before this one wrote, and accounts for the time in which there was none.
    fn open(&mut self, at: Moment) {
        let store = self.desk.store();
        let newest = store.hours().last().and_then(|hour| store.read(*hour));
        let newest = newest.filter(|newest| newest.node == self.node && newest.until <= at.wall);
        self.turn(at.wall);
        let Some(newest) = newest else { return self.save(at.millis) };
        // While the machine was off, it is not known to have cost anything.
        let mut from = newest.until.max(at.wall - at.up);
        while from < at.wall {
            let until = (hour_of(from) + HOUR).min(at.wall);
            let time = Millis(u64::try_from(until - from).unwrap_or(0) * 1000);
            self.unwatched(from, until, time, at.wall);
            from = until;
        }
        self.save(at.millis);
    }

    /// Nobody knows who had what: it is nobody's.
    fn unwatched(&mut self, from: i64, until: i64, time: Millis, now: i64) {
        let entry = NodeTime { node: self.node.clone(), price: self.priced.rate(), time, gpus: Vec::new() };
        let unpriced = if self.priced.price.is_none() { time.0 } else { 0 };
        if hour_of(from) == hour_of(now) {
            self.page.ledger.add(&entry);
            self.page.span.from = self.page.span.from.min(from);
            self.page.span.until = self.page.span.until.max(until);
            self.page.span.unpriced.0 += unpriced;
            return;
        }
        let store = self.desk.store();
        let before = store.read(hour_of(from));
        let mut page =
            before.and_then(|before| Some(Page { ledger: before.ledger().ok()?, span: before.span() }));
        let page = page.get_or_insert_with(|| Page {
            span: Span { from, until: from, unpriced: Millis(0) },
            ..Page::default()
        });
        page.ledger.add(&entry);
        page.span.until = until;
        page.span.unpriced.0 += unpriced;
        let document = LedgerDocument::of(&page.ledger, &self.node, &page.span, Some(self.priced.document()));
        if let Err(error) = store.write(&document) {
            tracing::warn!(%error, "an hour in which no agent ran can not be written down");
        }
    }

    /// The page of this hour: a new one, unless the hour was begun before, by an earlier agent or before the clock was set back.
    fn turn(&mut self, wall: i64) {
        let before = self.desk.store().read(hour_of(wall)).filter(|before| before.node == self.node);
        let before =
            before.and_then(|before| Some(Page { ledger: before.ledger().ok()?, span: before.span() }));
        self.page = before.unwrap_or_else(|| Page {
            span: Span { from: wall, until: wall, unpriced: Millis(0) },
            ..Page::default()
        });
        self.show();
    }

    fn show(&self) {
        let price = Some(self.priced.document());
        self.desk.show(LedgerDocument::of(&self.page.ledger, &self.node, &self.page.span, price));
    }

    fn save(&mut self, millis: u64) {
        self.saved = millis;
        self.show();
        self.desk.save();
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
