//! A socket that is kept: bound again when somebody removes its file, with the calls on the old one finished in peace.

use crate::server::ServeError;
use carve_kubelet_api::serve::Socket;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::server::Router;

/// A socket that is kept.
pub(crate) struct Kept<R> {
    path: PathBuf,
    /// What is served, made anew for each binding.
    router: R,
    /// How long calls may take to finish.
    drain: Duration,
    serving: Serving,
    /// What went wrong last time, so that it is told once.
    trouble: Option<String>,
}

struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl<R: Fn() -> Router> Kept<R> {
    /// Binds the socket and serves it. Its folder must be there.
    pub(crate) fn bind(path: PathBuf, drain: Duration, router: R) -> Result<Self, ServeError> {
        let serving = serving(&path, drain, router())?;
        Ok(Kept { path, router, drain, serving, trouble: None })
    }

    /// Binds it again if its file is gone; whether it was.
    pub(crate) fn look(&mut self) -> bool {
        let gone = match std::fs::symlink_metadata(&self.path) {
            // Another instance's file in its place is that instance's business: two that take turns would help nobody.
            Ok(_) => self.serving.task.is_finished(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !gone {
            return false;
        }
        match serving(&self.path, self.drain, (self.router)()) {
            Ok(serving) => {
                tracing::warn!("the socket {} was gone and is there again", self.path.display());
                self.trouble = None;
                let before = std::mem::replace(&mut self.serving, serving);
                // Whoever is connected to the old one is asked to come to the new one.
                let _ = before.stop.send(());
                true
            }
            Err(error) => {
                let error = error.to_string();
                if self.trouble.as_ref() != Some(&error) {
                    tracing::warn!("the socket {} is gone: {error}; this is tried on", self.path.display());
                    self.trouble = Some(error);
                }
                false
            }
        }
    }

    /// Removes the file, and returns when the calls under way have finished or had their time.
    pub(crate) async fn stop(self) {
        let _ = self.serving.stop.send(());
        let _ = self.serving.task.await;
    }
}

fn serving(path: &std::path::Path, drain: Duration, router: Router) -> Result<Serving, ServeError> {
    let socket = Socket::bind(path)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async move {
        let _ = stopped.await;
    };
    let task = tokio::spawn(async move {
        if let Err(error) = socket.serve_and_drain(router, stopped, drain).await {
            tracing::warn!("{error}");
        }
    });
    Ok(Serving { stop, task })
}
