//! Holds a process to its share of a GPU's memory and time, from inside: a guest in somebody else's process.
//!
//! Loaded before everything else (`LD_PRELOAD`, `ld.so.preload`), it stands in for the functions of the driver that allocate memory, start work or
//! tell how much memory there is, on every way on which a program can reach them ([`door`]). Limits and use are shared with the
//! agent through files ([`files`], `carve-limiter-abi`). It never ends, stops or talks to its host: no heap, no threads, no signals, no
//! environment, no output, and nothing of the C library beyond what every version since 2.17 has.
#![no_std]
#![allow(unsafe_code, reason = "it stands in for C functions of the driver")]
#![cfg_attr(not(carve_export), allow(dead_code, reason = "only the shared object exports the hooks"))]

mod bursts;
mod capture;
mod clock;
mod costs;
mod door;
mod driver;
mod elf;
mod events;
#[cfg(feature = "fault-points")]
mod faults;
mod files;
mod graph_level;
mod graph_walk;
mod graphs;
mod hooks;
mod ledger;
mod lock;
mod memory;
mod pages;
mod pools;
mod process;
mod work;

/// There is nobody to tell and nothing to unwind; the thread that found a fault of ours stands still, and the program's others go on.
#[cfg(carve_export)]
#[panic_handler]
fn fault(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        clock::nap(1_000_000_000);
    }
}
