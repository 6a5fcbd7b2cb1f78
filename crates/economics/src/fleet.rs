//! What many machines cost for a while.

use crate::{InstanceType, Money};

/// How long machines are paid for. A month of 30 days is 720.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hours(pub u32);

/// The cost of so many machines of each type, or the first type that has no price.
pub fn fleet_cost<'a>(
    machines: impl IntoIterator<Item = (&'a InstanceType, u32)>,
    hours: Hours,
) -> Result<Money, &'a InstanceType> {
    machines
        .into_iter()
        .map(|(machine, count)| {
            machine.price.map(|price| price.for_hours(hours.0).times(count)).ok_or(machine)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::{Hours, fleet_cost};
    use crate::InstanceType;

    #[test]
    fn four_machines_become_one() {
        let machine = InstanceType::named("g4dn.2xlarge").unwrap();
        let before = fleet_cost([(machine, 4)], Hours(720)).unwrap();
        let after = fleet_cost([(machine, 1)], Hours(720)).unwrap();
        assert_eq!(
            [before, after, before - after].map(|amount| amount.to_string()),
            ["$2,165.76", "$541.44", "$1,624.32"]
        );
    }

    #[test]
    fn a_type_without_a_price_is_named() {
        let sold_otherwise = InstanceType::named("p5e.48xlarge").unwrap();
        let known = InstanceType::named("p5.48xlarge").unwrap();
        let error = fleet_cost([(known, 1), (sold_otherwise, 1)], Hours(1)).unwrap_err();
        assert_eq!(error.name, "p5e.48xlarge");
    }
}
