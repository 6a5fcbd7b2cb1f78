//! Which replica leads: decided by a Lease, and by clocks that only count how long something has not changed.
//!
//! ```text
//!            the record is mine, or has not changed for its whole duration
//!   waiting ────────────────────────────────────────────────────────────▶ writing ──taken──▶ leading
//!      ▲                                                                     │ lost            │ not renewed in time
//!      └─────────────────────────────────────────────────────────────────────┴─────────────────┘
//! ```
//! Times of other machines are never compared with ours. Whoever leads stops by itself after two thirds of the duration, counted from before its
//! last write was sent; whoever waits takes over when it has watched one record for the whole duration. So there are never two.

use std::time::Duration;

/// Time since some moment of this machine, on a clock that does not jump.
pub type Moment = Duration;

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Who leads; empty where nobody does.
    pub holder: String,
    /// Which writing of it this is, as the API server counts them.
    pub version: String,
    /// How long it counts.
    pub duration: Duration,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Write ourselves over the record that was seen, if it is still that one.
    Write,
    /// Look again later.
    Wait,
}

/// A replica's view of the election.
#[derive(Debug, Clone)]
pub struct Election {
    me: String,
    duration: Duration,
    /// The last record that was seen, and when it was first seen.
    observed: Option<(Record, Moment)>,
    /// When the last write that was taken was sent.
    renewed: Option<Moment>,
}

impl Election {
    /// A replica that leads nothing yet.
    pub fn new(me: &str, duration: Duration) -> Self {
        Election { me: me.to_owned(), duration, observed: None, renewed: None }
    }

    /// The record is this now; none where there is no Lease yet.
    pub fn observe(&mut self, record: Option<Record>, now: Moment) -> Move {
        let Some(record) = record else { return Move::Write };
        let since = match &self.observed {
            Some((known, since)) if *known == record => *since,
            _ => now,
        };
        let over = record.holder.is_empty() || now.saturating_sub(since) >= record.duration;
        let mine = record.holder == self.me;
        self.observed = Some((record, since));
        if mine || over {
            return Move::Write;
        }
        self.renewed = None;
        Move::Wait
    }

    /// A write was taken that was sent at a moment.
    pub fn written(&mut self, record: Record, sent: Moment) {
        self.observed = Some((record, sent));
        self.renewed = Some(sent);
    }

    /// Whether this replica leads, and will for as long as one write takes.
    pub fn leads(&self, now: Moment) -> bool {
        self.renewed.is_some_and(|sent| now < sent + self.duration * 2 / 3)
    }
}

#[cfg(test)]
mod tests {
    use super::{Election, Move, Record};
    use proptest::prelude::*;
    use std::time::Duration;

    const DURATION: Duration = Duration::from_secs(15);

    /// A Lease: a write counts only over the version that its writer saw.
    #[derive(Default)]
    struct Lease(Option<Record>);

    impl Lease {
        fn write(&mut self, holder: &str, over: Option<&Record>) -> Option<Record> {
            if self.0.as_ref() != over {
                return None;
            }
            let version = over.map_or(0, |record| record.version.parse::<u64>().unwrap()) + 1;
            self.0 =
                Some(Record { holder: holder.to_owned(), version: version.to_string(), duration: DURATION });
            self.0.clone()
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_leads_and_another_follows_when_it_is_gone() {
        let (mut lease, mut one, mut two) =
            (Lease::default(), Election::new("one", DURATION), Election::new("two", DURATION));
        assert_eq!(one.observe(None, at(100)), Move::Write);
        one.written(lease.write("one", None).unwrap(), at(100));
        assert!(one.leads(at(109)) && !one.leads(at(110)), "it stops by itself");
        // The clock of the other is another one.
        let seen = lease.0.clone();
        assert_eq!(two.observe(seen.clone(), at(7)), Move::Wait);
        assert_eq!(two.observe(seen.clone(), at(21)), Move::Wait);
        assert_eq!(two.observe(seen.clone(), at(22)), Move::Write);
        two.written(lease.write("two", seen.as_ref()).unwrap(), at(22));
        assert!(two.leads(at(23)));
        assert_eq!(one.observe(lease.0.clone(), at(116)), Move::Wait);
        assert!(!one.leads(at(116)));
    }

    #[test]
    fn a_leader_that_gives_up_is_followed_at_once() {
        let mut two = Election::new("two", DURATION);
        let given_up = Record { holder: String::new(), version: "9".to_owned(), duration: DURATION };
        assert_eq!(two.observe(Some(given_up), at(1)), Move::Write);
    }

    /// How far a replica is: it has nothing to do, it has decided to write, or it was answered and has not heard of it.
    #[derive(Clone)]
    enum Stage {
        Idle,
        Writes { over: Option<Record>, sent: Duration },
        Answered { record: Record, sent: Duration },
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn never_do_two_lead(
            // Which replica goes on, and after how many seconds; between any two of its steps others may do all of theirs.
            steps in prop::collection::vec((0usize..3, prop_oneof![6 => 0u64..3, 1 => 0u64..30]), 1..200),
            skews in prop::array::uniform3(0u64..1000),
        ) {
            let mut lease = Lease::default();
            let names = ["one", "two", "three"];
            let mut all = names.map(|name| Election::new(name, DURATION));
            let mut stages = vec![Stage::Idle; 3];
            let mut now = 0;
            for (replica, passed) in steps {
                now += passed;
                let local = at(now + skews[replica]);
                stages[replica] = match stages[replica].clone() {
                    Stage::Idle => match all[replica].observe(lease.0.clone(), local) {
                        Move::Write => Stage::Writes { over: lease.0.clone(), sent: local },
                        Move::Wait => Stage::Idle,
                    },
                    Stage::Writes { over, sent } => match lease.write(names[replica], over.as_ref()) {
                        Some(record) => Stage::Answered { record, sent },
                        None => Stage::Idle,
                    },
                    Stage::Answered { record, sent } => {
                        all[replica].written(record, sent);
                        Stage::Idle
                    }
                };
                let leads = |(number, one): &(usize, &Election)| one.leads(at(now + skews[*number]));
                let leading = all.iter().enumerate().filter(leads).count();
                prop_assert!(leading <= 1);
            }
        }
    }
}
