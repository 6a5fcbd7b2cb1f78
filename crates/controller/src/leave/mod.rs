//! Takes carve off a cluster: nothing of it stays but what is in use, and that is named.
//!
//! ```text
//!   claims that pods hold? ─▶ controller and scheduler ─▶ webhooks ─▶ agents, which clear their nodes ─▶ words on Nodes, slices
//!     └▶ refused, unless told      ─▶ Lease, Secrets ─▶ templates, stand-ins ─▶ definitions, where nobody wrote anything in them
//! ```
//! Whoever writes goes before what it wrote, so that nothing comes back. Every step looks for what is there: one that was interrupted is done
//! again from the start.

mod gone;
mod nodes;
mod objects;

use carve_cluster_api::ApiError;
use kube::Client;
use std::time::Duration;
use thiserror::Error;

/// How carve leaves.
#[derive(Debug, Clone)]
pub struct LeaveOptions {
    /// Where the release is.
    pub namespace: String,
    /// The driver of claims.
    pub driver: String,
    /// Go on although pods hold claims that nobody can take back afterwards.
    pub even_if_claimed: bool,
    /// Leave definitions to somebody else.
    pub keep_definitions: bool,
    /// How long pods may take to end.
    pub patience: Duration,
}

/// What became of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It is gone.
    Gone(String),
    /// It is still there: what, and why.
    Left(String, String),
}

/// Why carve does not leave, or not wholly.
#[derive(Debug, Error)]
pub enum LeaveError {
    /// Pods could not be ended afterwards.
    #[error(
        "pods hold claims that only carve's agents can take back: {0}. Without an agent kubelet can not end these pods. Delete them first, or go \
         on with --even-if-claimed and delete them with --force --grace-period=0"
    )]
    Claimed(String),
    /// Whoever writes is still there.
    #[error(
        "{what} is still there after {seconds} s: {pods}; what it would write again was not deleted. Look why it does not end, and run this again"
    )]
    Stuck {
        /// What was deleted.
        what: String,
        /// How long it was waited for.
        seconds: u64,
        /// Pods of it.
        pods: String,
    },
    /// The API server.
    #[error("{doing}: {why}; run this again when that is settled: what is done already is not done twice")]
    Refused {
        /// What was to be done.
        doing: String,
        /// Why not.
        why: String,
    },
}

impl LeaveError {
    fn at(doing: &str) -> impl Fn(kube::Error) -> LeaveError {
        let doing = doing.to_owned();
        move |error| {
            let why = match error {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            };
            LeaveError::Refused { doing: doing.clone(), why }
        }
    }

    fn of(doing: &str) -> impl Fn(ApiError) -> LeaveError {
        let doing = doing.to_owned();
        move |error| LeaveError::Refused { doing: doing.clone(), why: error.to_string() }
    }
}

/// Leaves, and tells as it goes.
pub async fn leave(
    client: &Client,
    options: &LeaveOptions,
    mut tell: impl FnMut(Told),
) -> Result<(), LeaveError> {
    let claimed = objects::claimed(client, &options.driver).await?;
    // Where agents are gone already, refusing would protect nobody.
    if !claimed.is_empty() && nodes::has_agents(client, options).await? {
        if !options.even_if_claimed {
            return Err(LeaveError::Claimed(claimed.join(", ")));
        }
        let why = "pods hold it, and kubelet ends them only by force now".to_owned();
        claimed.into_iter().for_each(|claim| tell(Told::Left(format!("claim {claim}"), why.clone())));
    }
    for name in ["carve-scheduler", "carve-controller"] {
        if gone::deployment(client, options, name).await? {
            tell(Told::Gone(format!("Deployment {}/{name}", options.namespace)));
        }
    }
    for what in objects::webhooks(client).await? {
        tell(Told::Gone(what));
    }
    let had_agents = nodes::agents(client, options, &mut tell).await?;
    nodes::words(client, options, &had_agents, &mut tell).await?;
    for what in objects::own(client, &options.namespace).await? {
        tell(Told::Gone(what));
    }
    objects::templates(client, &mut tell).await?;
    objects::machines(client, &mut tell).await?;
    if !options.keep_definitions {
        objects::definitions(client, &mut tell).await?;
    }
    Ok(())
}
