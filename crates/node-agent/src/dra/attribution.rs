//! Which container has which device of which claim: what kubelet tells, joined with what is on record.

use crate::holders::ClaimHeld;
use crate::metrics::{ClaimDevice, Metrics, ShareLabels};
use carve_dra_driver::{ClaimRecord, RecordStore, Stage};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Keeps the series about claims.
#[derive(Debug)]
pub(crate) struct Attribution {
    store: RecordStore,
    driver: String,
    boot: String,
    metrics: Arc<Metrics>,
}

impl Attribution {
    pub(crate) fn new(state: &Path, driver: &str, boot: &str, metrics: Arc<Metrics>) -> Self {
        Attribution {
            store: RecordStore::of_agent(state),
            driver: driver.to_owned(),
            boot: boot.to_owned(),
            metrics,
        }
    }

    /// Kubelet has told who holds what.
    pub(crate) async fn learn(&self, held: Vec<ClaimHeld>) {
        let store = self.store.clone();
        let read = tokio::task::spawn_blocking(move || store.look()).await;
        let records = match read {
            Ok(Ok(records)) => records,
            Ok(Err(error)) => return tracing::debug!(%error, "the series about claims stay as they are"),
            Err(error) => return tracing::debug!(%error, "the series about claims stay as they are"),
        };
        let here: Vec<ClaimRecord> =
            records.claims.into_values().filter(|record| record.boot == self.boot).collect();
        let ready = here.iter().filter(|record| record.stage == Stage::Ready).count();
        self.metrics.attribute(ready, attributed(&held, &here, &self.driver));
    }
}

/// Every device of the driver that a container has. What the device is comes from the records; kubelet knows a claim by its name
/// alone, so of two with one name the one that is ready counts.
fn attributed(held: &[ClaimHeld], records: &[ClaimRecord], driver: &str) -> BTreeSet<ClaimDevice> {
    let ours = held.iter().filter(|held| held.driver == driver);
    let series = ours.map(|held| {
        let mut named: Vec<&ClaimRecord> = records
            .iter()
            .filter(|record| record.namespace == held.claim_namespace && record.name == held.claim)
            .collect();
        named.sort_by_key(|record| record.stage != Stage::Ready);
        let device = named
            .iter()
            .flat_map(|record| &record.devices)
            .find(|device| device.device == held.device && device.share == held.share);
        let uuid = device.map(|device| device.part.clone().unwrap_or_else(|| device.gpu.clone()));
        let labels = ShareLabels {
            namespace: held.holder.namespace.clone(),
            pod: held.holder.pod.clone(),
            container: held.holder.container.clone(),
            claim: held.claim.clone(),
            claim_namespace: held.claim_namespace.clone(),
            device: held.device.clone(),
            share: held.share.clone().unwrap_or_default(),
            uuid: uuid.unwrap_or_default(),
        };
        ClaimDevice { labels, usage: device.map_or("", |device| device.usage.word()) }
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::attributed;
    use crate::holders::ClaimHeld;
    use crate::metrics::Metrics;
    use carve_dra_driver::{ClaimRecord, DeviceRecord, Stage, UsageRecord};
    use carve_slicing::Holder;

    fn held(pod: &str, claim: &str, driver: &str, device: &str, share: Option<&str>) -> ClaimHeld {
        ClaimHeld {
            holder: Holder {
                namespace: "team".to_owned(),
                pod: pod.to_owned(),
                container: "main".to_owned(),
            },
            claim_namespace: "team".to_owned(),
            claim: claim.to_owned(),
            driver: driver.to_owned(),
            device: device.to_owned(),
            share: share.map(str::to_owned),
        }
    }

    fn record(claim: &str, uid: &str, stage: Stage, part: Option<&str>, share: Option<&str>) -> ClaimRecord {
        ClaimRecord {
            boot: "b".to_owned(),
            namespace: "team".to_owned(),
            name: claim.to_owned(),
            uid: uid.to_owned(),
            stage,
            devices: vec![DeviceRecord {
                request: "gpu".to_owned(),
                device: "gpu-0-frac".to_owned(),
                share: share.map(str::to_owned),
                gpu: "GPU-0".to_owned(),
                part: part.map(str::to_owned),
                guards: None,
                usage: UsageRecord::Fraction { memory: 1, compute: 1, burst: false, pass: false },
            }],
        }
    }

    #[test]
    fn series_name_container_claim_and_part_and_vanish_with_the_pod() {
        let records = [
            record("c", "old", Stage::Ending, Some("GPU-old"), Some("s")),
            record("c", "new", Stage::Ready, Some("GPU-new"), Some("s")),
            record("d", "d", Stage::Ready, None, Some("t")),
        ];
        let holds = [
            held("a", "c", "gpu.carve.dev", "gpu-0-frac", Some("s")),
            held("b", "d", "gpu.carve.dev", "gpu-0-frac", Some("t")),
            held("x", "c", "gpu.nvidia.com", "gpu-0-frac", Some("s")),
            held("y", "nobody-recorded", "gpu.carve.dev", "gpu-1", None),
        ];
        let metrics = Metrics::new();
        metrics.attribute(2, attributed(&holds, &records, "gpu.carve.dev"));
        let series = |text: &str| -> Vec<String> {
            let mut lines: Vec<String> = text
                .lines()
                .filter(|line| line.starts_with("carve_agent_claim_device{"))
                .map(str::to_owned)
                .collect();
            lines.sort();
            lines
        };
        let wanted = |pod: &str, claim: &str, device: &str, share: &str, uuid: &str, usage: &str| {
            format!(
                "carve_agent_claim_device{{namespace=\"team\",pod=\"{pod}\",container=\"main\",claim=\"{claim}\",\
                 claim_namespace=\"team\",device=\"{device}\",share=\"{share}\",uuid=\"{uuid}\",usage=\"{usage}\"}} 1"
            )
        };
        let text = metrics.text();
        assert_eq!(
            series(&text),
            [
                wanted("a", "c", "gpu-0-frac", "s", "GPU-new", "fraction"),
                wanted("b", "d", "gpu-0-frac", "t", "GPU-0", "fraction"),
                wanted("y", "nobody-recorded", "gpu-1", "", "", ""),
            ]
        );
        assert!(text.lines().any(|line| line == "carve_agent_claims_ready 2"), "{text}");
        metrics.attribute(1, attributed(&holds[1..2], &records, "gpu.carve.dev"));
        assert_eq!(series(&metrics.text()), [wanted("b", "d", "gpu-0-frac", "t", "GPU-0", "fraction")]);
    }
}
