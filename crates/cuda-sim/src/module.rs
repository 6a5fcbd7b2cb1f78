//! Modules and libraries: PTX texts, of which only the kernels that can be simulated are found.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Numbered, Thing};
use crate::kernels::Kernel;
use crate::session::Session;
use std::ffi::CStr;

/// A module.
#[derive(Debug)]
struct Module {
    /// `None` for a library, which is for all of them.
    context: Option<u32>,
    text: String,
}

/// All modules of the process, libraries included.
#[derive(Debug, Default)]
pub(crate) struct Modules(Numbered<Module>);

impl Modules {
    /// A context has ended.
    pub(crate) fn unload_all(&mut self, context: u32) {
        self.0.retain(|module| module.context != Some(context));
    }

    /// Whether what is in a module can run in a context.
    pub(crate) fn has(&self, number: u32, context: u32) -> bool {
        self.0.get(number).is_ok_and(|module| module.context.is_none_or(|owner| owner == context))
    }
}

/// The kernel that a handle means.
pub(crate) fn kernel(function: Handle) -> Answer<Kernel> {
    match function.thing()? {
        Thing::Kernel(number) => Ok(Kernel::from_number(number)),
        _ => Err(Code::INVALID_HANDLE),
    }
}

impl Session {
    /// Loads a text into the current context, whatever it says after its version.
    pub(crate) fn load(&mut self, text: String) -> Answer<Handle> {
        let context = self.here()?.context;
        Ok(Handle::of(Thing::Module(self.add_module(Some(context), text)?)))
    }

    /// Loads a text for all contexts.
    pub(crate) fn load_library(&mut self, text: String) -> Answer<Handle> {
        Ok(Handle::of(Thing::Library(self.add_module(None, text)?)))
    }

    fn add_module(&mut self, context: Option<u32>, text: String) -> Answer<u32> {
        if text.contains(".version") {
            Ok(self.modules.0.add(Module { context, text }))
        } else {
            Err(Code::INVALID_PTX)
        }
    }

    /// The number of a module, or of a library.
    fn module_number(&self, module: Handle) -> Answer<u32> {
        let (Thing::Module(number) | Thing::Library(number)) = module.thing()? else {
            return Err(Code::INVALID_HANDLE);
        };
        self.modules.0.get(number).map(|_| number)
    }

    /// Unloads a module of a context.
    pub(crate) fn unload(&mut self, module: Handle) -> Answer {
        self.here()?;
        let number = self.module_number(module)?;
        self.modules.0.remove(number).map(drop)
    }

    /// Unloads a library.
    pub(crate) fn unload_library(&mut self, library: Handle) -> Answer {
        let number = self.module_number(library)?;
        self.modules.0.remove(number).map(drop)
    }

    /// A library as a module.
    pub(crate) fn library_as_module(&self, library: Handle) -> Answer<Handle> {
        Ok(Handle::of(Thing::Module(self.module_number(library)?)))
    }

    /// Finds a kernel of a module or a library, if its text has it and it can be simulated.
    pub(crate) fn function(&self, module: Handle, name: &str) -> Answer<Handle> {
        let number = self.module_number(module)?;
        let module = self.modules.0.get(number)?;
        let entries = module.text.split(".entry").skip(1);
        let mut names = entries.filter_map(|rest| rest.split(['(', '{']).next()).map(str::trim);
        let named = Kernel::named(number, name).filter(|_| names.any(|entry| entry == name));
        named.map(|kernel| Handle::of(Thing::Kernel(kernel.number()))).ok_or(Code::NOT_FOUND)
    }

    /// The name of a kernel that is still there.
    pub(crate) fn function_name(&self, function: Handle) -> Answer<&'static CStr> {
        let kernel = kernel(function)?;
        self.modules.0.get(kernel.module)?;
        kernel.name().ok_or(Code::INVALID_HANDLE)
    }

    /// The module of a kernel that is still there.
    pub(crate) fn function_module(&self, function: Handle) -> Answer<Handle> {
        let module = kernel(function)?.module;
        self.modules.0.get(module).map(|_| Handle::of(Thing::Module(module)))
    }
}
