//! Handles: what they mean is written into their value, so that a stale one is harmless. None is followed.

use crate::error::{Answer, Code};
use std::collections::BTreeMap;

/// What C holds for a context, a stream, a kernel, …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(usize);

/// Where no allocation of the process is.
const BASE: usize = 1 << 40;
const KIND: u32 = 32;

/// Declares what handles stand for, each with the number that marks it.
macro_rules! things {
    ($( $(#[$text:meta])* $name:ident = $kind:literal, )*) => {
        /// What a handle stands for, whether or not it exists any more. All are counted since the start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Thing { $( $(#[$text])* $name(u32), )* }

        impl Handle {
            /// The handle of a thing.
            pub(crate) fn of(thing: Thing) -> Self {
                let (kind, number) = match thing { $( Thing::$name(number) => ($kind, number), )* };
                Handle(BASE | (kind << KIND) | number as usize)
            }

            /// What the handle stands for; any other value is not one of ours.
            pub(crate) fn thing(self) -> Answer<Thing> {
                let number = self.0 as u32;
                match (self.0 & !(u32::MAX as usize)).checked_sub(BASE).map(|kind| kind >> KIND) {
                    $( Some($kind) => Ok(Thing::$name(number)), )*
                    _ => Err(Code::INVALID_HANDLE),
                }
            }
        }
    };
}

things! {
    /// A context; those with the number of a device are the primary ones.
    Context = 1,
    /// A module.
    Module = 2,
    /// A module that belongs to no context.
    Library = 14,
    /// A kernel of a module; [`crate::kernels::Kernel`] tells which by the number.
    Kernel = 3,
    /// A stream that was created.
    Stream = 5,
    /// An event.
    Event = 6,
    /// A graph.
    Graph = 7,
    /// A node of a graph.
    Node = 8,
    /// A graph made ready to run.
    Executable = 9,
    /// A memory pool.
    Pool = 10,
    /// Physical memory, to be mapped.
    Physical = 11,
    /// An array.
    Array = 12,
    /// An array in several sizes.
    Mipmap = 13,
    /// A green context.
    Green = 15,
    /// A multicast object.
    Multicast = 16,
}

impl Handle {
    /// What C passes for nothing.
    pub(crate) const NULL: Handle = Handle(0);

    /// Whether C passed NULL.
    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The value as C has it.
    pub(crate) fn value(self) -> usize {
        self.0
    }

    /// A handle that C keeps in an integer.
    pub(crate) fn from_value(value: u64) -> Self {
        Handle(value as usize)
    }
}

/// Things that get numbers in the order of their making; a number is never used again.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    things: BTreeMap<u32, T>,
    last: u32,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { things: BTreeMap::new(), last: 0 }
    }
}

impl<T> Numbered<T> {
    /// Keeps a thing and answers its number.
    pub(crate) fn add(&mut self, thing: T) -> u32 {
        self.last += 1;
        self.things.insert(self.last, thing);
        self.last
    }

    /// A thing that is still there.
    pub(crate) fn get(&self, number: u32) -> Answer<&T> {
        self.things.get(&number).ok_or(Code::INVALID_HANDLE)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> Answer<&mut T> {
        self.things.get_mut(&number).ok_or(Code::INVALID_HANDLE)
    }

    /// Takes a thing away.
    pub(crate) fn remove(&mut self, number: u32) -> Answer<T> {
        self.things.remove(&number).ok_or(Code::INVALID_HANDLE)
    }

    /// Keeps only what fits.
    pub(crate) fn retain(&mut self, mut fits: impl FnMut(&T) -> bool) {
        self.things.retain(|_, thing| fits(thing));
    }

    /// Everything that is there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.things.iter().map(|(number, thing)| (*number, thing))
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.things.iter_mut().map(|(number, thing)| (*number, thing))
    }
}
