//! Initialisation, versions, error texts, names of processes.

use crate::abi::{Out, VERSION_MISMATCH, field, nvml, struct_version};
use crate::session::{guard, initialise, shut_down};
use crate::simulation::said;
use carve_gpu_host::HostFailure;
use nvml_wrapper_sys::bindings::nvmlSystemDriverBranchInfo_v1_t;
use std::ffi::{CStr, c_char, c_int, c_uint};

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInit() -> u32 {
    guard("nvmlInit", initialise)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInit_v2() -> u32 {
    guard("nvmlInit_v2", initialise)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> u32 {
    guard("nvmlInitWithFlags", initialise)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlShutdown() -> u32 {
    guard("nvmlShutdown", shut_down)
}

/// The name of a return code. Needs no initialisation and never fails.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    let text: &'static CStr = match code {
        0 => c"SUCCESS",
        1 => c"ERROR_UNINITIALIZED",
        2 => c"ERROR_INVALID_ARGUMENT",
        3 => c"ERROR_NOT_SUPPORTED",
        4 => c"ERROR_NO_PERMISSION",
        5 => c"ERROR_ALREADY_INITIALIZED",
        6 => c"ERROR_NOT_FOUND",
        7 => c"ERROR_INSUFFICIENT_SIZE",
        8 => c"ERROR_INSUFFICIENT_POWER",
        9 => c"ERROR_DRIVER_NOT_LOADED",
        10 => c"ERROR_TIMEOUT",
        11 => c"ERROR_IRQ_ISSUE",
        12 => c"ERROR_LIBRARY_NOT_FOUND",
        13 => c"ERROR_FUNCTION_NOT_FOUND",
        14 => c"ERROR_CORRUPTED_INFOROM",
        15 => c"ERROR_GPU_IS_LOST",
        16 => c"ERROR_RESET_REQUIRED",
        17 => c"ERROR_OPERATING_SYSTEM",
        18 => c"ERROR_LIB_RM_VERSION_MISMATCH",
        19 => c"ERROR_IN_USE",
        20 => c"ERROR_MEMORY",
        21 => c"ERROR_NO_DATA",
        22 => c"ERROR_VGPU_ECC_NOT_SUPPORTED",
        23 => c"ERROR_INSUFFICIENT_RESOURCES",
        24 => c"ERROR_FREQ_NOT_SUPPORTED",
        25 => c"ERROR_ARGUMENT_VERSION_MISMATCH",
        26 => c"ERROR_DEPRECATED",
        27 => c"ERROR_NOT_READY",
        28 => c"ERROR_GPU_NOT_FOUND",
        29 => c"ERROR_INVALID_STATE",
        _ => c"ERROR_UNKNOWN",
    };
    text.as_ptr()
}

nvml! {
    fn nvmlSystemGetDriverVersion(simulation, version: Out<c_char>, length: c_uint) {
        let driver = said(simulation.host.driver())?;
        version.set_text(length, &driver.version)
    }

    // The library's version starts with that of the NVML interface, which follows CUDA's.
    fn nvmlSystemGetNVMLVersion(simulation, version: Out<c_char>, length: c_uint) {
        let driver = &simulation.driver;
        version.set_text(length, &format!("{}.{}", driver.cuda.0, driver.version))
    }

    fn nvmlSystemGetCudaDriverVersion | nvmlSystemGetCudaDriverVersion_v2(simulation, version: Out<c_int>) {
        let (major, minor) = simulation.driver.cuda;
        version.set((major * 1000 + minor * 10) as c_int)
    }

    fn nvmlSystemGetDriverBranch(simulation, branch: Out<nvmlSystemDriverBranchInfo_v1_t>, length: c_uint) {
        let version = struct_version::<nvmlSystemDriverBranchInfo_v1_t>(1);
        if branch.get()?.version != version {
            return Err(VERSION_MISMATCH);
        }
        let major = simulation.driver.version.split('.').next().unwrap_or_default();
        let name = format!("r{major}_00");
        if name.len() >= length as usize {
            return Err(HostFailure::InsufficientSize);
        }
        branch.set(nvmlSystemDriverBranchInfo_v1_t { version, branch: field(&name) })
    }

    // Simulated processes have no name of their own; the pid alone tells them apart.
    fn nvmlSystemGetProcessName(simulation, pid: c_uint, name: Out<c_char>, length: c_uint) {
        let exists = simulation.gpus.iter().any(|gpu| {
            simulation.host.plain().processes(gpu.index).is_ok_and(|all| all.iter().any(|one| one.pid == pid))
        });
        if !exists {
            return Err(HostFailure::NotFound);
        }
        name.set_text(length, &format!("/simulated/{pid}"))
    }
}
