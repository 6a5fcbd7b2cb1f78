//! Handles: what they mean is written into their value, so that a stale one is harmless. None is followed.

use crate::error::{Answer, Code};

/// What C holds for a context, a module or a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(usize);

/// What a handle stands for, whether or not it exists any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    /// The primary context of a device.
    Context(u32),
    /// A module, counted since the start.
    Module(u32),
    /// The kernel `vector_add` of a module.
    VectorAdd(u32),
}

/// Where no allocation of the process is.
const BASE: usize = 1 << 40;
const KIND: u32 = 32;

impl Handle {
    /// The handle of a thing.
    pub(crate) fn of(thing: Thing) -> Self {
        let (kind, number) = match thing {
            Thing::Context(ordinal) => (1, ordinal),
            Thing::Module(number) => (2, number),
            Thing::VectorAdd(number) => (3, number),
        };
        Handle(BASE | (kind << KIND) | number as usize)
    }

    /// Whether C passed NULL.
    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// What the handle stands for; any other value is not one of ours.
    pub(crate) fn thing(self) -> Answer<Thing> {
        let number = self.0 as u32;
        match (self.0 & !(u32::MAX as usize)).checked_sub(BASE).map(|kind| kind >> KIND) {
            Some(1) => Ok(Thing::Context(number)),
            Some(2) => Ok(Thing::Module(number)),
            Some(3) => Ok(Thing::VectorAdd(number)),
            _ => Err(Code::INVALID_HANDLE),
        }
    }
}
