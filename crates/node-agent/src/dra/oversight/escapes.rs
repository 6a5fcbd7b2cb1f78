//! Which processes on parts with fractions no share knows, two looks in a row; pure.

use std::collections::{BTreeMap, BTreeSet};

/// What a process on a part is to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// A share has a slot for it.
    Known,
    /// The agent's own, or an MPS server.
    Ours,
    /// No share knows it. Begun so many ticks after the machine.
    Stranger(u64),
    /// The driver's number for it means nothing here.
    Unseen,
    /// It is ending.
    Ending,
}

/// A process that the driver shows on a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnPart {
    pub(super) pid: u32,
    pub(super) standing: Standing,
    /// Memory that the driver shows for it.
    pub(super) bytes: Option<u64>,
}

/// A process that is not limited and should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Escape {
    pub(super) part: String,
    pub(super) pid: u32,
    pub(super) bytes: Option<u64>,
}

/// What came of a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// How many processes have escaped on each part.
    pub(super) escaped: BTreeMap<String, u64>,
    /// Those that were not told of yet.
    pub(super) new: Vec<Escape>,
    /// A process that can not be looked for, because the agent does not see the processes that the driver speaks of.
    pub(super) unseen: Option<u32>,
}

/// What earlier looks found.
#[derive(Debug, Default)]
pub(super) struct Escapes {
    strangers: BTreeSet<(String, u32, u64)>,
    unseen: BTreeSet<(String, u32)>,
    told: BTreeSet<(u32, u64)>,
}

impl Escapes {
    /// Judges what is on the parts now. A process is looked at twice: between two questions, to the driver and to the shares, it may
    /// have come or gone.
    pub(super) fn judge(
        &mut self,
        parts: &BTreeMap<String, Vec<OnPart>>,
        lives: impl Fn(u32, u64) -> bool,
    ) -> Judged {
        let mut judged = Judged::default();
        let (mut strangers, mut unseen) = (BTreeSet::new(), BTreeSet::new());
        self.told.retain(|(pid, start)| lives(*pid, *start));
        for (part, processes) in parts {
            let mut escaped = 0;
            for process in processes {
                match process.standing {
                    Standing::Known | Standing::Ours | Standing::Ending => {}
                    Standing::Unseen => {
                        let key = (part.clone(), process.pid);
                        if self.unseen.contains(&key) {
                            judged.unseen = judged.unseen.or(Some(process.pid));
                        }
                        unseen.insert(key);
                    }
                    Standing::Stranger(start) => {
                        let key = (part.clone(), process.pid, start);
                        if self.strangers.contains(&key) {
                            escaped += 1;
                            if self.told.insert((process.pid, start)) {
                                let OnPart { pid, bytes, .. } = *process;
                                judged.new.push(Escape { part: part.clone(), pid, bytes });
                            }
                        }
                        strangers.insert(key);
                    }
                }
            }
            judged.escaped.insert(part.clone(), escaped);
        }
        (self.strangers, self.unseen) = (strangers, unseen);
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::{Escape, Escapes, OnPart, Standing};
    use std::collections::BTreeMap;

    fn on(parts: &[(&str, &[(u32, Standing)])]) -> BTreeMap<String, Vec<OnPart>> {
        let of = |processes: &[(u32, Standing)]| {
            processes.iter().map(|&(pid, standing)| OnPart { pid, standing, bytes: Some(5) }).collect()
        };
        parts.iter().map(|(part, processes)| ((*part).to_owned(), of(processes))).collect()
    }

    const ALL: fn(u32, u64) -> bool = |_, _| true;

    #[test]
    fn a_stranger_that_stays_is_told_of_once() {
        let mut escapes = Escapes::default();
        let strange = on(&[("GPU-a", &[(7, Standing::Stranger(1)), (8, Standing::Known)]), ("GPU-b", &[])]);
        let first = escapes.judge(&strange, ALL);
        assert_eq!(
            (first.escaped.get("GPU-a"), first.new.len()),
            (Some(&0), 0),
            "it may only just have come"
        );
        let second = escapes.judge(&strange, ALL);
        assert_eq!(second.new, [Escape { part: "GPU-a".to_owned(), pid: 7, bytes: Some(5) }]);
        assert_eq!(second.escaped, BTreeMap::from([("GPU-a".to_owned(), 1), ("GPU-b".to_owned(), 0)]));
        let third = escapes.judge(&strange, ALL);
        assert_eq!((third.escaped.get("GPU-a"), third.new.len()), (Some(&1), 0));
        // It lets go of the GPU and comes back, on another one as well.
        escapes.judge(&on(&[("GPU-a", &[])]), ALL);
        let both: &[(u32, Standing)] = &[(7, Standing::Stranger(1))];
        for _ in 0..2 {
            assert_eq!(escapes.judge(&on(&[("GPU-a", both), ("GPU-b", both)]), ALL).new, []);
        }
        // Another process with its number is another one.
        let other = on(&[("GPU-a", &[(7, Standing::Stranger(2))])]);
        assert_eq!(escapes.judge(&other, |_, start| start == 2).new, []);
        assert_eq!(escapes.judge(&other, |_, start| start == 2).new.len(), 1);
        assert_eq!(escapes.told.len(), 1, "the dead are forgotten");
    }

    #[test]
    fn who_comes_to_be_known_or_is_ours_has_not_escaped() {
        let mut escapes = Escapes::default();
        for standing in
            [Standing::Stranger(1), Standing::Known, Standing::Stranger(1), Standing::Ours, Standing::Ours]
        {
            let judged = escapes.judge(&on(&[("GPU-a", &[(7, standing)])]), ALL);
            assert_eq!((judged.new.len(), judged.unseen), (0, None), "{standing:?}");
        }
    }

    #[test]
    fn numbers_that_mean_nothing_here_are_no_escapes() {
        let mut escapes = Escapes::default();
        let unseen = on(&[("GPU-a", &[(7, Standing::Unseen), (9, Standing::Ending)])]);
        assert_eq!(escapes.judge(&unseen, ALL).unseen, None);
        let second = escapes.judge(&unseen, ALL);
        assert_eq!((second.unseen, second.new.len(), second.escaped.get("GPU-a")), (Some(7), 0, Some(&0)));
    }
}
