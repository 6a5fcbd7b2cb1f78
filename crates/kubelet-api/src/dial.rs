//! Dials a gRPC server on a unix socket: kubelet, or a plugin in tests.

use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// Why nobody answers.
#[derive(Debug, thiserror::Error)]
#[error("nobody answers on the socket {}: {source}", .path.display())]
pub struct DialError {
    path: PathBuf,
    source: tonic::transport::Error,
}

/// How long kubelet may take to pick up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a socket.
pub async fn dial(path: &Path) -> Result<Channel, DialError> {
    let socket = path.to_owned();
    let connect = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The address is never looked up: the connector knows the way.
    let endpoint = Endpoint::from_static("http://localhost").connect_timeout(PATIENCE);
    endpoint
        .connect_with_connector(connect)
        .await
        .map_err(|source| DialError { path: path.to_owned(), source })
}
