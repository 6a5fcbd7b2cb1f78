//! How many claims numbers of GPUs can serve at most, asked again and again without planning.

use super::alike::group;
use super::bound::Prices;
use super::cuts::Cuts;
use super::planning::validate;
use super::{Demand, FleetGpu, PlanError};

/// What no plan for a demand exceeds, for any number of GPUs like some examples. The time of an answer does not grow with the
/// number of GPUs or claims.
#[derive(Debug)]
pub struct Ceiling {
    waiting: Vec<u32>,
    cuts: Vec<Cuts>,
    /// For each example its kind.
    kind_of: Vec<usize>,
}

impl Ceiling {
    /// For GPUs like the examples.
    pub fn of(examples: &[FleetGpu], demand: &Demand) -> Result<Ceiling, PlanError> {
        let held = validate(examples, demand)?;
        let alike = group(examples, demand, &held);
        let waiting = alike.waiting();
        let cuts = alike.gpus.iter().map(|kind| Cuts::of(kind, &waiting)).collect();
        Ok(Ceiling { waiting, cuts, kind_of: alike.kind_of })
    }

    /// With so many GPUs like each example no plan serves more claims than this.
    pub fn serves_at_most(&self, numbers: &[usize]) -> u64 {
        let mut of_kind = vec![0; self.cuts.len()];
        for (kind, number) in self.kind_of.iter().zip(numbers) {
            of_kind[*kind] += number;
        }
        let kinds: Vec<(&Cuts, usize)> = self.cuts.iter().zip(of_kind).collect();
        let prices = Prices::find(&self.waiting, &kinds);
        u64::try_from(prices.claims(&self.waiting, &kinds)).unwrap_or(0)
    }
}
