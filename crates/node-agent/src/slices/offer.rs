//! Tells the cluster which GPUs of this node are given out in parts, and how much there is of them in sum.

use crate::dra::NodeNews;
use crate::tell::Reporter;
use carve_bookings::{Gpu, Offer};
use carve_cluster_api::{ApiError, NodeApi, Tone, names};
use carve_gpu_model::Bytes;
use carve_slicing::NodeGpu;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;

/// What the Node says is looked after this often without any news: somebody may have changed it.
const AGAIN: Duration = Duration::from_secs(60);
/// After a failure sooner.
const SOON: Duration = Duration::from_secs(2);

/// The GPUs that are given out in parts: all but those that MIG divides.
pub(crate) fn offer(news: &NodeNews) -> Offer {
    let gpu = |node: &NodeGpu| Gpu {
        uuid: node.gpu.uuid.clone(),
        product: node.gpu.name.clone(),
        memory: Bytes(node.gpu.memory.0.saturating_sub(node.reserved.0)).whole_mebibytes(),
        withheld: if node.lost {
            Some("the driver has lost it".to_owned())
        } else {
            news.sick.get(&node.part()).cloned()
        },
    };
    Offer { gpus: news.node.gpus.iter().filter(|node| !node.mig_enabled).map(gpu).collect() }
}

/// What the scheduler counts itself. GPUs that are withheld count: pods that run on them count, too, and would otherwise take the room of
/// others in the sum.
pub(crate) fn sums(offer: &Offer) -> BTreeMap<String, String> {
    let memory: u64 = offer.gpus.iter().map(|gpu| gpu.memory.0).sum();
    BTreeMap::from([
        (names::MEMORY.to_owned(), memory.to_string()),
        (names::COMPUTE.to_owned(), (offer.gpus.len() * 100).to_string()),
    ])
}

/// Keeps the Node true.
pub(crate) async fn run(api: NodeApi, reporter: Reporter, mut news: watch::Receiver<NodeNews>) {
    let mut told = String::new();
    loop {
        let offer = offer(&news.borrow_and_update());
        let written = write(&api, &offer).await;
        let wait = if written.is_ok() { AGAIN } else { SOON };
        let trouble = written.err().map(|error| error.to_string()).unwrap_or_default();
        if trouble != told {
            if trouble.is_empty() {
                reporter.event(
                    Tone::Normal,
                    "SlicesOffered",
                    "the Node says which GPUs are given out in parts",
                );
            } else {
                let message =
                    format!("the Node can not be told which GPUs are given out in parts: {trouble}");
                reporter.event(Tone::Warning, "SlicesNotOffered", message);
            }
            told = trouble;
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn write(api: &NodeApi, offer: &Offer) -> Result<(), ApiError> {
    let annotations = BTreeMap::from([(names::GPUS.to_owned(), offer.to_annotation())]);
    api.apply_labels(names::SLICES_MANAGER, &BTreeMap::new(), &annotations, true).await?;
    api.apply_capacity(names::SLICES_MANAGER, &sums(offer)).await
}
