//! Serves gRPC on a unix socket that kubelet dials.

use crate::authority::LocalAuthority;
use crate::gather::Gathered;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::Router;

/// Why a socket is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{} is in the way and is not a socket; it is left alone", .0.display())]
    InTheWay(PathBuf),
    #[error("can not bind the socket {}: {source}", .path.display())]
    Bind { path: PathBuf, source: io::Error },
    #[error("can not serve on the socket {}: {source}", .path.display())]
    Serve { path: PathBuf, source: tonic::transport::Error },
}

/// A socket that is bound: whoever dials it waits until it is served.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    file: File,
}

/// The socket's file, as it was when it was ours.
#[derive(Debug)]
struct File {
    path: PathBuf,
    identity: (u64, u64),
}

impl Socket {
    /// Binds a socket, in place of one that an earlier process left. Its folder must be there.
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, ServeError> {
        let path = path.into();
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => return Err(ServeError::InTheWay(path)),
            Ok(_) | Err(_) => {}
        }
        let bound = || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&path)?;
            Ok((listener, identity(&path)?))
        };
        match bound() {
            Ok((listener, identity)) => Ok(Socket { listener, file: File { path, identity } }),
            Err(source) => Err(ServeError::Bind { path, source }),
        }
    }

    /// Serves until `stop` is done; then the file goes, and the calls under way may finish for a moment.
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        self.serve_and_drain(router, stop, DRAINING).await
    }

    /// Like [`Socket::serve`], with a say in how long the calls under way may take to finish.
    pub async fn serve_and_drain(
        self,
        router: Router,
        stop: impl Future<Output = ()>,
        most: Duration,
    ) -> Result<(), ServeError> {
        let Socket { listener, file } = self;
        let accepted = UnixListenerStream::new(listener)
            .map(|stream| stream.map(|stream| LocalAuthority::new(Gathered::new(stream))));
        let (told, drain) = tokio::sync::oneshot::channel();
        // While the listener lives no other file can have its identity, so the file goes first.
        let stopped = async {
            stop.await;
            file.remove();
            let _ = told.send(());
        };
        let served = router.serve_with_incoming_shutdown(accepted, stopped);
        let drained = async {
            if drain.await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(most).await;
        };
        tokio::select! {
            served = served => served.map_err(|source| ServeError::Serve { path: file.path.clone(), source }),
            () = drained => Ok(()),
        }
    }
}

/// How long calls may take to finish once the server is told to stop; a watch that nobody ends would last for ever.
const DRAINING: Duration = Duration::from_secs(2);

impl File {
    /// Removes the file unless another process has put its own socket there since.
    fn remove(&self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            // Kubelet copes with a socket that nobody answers on.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}
