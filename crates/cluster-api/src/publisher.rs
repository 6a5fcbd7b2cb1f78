//! Keeps the ResourceSlices of a node as they are wanted, whoever deletes or changes them.
//!
//! ```text
//!   wanted slices ──reconcile──▶ list ──publication──▶ delete, write one by one ──▶ what was kept is compared with what was sent
//!                        ▲
//!   somebody else's change ──changes──┘
//! ```
//! Counters come first in the order of slices. Where the API server does not keep them, no device is written, and what there is goes:
//! without counters a scheduler gives away one GPU several times.

use crate::dropped::{Dropped, dropped};
use crate::kept::{KeptSlices, version_of};
use crate::{ApiError, NodeApi, SliceOwner};
use carve_dra::{Existing, Publication, Slice, publication};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// How often a publication is tried anew when others write the same slices meanwhile.
const ATTEMPTS: usize = 5;

/// How long the watch looks away after it has told of a change. Two agents of one node that want different slices, as while one replaces
/// the other, would otherwise write as fast as they can.
const PAUSE: Duration = Duration::from_secs(1);

/// What a reconciliation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishReport {
    /// The generation of the pool.
    pub generation: i64,
    /// How many slices were written.
    pub written: usize,
    /// How many were deleted.
    pub deleted: usize,
    /// What the API server does not keep of the slices; also told when nothing was written.
    pub dropped: Vec<Dropped>,
    /// Whether everything was taken back because devices could not have been kept apart.
    pub withheld: bool,
}

/// Publishes the slices of one node.
#[derive(Debug, Clone)]
pub struct SlicePublisher {
    slices: Api<ResourceSlice>,
    nodes: Api<Node>,
    owner: SliceOwner,
    /// Selects the slices of this driver on this node.
    selector: String,
    /// Held while slices are written, so that whoever watches does not take our own writes for somebody else's.
    kept: Arc<Mutex<KeptSlices>>,
}

impl SlicePublisher {
    /// For the slices of a driver on the node.
    pub fn new(api: &NodeApi, driver: String) -> Self {
        let node = api.node().to_owned();
        SlicePublisher {
            slices: Api::all(api.client()),
            nodes: Api::all(api.client()),
            selector: format!("spec.nodeName={node},spec.driver={driver}"),
            owner: SliceOwner { driver, node, node_uid: None },
            kept: Arc::default(),
        }
    }

    /// Makes the slices what is wanted. Does nothing where they are.
    pub async fn reconcile(&mut self, wanted: &[Slice]) -> Result<PublishReport, ApiError> {
        let kept = Arc::clone(&self.kept);
        let mut kept = kept.lock().await;
        // A Node that was made anew has another uid, and slices of the old one are collected.
        self.owner.node_uid = self.nodes.get(&self.owner.node).await?.metadata.uid;
        let mut report =
            PublishReport { generation: 0, written: 0, deleted: 0, dropped: Vec::new(), withheld: false };
        for attempt in 1.. {
            match self.attempt(wanted, &mut kept, &mut report).await {
                Err(error) if attempt < ATTEMPTS && is_race(&error) => {
                    tracing::debug!(%error, "slices changed while they were written; looking again");
                }
                done => {
                    done?;
                    break;
                }
            }
        }
        report.dropped = dropped(kept.slices.iter().map(|(name, kept)| (name, &kept.sent, &kept.spec)));
        if report.dropped.iter().any(|dropped| dropped.field.keeps_apart()) {
            let dropped = std::mem::take(&mut report.dropped);
            report.deleted += self.delete_all(&mut kept).await?;
            report = PublishReport { dropped, withheld: true, ..report };
        }
        Ok(report)
    }

