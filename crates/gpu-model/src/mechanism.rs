//! Ways of dividing a GPU, and what must not reach a workload from its neighbours there.

use std::fmt;

/// What must not reach a workload from its neighbours on the GPU, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Isolation {
    /// Nothing was said: neighbours are trusted.
    #[default]
    Unstated,
    /// Their load.
    Performance,
    /// Their crashes.
    Fault,
    /// Anything: they belong to somebody else.
    Tenant,
}

/// A way of dividing a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// The whole GPU for one container.
    Exclusive,
    /// Containers take turns.
    TimeSlicing,
    /// Containers run at once, under limits of CUDA's multi-process service.
    Mps,
    /// A part of the hardware.
    Mig,
    /// A library in the container holds it to its share.
    Limiter,
}

impl Mechanism {
    /// All of them, from the strictest to the loosest.
    pub const ALL: [Mechanism; 5] =
        [Mechanism::Exclusive, Mechanism::Mig, Mechanism::Mps, Mechanism::Limiter, Mechanism::TimeSlicing];

    /// As it is written in output and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Exclusive => "exclusive",
            Mechanism::TimeSlicing => "time-slicing",
            Mechanism::Mps => "MPS",
            Mechanism::Mig => "MIG",
            Mechanism::Limiter => "limiter",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A mechanism for a part of a GPU or MIG device that several have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// Containers run at once under limits of CUDA's multi-process service.
    Mps,
    /// A library in the container holds it to its share.
    Limiter,
    /// Containers take turns.
    TimeSlicing,
}

impl Sharing {
    /// As it is written in output.
    pub const fn name(self) -> &'static str {
        self.mechanism().name()
    }

    /// The same among all mechanisms.
    pub const fn mechanism(self) -> Mechanism {
        match self {
            Sharing::Mps => Mechanism::Mps,
            Sharing::Limiter => Mechanism::Limiter,
            Sharing::TimeSlicing => Mechanism::TimeSlicing,
        }
    }

    /// The one that a mechanism is, if it is one of these.
    pub const fn of(mechanism: Mechanism) -> Option<Sharing> {
        match mechanism {
            Mechanism::Mps => Some(Sharing::Mps),
            Mechanism::Limiter => Some(Sharing::Limiter),
            Mechanism::TimeSlicing => Some(Sharing::TimeSlicing),
            Mechanism::Exclusive | Mechanism::Mig => None,
        }
    }
}

/// A set of mechanisms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mechanisms(u8);

impl Mechanisms {
    /// Every mechanism.
    pub const ANY: Mechanisms = Mechanisms(u8::MAX);
    /// None.
    pub const NONE: Mechanisms = Mechanisms(0);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, mechanism: Mechanism) -> Self {
        Mechanisms(self.0 | 1 << mechanism as u8)
    }

    /// The set without one.
    #[must_use]
    pub const fn without(self, mechanism: Mechanism) -> Self {
        Mechanisms(self.0 & !(1 << mechanism as u8))
    }

    /// What both sets hold.
    #[must_use]
    pub const fn and(self, other: Mechanisms) -> Self {
        Mechanisms(self.0 & other.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether one is in the set.
    pub const fn contains(self, mechanism: Mechanism) -> bool {
        self.0 >> mechanism as u8 & 1 == 1
    }

    /// Those in the set, from the strictest to the loosest.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL.into_iter().filter(move |one| self.contains(*one))
    }
}

#[cfg(test)]
mod tests {
    use super::{Mechanism, Mechanisms, Sharing};

    #[test]
    fn sets_hold_what_was_put_in_and_every_sharing_is_a_mechanism() {
        let some = Mechanisms::NONE.with(Mechanism::Mps).with(Mechanism::Mig);
        assert_eq!(some.iter().collect::<Vec<_>>(), [Mechanism::Mig, Mechanism::Mps]);
        assert_eq!(some.without(Mechanism::Mps).iter().collect::<Vec<_>>(), [Mechanism::Mig]);
        assert!(!Mechanisms::ANY.without(Mechanism::Limiter).contains(Mechanism::Limiter));
        let shared: Vec<Sharing> = Mechanism::ALL.into_iter().filter_map(Sharing::of).collect();
        assert_eq!(shared, [Sharing::Mps, Sharing::Limiter, Sharing::TimeSlicing]);
        assert!(shared.into_iter().all(|one| Sharing::of(one.mechanism()) == Some(one)));
    }
}
