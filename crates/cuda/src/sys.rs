//! The ground floor: the library and its symbols, with the types of NVIDIA's header.

use crate::open::OpenError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::path::{Path, PathBuf};

/// Where the dynamic linker is asked to look, in this order, when no path is given.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// A context, a module, a function or a stream: pointers that only the library follows.
pub(crate) type Opaque = *mut c_void;

/// An address in the memory of a GPU.
pub(crate) type DevicePointer = u64;

/// Declares the functions once: as fields that hold them, and as the names that are looked up.
///
/// The names carry the version where NVIDIA's header renames the function (`cuMemAlloc` is `cuMemAlloc_v2` since
/// CUDA 3.2): the plain names are older functions with other types.
macro_rules! symbols {
    ($(#[$about:meta])* $group:ident { $( fn $name:ident($($type:ty),* $(,)?); )* }) => {
        $(#[$about])*
        #[allow(non_snake_case, reason = "CUDA names its functions so")]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $group {
            $( pub(crate) $name: unsafe extern "C" fn($($type),*) -> c_uint, )*
        }

        impl $group {
            /// Looks every function up; answers the name of the first that is missing.
            #[allow(unsafe_code, reason = "a symbol has no type but the one it is given")]
            fn resolve(library: &Library) -> Result<Self, &'static str> {
                Ok($group {
                    $( $name: {
                        // SAFETY: a library of this name exports the function with the type of NVIDIA's header,
                        // which is the one written down here; NVIDIA never changes a symbol's type. `load` keeps
                        // the library in memory for ever, so the function outlives the borrow of `library`.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($type),*) -> c_uint>(
                                concat!(stringify!($name), "\0").as_bytes(),
                            )
                        };
                        *symbol.map_err(|_| stringify!($name))?
                    }, )*
                })
            }
        }
    };
}

symbols! {
    /// The functions that every library has.
    Symbols {
    fn cuInit(c_uint);
    fn cuDriverGetVersion(*mut c_int);
    fn cuGetErrorName(c_uint, *mut *const c_char);
    fn cuGetErrorString(c_uint, *mut *const c_char);
    fn cuDeviceGetCount(*mut c_int);
    fn cuDeviceGet(*mut c_int, c_int);
    fn cuDeviceGetName(*mut c_char, c_int, c_int);
    fn cuDeviceGetUuid_v2(*mut [u8; 16], c_int);
    fn cuDeviceTotalMem_v2(*mut usize, c_int);
    fn cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    fn cuDevicePrimaryCtxRetain(*mut Opaque, c_int);
    fn cuDevicePrimaryCtxRelease_v2(c_int);
    fn cuCtxSetCurrent(Opaque);
    fn cuCtxSynchronize();
    fn cuMemGetInfo_v2(*mut usize, *mut usize);
    fn cuMemAlloc_v2(*mut DevicePointer, usize);
    fn cuMemFree_v2(DevicePointer);
    fn cuMemcpyHtoD_v2(DevicePointer, *const c_void, usize);
    fn cuMemcpyDtoH_v2(*mut c_void, DevicePointer, usize);
    fn cuModuleLoadData(*mut Opaque, *const c_void);
    fn cuModuleUnload(Opaque);
    fn cuModuleGetFunction(*mut Opaque, Opaque, *const c_char);
    fn cuLaunchKernel(
        Opaque, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Opaque, *mut Opaque, *mut Opaque,
    );
    fn cuStreamSynchronize(Opaque);
    fn cuStreamCreate(*mut Opaque, c_uint);
    fn cuStreamDestroy_v2(Opaque);
    fn cuMemcpyHtoDAsync_v2(DevicePointer, *const c_void, usize, Opaque);
    fn cuMemcpyDtoHAsync_v2(*mut c_void, DevicePointer, usize, Opaque);
    fn cuMemsetD8Async(DevicePointer, c_uchar, usize, Opaque);
    fn cuMemAllocHost_v2(*mut *mut c_void, usize);
    fn cuMemFreeHost(*mut c_void);
    }
}

/// `CUdevResource`: its kind, the driver's own bytes, and for multiprocessors their count; 144 bytes since CUDA 12.4.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Resource {
    pub(crate) kind: c_uint,
    inner: [u8; 92],
    pub(crate) multiprocessors: c_uint,
    rest: [u8; 44],
}

impl Resource {
    /// One that the library fills in.
    pub(crate) const EMPTY: Resource =
        Resource { kind: 0, inner: [0; 92], multiprocessors: 0, rest: [0; 44] };
}

symbols! {
    /// The functions that divide multiprocessors; libraries have them since CUDA 12.5.
    GreenSymbols {
    fn cuDeviceGetDevResource(c_int, *mut Resource, c_uint);
    fn cuDevSmResourceSplitByCount(*mut Resource, *mut c_uint, *const Resource, *mut Resource, c_uint, c_uint);
    fn cuDevResourceGenerateDesc(*mut Opaque, *mut Resource, c_uint);
    fn cuGreenCtxCreate(*mut Opaque, Opaque, c_int, c_uint);
    fn cuGreenCtxDestroy(Opaque);
    fn cuCtxFromGreenCtx(*mut Opaque, Opaque);
    fn cuGreenCtxStreamCreate(*mut Opaque, Opaque, c_uint, c_int);
    }
}

/// Loads the library and looks its functions up. The answer names the library that was loaded.
#[allow(unsafe_code, reason = "loading a library runs its initialisers")]
pub(crate) fn load(given: Option<&Path>) -> Result<(Symbols, Option<GreenSymbols>, PathBuf), OpenError> {
    let candidates: Vec<PathBuf> = match given {
        Some(path) => vec![path.to_owned()],
        None => NAMES.iter().map(PathBuf::from).collect(),
    };
    let mut refusals = Vec::new();
    for candidate in candidates {
        // SAFETY: the library is NVIDIA's (or stands in for it), whose initialisers may run at any time.
        match unsafe { Library::new(&candidate) } {
            Ok(library) => {
                let symbols = Symbols::resolve(&library);
                let green = GreenSymbols::resolve(&library).ok();
                // NVIDIA's library starts threads and leaves exit handlers behind; it is not made to be unloaded.
                std::mem::forget(library);
                let symbols = symbols
                    .map_err(|symbol| OpenError::SymbolMissing { library: candidate.clone(), symbol })?;
                return Ok((symbols, green, candidate));
            }
            Err(error) => refusals.push((candidate, spelled_out(&error))),
        }
    }
    Err(OpenError::LibraryNotFound { refusals })
}

/// The linker's own words; the error alone only says that it has some.
fn spelled_out(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
