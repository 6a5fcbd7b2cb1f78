//! What keeps Karpenter's objects, nodes and what is told of them, as far as provisioning writes them.

use crate::store::StoreError;
use carve_karpenter::{HardwareReady, Named};
use carve_slice_policy::Condition;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// A Node.
    Node {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A NodePool.
    NodePool {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
}

/// Objects by which machines come, nodes of machines that have come, and what is told of both.
pub trait ProvisionStore: Send + Sync + 'static {
    /// Writes one of Karpenter's objects and returns what there is then.
    fn apply<'a>(&'a self, document: &'a Value) -> BoxFuture<'a, Result<Value, StoreError>>;

    /// Deletes one of Karpenter's objects, if it is the one that was seen.
    fn delete<'a>(&'a self, named: &'a Named, seen: &'a Value) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Makes these the taints of a node, if it is as it was seen.
    fn put_taints<'a>(
        &'a self,
        node: &'a str,
        version: &'a str,
        taints: &'a [Value],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Makes these the taints of a node, and adds labels, if it is as it was seen. What there is then is returned.
    fn put_stage<'a>(
        &'a self,
        node: &'a str,
        version: &'a str,
        taints: &'a [Value],
        labels: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Value, StoreError>>;

    /// Makes a pod that stands in for others, and what it needs; returns it, or nothing where one of that name is there.
    fn create_stand_in<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Result<Option<Value>, StoreError>>;

    /// Deletes a pod that stood in for others, if it is the one that was seen.
    fn delete_stand_in<'a>(&'a self, name: &'a str, uid: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Says whether the GPUs of a node are what was promised.
    fn put_hardware_ready<'a>(
        &'a self,
        node: &'a str,
        said: &'a HardwareReady,
        at: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Makes these our conditions of a policy.
    fn put_conditions<'a>(
        &'a self,
        policy: &'a str,
        conditions: &'a [Condition],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Tells of trouble, once: who says the same of the same object again is not heard.
    fn warn<'a>(
        &'a self,
        about: &'a About,
        reason: &'a str,
        message: &'a str,
        at: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
}
