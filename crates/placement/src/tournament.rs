//! Who is best among many of whom a few change: the winner at once, a change in as many steps as there are rounds.

/// A score that takes no part.
pub(crate) const OUT: i32 = i32::MIN;

/// Scores of numbered players; of equals the one with the lower number wins.
#[derive(Debug, Clone)]
pub(crate) struct Tournament {
    players: usize,
    rounds: Vec<i32>,
}

impl Tournament {
    /// Nobody takes part yet.
    pub(crate) fn new(players: usize) -> Self {
        let width = players.next_power_of_two().max(1);
        Tournament { players: width, rounds: vec![OUT; 2 * width] }
    }

    /// How many may take part.
    pub(crate) fn width(&self) -> usize {
        self.players
    }

    /// Sets a player's score.
    pub(crate) fn set(&mut self, player: usize, score: i32) {
        let mut at = self.players + player;
        if self.rounds[at] == score {
            return;
        }
        self.rounds[at] = score;
        while at > 1 {
            at /= 2;
            let winner = self.rounds[2 * at].max(self.rounds[2 * at + 1]);
            if self.rounds[at] == winner {
                return;
            }
            self.rounds[at] = winner;
        }
    }

    /// The winner and the score, if anybody takes part.
    pub(crate) fn winner(&self) -> Option<(usize, i32)> {
        let score = *self.rounds.get(1)?;
        if score == OUT {
            return None;
        }
        let mut at = 1;
        while at < self.players {
            at = if self.rounds[2 * at] == score { 2 * at } else { 2 * at + 1 };
        }
        Some((at - self.players, score))
    }
}

#[cfg(test)]
mod tests {
    use super::{OUT, Tournament};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn the_winner_is_the_first_of_the_best(
            players in 1_usize..40,
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), -3_i32..4), 0..100),
        ) {
            let mut tournament = Tournament::new(players);
            let mut scores = vec![OUT; players];
            for (player, score) in changes {
                let player = player.index(players);
                let score = if score == -3 { OUT } else { score };
                scores[player] = score;
                tournament.set(player, score);
                let best = scores.iter().copied().max().filter(|best| *best != OUT);
                let expected = best.map(|best| (scores.iter().position(|score| *score == best).unwrap(), best));
                prop_assert_eq!(tournament.winner(), expected);
            }
        }
    }
}
