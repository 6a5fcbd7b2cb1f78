//! The process: everything that runs in it, from its start to its end.

use crate::demo;
use crate::place::Place;
use axum::Router;
use carve_dashboard::{About, Access, Backend, Kind, Live, routes};
use carve_economics::{Covered, LedgerDocument, Window};
use carve_fleet_picture::Picture;
use carve_local_cluster::{Books, Fleet, Here, LocalCluster, Machines, Seen, StartError};
use carve_object_api::ObjectApi;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Which machines are asked for.
#[derive(Debug)]
pub enum Wanted {
    /// Simulated ones.
    Simulated {
        /// Those; the ones from the last time without them.
        fleet: Option<Fleet>,
        /// Those where there are none from the last time.
        usual: Fleet,
    },
    /// The one that this runs on, with its real GPUs.
    Here(Box<Here>),
}

/// What was asked for.
#[derive(Debug)]
pub struct UpOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it keeps what it has; nowhere without one.
    pub place: Option<Place>,
    /// The machines.
    pub machines: Wanted,
    /// Whether it opens without anything on them.
    pub empty: bool,
    /// Whether the page may change something.
    pub may_change: bool,
    /// What whoever looks must know; needed where others than this machine's can ask.
    pub token: Option<String>,
}

/// Why it does not run.
#[derive(Debug, Error)]
pub enum UpError {
    /// Its cluster can not be made.
    #[error(transparent)]
    Cluster(#[from] StartError),
    /// Its address is taken.
    #[error("can not listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// Its folder can not be used.
    #[error("{0}: {1}")]
    Place(String, std::io::Error),
    /// It has ended by itself.
    #[error("the server ended: {0}")]
    Ended(std::io::Error),
    /// The loop that everything else follows has come to an end.
    #[error(
        "what moves the cluster has failed: {0}; everything that was acknowledged is kept, so start it again, and tell carve's authors what you did"
    )]
    Loop(String),
    /// Others could look without knowing anything.
    #[error(
        "{0} can be reached from other machines, and anybody there could look; give a token with --token-file"
    )]
    Open(SocketAddr),
    /// Others on this machine could run programs.
    #[error(
        "--allow-changes lets whoever opens the page run programs as you, and other people may have accounts on this machine; give a token with --token-file"
    )]
    Programs,
}

/// One that listens, and is about to run.
#[derive(Debug)]
pub struct Up {
    options: UpOptions,
    cluster: LocalCluster,
    listener: TcpListener,
    address: SocketAddr,
    token: String,
    /// Whether the machines are simulated, and nobody has written anything yet.
    is_simulated: bool,
    is_new: bool,
}

/// What is taken of the options to open a cluster.
fn open(place: Option<&Place>, machines: Wanted) -> Result<LocalCluster, StartError> {
    let folder = place.map(Place::folder);
    match machines {
        // What was done with simulated machines is not lost where somebody looks at real ones in between.
        Wanted::Here(here) => {
            let folder = folder.map(|folder| folder.join("machine"));
            LocalCluster::open(folder.as_deref(), Machines::Here(here))
        }
        Wanted::Simulated { fleet: Some(fleet), .. } => LocalCluster::open(folder, Machines::Fleet(&fleet)),
        Wanted::Simulated { fleet: None, usual } => match LocalCluster::open(folder, Machines::Kept) {
            Err(StartError::NoFleet(_)) => LocalCluster::open(folder, Machines::Fleet(&usual)),
            opened => opened,
        },
    }
}

/// What the dashboard is in front of.
struct Local {
    about: About,
    api: ObjectApi,
    books: Books,
    seen: Seen,
}

impl Backend for Local {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn seen(&self) -> watch::Receiver<Arc<Picture>> {
        self.seen.clone()
    }

    fn client(&self) -> kube::Client {
        self.api.client()
    }

    fn ledgers(&self, window: Window) -> BoxFuture<'_, Result<Vec<LedgerDocument>, String>> {
        async move { Ok(self.books.hours(window)) }.boxed()
    }

    fn covered(&self, window: Window) -> BoxFuture<'_, Result<Covered, String>> {
        async move { Ok(self.books.covered(window)) }.boxed()
    }
}

