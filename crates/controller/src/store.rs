//! What keeps the cluster's objects, as far as the controller reads and writes them by itself.

use futures_util::future::BoxFuture;
use serde_json::Value;
use thiserror::Error;

/// Why something was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// It was refused, so nothing has changed.
    #[error("the API server refuses it: {0}")]
    Refused(String),
    /// Nobody knows: it may have happened, or may happen yet.
    #[error("the API server does not answer: {0}")]
    NoAnswer(String),
}

/// Objects of the cluster, as the API server has them.
pub trait Store: Send + Sync + 'static {
    /// A pod, where there is one of that name.
    fn pod<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, StoreError>>;

    /// Binds a pod, as the object says.
    fn bind<'a>(&'a self, binding: &'a Value) -> BoxFuture<'a, Result<(), StoreError>>;
}
