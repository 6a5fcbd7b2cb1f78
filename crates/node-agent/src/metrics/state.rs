//! Series about how GPUs and MPS daemons are; replaced as a whole, so that what is gone has no series.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Everything that is told of them now.
#[derive(Debug, Default)]
pub(super) struct StateTable {
    /// Number and UUID of each GPU, and whether anything may be given out of it.
    gpus: Mutex<Vec<(u32, String, bool)>>,
    /// Daemons by the door that they were started for: UUID of the part, and whether containers may be sent there.
    daemons: Mutex<BTreeMap<&'static str, Vec<(String, bool)>>>,
}

impl StateTable {
    pub(super) fn set_gpus(&self, gpus: Vec<(u32, String, bool)>) {
        *self.gpus.lock().unwrap_or_else(PoisonError::into_inner) = gpus;
    }

    pub(super) fn set_mps(&self, door: &'static str, daemons: Vec<(String, bool)>) {
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner).insert(door, daemons);
    }
}

fn flag(holds: bool) -> ConstGauge<u64> {
    ConstGauge::new(u64::from(holds))
}

impl Collector for StateTable {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gpus = self.gpus.lock().unwrap_or_else(PoisonError::into_inner);
        if !gpus.is_empty() {
            let help = "Whether anything may be given out of a GPU";
            let mut family = encoder.encode_descriptor("gpu_healthy", help, None, MetricType::Gauge)?;
            for (gpu, uuid, healthy) in gpus.iter() {
                let labels = [("gpu", gpu.to_string()), ("uuid", uuid.clone())];
                flag(*healthy).encode(family.encode_family(&labels)?)?;
            }
        }
        let daemons = self.daemons.lock().unwrap_or_else(PoisonError::into_inner);
        if daemons.values().any(|list| !list.is_empty()) {
            let help = "Whether containers may be sent to the MPS daemon of a part";
            let mut family = encoder.encode_descriptor("mps_ready", help, None, MetricType::Gauge)?;
            for (uuid, ready) in daemons.values().flatten() {
                flag(*ready).encode(family.encode_family(&[("uuid", uuid.as_str())])?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;

    #[test]
    fn what_is_gone_has_no_series_and_what_did_not_happen_is_counted_as_nothing() {
        let metrics = Metrics::new();
        let text = metrics.text();
        for line in [
            r#"carve_agent_claims_total{verb="prepare",outcome="failed"} 0"#,
            r#"carve_agent_mig_applies_total{result="failed"} 0"#,
            "carve_agent_ready 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        metrics.ready(true);
        metrics.health(vec![(0, "GPU-0".to_owned(), true), (1, "GPU-1".to_owned(), false)]);
        metrics.mps("devices", vec![("GPU-0".to_owned(), true)]);
        metrics.mps("claims", vec![("MIG-1".to_owned(), false)]);
        let text = metrics.text();
        for line in [
            "carve_agent_ready 1",
            r#"carve_agent_gpu_healthy{gpu="0",uuid="GPU-0"} 1"#,
            r#"carve_agent_gpu_healthy{gpu="1",uuid="GPU-1"} 0"#,
            r#"carve_agent_mps_ready{uuid="GPU-0"} 1"#,
            r#"carve_agent_mps_ready{uuid="MIG-1"} 0"#,
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        metrics.mps("claims", Vec::new());
        assert!(!metrics.text().contains("MIG-1"), "{}", metrics.text());
    }
}
