//! The controller's own certificates: an authority, a certificate to answer with, one for the scheduler to ask with, and when each is
//! made anew.
//!
//! ```text
//!   authority   ├──────── issues ────────┼── still trusted ──┤
//!   the next                       ├ trusted ┼──────── issues ────────┼── …
//!   its certificates   ├────┼────┼────┼────┼
//! ```
//! A new authority is trusted for a month before anything is issued by it: a kube-scheduler reads once whom it trusts, and is restarted meanwhile.
//! Nothing here reads a clock or the cluster; [`keeper`] does.

pub(crate) mod keeper;
mod make;

use std::collections::BTreeMap;
use thiserror::Error;

/// Seconds since 1970.
pub(crate) type Time = i64;

const DAY: i64 = 24 * 60 * 60;
/// How long an authority is trusted.
const AUTHORITY: i64 = 3 * 365 * DAY;
/// How long a certificate is good.
const CERTIFICATE: i64 = 90 * DAY;
/// How long the next authority is trusted before it issues.
const NOTICE: i64 = 30 * DAY;
/// Clocks of a cluster differ; what begins now begins a bit earlier.
const SLACK: i64 = 60 * 60;

/// A certificate and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Keys are nobody's business.
impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// Who issues.
    authority: Pair,
    /// Who issues next.
    next: Option<Pair>,
    /// Authorities that issued before, as long as they are trusted.
    former: Vec<String>,
    /// What the controller answers with.
    pub(crate) server: Pair,
    /// What the scheduler asks with.
    pub(crate) client: Pair,
}

/// Why there are no certificates.
#[derive(Debug, Error)]
pub(crate) enum CertificateError {
    #[error("a certificate can not be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error("'{0}' in the Secret is missing or no text")]
    Missing(&'static str),
    #[error("'{0}' in the Secret is no certificate")]
    Unreadable(&'static str),
}

/// From when and until when a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Validity {
    begins: Time,
    ends: Time,
}

impl Validity {
    fn covers(self, now: Time) -> bool {
        (self.begins..self.ends).contains(&now)
    }

    /// Whether it is time for another one: two thirds are over, or the clock was elsewhere when it was made.
    fn is_due(self, now: Time) -> bool {
        now < self.begins || now >= self.begins + (self.ends - self.begins) / 3 * 2
    }
}

/// The keys of the Secret.
const CA: &str = "ca.crt";
const AUTHORITY_CERTIFICATE: &str = "authority.crt";
const AUTHORITY_KEY: &str = "authority.key";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const FORMER: &str = "former.crt";
const SERVER_CERTIFICATE: &str = "tls.crt";
const SERVER_KEY: &str = "tls.key";
const CLIENT_CERTIFICATE: &str = "client.crt";
const CLIENT_KEY: &str = "client.key";

impl Certificates {
    /// The first ones.
    pub(crate) fn new(names: &[String], now: Time) -> Result<Self, CertificateError> {
        let authority = make::authority(now)?;
        let (server, client) = (make::server(&authority, names, now)?, make::client(&authority, now)?);
        Ok(Certificates { authority, next: None, former: Vec::new(), server, client })
    }

    /// What they should be now, if that is something else.
    pub(crate) fn renewed(&self, names: &[String], now: Time) -> Result<Option<Self>, CertificateError> {
        let of_authority = make::validity(&self.authority.certificate)?;
        if !of_authority.covers(now) {
            return Self::new(names, now).map(Some);
        }
        let mut new = self.clone();
        match &self.next {
            None if of_authority.is_due(now) => new.next = Some(make::authority(now)?),
            Some(next) => {
                let validity = make::validity(&next.certificate)?;
                if !validity.covers(now) {
                    new.next = Some(make::authority(now)?);
                } else if now >= validity.begins + SLACK + NOTICE {
                    new.former.push(self.authority.certificate.clone());
                    (new.authority, new.next) = (next.clone(), None);
                    new.server = make::server(&new.authority, names, now)?;
                    new.client = make::client(&new.authority, now)?;
                }
            }
            None => {}
        }
        new.former.retain(|one| make::validity(one).is_ok_and(|validity| validity.covers(now)));
        let is_due =
            |pair: &Pair| make::validity(&pair.certificate).is_ok_and(|validity| validity.is_due(now));
        if is_due(&new.server) || make::names(&new.server.certificate)? != make::sorted(names) {
            new.server = make::server(&new.authority, names, now)?;
        }
        if is_due(&new.client) {
            new.client = make::client(&new.authority, now)?;
        }
        Ok((new != *self).then_some(new))
    }

    /// Everyone who is trusted, PEM after PEM.
    pub(crate) fn bundle(&self) -> String {
        let next = self.next.iter().map(|next| &next.certificate);
        let all = std::iter::once(&self.authority.certificate).chain(next).chain(&self.former);
        all.map(String::as_str).collect()
    }

    /// As the controller's Secret holds them.
    pub(crate) fn to_secret(&self) -> BTreeMap<&'static str, String> {
        let mut data = BTreeMap::from([
            (CA, self.bundle()),
            (AUTHORITY_CERTIFICATE, self.authority.certificate.clone()),
            (AUTHORITY_KEY, self.authority.key.clone()),
            (FORMER, self.former.concat()),
            (SERVER_CERTIFICATE, self.server.certificate.clone()),
            (SERVER_KEY, self.server.key.clone()),
            (CLIENT_CERTIFICATE, self.client.certificate.clone()),
            (CLIENT_KEY, self.client.key.clone()),
        ]);
        if let Some(next) = &self.next {
            data.insert(NEXT_CERTIFICATE, next.certificate.clone());
            data.insert(NEXT_KEY, next.key.clone());
        }
        data
    }

    /// As a scheduler's Secret holds them: what it asks with and whom it believes, and no authority's key.
    pub(crate) fn to_client_secret(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            (CA, self.bundle()),
            (SERVER_CERTIFICATE, self.client.certificate.clone()),
            (SERVER_KEY, self.client.key.clone()),
        ])
    }

    /// Reads what a Secret holds.
    pub(crate) fn from_secret(data: &BTreeMap<String, String>) -> Result<Self, CertificateError> {
        let text = |key: &'static str| data.get(key).cloned().ok_or(CertificateError::Missing(key));
        let pair = |certificate: &'static str, key: &'static str| {
            let pair = Pair { certificate: text(certificate)?, key: text(key)? };
            make::check(&pair).map_err(|_| CertificateError::Unreadable(certificate))?;
            Ok::<_, CertificateError>(pair)
        };
        let next = data.contains_key(NEXT_KEY).then(|| pair(NEXT_CERTIFICATE, NEXT_KEY)).transpose()?;
        let former = make::split(data.get(FORMER).map_or("", String::as_str));
        Ok(Certificates {
            authority: pair(AUTHORITY_CERTIFICATE, AUTHORITY_KEY)?,
            next,
            former,
            server: pair(SERVER_CERTIFICATE, SERVER_KEY)?,
            client: pair(CLIENT_CERTIFICATE, CLIENT_KEY)?,
        })
    }
}

#[cfg(test)]
mod tests;
