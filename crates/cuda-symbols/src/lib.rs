//! What every function of the CUDA driver interface does to memory and work, by the name that libcuda.so.1 exports.
//!
//! The lists are compared with NVIDIA's headers by `cargo xtask cuda-symbols`, which names what they lack. A function
//! has the one value that a limiter must act on first. See `docs/design/limiter-symbols.md`.
#![no_std]

mod memory;
mod nothing;
mod process;
mod work;

/// A function that libcuda.so.1 exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// The exported name with version and stream variant, such as `cuMemAlloc_v2` or `cuLaunchKernel_ptsz`.
    pub name: &'static str,
    /// What it does.
    pub does: Does,
}

/// What a function does, as far as a limiter of memory and compute has to act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Does {
    /// Takes device memory of a size that the arguments say: compare with the limit before, charge after.
    Allocates,
    /// Gives back what a handle or an address stands for, at once or when the last hold on it goes.
    Frees,
    /// Adds or drops a hold on memory that is taken already: it stays taken, and charged, while one is left.
    Holds,
    /// Opens memory that another process or a graphics library has taken: decide who is charged.
    Imports,
    /// Has the driver take memory for itself, of a size that no argument says: measure before and after.
    Grows,
    /// Makes, changes, trims or ends a pool, whose reserve stays taken when its allocations are freed: ask it.
    Pools,
    /// Moves managed or system memory onto a device or off it, or says where it should be: charge what arrives.
    Moves,
    /// Takes, pins or lets go of memory of the host: the device's own where the two share one memory.
    PinsHost,
    /// Tells the size or the free memory of a device: answer with the limit.
    TellsMemory,
    /// Runs work on a GPU's multiprocessors: wait until the share of time allows it.
    Launches,
    /// Copies or fills memory, with copy engines or multiprocessors as the driver chooses: decide whether it is work.
    Copies,
    /// Adds, changes or removes nodes of a graph, whose types say what a launch will do: look for allocations.
    BuildsGraph,
    /// Begins or ends a capture of calls that are then not run, or sets what may break it: keep own calls out of it.
    Captures,
    /// Blocks until work has ended: a place to settle what work has cost.
    Waits,
    /// Makes a context, of a size that no argument says, or adds a user to one: measure before and after.
    MakesContext,
    /// Ends a context or drops a user of one; everything in it goes with it.
    EndsContext,
    /// Loads code and its variables, which take memory of a size that no argument says: measure before and after.
    LoadsCode,
    /// Unloads code and its variables.
    UnloadsCode,
    /// Hands out addresses of functions of this table, and of others: hand out the limiter's.
    FindsFunctions,
    /// Takes everything of a process off its GPUs or puts it back: measure the process anew.
    Checkpoints,
    /// Nothing to act on.
    Nothing,
}

const LISTS: [(Does, &[&str]); 21] = [
    (Does::Allocates, memory::ALLOCATES),
    (Does::Frees, memory::FREES),
    (Does::Holds, memory::HOLDS),
    (Does::Imports, memory::IMPORTS),
    (Does::Grows, memory::GROWS),
    (Does::Pools, memory::POOLS),
    (Does::Moves, memory::MOVES),
    (Does::PinsHost, memory::PINS_HOST),
    (Does::TellsMemory, memory::TELLS_MEMORY),
    (Does::Launches, work::LAUNCHES),
    (Does::Copies, work::COPIES),
    (Does::BuildsGraph, work::BUILDS_GRAPH),
    (Does::Captures, work::CAPTURES),
    (Does::Waits, work::WAITS),
    (Does::MakesContext, process::MAKES_CONTEXT),
    (Does::EndsContext, process::ENDS_CONTEXT),
    (Does::LoadsCode, process::LOADS_CODE),
    (Does::UnloadsCode, process::UNLOADS_CODE),
    (Does::FindsFunctions, process::FINDS_FUNCTIONS),
    (Does::Checkpoints, process::CHECKPOINTS),
    (Does::Nothing, nothing::NOTHING),
];

static TABLE: [Symbol; count()] = sorted();

/// Every function, in the order of its name's bytes.
pub const SYMBOLS: &[Symbol] = &TABLE;

