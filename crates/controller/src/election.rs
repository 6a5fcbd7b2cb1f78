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
    /// How often it was written by its holder, so that two writings differ.
    pub renewals: u64,
    /// How long it counts.
    pub duration: Duration,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Write this over the record that was seen, if it is still that one.
    Write(Record),
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
        let fresh = Record { holder: self.me.clone(), renewals: 1, duration: self.duration };
        let Some(record) = record else { return Move::Write(fresh) };
        let since = match &self.observed {
            Some((known, since)) if *known == record => *since,
            _ => now,
        };
        self.observed = Some((record.clone(), since));
        let mine = record.holder == self.me;
        let over = record.holder.is_empty() || now.saturating_sub(since) >= record.duration;
        if mine || over {
            return Move::Write(Record { renewals: record.renewals.wrapping_add(1), ..fresh });
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
    struct Lease {
        record: Option<Record>,
        version: u64,
    }

    impl Lease {
        fn write(&mut self, record: Record, over: u64) -> bool {
            let taken = self.version == over;
            if taken {
                (self.record, self.version) = (Some(record), over + 1);
            }
            taken
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_leads_and_another_follows_when_it_is_gone() {
        let (mut lease, mut one, mut two) =
            (Lease::default(), Election::new("one", DURATION), Election::new("two", DURATION));
        let Move::Write(record) = one.observe(None, at(100)) else { panic!() };
        assert!(lease.write(record.clone(), 0));
        one.written(record, at(100));
        assert!(one.leads(at(109)) && !one.leads(at(110)), "it stops by itself");
        // The clock of the other is another one.
        assert_eq!(two.observe(lease.record.clone(), at(7)), Move::Wait);
        assert_eq!(two.observe(lease.record.clone(), at(21)), Move::Wait);
        let Move::Write(record) = two.observe(lease.record.clone(), at(22)) else { panic!() };
        assert!(lease.write(record.clone(), 1));
        two.written(record, at(22));
        assert!(two.leads(at(23)));
        assert_eq!(one.observe(lease.record.clone(), at(116)), Move::Wait);
        assert!(!one.leads(at(116)));
    }

    #[test]
    fn a_leader_that_gives_up_is_followed_at_once() {
        let mut two = Election::new("two", DURATION);
        let given_up = Record { holder: String::new(), renewals: 9, duration: DURATION };
        assert!(matches!(two.observe(Some(given_up), at(1)), Move::Write(record) if record.renewals == 10));
    }

    /// How far a replica is: it has nothing to do, it has decided what to write, or it was answered and has not heard of it.
    #[derive(Clone)]
    enum Stage {
        Idle,
        Writes { record: Record, over: u64, sent: Duration },
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
            let mut all: Vec<Election> =
                (0..3).map(|number| Election::new(&format!("replica-{number}"), DURATION)).collect();
            let mut stages = vec![Stage::Idle; 3];
            let mut now = 0;
            for (replica, passed) in steps {
                now += passed;
                let local = at(now + skews[replica]);
                stages[replica] = match stages[replica].clone() {
                    Stage::Idle => match all[replica].observe(lease.record.clone(), local) {
                        Move::Write(record) => Stage::Writes { record, over: lease.version, sent: local },
                        Move::Wait => Stage::Idle,
                    },
                    Stage::Writes { record, over, sent } if lease.write(record.clone(), over) => {
                        Stage::Answered { record, sent }
                    }
                    Stage::Writes { .. } => Stage::Idle,
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