    async fn attempt(
        &self,
        wanted: &[Slice],
        kept: &mut KeptSlices,
        report: &mut PublishReport,
    ) -> Result<(), kube::Error> {
        let found = self.slices.list(&ListParams::default().fields(&self.selector)).await?.items;
        kept.learn_times(&found);
        let mut objects: Vec<ResourceSlice> =
            wanted.iter().map(|slice| self.owner.object(slice, 0)).collect();
        objects.iter_mut().for_each(|object| kept.keep_times(&mut object.spec));
        let existing: Vec<Existing> =
            found.iter().map(|slice| self.existing(slice, &objects, kept)).collect();
        let found: BTreeMap<&str, &ResourceSlice> =
            found.iter().filter_map(|slice| Some((slice.metadata.name.as_deref()?, slice))).collect();
        let todo: Publication = publication(&existing, wanted, kept.generation);
        report.generation = todo.generation;
        for name in &todo.delete {
            self.delete(name, found.get(name.as_str()).copied()).await?;
            report.deleted += 1;
        }
        // Also what somebody else deleted before we could: it is not missed.
        kept.slices.retain(|name, _| wanted.iter().any(|slice| self.owner.name_of(slice.index) == *name));
        // Slices of an earlier process are known from here on, so that a change of theirs is seen.
        for (index, object) in objects.iter().enumerate().filter(|(index, _)| !todo.write.contains(index)) {
            if let Some(there) = found.get(self.owner.name_of(index).as_str()) {
                kept.note(&object.spec, there);
            }
        }
        for (slice, object) in
            wanted.iter().zip(objects).filter(|(slice, _)| todo.write.contains(&slice.index))
        {
            let name = self.owner.name_of(slice.index);
            let mut object = object;
            object.spec.pool.generation = todo.generation;
            kept.generation = kept.generation.max(todo.generation);
            let written = match found.get(name.as_str()) {
                Some(there) => {
                    object.metadata.resource_version = there.metadata.resource_version.clone();
                    self.slices.replace(&name, &PostParams::default(), &object).await?
                }
                None => self.slices.create(&PostParams::default(), &object).await?,
            };
            report.written += 1;
            kept.note(&object.spec, &written);
            kept.learn_times(std::slice::from_ref(&written));
            let lost = dropped([(&name, &object.spec, &written.spec)]);
            if lost.iter().any(|lost| lost.field.keeps_apart()) {
                // The devices that would come next are not to be seen even for a moment.
                return Ok(());
            }
        }
        kept.generation = kept.generation.max(todo.generation);
        Ok(())
    }

    fn existing(&self, slice: &ResourceSlice, objects: &[ResourceSlice], kept: &KeptSlices) -> Existing {
        let name = slice.metadata.name.clone().unwrap_or_default();
        let index = (0..objects.len()).find(|index| self.owner.name_of(*index) == name);
        let wanted = index.and_then(|index| objects.get(index));
        let pool = &slice.spec.pool;
        Existing {
            index,
            generation: pool.generation,
            of: usize::try_from(pool.resource_slice_count).unwrap_or(usize::MAX),
            current: wanted.is_some_and(|wanted| {
                wanted.metadata.owner_references == slice.metadata.owner_references
                    && kept.says_the_same(&name, &wanted.spec, &slice.spec)
            }),
            name,
        }
    }

    /// Tells whenever somebody else changed, deleted or added slices of this driver on the node: the first change at once, those that
    /// follow about once a second. What the number is says nothing.
    ///
    /// The watch ends when the receiver is dropped.
    pub fn changes(&self) -> watch::Receiver<u64> {
        let (changed, seen) = watch::channel(0_u64);
        let events = watcher::watcher(self.slices.clone(), watcher::Config::default().fields(&self.selector));
        let kept = Arc::clone(&self.kept);
        tokio::spawn(async move {
            let mut events = Box::pin(events);
            let mut listed = BTreeMap::new();
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = changed.closed() => return,
                };
                let foreign = match event {
                    None => return,
                    Some(Ok(Event::Init)) => {
                        listed.clear();
                        false
                    }
                    Some(Ok(Event::InitApply(slice))) => {
                        listed.extend(version_of(&slice));
                        false
                    }
                    Some(Ok(Event::InitDone)) => kept.lock().await.is_foreign_list(&listed),
                    Some(Ok(Event::Apply(slice))) => kept.lock().await.is_foreign_write(&slice),
                    Some(Ok(Event::Delete(slice))) => kept.lock().await.is_foreign_delete(&slice),
                    Some(Err(error)) => {
                        // The watcher begins anew by itself; without a pause it would do so as fast as it can.
                        tracing::debug!(%error, "the watch of slices was interrupted");
                        tokio::time::sleep(Duration::from_millis(500)).await;
                        false
                    }
                };
                if foreign {
                    changed.send_modify(|number| *number += 1);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
        seen
    }

    /// Takes everything back.
    pub async fn withdraw(&mut self) -> Result<(), ApiError> {
        let kept = Arc::clone(&self.kept);
        self.delete_all(&mut *kept.lock().await).await?;
        Ok(())
    }

    async fn delete_all(&self, kept: &mut KeptSlices) -> Result<usize, kube::Error> {
        let found = self.slices.list(&ListParams::default().fields(&self.selector)).await?.items;
        for slice in &found {
            let Some(name) = &slice.metadata.name else { continue };
            self.delete(name, None).await?;
        }
        kept.slices.clear();
        Ok(found.len())
    }

    /// Deletes a slice, the one that was looked at where that matters. One that is gone already is as good.
    async fn delete(&self, name: &str, seen: Option<&ResourceSlice>) -> Result<(), kube::Error> {
        let uid = seen.and_then(|slice| slice.metadata.uid.clone());
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.slices.delete(name, &params).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            done => done.map(|_| ()),
        }
    }
}

/// Whether somebody else wrote or deleted the same slice meanwhile, so that looking again helps.
fn is_race(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || status.code == 404)
}

#[cfg(test)]
#[path = "publisher_tests.rs"]
mod tests;
