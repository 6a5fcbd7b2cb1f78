//! A good set of GPUs where there are too many sets to look at every one.
//!
//! From every GPU a set is grown by the one that adds most, once looking to spare those left and once looking for those
//! with many NVLinks to add later; each is improved by exchanging one GPU for another as long as that makes it better,
//! and the best of these is the answer. No exchange makes it better, but a better set further away can be missed. On
//! machines made of islands, no set has more NVLinks.

use super::aligned::{Field, Score};

/// How to choose among GPUs that add the same number of NVLinks.
#[derive(Debug, Clone, Copy)]
enum Growth {
    /// As the score says: the nearest, then the one the others miss least.
    Sparing,
    /// The one with the most NVLinks: the rest of its island can follow.
    Reaching,
}

/// A set no exchange of one GPU makes better, in order.
pub(super) fn good(field: &Field, size: usize) -> Vec<usize> {
    let mut best: Option<Grown> = None;
    let seeds = (0..field.count()).flat_map(|seed| [(seed, Growth::Sparing), (seed, Growth::Reaching)]);
    for (seed, growth) in seeds {
        let mut grown = Grown::new(field);
        let mut next = Some(seed);
        while let Some(gpu) = next.filter(|_| grown.size < size) {
            grown.take(field, gpu);
            next = grown.best_addition(growth);
        }
        // Every exchange makes the score greater, and there are finitely many sets: this ends.
        while let Some((out, into)) = grown.best_exchange(field) {
            grown.give(field, out);
            grown.take(field, into);
        }
        if best.as_ref().is_none_or(|best| grown.score > best.score) {
            best = Some(grown);
        }
    }
    let is_in = best.map(|best| best.is_in).unwrap_or_default();
    (0..is_in.len()).filter(|gpu| is_in[*gpu]).collect()
}

/// A set, with what each GPU adds to it, or, inside, has added.
struct Grown {
    is_in: Vec<bool>,
    adds: Vec<Score>,
    score: Score,
    size: usize,
}

impl Grown {
    fn new(field: &Field) -> Self {
        Grown {
            is_in: vec![false; field.count()],
            adds: field.alone.clone(),
            score: Score::default(),
            size: 0,
        }
    }

    fn take(&mut self, field: &Field, gpu: usize) {
        self.is_in[gpu] = true;
        self.score += self.adds[gpu];
        self.size += 1;
        for (other, adds) in self.adds.iter_mut().enumerate() {
            *adds += field.pair(gpu, other);
        }
    }

    fn give(&mut self, field: &Field, gpu: usize) {
        self.is_in[gpu] = false;
        self.score = self.score - self.adds[gpu];
        self.size -= 1;
        for (other, adds) in self.adds.iter_mut().enumerate() {
            *adds = *adds - field.pair(gpu, other);
        }
    }

    /// The GPU outside that adds most; of equals the first.
    fn best_addition(&self, growth: Growth) -> Option<usize> {
        let worth = |gpu: usize| {
            let adds = self.adds[gpu];
            // What a GPU would take from those left is what it could reach among them.
            let reach = match growth {
                Growth::Sparing => 0,
                Growth::Reaching => -adds.spared_nvlinks,
            };
            ((adds.lost, adds.nvlinks), reach, adds)
        };
        let mut best: Option<usize> = None;
        for gpu in (0..self.is_in.len()).filter(|gpu| !self.is_in[*gpu]) {
            if best.is_none_or(|best| worth(gpu) > worth(best)) {
                best = Some(gpu);
            }
        }
        best
    }

