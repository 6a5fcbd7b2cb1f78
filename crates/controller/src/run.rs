//! The controller's process: everything that runs in it, from its start to its end.

use crate::admit::{Knowledge, Reached, register, routes as admission_routes, templates};
use crate::board::{self, Board, DashboardOptions};
use crate::books::{self, Agents};
use crate::certificates::keeper::Keeper;
use crate::cluster::Cluster;
use crate::extender::Extender;
use crate::kubernetes::Kubernetes;
use crate::lease::Candidate;
use crate::metrics::{Metrics, routes as metrics_routes};
use crate::serve::{Callers, listen, serve};
use crate::{leader, provision, repartition, routes, waiting};
use carve_admission::Road;
use kube::Client;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use thiserror::Error;
use tokio::sync::watch;

/// The Lease by which replicas agree who leads.
const LEASE: &str = "carve-controller";
/// The Secret with all certificates.
pub(crate) const SECRET: &str = "carve-controller-certificates";
/// The Secret with what the scheduler needs of them.
pub(crate) const SCHEDULER_SECRET: &str = "carve-scheduler-tls";

/// How the controller runs.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// Where the API server asks.
    pub listen: SocketAddr,
    /// Where the scheduler asks.
    pub extender_listen: SocketAddr,
    /// The namespace of its own objects.
    pub namespace: String,
    /// How the API server reaches it.
    pub reached: Reached,
    /// Names under which it answers.
    pub names: Vec<String>,
    /// What it is called among the replicas.
    pub identity: String,
    /// Whether it is a pod of that name.
    pub is_pod: bool,
    /// The road, unless it is to be found out.
    pub road: Option<Road>,
    /// The driver of the cluster's agents.
    pub driver: String,
    /// The scheduler's Deployment, which is restarted before its authority ends.
    pub scheduler: Option<String>,
    /// Agents whose books it adds up.
    pub agents: Agents,
    /// The dashboard, where it is wanted.
    pub dashboard: Option<DashboardOptions>,
}

/// Why the controller does not run.
#[derive(Debug, Error)]
pub enum ControllerError {
    /// No certificates.
    #[error("{0}")]
    Certificates(String),
    /// Nothing is served.
    #[error("{0}")]
    Serve(String),
}

/// Runs until `stop` is done.
pub async fn run(
    options: ControllerOptions,
    client: Client,
    stop: impl Future<Output = ()>,
) -> Result<(), ControllerError> {
    let serve_error = |error: &dyn std::fmt::Display| ControllerError::Serve(error.to_string());
    // Taken first: two controllers on one machine would otherwise both write certificates.
    let admission_listener = listen(options.listen).map_err(|error| serve_error(&error))?;
    let extender_listener = listen(options.extender_listen).map_err(|error| serve_error(&error))?;
    let dashboard_listener = match &options.dashboard {
        Some(dashboard) => Some(board::open(dashboard).await.map_err(ControllerError::Serve)?),
        None => None,
    };
    let keeper = Keeper {
        namespace: options.namespace.clone(),
        secret: SECRET.to_owned(),
        scheduler_secret: SCHEDULER_SECRET.to_owned(),
        scheduler: options.scheduler.clone(),
        names: options.names.clone(),
    };
    let first = keeper.settle(&client).await;
    let first = first.map_err(|error| ControllerError::Certificates(error.to_string()))?;
    let (told, certificates) = watch::channel(first);

    let cluster = Arc::new(Mutex::new(Cluster::default()));
    let kubernetes = Kubernetes::new(client.clone());
    let candidate = Candidate::new(&options.identity);
    let leads = || {
        let candidate = candidate.clone();
        move || candidate.leads()
    };
    let extender = Extender::new(Arc::clone(&cluster), Arc::new(kubernetes.clone())).while_leading(leads());
    let knowledge = Knowledge::new(Arc::clone(&cluster), &options.driver, options.road);
    tracing::info!(
        "{} answers the API server on {} and the scheduler on {}",
        options.identity,
        options.listen,
        options.extender_listen
    );

    let (ending, ended) = watch::channel(false);
    let stopped = || {
        let mut ended = ended.clone();
        async move {
            // Also done when nobody is left who could say so.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    };
    let metrics = Metrics::default();
    let admission = admission_routes(knowledge.clone(), client.clone())
        .merge(metrics_routes(metrics.clone(), leads()))
        .merge(books::routes(client.clone(), options.agents.clone()));
    let doors = async {
        tokio::try_join!(
            serve(admission_listener, admission, Callers::Anyone, certificates.clone(), stopped()),
            serve(
                extender_listener,
                routes(extender, metrics.clone()),
                Callers::Certified,
                certificates.clone(),
                stopped()
            ),
        )
    };
    let dashboard = async {
        match (&options.dashboard, dashboard_listener) {
            (Some(dashboard), Some(listener)) => {
                let board =
                    Board::new(client.clone(), options.agents.clone(), Arc::clone(&cluster), dashboard);
                tracing::info!("the dashboard is on {}", dashboard.listen);
                board.run(listener, dashboard, leads()).await
            }
            _ => std::future::pending().await,
        }
    };
    let marking = async {
        match options.is_pod {
            true => leader::mark(client.clone(), &options.namespace, &options.identity, leads()).await,
            false => std::future::pending().await,
        }
    };
    let work = async {
        tokio::join!(
            keeper.keep(client.clone(), &told),
            kubernetes.follow(Arc::clone(&cluster)),
            knowledge.learn(client.clone()),
            register(
                client.clone(),
                &knowledge,
                &options.reached,
                &options.namespace,
                certificates.clone(),
                leads()
            ),
            templates::sweep(client.clone(), leads()),
            repartition::run(client.clone(), metrics.clone(), leads()),
            provision::run(client.clone(), &options.namespace, metrics.clone(), leads()),
            waiting::follow_waiting(client.clone(), metrics.waiting()),
            candidate.stand(client.clone(), &options.namespace, LEASE),
            marking,
        );
    };
    let told_to_stop = async {
        stop.await;
        tracing::info!("{} ends", options.identity);
        let _ = ending.send(true);
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        served = doors => served.map(drop).map_err(|error| serve_error(&error)),
        served = dashboard => served.map_err(|error| serve_error(&error)),
        () = work => Ok(()),
        () = told_to_stop => Ok(()),
    };
    candidate.give_up(client, &options.namespace, LEASE).await;
    result
}
