//! Contexts: a primary one for each device, counted, others that programs make, and which of them a thread works on.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::session::Session;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;

thread_local! {
    /// The contexts that were pushed on this thread; the last one is current.
    static STACK: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Contexts that programs make have numbers from here on; below, the number is the device's.
const FIRST_MADE: u32 = 1 << 16;

/// Green contexts have numbers from here on; each is another view of its device's primary context.
const FIRST_GREEN: u32 = 1 << 24;

/// What limits of a context are at first: bytes of a thread's stack, of what kernels print, and of their heap.
const LIMITS: [usize; 3] = [1 << 10, 1 << 20, 8 << 20];

/// A context that somebody holds.
#[derive(Debug)]
pub(crate) struct Context {
    held: u32,
    pub(crate) device: u32,
    /// What it takes of the device's memory by itself.
    taken: u64,
    limits: [usize; 3],
    /// Whether it was made to run inside a graphics library's command lists.
    in_graphics: bool,
    /// What a kernel died of. Nothing works in the context from then on.
    pub(crate) died_of: Option<Code>,
}

/// All contexts of the process.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    by_number: BTreeMap<u32, Context>,
    made: u32,
    /// The devices of green contexts, by their numbers.
    green: BTreeMap<u32, u32>,
    greens: u32,
}

impl Contexts {
    /// A context that is still there.
    pub(crate) fn get_mut(&mut self, number: u32) -> Answer<&mut Context> {
        self.by_number.get_mut(&number).ok_or(Code::CONTEXT_IS_DESTROYED)
    }
}

/// Where the thread works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Here {
    pub(crate) context: u32,
    pub(crate) device: u32,
}

impl Session {
    /// Takes hold of the primary context of a device; the first time makes it, which takes memory.
    pub(crate) fn retain(&mut self, ordinal: c_int) -> Answer<Handle> {
        let number = self.ordinal(ordinal)?;
        if !self.contexts.by_number.contains_key(&number) {
            self.make(number, number)?;
        }
        self.contexts.get_mut(number)?.held += 1;
        Ok(Handle::of(Thing::Context(number)))
    }

    fn make(&mut self, number: u32, device: u32) -> Answer {
        let taken = self.context_memory(self.device(device as c_int)?);
        self.charge(device, taken)?;
        self.contexts.by_number.insert(
            number,
            Context { held: 0, device, taken, limits: LIMITS, in_graphics: false, died_of: None },
        );
        Ok(())
    }

    /// Lets go of it; the last one to do so ends it with all that is in it.
    pub(crate) fn release(&mut self, ordinal: c_int) -> Answer {
        let number = self.ordinal(ordinal)?;
        let context = self.contexts.by_number.get_mut(&number).ok_or(Code::INVALID_CONTEXT)?;
        context.held -= 1;
        if context.held == 0 {
            self.end(number);
        }
        Ok(())
    }

    /// Ends the primary context with all that is in it, whoever holds it.
    pub(crate) fn reset(&mut self, ordinal: c_int) -> Answer {
        let number = self.ordinal(ordinal)?;
        self.end(number);
        Ok(())
    }

    /// Whether anybody holds the primary context of a device.
    pub(crate) fn primary_is_active(&self, ordinal: c_int) -> Answer<bool> {
        Ok(self.contexts.by_number.contains_key(&self.ordinal(ordinal)?))
    }

    /// Makes a context beside the primary one and makes it current.
    pub(crate) fn create_context(&mut self, ordinal: c_int) -> Answer<Handle> {
        let device = self.ordinal(ordinal)?;
        let number = FIRST_MADE + self.contexts.made;
        self.make(number, device)?;
        self.contexts.made += 1;
        STACK.with_borrow_mut(|stack| stack.push(number));
        Ok(Handle::of(Thing::Context(number)))
    }

    /// The same for one that may be captured into command lists of a graphics library.
    pub(crate) fn create_graphics_context(&mut self, ordinal: c_int) -> Answer<Handle> {
        let context = self.create_context(ordinal)?;
        let number = self.context_number(context)?;
        self.contexts.get_mut(number)?.in_graphics = true;
        Ok(context)
    }

    /// Whether a context was made so.
    pub(crate) fn is_in_graphics(&mut self, number: u32) -> Answer<bool> {
        Ok(self.contexts.get_mut(number)?.in_graphics)
    }

    /// Ends a context that a program made.
    pub(crate) fn destroy_context(&mut self, context: Handle) -> Answer {
        let number = self.context_number(context)?;
        if number < FIRST_MADE {
            return Err(Code::INVALID_CONTEXT);
        }
        STACK.with_borrow_mut(|stack| stack.pop_if(|current| *current == number));
        self.end(number);
        Ok(())
    }

    /// One more user of the current context, which a program made.
    pub(crate) fn attach(&mut self) -> Answer<Handle> {
        let here = self.here()?;
        self.contexts.get_mut(here.context)?.held += 1;
        Ok(Handle::of(Thing::Context(here.context)))
    }

    /// One fewer; the last one ends it.
    pub(crate) fn detach(&mut self, context: Handle) -> Answer {
        let number = self.context_number(context)?;
        match self.contexts.get_mut(number)?.held {
            0 => self.destroy_context(context),
            _ => {
                self.contexts.get_mut(number)?.held -= 1;
                Ok(())
            }
        }
    }

