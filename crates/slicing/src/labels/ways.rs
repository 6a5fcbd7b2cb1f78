//! In which way each part of a node is shared, as offered or else as configured.

use crate::{Mechanism, Offer, PartId, Settings, Share};
use carve_formats::device_plugin::ResourceName;
use std::collections::BTreeMap;
use std::fmt;

/// How a part is shared, and whether its shares have a name of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) share: Share,
    pub(super) renamed: bool,
}

impl Way {
    pub(super) const EXCLUSIVE: Way = Way { share: Share::NONE, renamed: false };

    /// Whether several containers use the part under the name of a whole one.
    pub(super) fn is_hidden(self) -> bool {
        self.share.replicas > 1 && !self.renamed
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.share.mechanism.label())?;
        if self.share.mechanism == Mechanism::Exclusive {
            return Ok(());
        }
        write!(f, "-{}", self.share.replicas)
    }
}

/// The ways of all parts.
pub(super) struct Ways<'a> {
    settings: &'a Settings,
    offered: Option<BTreeMap<&'a PartId, Way>>,
}

impl<'a> Ways<'a> {
    pub(super) fn new(settings: &'a Settings, offer: Option<&'a Offer>) -> Self {
        let by_part = |offer: &'a Offer| {
            let devices = offer.resources.values().flat_map(|resource| {
                resource.devices.iter().map(move |device| {
                    let renamed = device.unshared_name != resource.name;
                    (&device.part, Way { share: device.share, renamed })
                })
            });
            devices.collect()
        };
        Ways { settings, offered: offer.map(by_part) }
    }

    /// The way of a part that NVIDIA calls by this name before it is shared. `None` where it is not offered.
    pub(super) fn of(&self, part: &PartId, name: &ResourceName) -> Option<Way> {
        match &self.offered {
            Some(offered) => offered.get(part).copied(),
            None => Some(self.configured(name)),
        }
    }

    fn configured(&self, name: &ResourceName) -> Way {
        let sharing = &self.settings.sharing;
        let Some(rules) = sharing.active() else { return Way::EXCLUSIVE };
        let mechanism = if sharing.mps.is_some() { Mechanism::Mps } else { Mechanism::TimeSlicing };
        // Of two rules for one resource the later one holds, as in the offer.
        let rule = rules.resources.iter().rev().find(|rule| rule.name == *name);
        rule.map_or(Way::EXCLUSIVE, |rule| Way {
            share: Share { mechanism, replicas: rule.replicas },
            renamed: rules.offered_name(rule) != rule.name,
        })
    }
}

/// How often each thing occurs, in the order in which they first do.
pub(super) fn tally<T: PartialEq>(things: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for thing in things {
        match counts.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, count)) => *count += 1,
            None => counts.push((thing, 1)),
        }
    }
    counts
}

/// What occurs most often; of equals, what occurs first.
pub(super) fn most<T: PartialEq>(things: impl Iterator<Item = T>) -> Option<T> {
    // The last of equals is the first of the reversed.
    tally(things).into_iter().rev().max_by_key(|(_, count)| *count).map(|(thing, _)| thing)
}

#[cfg(test)]
mod tests {
    use super::{most, tally};

    #[test]
    fn the_most_frequent_wins_and_then_the_first() {
        assert_eq!(most("abbac".chars()), Some('a'));
        assert_eq!(most("cabb".chars()), Some('b'));
        assert_eq!(most("".chars()), None);
        assert_eq!(tally("bab".chars()), [('b', 2), ('a', 1)]);
    }
}