impl Up {
    /// Takes the address and opens what is kept.
    pub async fn start(mut options: UpOptions) -> Result<Self, UpError> {
        if !options.listen.ip().is_loopback() && options.token.is_none() {
            return Err(UpError::Open(options.listen));
        }
        let is_simulated = matches!(options.machines, Wanted::Simulated { .. });
        if !is_simulated && options.may_change && options.token.is_none() {
            return Err(UpError::Programs);
        }
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(|error| UpError::Listen(options.listen, error))?;
        let address = listener.local_addr().map_err(|error| UpError::Listen(options.listen, error))?;
        let nothing = Wanted::Simulated { fleet: None, usual: Fleet::default() };
        let machines = std::mem::replace(&mut options.machines, nothing);
        let cluster = open(options.place.as_ref(), machines)?;
        let folder = options.place.as_ref().map(Place::folder);
        let wrong = |error| {
            UpError::Place(folder.map(|folder| folder.display().to_string()).unwrap_or_default(), error)
        };
        let token = match &options.place {
            Some(place) => place.token().map_err(wrong)?,
            None => uuid::Uuid::new_v4().simple().to_string(),
        };
        let is_new = cluster.is_new();
        // Verbs find it from now on; they wait until everything is known.
        if let Some(place) = &options.place {
            place.announce(address, &token).map_err(wrong)?;
        }
        Ok(Up { options, cluster, listener, address, token, is_simulated, is_new })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether its machines are simulated.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// Machines and GPUs.
    pub fn size(&self) -> (usize, usize) {
        self.cluster.size()
    }

    /// Runs until `stop` is done.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), UpError> {
        let (api, books, seen) =
            (self.cluster.api().clone(), self.cluster.books().clone(), self.cluster.seen());
        let about = About {
            name: "up".to_owned(),
            kind: if self.is_simulated { Kind::Simulated } else { Kind::Machine },
            version: env!("CARGO_PKG_VERSION"),
            may_change: self.options.may_change,
            since: jiff::Timestamp::now().as_second(),
        };
        let access = Access::at(self.address.ip(), self.options.token.clone(), self.options.may_change);
        let backend = Arc::new(Local { about, api: api.clone(), books, seen: seen.clone() });
        let live = Live::default();
        // Objects are for those who know the token, on this machine too: other people may have accounts here. It stands in the path, because
        // kubectl sends none in a header where there is no TLS.
        let objects = Router::new().nest_service(&Place::objects_path(&self.token), api.routes());
        let all = objects.merge(routes(backend, live.clone(), access));
        let place = self.options.place.clone();
        let (ending, ended) = watch::channel(false);
        let stopped = move || {
            let mut ended = ended.clone();
            async move {
                let _ = ended.wait_for(|ended| *ended).await;
            }
        };
        let following = tokio::spawn(async move { live.follow(seen).await });
        let (mut known, is_new) = (self.cluster.ready(), self.is_new);
        let mut ready = known.clone();
        let demo = (self.is_simulated && !self.options.empty).then(|| {
            tokio::spawn(async move {
                let _ = known.wait_for(|ready| *ready).await;
                demo::play(api, is_new).await;
            })
        });
        let mut running = tokio::spawn(self.cluster.run(stopped()));
        // Whoever asks before everything is known waits a moment.
        let serving = async {
            let _ = ready.wait_for(|ready| *ready).await;
            axum::serve(self.listener, all).await
        };
        let result = tokio::select! {
            // Nobody should look at a cluster that has stopped.
            ended = &mut running => {
                let why = ended.err().map_or_else(|| "it ended by itself".to_owned(), |error| error.to_string());
                place.inspect(Place::retire);
                return Err(UpError::Loop(why));
            }
            served = serving => served.map_err(UpError::Ended),
            () = stop => Ok(()),
        };
        // Streams never end by themselves, so nobody waits for those who listen; what was acknowledged is written.
        demo.inspect(tokio::task::JoinHandle::abort);
        following.abort();
        let _ = ending.send(true);
        let _ = running.await;
        place.inspect(Place::retire);
        result
    }
}
