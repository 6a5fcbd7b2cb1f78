//! How much memory graphs of a device can have at most after a launch, so that it is reserved before.
//!
//! The driver keeps memory for graphs until it is told to trim it, and lets graphs share it that do not run at once. So a launch can add what
//! the graph asks for, or nothing; and together they never have more than all that were launched since ask for. While launches go on in other
//! threads, what the driver shows may be theirs or not yet; what was reserved stays until the last of them is over.

/// What graphs of a device have, as far as this process knows. Zeros are nothing.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Level {
    /// Bytes that are counted for them.
    counted: u64,
    /// What all those that were launched since nothing was left ask for, together.
    most: u64,
    /// Launches that go on.
    flights: u32,
    /// Moves on when nothing is left, so that every graph is new again.
    epoch: u32,
}

/// What a graph that is ready asks for, and when it was last launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) bytes: u64,
    /// One more than the epoch of its last launch; zero for none.
    pub(crate) launched: u32,
}

impl Level {
    /// What to note as the time of a launch now.
    pub(crate) fn mark(&self) -> u32 {
        self.epoch.wrapping_add(1).max(1)
    }

    fn fresh(&self, ask: Ask) -> u64 {
        if ask.launched == self.mark() { 0 } else { ask.bytes }
    }

    pub(crate) fn counted(&self) -> u64 {
        self.counted
    }

    /// Whether launches go on.
    pub(crate) fn is_flying(&self) -> bool {
        self.flights > 0
    }

    /// What has to be counted before a graph is launched. The driver shows that graphs have so much now.
    pub(crate) fn wanted(&self, now: u64, ask: Ask) -> u64 {
        let base = if self.is_flying() { self.counted.max(now) } else { now };
        let most = self.most.max(now).saturating_add(self.fresh(ask));
        base.saturating_add(ask.bytes).min(most).max(base)
    }

    /// That much is counted now, and the launch begins.
    pub(crate) fn begin(&mut self, counted: u64, now: u64, ask: Ask) {
        self.most = self.most.max(now).saturating_add(self.fresh(ask));
        self.counted = counted;
        self.flights += 1;
    }

    /// A launch is over, and the driver shows what they have now. Answers what is to be counted.
    pub(crate) fn end(&mut self, now: u64) -> u64 {
        self.flights = self.flights.saturating_sub(1);
        self.settle(now)
    }

    /// What is to be counted where the driver shows that graphs have so much.
    pub(crate) fn settle(&mut self, now: u64) -> u64 {
        if self.is_flying() {
            self.counted = self.counted.max(now);
        } else {
            self.counted = now;
            if now == 0 {
                self.most = 0;
                self.epoch = self.epoch.wrapping_add(1);
            }
        }
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::{Ask, Level};
    use proptest::prelude::*;
    extern crate std;
    use std::vec::Vec;

    fn launch(level: &mut Level, now: u64, ask: &mut Ask) -> u64 {
        let wanted = level.wanted(now, *ask);
        level.begin(wanted, now, *ask);
        ask.launched = level.mark();
        wanted
    }

    fn ask(bytes: u64) -> Ask {
        Ask { bytes, launched: 0 }
    }

    #[test]
    fn a_graph_asks_once_until_nothing_is_left() {
        let (mut level, mut graph) = (Level::default(), ask(8));
        assert_eq!(launch(&mut level, 0, &mut graph), 8);
        assert_eq!(level.end(8), 8);
        assert_eq!(launch(&mut level, 8, &mut graph), 8, "it has what it needs");
        assert_eq!(level.end(8), 8);
        assert_eq!(level.settle(0), 0);
        assert_eq!(launch(&mut level, 0, &mut graph), 8, "after it was trimmed");
    }

    #[test]
    fn graphs_that_share_may_part_at_any_launch() {
        let (mut level, mut one, mut other) = (Level::default(), ask(8), ask(8));
        launch(&mut level, 0, &mut one);
        level.end(8);
        assert_eq!(launch(&mut level, 8, &mut other), 16);
        assert_eq!(level.end(8), 8, "the driver let them share");
        assert_eq!(launch(&mut level, 8, &mut one), 16, "until they run at once");
        level.end(16);
        assert_eq!(launch(&mut level, 16, &mut other), 16, "more than both have there never is");
        level.end(16);
    }

    #[test]
    fn one_that_took_nothing_is_new_again() {
        let (mut level, mut graph) = (Level::default(), ask(8));
        launch(&mut level, 0, &mut graph);
        assert_eq!(level.end(0), 0, "it came to nothing");
        assert_eq!(launch(&mut level, 0, &mut graph), 8, "the next time it may take all");
    }

    #[test]
    fn what_came_from_elsewhere_is_nobodys_room() {
        let (mut level, mut graph) = (Level::default(), ask(8));
        level.settle(8);
        assert_eq!(launch(&mut level, 8, &mut graph), 16, "what is there may be in use");
    }

    proptest! {
        /// Threads launch and end in any order, and the driver takes any part of what it may: what is counted is never less than what it has, and
        /// the same as soon as nobody launches.
        #[test]
        fn what_is_counted_is_never_less_than_what_there_is(
            sizes in prop::collection::vec(1u64..9, 1..6),
            steps in prop::collection::vec((0usize..6, any::<bool>(), 0u64..9), 1..200),
        ) {
            let mut level = Level::default();
            let mut asks: Vec<Ask> = sizes.iter().map(|&bytes| ask(bytes)).collect();
            let mut own: Vec<u64> = sizes.iter().map(|_| 0).collect();
            let mut flying: Vec<usize> = Vec::new();
            for (number, starts, part) in steps {
                let number = number % sizes.len();
                let has = |own: &[u64]| own.iter().sum::<u64>();
                if starts {
                    let mut graph = asks[number];
                    launch(&mut level, has(&own), &mut graph);
                    asks[number] = graph;
                    flying.push(number);
                } else if let Some(number) = flying.pop() {
                    own[number] = own[number].max(part.min(sizes[number]));
                    level.end(has(&own));
                } else if part == 0 {
                    own.fill(0);
                    level.settle(0);
                }
                prop_assert!(level.counted() >= has(&own), "{level:?} {own:?}");
                prop_assert!(!flying.is_empty() || level.counted() == has(&own), "{level:?} {own:?}");
                prop_assert!(level.counted() <= sizes.iter().sum::<u64>());
            }
        }
    }
}
