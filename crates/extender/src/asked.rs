//! Who asks, read once: after this nobody looks at the pod's annotations again.

use crate::want::{NotServed, want_of};
use crate::wire::Pod;
use carve_admission::{ClaimError, PodClaims, keys};
use carve_bookings::{PodUid, Want};
use thiserror::Error;

/// A pod that asks for parts of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `namespace/name`.
    pub pod: String,
    /// Its uid.
    pub uid: PodUid,
    /// Its priority.
    pub priority: i32,
    /// What it wants.
    pub want: Want,
}

/// Why a pod can not be served anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskedError {
    /// It was not admitted: whoever writes the annotation is the webhook, and nobody else may.
    #[error(
        "pod {0} asks for carve.dev/slice and has no annotation carve.dev/claim; was it made while carve's webhook was away? Make it again"
    )]
    NotAdmitted(String),
    /// What it asks for does not read.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// It asks for what is not given out so.
    #[error(transparent)]
    NotServed(#[from] NotServed),
}

impl Asked {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Result<Self, AskedError> {
        let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        let Some(claim) = pod.metadata.annotations.get(keys::CLAIM) else {
            return Err(AskedError::NotAdmitted(name));
        };
        let want = want_of(&PodClaims::from_annotation(claim)?)?;
        let uid = PodUid(pod.metadata.uid.clone());
        Ok(Asked { pod: name, uid, priority: pod.spec.priority.unwrap_or(0), want })
    }
}