/// What a function does, by its exported name; none if the table does not know it.
pub fn find(name: &str) -> Option<Does> {
    SYMBOLS.binary_search_by(|symbol| symbol.name.cmp(name)).ok().map(|at| SYMBOLS[at].does)
}

const fn count() -> usize {
    let (mut list, mut sum) = (0, 0);
    while list < LISTS.len() {
        sum += LISTS[list].1.len();
        list += 1;
    }
    sum
}

/// All lists as one, put in order when this crate is compiled: each name is inserted before the greater ones.
const fn sorted() -> [Symbol; count()] {
    let mut table = [Symbol { name: "", does: Does::Nothing }; count()];
    let (mut list, mut filled) = (0, 0);
    while list < LISTS.len() {
        let (does, names) = LISTS[list];
        let mut next = 0;
        while next < names.len() {
            let mut at = filled;
            while at > 0 && is_less(names[next], table[at - 1].name) {
                table[at] = table[at - 1];
                at -= 1;
            }
            table[at] = Symbol { name: names[next], does };
            filled += 1;
            next += 1;
        }
        list += 1;
    }
    table
}

/// `left < right`, which is not yet a constant function of the standard library.
const fn is_less(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() {
        if left[at] != right[at] {
            return left[at] < right[at];
        }
        at += 1;
    }
    left.len() < right.len()
}

#[cfg(test)]
mod tests {
    use super::{Does, LISTS, SYMBOLS, find};

    #[test]
    fn names_are_in_order_and_none_is_there_twice() {
        for pair in SYMBOLS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn no_list_is_empty_or_named_twice() {
        for pair in LISTS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{:?} before {:?}", pair[0].0, pair[1].0);
        }
        assert!(LISTS.iter().all(|(_, names)| !names.is_empty()));
    }

    #[test]
    fn every_name_is_found_with_what_its_list_says() {
        for (does, names) in LISTS {
            names.iter().for_each(|name| assert_eq!(find(name), Some(does), "{name}"));
        }
        for unknown in ["", "cu", "cuMemAlloc_v", "cuMemAlloc_v2_ptsz", "cuWGLGetDevice", "zz"] {
            assert_eq!(find(unknown), None, "{unknown}");
        }
    }

    /// A later version or the other default stream changes how a function is called, not what it does.
    #[test]
    fn variants_of_a_function_do_the_same() {
        for symbol in SYMBOLS {
            let (function, _) = symbol.name.split_once('_').unwrap_or((symbol.name, ""));
            // A release may bring a version without its plain name.
            if let Some(does) = find(function) {
                assert_eq!(symbol.does, does, "{} and {function}", symbol.name);
            }
        }
    }

    #[test]
    fn what_is_easily_forgotten_is_there() {
        for (name, does) in [
            ("cuMemAlloc", Does::Allocates),
            ("cuMemAllocFromPoolAsync_ptsz", Does::Allocates),
            ("cuGraphAddMemAllocNode", Does::Allocates),
            ("cuMipmappedArrayCreate", Does::Allocates),
            ("cuMemRetainAllocationHandle", Does::Holds),
            ("cuMemExportToShareableHandle", Does::Holds),
            ("cuIpcOpenMemHandle_v2", Does::Imports),
            ("cuCtxSetLimit", Does::Grows),
            ("cuGraphUpload_ptsz", Does::Grows),
            ("cuMemDiscardAndPrefetchBatchAsync", Does::Moves),
            ("cuLaunchGridAsync", Does::Launches),
            ("cuLaunchCooperativeKernelMultiDevice", Does::Launches),
            ("cuGraphAddNode_v3", Does::BuildsGraph),
            ("cuGraphExecUpdate_v2", Does::BuildsGraph),
            ("cuDevicePrimaryCtxRetain", Does::MakesContext),
            ("cuGreenCtxCreate", Does::MakesContext),
            ("cuFuncLoad", Does::LoadsCode),
            ("cuGetExportTable", Does::FindsFunctions),
            ("cuCheckpointProcessRestore", Does::Checkpoints),
        ] {
            assert_eq!(find(name), Some(does), "{name}");
        }
    }
}
