//! CUDA's error codes, with the names and sentences that `cuGetErrorName` and `cuGetErrorString` tell.

use std::ffi::{CStr, c_uint};

/// A `CUresult` other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_uint);

/// What an entry answers before it becomes a return code.
pub(crate) type Answer<T = ()> = Result<T, Code>;

/// Declares codes once: as constants and as rows of the table.
macro_rules! codes {
    ($( $name:ident = $number:literal, $c_name:literal, $text:literal; )*) => {
        impl Code {
            $( pub(crate) const $name: Code = Code($number); )*
        }

        /// Number, name, sentence.
        const TABLE: &[(c_uint, &CStr, &CStr)] = &[(0, c"CUDA_SUCCESS", c"no error"), $( ($number, $c_name, $text), )*];
    };
}

codes! {
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    CONTEXT_IS_DESTROYED = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    MPS_CONNECTION_FAILED = 805, c"CUDA_ERROR_MPS_CONNECTION_FAILED", c"MPS client failed to connect to the MPS control daemon or the MPS server";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

/// Name and sentence of a code, where it is known.
pub(crate) fn words(code: c_uint) -> Answer<(&'static CStr, &'static CStr)> {
    let row = TABLE.iter().find(|(number, _, _)| *number == code);
    row.map(|(_, name, text)| (*name, *text)).ok_or(Code::INVALID_VALUE)
}
