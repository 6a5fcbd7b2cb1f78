//! What a dashboard is in front of: a cluster in one process, or a real one.

use carve_economics::{Covered, LedgerDocument, Window};
use carve_fleet_picture::Picture;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::watch;

/// What is behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Machines that are made up.
    Simulated,
    /// The machine that it runs on.
    Machine,
    /// A cluster.
    Cluster,
}

/// What it says of itself.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// What it is called.
    pub name: String,
    /// What is behind it.
    pub kind: Kind,
    /// The version of carve.
    pub version: &'static str,
    /// Whether anything may be changed here.
    pub may_change: bool,
    /// Since when it runs, in seconds since 1970.
    pub since: i64,
}

/// What is behind a dashboard.
pub trait Backend: Send + Sync + 'static {
    /// What it says of itself.
    fn about(&self) -> About;

    /// What people see, always the newest.
    fn seen(&self) -> watch::Receiver<Arc<Picture>>;

    /// Somebody looks now. Whoever has to ask others for what is seen asks them more often from then on.
    fn looked_at(&self) {}

    /// Somebody begins to look: done as soon as what is seen is of now, or that takes too long. Whether anything newer came.
    fn fresh(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Its objects.
    fn client(&self) -> kube::Client;

    /// The books of a window, machine by machine and hour by hour.
    fn ledgers(&self, window: Window) -> BoxFuture<'_, Result<Vec<LedgerDocument>, String>>;

    /// Who paid in a window.
    fn covered(&self, window: Window) -> BoxFuture<'_, Result<Covered, String>>;
}
