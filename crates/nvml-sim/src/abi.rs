//! C's pointers as types that can only be written through with a NULL check, and the macro that exports a symbol.

use crate::session::Answer;
use carve_gpu_host::HostFailure;
use std::ffi::{CStr, c_char, c_uint};

/// NVML's answer to a struct whose version it does not know.
pub(crate) const VERSION_MISMATCH: HostFailure = HostFailure::Other(25);

/// What NVML writes where there is no GPU or compute instance.
pub(crate) const NO_INSTANCE: u32 = u32::MAX;

/// A pointer to where an answer goes. Only C makes one: it is always an argument of an exported function, whose
/// contract is that it is NULL or valid for as many values as the function writes.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Whether C passed NULL, where that means something.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Refuses NULL, for checking arguments before anything changes.
    pub(crate) fn required(self) -> Answer<Self> {
        if self.0.is_null() { Err(HostFailure::InvalidArgument) } else { Ok(self) }
    }

    /// Writes the answer.
    pub(crate) fn set(self, value: T) -> Answer {
        let out = self.required()?;
        // SAFETY: not NULL, and by the contract of the exported function then valid for one value.
        unsafe { out.0.write(value) };
        Ok(())
    }

    /// Reads what C passed in, for arguments that go both ways.
    pub(crate) fn get(self) -> Answer<T> {
        let out = self.required()?;
        // SAFETY: not NULL, and by the contract of the exported function then pointing to an initialised value.
        Ok(unsafe { out.0.read() })
    }

    /// Writes an array, which the caller has made large enough.
    pub(crate) fn set_all(self, values: &[T]) -> Answer {
        let out = self.required()?;
        for (position, value) in values.iter().enumerate() {
            // SAFETY: by the contract of the exported function the array holds at least `values.len()` values.
            unsafe { out.0.add(position).write(*value) };
        }
        Ok(())
    }

    /// A later place in the array that C passed. Nothing is looked at yet.
    pub(crate) fn nth(self, position: usize) -> Self {
        Out(self.0.wrapping_add(position))
    }

    /// The same place, seen as the part of a struct that its first version had.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl Out<c_char> {
    /// Writes a text with its NUL, if it fits.
    pub(crate) fn set_text(self, length: c_uint, text: &str) -> Answer {
        let out = self.required()?;
        if text.len() >= length as usize {
            return Err(HostFailure::InsufficientSize);
        }
        let bytes: Vec<c_char> = text.bytes().chain([0]).map(|byte| byte as c_char).collect();
        out.set_all(&bytes)
    }
}

/// A pointer to something C passes in, with the same contract as [`Out`].
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads it.
    pub(crate) fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(HostFailure::InvalidArgument);
        }
        // SAFETY: not NULL, and by the contract of the exported function then pointing to an initialised value.
        Ok(unsafe { self.0.read() })
    }
}

impl In<c_char> {
    /// Reads a NUL-terminated text.
    pub(crate) fn text(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(HostFailure::InvalidArgument);
        }
        // SAFETY: not NULL, and by the contract of the exported function then a NUL-terminated string.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| HostFailure::InvalidArgument)
    }
}

/// A text in a fixed field of a struct: cut to fit, NUL at the end.
pub(crate) fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (place, byte) in field.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *place = byte as c_char;
    }
    field
}

/// The version word that C code puts at the head of a versioned struct.
pub(crate) const fn struct_version<T>(version: u32) -> u32 {
    size_of::<T>() as u32 | (version << 24)
}

/// Exports functions under their C names. Several names before the arguments are versions with one meaning.
macro_rules! nvml {
    ($( fn $($name:ident)|+ ($($args:tt)*) $body:block )*) => {
        $( nvml!(@versions [$($name)|+] ($($args)*) $body); )*
    };
    (@versions [$($name:ident)|+] $args:tt $body:block) => {
        $( nvml!(@one $name $args $body); )+
    };
    (@one $name:ident ($simulation:ident $(, $arg:ident: $type:ty)* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $type),*) -> u32 {
            crate::session::answer(stringify!($name), |$simulation| $body)
        }
    };
}
pub(crate) use nvml;
