//! The kernels that can run here, by name, and what each does.

use std::ffi::CStr;

/// What a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Adds two vectors, on the CPU.
    VectorAdd,
    /// Takes as many nanoseconds as its argument says.
    Spin,
    /// Takes so many nanoseconds and so many more for each block; its arguments are not looked at, nor is memory.
    Takes { always: u64, of_block: u64 },
    /// Writes where nothing is.
    Fault,
}

/// A kernel that takes time alone.
const fn takes(name: &'static CStr, always: u64, of_block: u64) -> (&'static CStr, Effect) {
    (name, Effect::Takes { always, of_block })
}

/// All of them. From `empty` on they are those of the tenants whose work is measured: microseconds for layers and products,
/// milliseconds for `burn` on a whole GPU. No figure of a real one follows from these.
const ALL: [(&CStr, Effect); 13] = [
    (c"vector_add", Effect::VectorAdd),
    (c"spin", Effect::Spin),
    takes(c"empty", 2_000, 0),
    takes(c"fill_halves", 2_000, 100),
    takes(c"fill_random", 2_000, 10),
    takes(c"layer_one", 2_000, 8),
    takes(c"layer_many", 2_000, 8),
    takes(c"normalise", 2_000, 50),
    takes(c"product", 2_000, 40),
    takes(c"copy", 2_000, 250),
    takes(c"burn", 2_000, 8_000),
    takes(c"burn_scalar", 2_000, 8_000),
    (c"fault", Effect::Fault),
];

/// Room for the position in the table at the end of a number.
const POSITIONS: u32 = 8;

/// A kernel of a module, in the number that its handle has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The module or library that it is in.
    pub(crate) module: u32,
    position: u32,
}

impl Kernel {
    /// A kernel that can run, by its name; none where a process has loaded more modules than handles tell apart.
    pub(crate) fn named(module: u32, name: &str) -> Option<Self> {
        let position = ALL.iter().position(|(known, _)| known.to_bytes() == name.as_bytes())?;
        let position = u32::try_from(position).ok()?;
        (module < 1 << (u32::BITS - POSITIONS)).then_some(Kernel { module, position })
    }

    /// The number.
    pub(crate) fn number(self) -> u32 {
        self.module << POSITIONS | self.position
    }

    /// The kernel behind a number.
    pub(crate) fn from_number(number: u32) -> Self {
        Kernel { module: number >> POSITIONS, position: number & ((1 << POSITIONS) - 1) }
    }

    fn row(self) -> Option<(&'static CStr, Effect)> {
        ALL.get(self.position as usize).copied()
    }

    /// Its name; none for a number that nobody was given.
    pub(crate) fn name(self) -> Option<&'static CStr> {
        self.row().map(|(name, _)| name)
    }

    /// What it does; likewise.
    pub(crate) fn effect(self) -> Option<Effect> {
        self.row().map(|(_, effect)| effect)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Effect, Kernel};

    #[test]
    fn a_number_leads_back_to_module_and_kernel() {
        for (name, effect) in ALL {
            let kernel = Kernel::named(77, name.to_str().unwrap()).unwrap();
            assert_eq!(Kernel::from_number(kernel.number()), kernel);
            assert_eq!((kernel.module, kernel.name(), kernel.effect()), (77, Some(name), Some(effect)));
        }
        assert_eq!(Kernel::from_number(77 << 8 | 200).effect(), None);
        assert!(Kernel::named(1, "transpose").is_none() && Kernel::named(1 << 24, "spin").is_none());
    }

    #[test]
    fn every_kernel_of_the_tenants_is_known() {
        let programs = [
            include_str!("../../workload/kernels/tenants.ptx"),
            include_str!("../../workload/kernels/burn.ptx"),
        ];
        let entries = programs.iter().flat_map(|text| text.split(".entry").skip(1));
        let names: Vec<&str> = entries.filter_map(|rest| rest.split('(').next()).map(str::trim).collect();
        assert_eq!(names.len(), 11, "{names:?}");
        for name in names {
            let effect = Kernel::named(1, name).and_then(Kernel::effect);
            assert!(matches!(effect, Some(Effect::Takes { .. } | Effect::Fault)), "{name}");
        }
    }
}
