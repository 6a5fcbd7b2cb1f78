//! The cluster half of carve: admits pods that ask for GPUs in any dialect, and places those with parts of GPUs.
//!
//! ```text
//!   watches ──▶ Cluster: the book, made of what the API server has ◀── what was bound a moment ago
//!                  ▲                                                        │
//!   kube-scheduler ──▶ routes ──▶ Extender: filter, prioritize, preempt, bind ──▶ Store: one Binding
//!   API server ──▶ admit: reviews, webhook configurations, ResourceClaimTemplates
//!   provision: Karpenter's NodePools and NodeOverlays for policies, and new nodes that are let in
//!   books: what agents' ledgers sum up to, for whoever asks over HTTP; board: the dashboard in front of the cluster, where it is wanted
//!   leave: the way off a cluster, on which everything here goes that nobody uses
//!   certificates: one authority for both doors, in a Secret; serve: HTTPS; election, lease, leader: which replica decides
//! ```
//! The API server is behind [`Store`], so that the same controller can run over something else that keeps objects; [`Embedded`] is it without its doors.

mod admit;
mod board;
mod books;
mod certificates;
mod cluster;
pub mod election;
mod embedded;
mod explain;
mod extender;
mod kubernetes;
mod leader;
mod lease;
mod leave;
mod metrics;
pub mod provision;
pub mod repartition;
mod routes;
mod run;
mod serve;
mod store;
mod waiting;

pub use admit::Reached;
pub use board::DashboardOptions;
pub use books::{Agents, Answer};
pub use carve_admission::Road;
pub use carve_cluster_api::{connect, names as cluster_names};
pub use cluster::Cluster;
pub use embedded::Embedded;
pub use explain::{Evidence, Line, Story, explain_pod, story};
pub use extender::Extender;
pub use kubernetes::Kubernetes;
pub use lease::Candidate;
pub use leave::{LeaveError, LeaveOptions, Told, leave};
pub use metrics::Metrics;
pub use routes::routes;
pub use run::{ControllerError, ControllerOptions, run};
pub use store::{Store, StoreError};
