//! Watches one object by name and keeps the newest version of it.

use futures_util::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use std::fmt::Debug;
use tokio::sync::watch;

/// What is known of the object: nothing yet, that it is not there, or the newest version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Newest<T> {
    Unknown,
    Absent,
    There(T),
}

/// Follows an object until nobody is interested. Lost connections are made anew.
pub(crate) fn follow<K, T>(api: Api<K>, name: &str, view: fn(&K) -> T) -> watch::Receiver<Newest<T>>
where
    K: Resource + Clone + Debug + for<'de> k8s_openapi::serde::Deserialize<'de> + Send + 'static,
    K::DynamicType: Default,
    T: PartialEq + Send + Sync + 'static,
{
    let (newest, seen) = watch::channel(Newest::Unknown);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    tokio::spawn(async move {
        let mut events = Box::pin(watcher::watcher(api, config));
        let mut listed = false;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = newest.closed() => return,
            };
            let now = match event {
                None => return,
                Some(Ok(Event::Apply(object) | Event::InitApply(object))) => {
                    listed = true;
                    Newest::There(view(&object))
                }
                Some(Ok(Event::Delete(_))) => Newest::Absent,
                Some(Ok(Event::Init)) => {
                    listed = false;
                    continue;
                }
                Some(Ok(Event::InitDone)) if !listed => Newest::Absent,
                Some(Ok(Event::InitDone)) => continue,
                Some(Err(error)) => {
                    // The watcher waits longer and longer by itself.
                    tracing::debug!(%error, "a watch was interrupted");
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                    continue;
                }
            };
            newest.send_if_modified(|known| {
                let changed = *known != now;
                *known = now;
                changed
            });
        }
    });
    seen
}
