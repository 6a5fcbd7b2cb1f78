//! The GPUs of a node that are given out in parts, as its agent writes them into the Node's annotation.

use carve_gpu_model::{GpuUuid, Mebibytes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use thiserror::Error;

/// The version of the annotation that is written, and the only one that is read.
const VERSION: u32 = 1;
/// More than any machine has; a longer list is no list of GPUs.
const MOST_GPUS: usize = 64;

/// A GPU that is given out in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its id.
    pub uuid: GpuUuid,
    /// What the driver calls it.
    pub product: String,
    /// All of its memory that can be given out.
    pub memory: Mebibytes,
    /// Why nothing more of it may be given out; absent for a healthy one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// In the order of the machine.
    pub gpus: Vec<Gpu>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    v: u32,
    gpus: Vec<Gpu>,
}

/// What is wrong with an annotation.
#[derive(Debug, Error)]
pub enum OfferError {
    /// It is not the JSON that agents write.
    #[error("the list of GPUs does not read")]
    Json(#[from] serde_json::Error),
    /// It was written by another version.
    #[error(
        "the list of GPUs is of version {0}, and only version {VERSION} is understood; agent and controller are too far apart"
    )]
    Version(u32),
    /// It can not be true.
    #[error("the list of GPUs {0}")]
    Untrue(&'static str),
}

impl Offer {
    /// As it is written.
    pub fn to_annotation(&self) -> String {
        let written = Written { v: VERSION, gpus: self.gpus.clone() };
        // Strings and numbers alone: there is nothing that could fail.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads an annotation.
    pub fn from_annotation(text: &str) -> Result<Self, OfferError> {
        let Written { v, gpus } = serde_json::from_str(text)?;
        if v != VERSION {
            return Err(OfferError::Version(v));
        }
        if gpus.len() > MOST_GPUS {
            return Err(OfferError::Untrue("is longer than any machine's"));
        }
        let ids: BTreeSet<_> = gpus.iter().map(|gpu| &gpu.uuid).collect();
        if ids.len() < gpus.len() {
            return Err(OfferError::Untrue("names one twice"));
        }
        if gpus.iter().any(|gpu| gpu.memory.0 == 0) {
            return Err(OfferError::Untrue("has one without memory"));
        }
        Ok(Offer { gpus })
    }
}

#[cfg(test)]
mod tests {
    use super::{Gpu, Offer};
    use carve_gpu_model::{GpuUuid, Mebibytes};

    #[test]
    fn an_offer_is_read_as_it_was_written() {
        let gpu = |number: u32, withheld: Option<&str>| Gpu {
            uuid: GpuUuid(format!("GPU-{number}")),
            product: "NVIDIA A100-SXM4-80GB".to_owned(),
            memory: Mebibytes(81_920),
            withheld: withheld.map(str::to_owned),
        };
        let offer = Offer { gpus: vec![gpu(0, None), gpu(1, Some("XID 79"))] };
        assert_eq!(Offer::from_annotation(&offer.to_annotation()).unwrap(), offer);
    }

    #[test]
    fn what_can_not_be_true_is_refused_with_words() {
        let one = r#"{"uuid":"GPU-1","product":"T4","memory":15360}"#;
        for (text, words) in [
            ("", "does not read"),
            (r#"{"v":2,"gpus":[]}"#, "version 2"),
            (&format!(r#"{{"v":1,"gpus":[{one},{one}]}}"#), "names one twice"),
            (r#"{"v":1,"gpus":[{"uuid":"GPU-1","product":"T4","memory":0}]}"#, "without memory"),
        ] {
            let error = Offer::from_annotation(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
