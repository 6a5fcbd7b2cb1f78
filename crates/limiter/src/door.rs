//! The ways on which programs reach the driver's functions: linked, through `dlsym`, through `cuGetProcAddress`.
//!
//! Whatever would be the driver's own function is replaced by ours, and nothing else: a library of another interposer keeps its functions.

use crate::driver::{Hook, SUCCESS};
use crate::process::{Process, process};
use crate::{elf, hooks};
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The `dlsym` that comes after ours in the order of libraries.
pub(crate) static NEXT_DLSYM: AtomicUsize = AtomicUsize::new(0);

/// Finds it: the first one behind ourselves.
fn find_next_dlsym() -> usize {
    let known = NEXT_DLSYM.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let ourselves = find_next_dlsym as *const () as usize;
    let (mut behind, mut found) = (false, None);
    elf::each(|library| {
        if library.contains(ourselves) {
            behind = true;
        } else if behind {
            found = library.function(b"dlsym");
        }
        found.is_some()
    });
    let found = found.unwrap_or(0);
    NEXT_DLSYM.store(found, Ordering::Relaxed);
    found
}

/// The hook of a name.
fn hook_called(name: &[u8]) -> Option<Hook> {
    hooks::all().find(|hook| hook.name.as_bytes() == name)
}

/// Whether a program gets our function. Where time is not limited, work is started by the driver's own functions: there is nothing to
/// do before or after it. Graphs can have memory, so they are launched by ours.
fn is_wanted(hook: &Hook) -> bool {
    !hook.name.starts_with("cuLaunch") || process().is_none_or(Process::is_timed)
}

/// What `dlsym` is to answer instead of the truth; zero for the truth.
///
/// SAFETY: as `dlsym`, called by the function below.
unsafe extern "C" fn instead(handle: *mut c_void, name: *const c_char) -> usize {
    let next = find_next_dlsym();
    // The search through all libraries finds our functions by itself, and who asks for the next one knows whose that is.
    if handle.is_null() || handle as usize == usize::MAX || name.is_null() || next == 0 {
        return 0;
    }
    // SAFETY: the caller of `dlsym` passes a C string.
    let wanted = unsafe { CStr::from_ptr(name) }.to_bytes();
    if !(wanted.starts_with(b"cu") || wanted.starts_with(b"nvml")) {
        return 0;
    }
    let Some(hook) = hook_called(wanted).filter(is_wanted) else { return 0 };
    // SAFETY: that is the C library's function, and the arguments are those of its caller.
    let next: unsafe extern "C" fn(*mut c_void, *const c_char) -> usize =
        unsafe { core::mem::transmute(next) };
    // SAFETY: see above.
    let address = unsafe { next(handle, name) };
    let mut drivers = false;
    elf::each(|library| {
        drivers = library.is_called(hook.library) && library.contains(address);
        drivers
    });
    if !drivers {
        return 0;
    }
    hook.place.store(address, Ordering::Relaxed);
    hook.ours
}

/// The C library's `dlsym` finds out from its return address who asks, so it is jumped to and not called.
#[cfg(all(carve_export, target_arch = "x86_64"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {instead}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jnz 2f",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "ret",
        instead = sym instead,
        next = sym NEXT_DLSYM,
    )
}

#[cfg(all(carve_export, not(target_arch = "x86_64")))]
compile_error!("the limiter knows how to pass on dlsym on x86_64 only");

/// Puts our function in the place of the driver's, if it is one that is hooked.
///
/// SAFETY: `function` must be where `cuGetProcAddress` has just written an address, or null.
pub(crate) unsafe fn replace(answer: i32, function: *mut usize) {
    if answer != SUCCESS || function.is_null() {
        return;
    }
    // SAFETY: the driver has written there.
    let found = unsafe { function.read() };
    if found == 0 {
        return;
    }
    for hook in hooks::all().filter(is_wanted) {
        if crate::driver::find(hook.place, hook.library, hook.name) == Some(found) {
            // SAFETY: the driver has written there.
            unsafe { function.write(hook.ours) };
            return;
        }
    }
}

/// Keeps what tests do not export from being unused.
#[cfg(not(carve_export))]
pub(crate) fn unexported() -> usize {
    instead as *const () as usize
}
