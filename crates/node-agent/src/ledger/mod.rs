//! What the machine costs, and who pays for it: looks where the door for use looks, keeps the books, and lays them open.
//!
//! ```text
//!   rows of use ──▶ interval: who has how much, and used how much of it ─┐
//!   file, Karpenter, price list ──▶ price ────────────────────────────────┼─▶ keeper ──▶ store: a file for each hour
//!                                                                         └─▶ desk ──▶ /api/v1/ledger, /metrics
//! ```

mod api;
mod desk;
mod interval;
mod keeper;
mod price;
mod store;

pub(crate) use api::routes;
pub(crate) use desk::Desk;
pub(crate) use keeper::CostRows;

use crate::metrics::Metrics;
use crate::usage::{MachineFacts, UsageRows};
use carve_economics::Price;
use carve_slicing::{Holder, NodeGpus};
use interval::gpus_now;
use keeper::{Keeper, Moment};
use price::{ASK_AGAIN, Pricing, ask_karpenter};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// Where prices come from, as the operator says.
#[derive(Debug, Clone, Default)]
pub struct PriceOptions {
    /// A file with prices that win over everything else.
    pub file: Option<PathBuf>,
    /// Where Karpenter serves its metrics.
    pub karpenter: Option<String>,
}

/// How often the operator's file is looked at.
const LOOK_AT_FILE: Duration = Duration::from_secs(10);

/// The accountant of a machine.
#[derive(Debug)]
pub(crate) struct Accountant {
    keeper: Keeper,
    pricing: Pricing,
    karpenter: Option<String>,
    metrics: Arc<Metrics>,
    started: Instant,
    file_looked_at: Option<Instant>,
    asked: Option<(Instant, MachineFacts)>,
    asking: Option<JoinHandle<Result<Option<Price>, String>>>,
}

impl Accountant {
    pub(crate) fn new(node: String, desk: Arc<Desk>, options: &PriceOptions, metrics: Arc<Metrics>) -> Self {
        Accountant {
            keeper: Keeper::new(node, desk),
            pricing: Pricing::new(options.file.clone()),
            karpenter: options.karpenter.clone(),
            metrics,
            started: Instant::now(),
            file_looked_at: None,
            asked: None,
            asking: None,
        }
    }

    /// Writes down how it is now.
    pub(crate) async fn look(
        &mut self,
        rows: &UsageRows,
        node: &NodeGpus,
        sick: &BTreeSet<String>,
        machine: &MachineFacts,
        workload: impl Fn(&Holder) -> String,
    ) {
        if self.file_looked_at.is_none_or(|looked| looked.elapsed() >= LOOK_AT_FILE) {
            self.file_looked_at = Some(Instant::now());
            self.pricing.look_at_file();
        }
        self.ask_karpenter(machine).await;
        let gpus = gpus_now(rows, node, sick, workload);
        self.keeper.look(gpus, self.pricing.of(machine), self.moment());
        self.metrics.cost(self.keeper.rows());
    }

    /// What the machine costs in an hour, as far as that is known.
    pub(crate) fn dollars_per_hour(&self, machine: &MachineFacts) -> Option<f64> {
        self.pricing.of(machine).price.map(|price| price.per_hour.micros() as f64 / 1e6)
    }

    fn moment(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let up = std::fs::read_to_string("/proc/uptime").ok();
        let up = up.and_then(|text| text.split('.').next()?.parse().ok()).unwrap_or(0);
        Moment {
            millis: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            wall: i64::try_from(wall).unwrap_or(i64::MAX),
            up,
        }
    }

    /// Asks now and then, and never waits for the answer but once, at the start.
    async fn ask_karpenter(&mut self, machine: &MachineFacts) {
        let Some(url) = &self.karpenter else { return };
        let again = |(at, of): &(Instant, MachineFacts)| at.elapsed() >= ASK_AGAIN || of != machine;
        let first = self.asked.is_none();
        if self.asking.is_none() && self.asked.as_ref().is_none_or(again) && !machine.instance_type.is_empty()
        {
            let (url, of) = (url.clone(), machine.clone());
            self.asking = Some(tokio::task::spawn_blocking(move || ask_karpenter(&url, &of)));
            self.asked = Some((Instant::now(), machine.clone()));
        }
        let Some(asking) = self.asking.take_if(|asking| first || asking.is_finished()) else { return };
        match asking.await {
            Ok(Ok(price)) => self.pricing.learn_karpenter(machine.clone(), price),
            Ok(Err(why)) => {
                tracing::warn!(why, "Karpenter does not say what this machine costs; it is asked again");
            }
            Err(_) => {}
        }
    }
}