    /// The exchange that gains most, if any gains: which goes out, which comes in.
    fn best_exchange(&self, field: &Field) -> Option<(usize, usize)> {
        let mut best = (Score::default(), None);
        for out in (0..self.is_in.len()).filter(|gpu| self.is_in[*gpu]) {
            for into in (0..self.is_in.len()).filter(|gpu| !self.is_in[*gpu]) {
                let gain = self.adds[into] - self.adds[out] - field.pair(out, into);
                if gain > best.0 {
                    best = (gain, Some((out, into)));
                }
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Score, good};
    use crate::preferred::{Candidate, DeviceId, PartId, Topology};
    use carve_gpu_host::{Link, PciPath};
    use carve_gpu_model::GpuIndex;

    /// Numbers that look unrelated though they follow from the seed and the pair.
    fn draw(seed: u64, from: u32, to: u32) -> u64 {
        let mut bits = seed ^ (u64::from(from.min(to)) << 32 | u64::from(from.max(to)));
        // The finaliser of MurmurHash3.
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            bits = (bits ^ bits >> 33).wrapping_mul(factor);
        }
        bits ^ bits >> 33
    }

    fn field(count: u32, link: impl Fn(u32, u32) -> Link) -> Field {
        let topology = Topology::new((0..count).map(GpuIndex), |from, to| Some(link(from.0, to.0)));
        let gpus: Vec<Candidate> = (0..count)
            .map(|gpu| Candidate {
                id: DeviceId::new(gpu.to_string()),
                part: PartId::new(gpu.to_string()),
                gpu: GpuIndex(gpu),
                numa: None,
            })
            .collect();
        Field::new(&topology, &[], &gpus.iter().collect::<Vec<_>>())
    }

    fn path(bits: u64) -> PciPath {
        [PciPath::OneSwitch, PciPath::HostBridge, PciPath::AcrossNodes][bits as usize % 3]
    }

    /// A machine with links drawn from a seed.
    fn machine(seed: u64, count: u32) -> Field {
        field(count, |from, to| {
            let bits = draw(seed, from, to);
            Link { pci: path(bits), nvlinks: [0, 0, 6, 12][(bits >> 8) as usize % 4] }
        })
    }

    fn score(field: &Field, set: &[usize]) -> Score {
        let mut score = Score::default();
        for (number, gpu) in set.iter().enumerate() {
            score += field.alone[*gpu];
            for other in &set[..number] {
                score += field.pair(*other, *gpu);
            }
        }
        score
    }

    #[test]
    fn on_random_machines_it_is_the_best_or_close() {
        let (mut cases, mut best) = (0, 0);
        for seed in 0..60 {
            for size in [2, 3, 5, 6] {
                let field = machine(seed * 1_000_003, 12);
                let (found, most) = (score(&field, &good(&field, size)), score(&field, &field.best(size)));
                assert!(found <= most, "every set was looked at");
                assert!(
                    found.nvlinks * 10 >= most.nvlinks * 9,
                    "seed {seed}, size {size}: {found:?}, {most:?}"
                );
                cases += 1;
                best += usize::from(found == most);
            }
        }
        assert!(best * 100 >= cases * 80, "the best in {best} of {cases} cases");
    }

    #[test]
    fn no_exchange_of_one_makes_it_better() {
        for seed in 0..10 {
            let field = machine(seed * 1_000_003, 24);
            for size in [6, 12] {
                let set = good(&field, size);
                assert_eq!(set.len(), size);
                let found = score(&field, &set);
                for out in 0..size {
                    for into in (0..24).filter(|gpu| !set.contains(gpu)) {
                        let mut other = set.clone();
                        other[out] = into;
                        assert!(score(&field, &other) <= found, "{into} for {}", set[out]);
                    }
                }
            }
        }
    }
    #[test]
    fn on_islands_no_set_has_more_nvlinks() {
        for seed in 0..5u32 {
            // Islands of 1 to 9 GPUs, numbered through in a row.
            let sizes: Vec<u64> = (0..6).map(|island| 1 + draw(7, seed, island) % 9).collect();
            let of: Vec<usize> =
                sizes.iter().enumerate().flat_map(|(island, size)| vec![island; *size as usize]).collect();
            let field = field(of.len() as u32, |from, to| {
                let joined = of[from as usize] == of[to as usize];
                Link { pci: path(draw(u64::from(seed), from, to)), nvlinks: if joined { 12 } else { 0 } }
            });
            let mut largest_first = sizes.clone();
            largest_first.sort_unstable_by(|one, other| other.cmp(one));
            for wanted in 1..of.len() as u64 {
                // Pairs inside islands are most when whole islands are taken, the largest first.
                let (mut left, mut pairs) = (wanted, 0);
                for size in &largest_first {
                    let taken = left.min(*size);
                    left -= taken;
                    pairs += taken * taken.saturating_sub(1) / 2;
                }
                let set = good(&field, wanted as usize);
                assert_eq!(score(&field, &set).nvlinks as u64, pairs * 12, "{wanted} of {sizes:?}: {set:?}");
            }
        }
    }
}
