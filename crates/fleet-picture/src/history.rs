//! The last hours, look by look: whole pictures now and then, and changes in between.

use crate::{Change, GpuPicture, NodePicture, Picture, Summary};
use std::collections::VecDeque;

/// One look.
#[derive(Debug, Clone)]
pub struct Frame {
    /// When.
    pub at: i64,
    /// In a few numbers.
    pub summary: Summary,
    /// The whole picture, or what has changed since the frame before.
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Whole(Box<Picture>),
    Since(Vec<Change>),
}

/// After so many frames comes a whole picture.
const KEY: usize = 60;

/// The last looks.
#[derive(Debug)]
pub struct History {
    frames: VecDeque<Frame>,
    last: Picture,
    since_key: usize,
    /// How much is kept, at most, in hundreds of bytes or so.
    most: usize,
    kept: usize,
}

impl Frame {
    /// How much it holds, in hundreds of bytes or so.
    fn weight(&self) -> usize {
        let gpu = |gpu: &GpuPicture| 3 + 2 * gpu.instances.len() + 4 * gpu.slices.len();
        let node = |node: &NodePicture| 2 + node.gpus.iter().map(gpu).sum::<usize>();
        1 + match &self.body {
            Body::Whole(picture) => {
                let rest = picture.waiting.len() + picture.happenings.len();
                3 * rest + picture.nodes.values().map(node).sum::<usize>()
            }
            Body::Since(changes) => changes
                .iter()
                .map(|change| match change {
                    Change::Node(_, one) => node(one),
                    Change::Gpu(_, _, one) => 1 + gpu(one),
                    Change::Used(_, _, used) => 1 + used.slices.len() / 2,
                    Change::Waiting(..) | Change::Happening(_) => 3,
                    Change::NodeGone(_) | Change::WaitingGone(_) => 1,
                })
                .sum(),
        }
    }
}

impl History {
    /// Keeps so many hundreds of bytes, or a few looks where they are larger, so that memory is bounded whatever happens.
    pub fn new(most: usize) -> Self {
        History { frames: VecDeque::new(), last: Picture::default(), since_key: KEY, most, kept: 0 }
    }

    /// Another look.
    pub fn add(&mut self, picture: &Picture) {
        let body = if self.since_key >= KEY || self.frames.is_empty() {
            self.since_key = 0;
            Body::Whole(Box::new(picture.clone()))
        } else {
            Body::Since(self.last.changes_to(picture))
        };
        self.since_key += 1;
        let frame = Frame { at: picture.at, summary: picture.summary(), body };
        self.kept += frame.weight();
        self.frames.push_back(frame);
        self.last.clone_from(picture);
        // What comes before the first whole picture could not be drawn.
        while self.kept > self.most && self.frames.len() > KEY {
            while let Some(frame) = self.frames.pop_front() {
                self.kept -= frame.weight();
                if matches!(self.frames.front().map(|frame| &frame.body), None | Some(Body::Whole(_))) {
                    break;
                }
            }
        }
    }

    /// The looks, in a few numbers each.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.frames.iter().map(|frame| &frame.summary)
    }

    /// The picture as it was then: that of the last look before it. None before the first one.
    pub fn at(&self, at: i64) -> Option<Picture> {
        let end = self.frames.partition_point(|frame| frame.at <= at);
        let start = self.frames.iter().take(end).rposition(|frame| matches!(frame.body, Body::Whole(_)))?;
        let mut picture = Picture::default();
        for frame in self.frames.range(start..end) {
            match &frame.body {
                Body::Whole(whole) => picture.clone_from(whole),
                Body::Since(changes) => picture.apply(frame.at, changes),
            }
        }
        Some(picture)
    }
}

#[cfg(test)]
mod tests {
    use super::History;
    use crate::{GpuPicture, NodePicture, Picture};

    fn picture(at: i64) -> Picture {
        let gpu = |number: i64| GpuPicture {
            memory_used: ((at + number) % 7).unsigned_abs(),
            ..GpuPicture::default()
        };
        let node = NodePicture { gpus: (0..4).map(gpu).collect(), ..NodePicture::default() };
        Picture { at, nodes: [("a".to_owned(), node)].into(), ..Picture::default() }
    }

    #[test]
    fn every_look_that_is_kept_can_be_drawn_again() {
        let mut history = History::new(2_000);
        assert_eq!(history.at(5), None);
        for at in 0..1_000 {
            history.add(&picture(at * 10));
        }
        let first = history.summaries().next().expect("a look").at;
        assert!(first > 0 && history.summaries().count() < 500, "{first}");
        for at in (first..9_990).step_by(130) {
            let of = at - at % 10;
            assert_eq!(history.at(at), Some(picture(of)), "{at}");
        }
        assert_eq!(history.at(first - 1), None);
        assert_eq!(history.at(i64::MAX), Some(picture(9_990)));
    }
}
