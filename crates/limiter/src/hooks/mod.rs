//! The functions that are hooked, by what they do.

mod contexts;
mod find;
mod graphs;
mod launches;
mod memory;
mod nvml;
mod pools;
mod tells;

use crate::driver::Hook;

/// All hooks.
pub(crate) fn all() -> impl Iterator<Item = Hook> {
    let tables = [
        find::HOOKS,
        launches::HOOKS,
        graphs::HOOKS,
        memory::HOOKS,
        pools::HOOKS,
        contexts::HOOKS,
        tells::HOOKS,
        nvml::HOOKS,
    ];
    tables.into_iter().flatten().map(|make| make())
}
