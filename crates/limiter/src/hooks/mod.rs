//! The functions that are hooked, by what they do.

mod contexts;
mod find;
mod graph_memory;
mod graphs;
mod growth;
mod launches;
mod memory;
mod multicast;
mod nvml;
mod old;
mod pools;
#[cfg(test)]
mod reasons;
mod sparse;
mod tells;

use crate::driver::Hook;

/// All hooks.
pub(crate) fn all() -> impl Iterator<Item = Hook> {
    let tables = [
        find::HOOKS,
        launches::HOOKS,
        graphs::HOOKS,
        graph_memory::HOOKS,
        memory::HOOKS,
        old::HOOKS,
        sparse::HOOKS,
        multicast::HOOKS,
        growth::HOOKS,
        pools::HOOKS,
        contexts::HOOKS,
        tells::HOOKS,
        nvml::HOOKS,
    ];
    tables.into_iter().flatten().map(|make| make())
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSymbol};
    extern crate std;
    use std::collections::BTreeSet;
    use std::string::{String, ToString};

    #[test]
    fn the_shared_object_exports_the_hooks_and_dlsym() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../target/limiter/release/libcarve_limiter.so");
        let bytes = std::fs::read(&path).unwrap_or_else(|error| {
            std::panic!("{}: {error}; `cargo xtask limiter` makes it", path.display())
        });
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
        let defined = file.dynamic_symbols().filter(|symbol| !symbol.is_undefined());
        let exported: BTreeSet<String> = defined.map(|symbol| symbol.name().unwrap().to_string()).collect();
        let mut expected: BTreeSet<String> = super::all().map(|hook| hook.name.to_string()).collect();
        assert_eq!(expected.len(), super::all().count(), "a hook stands there twice");
        expected.insert("dlsym".to_string());
        assert_eq!(exported, expected);
    }
}
