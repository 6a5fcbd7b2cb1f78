//! What agents have answered, and who has not for how long; pure.

use super::happenings::Happenings;
use carve_fleet_picture::{NodePicture, Tone};
use std::collections::{BTreeMap, BTreeSet};

/// An agent that has missed questions for so many seconds is silent. One that is replaced is away for a moment.
const GRACE: i64 = 5;

/// What is known of one node's agent.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// What it said last, and when.
    pub(super) last: Option<(NodePicture, i64)>,
    /// Since when it has not answered, and why.
    missed: Option<(i64, String)>,
    /// Whether it counts as silent.
    silent: bool,
}

impl Known {
    /// Since when it is silent, and why.
    pub(super) fn silent(&self) -> Option<(i64, &str)> {
        self.missed.as_ref().filter(|_| self.silent).map(|(since, why)| (*since, why.as_str()))
    }
}

/// All agents, by node.
#[derive(Debug, Default)]
pub(super) struct Answers {
    known: BTreeMap<String, Known>,
}

impl Answers {
    pub(super) fn of(&self, node: &str) -> Option<&Known> {
        self.known.get(node)
    }

    /// Nodes of which an agent has ever said something.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&String, &Known)> {
        self.known.iter()
    }

    /// Everybody was asked at a moment. Nodes that were not asked about have no agent any more.
    pub(super) fn take(
        &mut self,
        now: i64,
        answers: Vec<(String, Result<NodePicture, String>)>,
        happenings: &mut Happenings,
    ) {
        let asked: BTreeSet<String> = answers.iter().map(|(node, _)| node.clone()).collect();
        self.known.retain(|node, _| asked.contains(node));
        for (node, answer) in answers {
            let known = self.known.entry(node.clone()).or_default();
            match answer {
                Ok(picture) => {
                    if std::mem::take(&mut known.silent) {
                        let words = "its agent answers again".to_owned();
                        happenings.noticed(now, Tone::Normal, format!("node/{node}"), "AgentAnswers", words);
                    }
                    (known.last, known.missed) = (Some((picture, now)), None);
                }
                Err(why) => {
                    let since = known.missed.as_ref().map_or(now, |(since, _)| *since);
                    if now - since >= GRACE && !known.silent {
                        known.silent = true;
                        let words = format!("its agent does not answer: {why}");
                        happenings.noticed(now, Tone::Warning, format!("node/{node}"), "AgentSilent", words);
                    }
                    known.missed = Some((since, why));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answers;
    use crate::board::happenings::Happenings;
    use carve_fleet_picture::NodePicture;

    #[test]
    fn who_misses_one_question_is_not_silent_and_who_is_is_told_once() {
        let (mut answers, mut happenings) = (Answers::default(), Happenings::default());
        let good = || Ok(NodePicture { kind: "g5.xlarge".to_owned(), ..NodePicture::default() });
        let bad = || Err("nothing came".to_owned());
        let mut at = |now: i64, answer: Result<NodePicture, String>| {
            answers.take(now, vec![("a".to_owned(), answer)], &mut happenings);
            let silent = answers.of("a").and_then(|known| known.silent()).map(|(since, _)| since);
            (silent, happenings.shown().into_iter().map(|one| one.reason).collect::<Vec<_>>())
        };
        assert_eq!(at(0, good()), (None, vec![]));
        assert_eq!(at(2, bad()), (None, vec![]));
        assert_eq!(at(4, good()), (None, vec![]));
        assert_eq!(at(6, bad()), (None, vec![]));
        let silent = vec!["AgentSilent".to_owned()];
        assert_eq!(at(11, bad()), (Some(6), silent.clone()));
        assert_eq!(at(13, bad()), (Some(6), silent));
        assert_eq!(at(15, good()).1, ["AgentSilent", "AgentAnswers"]);
        answers.take(17, Vec::new(), &mut happenings);
        assert!(answers.of("a").is_none(), "a node without an agent has nothing to say");
    }
}
