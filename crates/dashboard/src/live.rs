//! Pictures with numbers: what changes is told as it comes, and the last hours are kept.

use axum::body::Bytes;
use carve_fleet_picture::{Changes, History, Picture, Summary};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, watch};

/// The most often that anything is told.
const BEAT: Duration = Duration::from_millis(100);
/// How often a look is kept.
const KEEP: i64 = 10;
/// Changes that are kept for those who were away for a moment, and how many bytes of them at most.
const RECENT: usize = 300;
const RECENT_BYTES: usize = 16 << 20;
/// Changes that wait for whoever reads slowly; who is further behind is told that something is missing.
const BEHIND: usize = 16;
/// The most bytes of a second that a stream has on average: a large fleet is told less often instead.
const BYTES_A_SECOND: usize = 3_000_000;
/// Hundreds of bytes in all looks that are kept: some hours of a small fleet, and less of a large one.
const HISTORY: usize = 600_000;

/// A change as it is sent, written once for all.
pub(crate) type Frame = (u64, Bytes);

/// What is live; cheap to clone.
#[derive(Debug, Clone)]
pub struct Live {
    state: Arc<Mutex<State>>,
    frames: broadcast::Sender<Frame>,
}

#[derive(Debug)]
struct State {
    version: u64,
    picture: Arc<Picture>,
    recent: VecDeque<Frame>,
    recent_bytes: usize,
    history: History,
    /// The picture as it is sent, if somebody has asked for this version.
    written: Option<Frame>,
}

/// What somebody who was away has missed.
pub(crate) enum Missed {
    /// These.
    Frames(Vec<Frame>),
    /// More than is kept.
    TooMuch,
}

impl Default for Live {
    fn default() -> Self {
        let state = State {
            version: 0,
            picture: Arc::new(Picture::default()),
            recent: VecDeque::new(),
            recent_bytes: 0,
            history: History::new(HISTORY),
            written: None,
        };
        Live { state: Arc::new(Mutex::new(state)), frames: broadcast::Sender::new(BEHIND) }
    }
}

impl Live {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows pictures for as long as they come.
    pub async fn follow(&self, mut seen: watch::Receiver<Arc<Picture>>) {
        let mut kept = i64::MIN;
        while seen.changed().await.is_ok() {
            let picture = Arc::clone(&seen.borrow_and_update());
            let bytes = self.show(&picture);
            if picture.at >= kept.saturating_add(KEEP) {
                kept = picture.at;
                self.state().history.add(&picture);
            }
            tokio::time::sleep(BEAT.max(Duration::from_millis((bytes * 1000 / BYTES_A_SECOND) as u64))).await;
        }
    }

    /// Another picture. Returns how many bytes were told.
    fn show(&self, picture: &Arc<Picture>) -> usize {
        let (version, before) = {
            let state = self.state();
            (state.version + 1, Arc::clone(&state.picture))
        };
        // Thousands of GPUs are compared; nobody else waits for that.
        let changes = before.changes_to(picture);
        if changes.is_empty() && version > 1 {
            let mut state = self.state();
            (state.picture, state.written) = (Arc::clone(picture), None);
            return 0;
        }
        let changes = Changes { version, at: picture.at, changes, summary: picture.summary() };
        let written = serde_json::to_string(&changes).unwrap_or_default();
        let frame: Frame =
            (version, Bytes::from(format!("event: changes\nid: {version}\ndata: {written}\n\n")));
        let mut state = self.state();
        (state.version, state.picture, state.written) = (version, Arc::clone(picture), None);
        let bytes = frame.1.len();
        state.recent.push_back(frame.clone());
        state.recent_bytes += bytes;
        while state.recent.len() > RECENT || state.recent_bytes > RECENT_BYTES {
            let Some((_, oldest)) = state.recent.pop_front() else { break };
            state.recent_bytes -= oldest.len();
        }
        // Sent under the lock, so that whoever looks at what is kept and then listens misses nothing. Nobody may be listening.
        let _ = self.frames.send(frame);
        bytes
    }

    /// Waits until the newest of pictures that come is shown here, though not for long.
    pub(crate) async fn catch_up(&self, seen: &watch::Receiver<Arc<Picture>>) {
        for _ in 0..10 {
            if Arc::ptr_eq(&self.picture(), &seen.borrow()) {
                return;
            }
            tokio::time::sleep(BEAT / 2).await;
        }
    }

    /// The newest picture.
    pub fn picture(&self) -> Arc<Picture> {
        Arc::clone(&self.state().picture)
    }

    /// The newest picture with its number, as it is sent.
    pub(crate) fn written(&self) -> Bytes {
        let (version, picture) = {
            let state = self.state();
            if let Some((_, written)) = &state.written {
                return written.clone();
            }
            (state.version, Arc::clone(&state.picture))
        };
        let text = Bytes::from(
            json!({"version": version, "picture": *picture, "summary": picture.summary()}).to_string(),
        );
        let mut state = self.state();
        if state.version == version {
            state.written = Some((version, text.clone()));
        }
        text
    }

    /// The picture as it was.
    pub(crate) fn at(&self, at: i64) -> Option<Picture> {
        self.state().history.at(at)
    }

    /// The last hours in a few numbers each.
    pub(crate) fn looks(&self, since: i64) -> Vec<Summary> {
        self.state().history.summaries().filter(|look| look.at >= since).copied().collect()
    }

    /// What was missed since a version, and what comes from now on.
    pub(crate) fn listen(&self, since: u64) -> (Missed, broadcast::Receiver<Frame>) {
        let state = self.state();
        let coming = self.frames.subscribe();
        let oldest = state.recent.front().map_or(state.version + 1, |(version, _)| *version);
        if since + 1 < oldest || since > state.version {
            return (Missed::TooMuch, coming);
        }
        let missed = state.recent.iter().filter(|(version, _)| *version > since).cloned().collect();
        (Missed::Frames(missed), coming)
    }
}

#[cfg(test)]
mod tests {
    use super::{Live, Missed};
    use carve_fleet_picture::{NodePicture, Picture};
    use std::sync::Arc;

    fn picture(nodes: usize) -> Arc<Picture> {
        let node = |number: usize| (number.to_string(), NodePicture::default());
        Arc::new(Picture { nodes: (0..nodes).map(node).collect(), ..Picture::default() })
    }

    #[test]
    fn nobody_misses_anything_or_is_told() {
        let live = Live::default();
        live.show(&picture(1));
        live.show(&picture(2));
        live.show(&picture(2));
        let (missed, mut coming) = live.listen(1);
        let Missed::Frames(missed) = missed else { panic!("it is kept") };
        assert_eq!(missed.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [2]);
        live.show(&picture(3));
        assert_eq!(coming.try_recv().expect("a change").0, 3);
        for nodes in 0..400 {
            live.show(&picture(nodes));
        }
        assert!(matches!(live.listen(3).0, Missed::TooMuch));
        assert!(matches!(live.listen(9_999).0, Missed::TooMuch), "a number from before a restart");
    }
}
