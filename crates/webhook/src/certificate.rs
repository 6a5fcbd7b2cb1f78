//! The certificate of the webhook, read again when its files change: whoever renews it restarts nobody.

use axum_server::tls_rustls::RustlsConfig;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files of a certificate and its key.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// What stood in them.
type Contents = (Vec<u8>, Vec<u8>);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("can not read {}, which should hold the webhook's {what}: {source}", .path.display())]
    Read { path: PathBuf, what: &'static str, source: io::Error },
    #[error(
        "{} and {} are no certificate with its key: {source}; both must be PEM, and the key the one the certificate was made for",
        .certificate.display(), .key.display()
    )]
    Use { certificate: PathBuf, key: PathBuf, source: io::Error },
}

impl Files {
    async fn read(&self) -> Result<Contents, CertificateError> {
        Ok((read(&self.certificate, "certificate").await?, read(&self.key, "key").await?))
    }

    fn unusable(&self, source: io::Error) -> CertificateError {
        CertificateError::Use { certificate: self.certificate.clone(), key: self.key.clone(), source }
    }

    /// Reads them for the first time.
    pub(crate) async fn load(self) -> Result<Certificate, CertificateError> {
        let contents = self.read().await?;
        let (certificate, key) = contents.clone();
        let config = RustlsConfig::from_pem(certificate, key).await.map_err(|error| self.unusable(error))?;
        Ok(Certificate { files: self, config, contents, trouble: None })
    }
}

async fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, CertificateError> {
    tokio::fs::read(path).await.map_err(|source| CertificateError::Read {
        path: path.to_owned(),
        what,
        source,
    })
}

/// A certificate in use.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: Files,
    pub(crate) config: RustlsConfig,
    contents: Contents,
    /// What went wrong last time, so that it is told once.
    trouble: Option<String>,
}

impl Certificate {
    /// Looks at the files for ever. What can not be used is told, and the certificate from before stays.
    pub(crate) async fn follow(mut self, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            match self.look().await {
                Ok(()) => self.trouble = None,
                Err(error) => {
                    let error = error.to_string();
                    if self.trouble.as_ref() != Some(&error) {
                        tracing::warn!("{error}; the certificate from before stays in use");
                        self.trouble = Some(error);
                    }
                }
            }
        }
    }

    async fn look(&mut self) -> Result<(), CertificateError> {
        let contents = self.files.read().await?;
        if contents == self.contents {
            return Ok(());
        }
        let (certificate, key) = contents.clone();
        let taken = self.config.reload_from_pem(certificate, key).await;
        taken.map_err(|error| self.files.unusable(error))?;
        tracing::info!("the certificate in {} is new and in use now", self.files.certificate.display());
        self.contents = contents;
        Ok(())
    }
}
