//! Modules: PTX texts, of which only the kernels that can be simulated are found.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::session::Session;
use std::collections::BTreeMap;

/// The kernels that can run here.
const VECTOR_ADD: &str = "vector_add";
const SPIN: &str = "spin";

/// A module of a context.
#[derive(Debug)]
struct Module {
    context: u32,
    text: String,
}

/// All modules of the process.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    loaded: BTreeMap<u32, Module>,
    last: u32,
}

impl Modules {
    /// A context has ended.
    pub(crate) fn unload_all(&mut self, context: u32) {
        self.loaded.retain(|_, module| module.context != context);
    }

    /// Whether a module is loaded in a context.
    pub(crate) fn has(&self, number: u32, context: u32) -> bool {
        self.loaded.get(&number).is_some_and(|module| module.context == context)
    }
}

impl Session {
    /// Loads a text into the current context, whatever it says after its version.
    pub(crate) fn load(&mut self, text: String) -> Answer<Handle> {
        let context = self.here()?.context;
        if !text.contains(".version") {
            return Err(Code::INVALID_PTX);
        }
        self.modules.last += 1;
        self.modules.loaded.insert(self.modules.last, Module { context, text });
        Ok(Handle::of(Thing::Module(self.modules.last)))
    }

    /// Unloads a module.
    pub(crate) fn unload(&mut self, module: Handle) -> Answer {
        self.here()?;
        let Thing::Module(number) = module.thing()? else { return Err(Code::INVALID_HANDLE) };
        self.modules.loaded.remove(&number).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    /// Finds a kernel, if its text has it and it can be simulated.
    pub(crate) fn function(&mut self, module: Handle, name: &str) -> Answer<Handle> {
        self.here()?;
        let Thing::Module(number) = module.thing()? else { return Err(Code::INVALID_HANDLE) };
        let module = self.modules.loaded.get(&number).ok_or(Code::INVALID_HANDLE)?;
        let entries = module.text.split(".entry").skip(1);
        let mut names = entries.filter_map(|rest| rest.split(['(', '{']).next()).map(str::trim);
        let thing = match name {
            VECTOR_ADD => Thing::VectorAdd(number),
            SPIN => Thing::Spin(number),
            _ => return Err(Code::NOT_FOUND),
        };
        if names.any(|entry| entry == name) { Ok(Handle::of(thing)) } else { Err(Code::NOT_FOUND) }
    }
}