    /// Makes a green context, which holds the primary one. Which multiprocessors it may use is not looked at.
    pub(crate) fn create_green(&mut self, ordinal: c_int) -> Answer<Handle> {
        let device = self.ordinal(ordinal)?;
        self.retain(ordinal)?;
        let number = FIRST_GREEN + self.contexts.greens;
        self.contexts.greens += 1;
        self.contexts.green.insert(number, device);
        Ok(Handle::of(Thing::Green(number)))
    }

    fn green_number(&self, green: Handle) -> Answer<u32> {
        match green.thing() {
            Ok(Thing::Green(number)) if self.contexts.green.contains_key(&number) => Ok(number),
            _ => Err(Code::INVALID_CONTEXT),
        }
    }

    /// Ends a green context and lets go of the primary one.
    pub(crate) fn destroy_green(&mut self, green: Handle) -> Answer {
        let number = self.green_number(green)?;
        let device = self.contexts.green.remove(&number).ok_or(Code::INVALID_CONTEXT)?;
        self.release(device as c_int)
    }

    /// A green context as a context.
    pub(crate) fn context_of_green(&self, green: Handle) -> Answer<Handle> {
        Ok(Handle::of(Thing::Context(self.green_number(green)?)))
    }

    /// One of the current context's limits.
    pub(crate) fn context_limit(&mut self, limit: c_int) -> Answer<usize> {
        let here = self.here()?;
        let limits = self.contexts.get_mut(here.context)?.limits;
        let place = usize::try_from(limit).map_err(|_| Code::UNSUPPORTED_LIMIT)?;
        limits.get(place).copied().ok_or(Code::UNSUPPORTED_LIMIT)
    }

    /// Changes one, and with it what the context takes.
    pub(crate) fn set_context_limit(&mut self, limit: c_int, value: usize) -> Answer {
        let before = self.context_limit(limit)? as u64;
        let here = self.here()?;
        let of_each = if limit == 0 { self.threads(here.device)? } else { 1 };
        let bytes = |value: u64| value.saturating_mul(of_each);
        let (before, after) = (bytes(before), bytes(value as u64));
        self.charge(here.device, after.saturating_sub(before))?;
        self.refund(here.device, before.saturating_sub(after));
        let context = self.contexts.get_mut(here.context)?;
        context.taken = context.taken.saturating_add(after).saturating_sub(before);
        if let Some(place) = context.limits.get_mut(limit as usize) {
            *place = value;
        }
        Ok(())
    }

    fn end(&mut self, number: u32) {
        let Some(context) = self.contexts.by_number.remove(&number) else { return };
        self.modules.unload_all(number);
        self.streams.forget_context(number);
        self.events.retain(|event| event.context != number);
        self.free_all_of(number);
        self.refund(context.device, context.taken);
        if !self.contexts.by_number.values().any(|other| other.device == context.device) {
            self.forget_pools(context.device);
        }
    }

    fn context_number(&self, context: Handle) -> Answer<u32> {
        match context.thing() {
            Ok(Thing::Context(number))
                if self.contexts.by_number.contains_key(&number)
                    || self.contexts.green.contains_key(&number) =>
            {
                Ok(number)
            }
            _ => Err(Code::INVALID_CONTEXT),
        }
    }

    /// Makes a context the thread's current one; NULL makes none.
    pub(crate) fn set_current(&self, context: Handle) -> Answer {
        let next = if context.is_null() { None } else { Some(self.context_number(context)?) };
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            stack.extend(next);
        });
        Ok(())
    }

    /// Makes a context current and remembers the one before.
    pub(crate) fn push_current(&self, context: Handle) -> Answer {
        let number = self.context_number(context)?;
        STACK.with_borrow_mut(|stack| stack.push(number));
        Ok(())
    }

    /// The thread's current context, which is so no longer.
    pub(crate) fn pop_current(&self) -> Answer<Handle> {
        let number = STACK.with_borrow_mut(Vec::pop).ok_or(Code::INVALID_CONTEXT)?;
        Ok(Handle::of(Thing::Context(number)))
    }

    /// The thread's current context, or NULL.
    pub(crate) fn current_handle(&self) -> Handle {
        let number = STACK.with_borrow(|stack| stack.last().copied());
        number.map_or(Handle::NULL, |number| Handle::of(Thing::Context(number)))
    }

    /// Where the thread works.
    pub(crate) fn here(&mut self) -> Answer<Here> {
        let number = STACK.with_borrow(|stack| stack.last().copied()).ok_or(Code::INVALID_CONTEXT)?;
        self.alive(number)
    }

    /// The same in another context; NULL is the current one.
    pub(crate) fn in_context(&mut self, context: Handle) -> Answer<Here> {
        if context.is_null() {
            return self.here();
        }
        let number = self.context_number(context)?;
        self.alive(number)
    }

    /// A context in which a kernel died answers nothing else; nor does any of a client whose MPS server has met a fault.
    pub(crate) fn alive(&mut self, number: u32) -> Answer<Here> {
        // In a green context everything is the primary one's.
        let number = self.contexts.green.get(&number).copied().unwrap_or(number);
        let lost = self.mps_client.as_ref().is_some_and(|client| client.is_lost(self.board));
        let context = self.contexts.get_mut(number)?;
        match context.died_of {
            Some(code) => Err(code),
            None if lost => Err(Code::ILLEGAL_ADDRESS),
            None => Ok(Here { context: number, device: context.device }),
        }
    }
}
