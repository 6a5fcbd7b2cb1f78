//! `libcuda.so.1` with simulated GPUs inside: as much of CUDA's driver interface as carve's probes use, and what a
//! library that is loaded before it may want to catch: memory of every kind, launches, streams, events, graphs.
//!
//! The machine is the one that the simulated NVML shows. Settings come from the environment at `cuInit`:
//!
//! | variable | meaning |
//! |---|---|
//! | `CARVE_SIM_MACHINE`, `CARVE_SIM_STATE` | the machine, as for the simulated `libnvidia-ml.so.1` |
//! | `CARVE_SIM_DEV` | folder of device nodes, likewise: only GPUs and MIG devices with theirs are there |
//! | `CUDA_VISIBLE_DEVICES` | which devices this process sees, by index or UUID |
//! | `CUDA_MPS_PIPE_DIRECTORY` | limits of an MPS client stand in its file `carve-sim-limits`; clients of one daemon die together, where they share a clock |
//! | `CARVE_SIM_CUDA_FAULT` | `wrong-sum`, `launch-fails`, `hang`, `pools-in-pieces` or `alloc-fails:N` |
//! | `CARVE_SIM_TRACE` | file to which every call appends `cuName -> code`, as the simulated NVML does |
//! | `CARVE_SIM_CUDA_CLOCK` | a file: processes that name the same one share the devices' time and memory, and faults under MPS |
//!
//! Device memory is bookkeeping with pages of host memory behind what was written; addresses are numbers that are
//! never followed. The kernels that can run stand in [`kernels`]: `vector_add`, on the CPU; `spin`, which does nothing for as many
//! nanoseconds as its argument says; those of the tenants that `carve bench` starts, which do nothing for as long as their
//! blocks are thought to take; and `fault`, which ends its context as a bad address does. Time is bookkeeping as well: a launch computes when its
//! kernel ends, asking compares that with the clock, and waiting sleeps.
//!
//! ```text
//!   launch ──▶ stream ──▶ not captured: the kernel takes its place on the board, the stream knows when it ends
//!                └──────▶ captured: a node of a graph, whose launch gives it to a stream again
//! ```
//!
//! All exported symbols stand in [`symbols`]; everything unsafe about C's pointers is in [`abi`] and [`structs`], and
//! about pages of the kernel in [`mapping`].
#![allow(
    unsafe_code,
    reason = "exporting C symbols and writing through C's pointers is what this crate is for"
)]
#![allow(non_snake_case, reason = "CUDA names its functions so")]

mod abi;
mod array;
mod blocks;
mod board;
mod capture;
mod clock;
mod context;
mod copy;
mod device;
mod error;
mod event;
mod graph;
mod handle;
mod host;
mod kernels;
mod launch;
mod limits;
mod mapping;
mod memory;
mod module;
mod mps_client;
mod multicast;
mod pages;
mod physical;
mod pointer;
mod pool;
mod procedure;
mod session;
mod settings;
mod stream;
mod structs;
mod symbols;
mod trace;
mod visible;
mod work;
