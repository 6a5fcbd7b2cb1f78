//! What keeps plans and orders, as far as repartition writes them.

use super::told::ToldNode;
use crate::store::StoreError;
use carve_repartition::Order;
use carve_slice_policy::{SlicePlanSpec, SlicePlanStatus, SlicePolicyStatus};
use futures_util::future::BoxFuture;

/// Whether an event is news or trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// News.
    Normal,
    /// Trouble.
    Warning,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// The plan of a node.
    Plan {
        /// The node.
        node: String,
    },
}

/// Plans, orders and what is told about them.
pub trait PlanStore: Send + Sync + 'static {
    /// Makes this the plan of its node.
    fn put_plan<'a>(&'a self, plan: &'a SlicePlanSpec) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Says how far the plan of a node is.
    fn put_plan_status<'a>(
        &'a self,
        node: &'a str,
        status: &'a SlicePlanStatus,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Orders something of the agent of a node.
    fn put_order<'a>(&'a self, node: &'a str, order: &'a Order) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Tells the agent of a node what its policy says, or takes it back.
    fn put_config<'a>(&'a self, node: &'a str, told: &'a ToldNode) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Says how a policy is.
    fn put_policy_status<'a>(
        &'a self,
        policy: &'a str,
        status: &'a SlicePolicyStatus,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Tells an event.
    fn tell<'a>(
        &'a self,
        about: &'a About,
        tone: Tone,
        reason: &'a str,
        message: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}
