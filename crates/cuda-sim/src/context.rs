//! Primary contexts: one for each device, counted, and which of them a thread works on.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::memory::Memory;
use crate::session::Session;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;

thread_local! {
    /// The device whose context is current on this thread.
    static CURRENT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A primary context that somebody holds.
#[derive(Debug)]
pub(crate) struct Context {
    held: u32,
    pub(crate) memory: Memory,
    /// What a kernel died of. Nothing works in the context from then on.
    pub(crate) died_of: Option<Code>,
    /// A kernel runs that never ends.
    pub(crate) hangs: bool,
}

/// All contexts of the process, by device.
pub(crate) type Contexts = BTreeMap<u32, Context>;

impl Session {
    /// Takes hold of the primary context of a device; the first time makes it, which takes memory.
    pub(crate) fn retain(&mut self, ordinal: c_int) -> Answer<Handle> {
        let taken = self.context_memory(self.device(ordinal)?);
        let number = u32::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        if !self.contexts.contains_key(&number) {
            if self.free(number)? < taken {
                return Err(Code::OUT_OF_MEMORY);
            }
            let memory = Memory::new(number, taken);
            self.contexts.insert(number, Context { held: 0, memory, died_of: None, hangs: false });
        }
        let context = self.contexts.get_mut(&number).ok_or(Code::UNKNOWN)?;
        context.held += 1;
        Ok(Handle::of(Thing::Context(number)))
    }

    /// Lets go of it; the last one to do so ends it with all that is in it.
    pub(crate) fn release(&mut self, ordinal: c_int) -> Answer {
        self.device(ordinal)?;
        let number = u32::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        let context = self.contexts.get_mut(&number).ok_or(Code::INVALID_CONTEXT)?;
        context.held -= 1;
        if context.held == 0 {
            self.contexts.remove(&number);
            self.modules.unload_all(number);
        }
        Ok(())
    }

    /// Makes a context the thread's current one; NULL makes none.
    pub(crate) fn set_current(&self, context: Handle) -> Answer {
        if context.is_null() {
            CURRENT.set(None);
            return Ok(());
        }
        match context.thing() {
            Ok(Thing::Context(number)) if self.contexts.contains_key(&number) => {
                CURRENT.set(Some(number));
                Ok(())
            }
            _ => Err(Code::INVALID_CONTEXT),
        }
    }

    /// The thread's current context, with the number of its device. One in which a kernel died answers nothing else.
    pub(crate) fn current(&mut self) -> Answer<(u32, &mut Context)> {
        let number = CURRENT.get().ok_or(Code::INVALID_CONTEXT)?;
        let context = self.contexts.get_mut(&number).ok_or(Code::CONTEXT_IS_DESTROYED)?;
        match context.died_of {
            Some(code) => Err(code),
            None => Ok((number, context)),
        }
    }
}
