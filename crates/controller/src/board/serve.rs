//! The dashboard's process: looks while somebody looks, and serves what is seen.

use super::answers::Answers;
use super::compose::compose;
use super::gather::gather;
use super::objects::{Objects, follow_all};
use crate::books::Agents;
use crate::cluster::Cluster;
use carve_dashboard::{About, Access, Backend, Kind, Live, routes};
use carve_economics::{Covered, LedgerDocument, Step, Window};
use carve_fleet_picture::Picture;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::Client;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

/// How often agents are asked while somebody looks.
const LOOK: Duration = Duration::from_secs(2);
/// How many are asked in a second at most: through the API server, which has other work, too.
const PER_SECOND: usize = 200;
/// How often they are asked while nobody looks, so that there is a past to look at.
const IDLE: Duration = Duration::from_secs(30);
/// For so long somebody who has looked counts as looking.
const LOOKING: Duration = Duration::from_secs(30);
/// How long whoever comes after a while waits for a new picture.
const PATIENCE: Duration = Duration::from_secs(4);

/// How the dashboard is served.
#[derive(Debug, Clone)]
pub struct DashboardOptions {
    /// Where.
    pub listen: SocketAddr,
    /// What whoever looks must know; needed where others than this machine's can ask.
    pub token: Option<String>,
    /// Whether the page may change something, with the controller's rights.
    pub may_change: bool,
}

/// Takes the address.
pub(crate) async fn open(options: &DashboardOptions) -> Result<TcpListener, String> {
    if !options.listen.ip().is_loopback() && options.token.is_none() {
        return Err(format!(
            "--dashboard {} can be reached from other machines, and anybody there could look; give a token with --dashboard-token-file",
            options.listen
        ));
    }
    TcpListener::bind(options.listen).await.map_err(|error| {
        format!(
            "can not listen on {} for the dashboard: {error}; another process may be there",
            options.listen
        )
    })
}

/// Who looks.
#[derive(Debug, Default)]
struct Interest {
    last: Mutex<Option<Instant>>,
    wake: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interest {
    fn is_there(&self) -> bool {
        lock(&self.last).is_some_and(|last| last.elapsed() < LOOKING)
    }

    fn looked(&self) {
        let before = self.is_there();
        *lock(&self.last) = Some(Instant::now());
        if !before {
            self.wake.notify_one();
        }
    }
}

/// Everything behind the dashboard.
pub(crate) struct Board {
    client: Client,
    agents: Agents,
    cluster: Arc<Mutex<Cluster>>,
    objects: Mutex<Objects>,
    answers: Mutex<Answers>,
    interest: Interest,
    /// When the last look began.
    looked: Mutex<Option<Instant>>,
    seen: watch::Sender<Arc<Picture>>,
    about: About,
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

impl Board {
    pub(crate) fn new(
        client: Client,
        agents: Agents,
        cluster: Arc<Mutex<Cluster>>,
        options: &DashboardOptions,
    ) -> Arc<Self> {
        let about = About {
            name: "cluster".to_owned(),
            kind: Kind::Cluster,
            version: env!("CARGO_PKG_VERSION"),
            may_change: options.may_change,
            since: now(),
        };
        Arc::new(Board {
            client,
            agents,
            cluster,
            objects: Mutex::default(),
            answers: Mutex::default(),
            interest: Interest::default(),
            looked: Mutex::default(),
            seen: watch::Sender::new(Arc::default()),
            about,
        })
    }

    /// Looks and serves for as long as this runs. While nobody looks, only the replica that `leads` does.
    pub(crate) async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        options: &DashboardOptions,
        leads: impl Fn() -> bool,
    ) -> Result<(), std::io::Error> {
        let live = Live::default();
        let access = Access::at(options.listen.ip(), options.token.clone(), options.may_change);
        let all = routes(Arc::clone(&self) as Arc<dyn Backend>, live.clone(), access);
        let namespace = self.agents.namespace.as_deref();
        tokio::select! {
            served = async { axum::serve(listener, all).await } => served,
            () = live.follow(self.seen.subscribe()) => Ok(()),
            () = follow_all(self.client.clone(), namespace, &self.agents.selector, &self.objects) => Ok(()),
            () = self.look_again_and_again(leads) => Ok(()),
        }
    }

    async fn look_again_and_again(&self, leads: impl Fn() -> bool) {
        loop {
            let watched = self.interest.is_there();
            let mut pause = IDLE;
            if watched || leads() {
                let asked = self.look().await;
                if watched {
                    pause = pause_after(asked);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.interest.wake.notified() => {}
            }
        }
    }

    /// Looks once; answers how many agents were asked.
    async fn look(&self) -> usize {
        *lock(&self.looked) = Some(Instant::now());
        let agents = lock(&self.objects).agents();
        let asked = agents.len();
        let answers = gather(&self.client, self.agents.port, agents.into_values()).await;
        let picture = {
            let (mut objects, mut known) = (lock(&self.objects), lock(&self.answers));
            known.take(now(), answers, &mut objects.happenings);
            compose(now(), &mut objects, &known, lock(&self.cluster).book())
        };
        self.seen.send_replace(Arc::new(picture));
        asked
    }
}

/// So long that no more agents are asked in a second than may be.
fn pause_after(asked: usize) -> Duration {
    let least = Duration::from_millis(u64::try_from(asked * 1000 / PER_SECOND).unwrap_or(u64::MAX));
    LOOK.max(least)
}

/// A window as agents read it.
fn written(window: Window) -> String {
    format!("{},{}", window.from, window.until)
}

impl Backend for Board {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn seen(&self) -> watch::Receiver<Arc<Picture>> {
        self.seen.subscribe()
    }

    fn looked_at(&self) {
        self.interest.looked();
    }

    fn fresh(&self) -> BoxFuture<'_, bool> {
        async move {
            let mut seen = self.seen.subscribe();
            let old = lock(&self.looked).is_none_or(|looked| looked.elapsed() > 2 * LOOK);
            self.interest.looked();
            old && tokio::time::timeout(PATIENCE, seen.changed()).await.is_ok()
        }
        .boxed()
    }

    fn client(&self) -> Client {
        self.client.clone()
    }

    fn ledgers(&self, window: Window) -> BoxFuture<'_, Result<Vec<LedgerDocument>, String>> {
        async move {
            let answers =
                self.agents.ask(&self.client, &Agents::ledger_path(&written(window), Step::Hour)).await;
            let answers = answers.map_err(|error| format!("can not list agents: {error}"))?;
            let mut documents = Vec::new();
            for (from, answer) in answers {
                let read = |text: String| LedgerDocument::read_all(&text).map_err(|error| error.to_string());
                match answer.and_then(read) {
                    Ok(found) => documents.extend(found),
                    Err(why) => {
                        tracing::warn!(agent = from, why, "its books are missing in what the dashboard shows")
                    }
                }
            }
            Ok(documents)
        }
        .boxed()
    }

    fn covered(&self, window: Window) -> BoxFuture<'_, Result<Covered, String>> {
        async move {
            let answers =
                self.agents.ask(&self.client, &Agents::ledger_path(&written(window), Step::All)).await;
            let mut covered = Covered::default();
            for (from, answer) in answers.map_err(|error| format!("can not list agents: {error}"))? {
                covered.take_answer(&from, answer);
            }
            Ok(covered)
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
