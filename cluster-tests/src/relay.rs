//! A Service in small: one address, behind it whichever program is the right one now.

use crate::Cluster;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A relay on the first node; it ends when it is dropped. Connections that were made stay where they lead, as those of a Service do.
#[derive(Debug)]
pub(crate) struct Relay {
    target: Arc<Mutex<Option<u16>>>,
    _stop: oneshot::Sender<()>,
}

impl Relay {
    /// Listens on a port. Nobody is behind it yet: who comes is sent away.
    pub(crate) fn start(cluster: &Cluster, port: u16) -> Self {
        let target = Arc::new(Mutex::new(None::<u16>));
        let (stop, stopped) = oneshot::channel();
        let (ready, listening) = std::sync::mpsc::channel();
        let known = Arc::clone(&target);
        cluster.inside().spawn(move |_| async move {
            let listener = TcpListener::bind(("127.0.0.1", port)).await;
            let listener = listener.unwrap_or_else(|error| panic!("port {port}: {error}"));
            let _ = ready.send(());
            let relaying = async {
                while let Ok((mut caller, _)) = listener.accept().await {
                    let target = *known.lock().unwrap_or_else(PoisonError::into_inner);
                    tokio::spawn(async move {
                        let Some(target) = target else { return };
                        if let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await {
                            let _ = tokio::io::copy_bidirectional(&mut caller, &mut server).await;
                        }
                    });
                }
            };
            tokio::select! { () = relaying => {}, _ = stopped => {} }
        });
        listening.recv().unwrap_or_else(|_| panic!("nothing listens on port {port}"));
        Relay { target, _stop: stop }
    }

    /// From now on, whoever comes is led there.
    pub(crate) fn lead_to(&self, port: Option<u16>) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = port;
    }
}
