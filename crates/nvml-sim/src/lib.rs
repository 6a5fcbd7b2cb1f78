//! `libnvidia-ml.so.1` with a simulated machine inside, so that NVIDIA's own programs and ours see the same GPUs.
//!
//! Settings come from the environment when NVML is initialised:
//!
//! | variable | meaning |
//! |---|---|
//! | `CARVE_SIM_MACHINE` | a preset, `PRODUCT:COUNT`, or the path of a machine description |
//! | `CARVE_SIM_STATE` | file in which the machine is kept and shared; if no machine is named, it tells which |
//! | `CARVE_SIM_FAULT` | planned faults, such as `create-gpu-instance:2:before:23` or `change:3:after:die`; `@FILE` gives those in a file to one process |
//! | `CARVE_SIM_DEV` | folder of device nodes, such as `/dev`: only GPUs and MIG devices with theirs are shown |
//! | `CARVE_SIM_TRACE` | file to which every call appends `nvmlName -> code` |
//!
//! Without any, the machine is a private p4d.24xlarge. Every entry goes through [`session::answer`], which catches
//! panics; everything unsafe about C's pointers is in [`abi`].
#![allow(
    unsafe_code,
    reason = "exporting C symbols and writing through C's pointers is what this crate is for"
)]
#![allow(non_snake_case, reason = "NVML names its functions so")]

mod abi;
mod busy;
mod compute_instance;
mod device;
mod event;
mod fabric;
mod field;
mod gpu_instance;
mod handle;
mod memory;
mod mig_device;
mod mig_mode;
mod not_supported;
mod process;
mod reading;
mod session;
mod settings;
mod simulation;
mod system;
mod topology;
mod trace;
