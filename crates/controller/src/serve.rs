//! HTTPS with certificates that change while it serves.

use crate::certificates::Certificates;
use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;

/// How long requests under way may take to finish; schedulers and API servers wait no longer.
const DRAIN: Duration = Duration::from_secs(10);

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    /// Everyone: the API server has no certificate for webhooks.
    Anyone,
    /// Who has a certificate of ours.
    Certified,
}

/// Why nothing is served.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    #[error("can not listen on {0}: {1}; another process may be there, or the port may need rights")]
    Listen(SocketAddr, std::io::Error),
    #[error("the certificates can not be used: {0}")]
    Certificates(#[from] rustls::Error),
    #[error("the certificates do not read: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("no caller could be believed: {0}")]
    Callers(#[from] rustls::server::VerifierBuilderError),
    #[error("the server ended: {0}")]
    Ended(std::io::Error),
}

/// TLS with these certificates.
fn config(certificates: &Certificates, callers: Callers) -> Result<Arc<ServerConfig>, ServeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let read = |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match callers {
        Callers::Anyone => builder.with_no_client_auth(),
        Callers::Certified => {
            let mut roots = RootCertStore::empty();
            for authority in read(&certificates.bundle())? {
                roots.add(authority)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(certificates.server.key.as_bytes())?;
    let mut config = builder.with_single_cert(read(&certificates.server.certificate)?, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Takes an address.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let wrong = |error| ServeError::Listen(address, error);
    let listener = TcpListener::bind(address).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    Ok(listener)
}

/// Serves until `stop` is done.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    callers: Callers,
    mut certificates: watch::Receiver<Certificates>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let first = certificates.borrow_and_update().clone();
    let tls = RustlsConfig::from_config(config(&first, callers)?);
    let handle = Handle::new();
    let server = axum_server::from_tcp_rustls(listener, tls.clone())
        .map_err(ServeError::Ended)?
        .handle(handle.clone())
        .serve(routes.into_make_service());
    let renewing = async {
        while certificates.changed().await.is_ok() {
            let new = certificates.borrow_and_update().clone();
            match config(&new, callers) {
                Ok(config) => tls.reload_from_config(config),
                Err(error) => tracing::error!("{error}; the certificates from before stay in use"),
            }
        }
        std::future::pending::<()>().await;
    };
    let stopping = async {
        stop.await;
        handle.graceful_shutdown(Some(DRAIN));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = server => served.map_err(ServeError::Ended),
        () = renewing => Ok(()),
        () = stopping => Ok(()),
    }
}
