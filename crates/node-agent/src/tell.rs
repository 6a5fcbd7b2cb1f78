//! Tells the cluster what happens on the node: events once, conditions until the API server has them.
//!
//! Nobody waits for the API server. What is to be told goes into a queue; without an API server it is only logged.

use carve_cluster_api::{NodeApi, Tone};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long the same event is not told again.
const SILENCE: Duration = Duration::from_secs(300);
/// How long to wait before the API server is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// More events than this wait for an API server that is away; older ones are dropped.
const MOST_WAITING: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
enum News {
    Event { tone: Tone, reason: String, message: String },
    Condition { kind: &'static str, holds: bool, reason: String, message: String },
}

/// Where news go in.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    news: mpsc::UnboundedSender<News>,
}

impl Reporter {
    /// A reporter to the cluster, or to the log alone.
    pub(crate) fn start(api: Option<NodeApi>) -> Self {
        let (news, inbox) = mpsc::unbounded_channel();
        tokio::spawn(deliver(api, inbox));
        Reporter { news }
    }

    /// Something happened.
    pub(crate) fn event(&self, tone: Tone, reason: &str, message: impl Into<String>) {
        let message = message.into();
        match tone {
            Tone::Normal => tracing::info!(reason, "{message}"),
            Tone::Warning => tracing::warn!(reason, "{message}"),
        }
        let _ = self.news.send(News::Event { tone, reason: reason.to_owned(), message });
    }

    /// Something holds, or does not.
    pub(crate) fn condition(
        &self,
        kind: &'static str,
        holds: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        let (reason, message) = (reason.to_owned(), message.into());
        let _ = self.news.send(News::Condition { kind, holds, reason, message });
    }
}

async fn deliver(api: Option<NodeApi>, mut inbox: mpsc::UnboundedReceiver<News>) {
    let mut told: BTreeMap<(String, String), Instant> = BTreeMap::new();
    let mut conditions: BTreeMap<&'static str, News> = BTreeMap::new();
    let mut waiting: VecDeque<News> = VecDeque::new();
    loop {
        let news = if waiting.is_empty() {
            match inbox.recv().await {
                Some(news) => Some(news),
                None => return,
            }
        } else {
            tokio::time::timeout(RETRY, inbox.recv()).await.unwrap_or(None)
        };
        let Some(api) = &api else { continue };
        match news {
            Some(News::Event { tone, reason, message }) => {
                let key = (reason.clone(), message.clone());
                told.retain(|_, at| at.elapsed() < SILENCE);
                if told.insert(key, Instant::now()).is_none() {
                    waiting.push_back(News::Event { tone, reason, message });
                }
            }
            Some(condition @ News::Condition { kind, .. }) if conditions.get(kind) != Some(&condition) => {
                conditions.insert(kind, condition.clone());
                // Only the newest word about a condition counts.
                waiting.retain(|news| !matches!(news, News::Condition { kind: old, .. } if *old == kind));
                waiting.push_back(condition);
            }
            Some(News::Condition { .. }) | None => {}
        }
        while waiting.len() > MOST_WAITING {
            waiting.pop_front();
        }
        while let Some(news) = waiting.front() {
            let sent = match news {
                News::Event { tone, reason, message } => api.tell(*tone, reason, message).await,
                News::Condition { kind, holds, reason, message } => {
                    api.set_condition(kind, *holds, reason, message).await
                }
            };
            match sent {
                Ok(()) => {}
                Err(carve_cluster_api::ApiError::NoWay(why)) => {
                    tracing::debug!(why, "the API server is away; news wait");
                    break;
                }
                Err(error) => tracing::warn!(%error, ?news, "the API server refuses news"),
            }
            waiting.pop_front();
        }
    }
}
