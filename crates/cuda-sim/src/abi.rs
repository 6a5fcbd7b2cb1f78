//! C's pointers as types that can only be used with a NULL check.

use crate::error::{Answer, Code};
use crate::handle::Handle;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// A pointer to where an answer goes. Only C makes one: it is always an argument of an exported function, whose
/// contract is that it is NULL or valid for as many values as the function writes.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Refuses NULL, for checking arguments before anything changes.
    pub(crate) fn required(self) -> Answer<Self> {
        if self.0.is_null() { Err(Code::INVALID_VALUE) } else { Ok(self) }
    }

    /// Writes the answer.
    pub(crate) fn set(self, value: T) -> Answer {
        let out = self.required()?;
        // SAFETY: not NULL, and by the contract of the exported function then valid for one value; C's structures may
        // lie anywhere, so nothing is assumed about alignment.
        unsafe { out.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the answer if the caller wants it.
    pub(crate) fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as for `set`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What stands there before the answer is written, for arguments that go both ways.
    pub(crate) fn get(self) -> Answer<T> {
        let out = self.required()?;
        // SAFETY: as for `set`; arguments that go both ways are filled by the caller.
        Ok(unsafe { out.0.read_unaligned() })
    }

    /// Writes as many answers as there is room for.
    pub(crate) fn set_all(self, values: &[T]) -> Answer {
        let out = self.required()?;
        for (position, value) in values.iter().enumerate() {
            // SAFETY: by the contract of the exported function the array holds as many values as the caller said, and
            // callers of this function pass no more.
            unsafe { out.0.add(position).write_unaligned(*value) };
        }
        Ok(())
    }

    /// Whether C passed NULL.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A place whose type another argument tells.
pub(crate) type OutAny = Out<u8>;

impl OutAny {
    /// The place as one for a type that the other argument names.
    pub(crate) fn of<T: Copy>(self) -> Out<T> {
        Out(self.0.cast())
    }
}

/// A structure, or several in a row, that C passes in.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads it.
    pub(crate) fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, and by the contract of the exported function then a valid value.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads so many; none need no pointer.
    pub(crate) fn list(self, count: usize) -> Answer<Vec<T>> {
        if count > 0 && self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, and by the contract of the exported function then `count` valid values.
        Ok((0..count).map(|position| unsafe { self.0.add(position).read_unaligned() }).collect())
    }
}

/// A function of the program that the driver calls later, with what it is called with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCall {
    function: HostFunction,
    data: *mut c_void,
}

#[derive(Debug, Clone, Copy)]
enum HostFunction {
    Plain(extern "C" fn(*mut c_void)),
    /// The older kind, which is told its stream and how things went.
    OfStream(extern "C" fn(Handle, c_uint, *mut c_void), Handle),
}

// SAFETY: by the contract of the launching functions the function is called from a thread of the driver, and the data
// is for it.
unsafe impl Send for HostCall {}

impl HostCall {
    /// What `cuLaunchHostFunc` is given.
    pub(crate) fn new(function: Option<extern "C" fn(*mut c_void)>, data: *mut c_void) -> Answer<Self> {
        let function = HostFunction::Plain(function.ok_or(Code::INVALID_VALUE)?);
        Ok(HostCall { function, data })
    }

    /// What `cuStreamAddCallback` is given.
    pub(crate) fn of_stream(
        function: Option<extern "C" fn(Handle, c_uint, *mut c_void)>,
        stream: Handle,
        data: *mut c_void,
    ) -> Answer<Self> {
        let function = HostFunction::OfStream(function.ok_or(Code::INVALID_VALUE)?, stream);
        Ok(HostCall { function, data })
    }

    /// Calls it. The session must not be held: the program may call anything of its own.
    pub(crate) fn call(self) {
        match self.function {
            HostFunction::Plain(function) => function(self.data),
            HostFunction::OfStream(function, stream) => function(stream, 0, self.data),
        }
    }
}

impl Out<c_char> {
    /// Writes a text, cut to what fits, with its NUL.
    pub(crate) fn set_text(self, length: c_int, text: &str) -> Answer {
        let out = self.required()?;
        let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1));
        let room = room.ok_or(Code::INVALID_VALUE)?;
        for (position, byte) in text.bytes().take(room).chain([0]).enumerate() {
            // SAFETY: by the contract of the exported function the array holds `length` values, and at most `room` and
            // the NUL are written.
            unsafe { out.0.add(position).write(byte as c_char) };
        }
        Ok(())
    }
}

/// Memory of the host that C passes in, of a length that comes in another argument.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct HostMemory(*mut c_void);

impl HostMemory {
    /// The bytes, to be read.
    pub(crate) fn bytes<'a>(self, length: usize) -> Answer<&'a [u8]> {
        if length == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, and by the contract of the copying functions then `length` bytes that nobody changes during
        // the call; the slice does not outlive it.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), length) })
    }

    /// The bytes, to be written.
    pub(crate) fn bytes_mut<'a>(self, length: usize) -> Answer<&'a mut [u8]> {
        if length == 0 {
            return Ok(&mut []);
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as for `bytes`, and the caller's alone during the call.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>(), length) })
    }
}

/// Memory of the program by its address, as copies between any two places name it.
impl HostMemory {
    /// The memory at an address that is not a device's.
    pub(crate) fn at(address: u64) -> Self {
        HostMemory(address as usize as *mut c_void)
    }

    /// The address.
    pub(crate) fn address(self) -> u64 {
        self.0 as usize as u64
    }
}

/// A text that C passes in.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Reads it.
    pub(crate) fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, and by the contract of the exported function then NUL-terminated.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// The arguments of a kernel: one pointer for each parameter, or one buffer with all of them.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Arguments {
    each: *const *const c_void,
    packed: *const *const c_void,
}

/// What precedes the buffer, and what precedes a pointer to its size, in the list that a launch ends with.
const BUFFER: usize = 1;
const BUFFER_SIZE: usize = 2;

impl Arguments {
    /// The last two arguments of a launch.
    pub(crate) fn new(each: Pointers, packed: Pointers) -> Self {
        Arguments { each: each.0, packed: packed.0 }
    }

    /// Arguments in one buffer, for as long as somebody looks at them.
    pub(crate) fn in_bytes<T>(bytes: &[u8], look: impl FnOnce(Arguments) -> T) -> T {
        let size = bytes.len();
        let list: [*const c_void; 5] = [
            BUFFER as *const c_void,
            bytes.as_ptr().cast(),
            BUFFER_SIZE as *const c_void,
            std::ptr::from_ref(&size).cast(),
            std::ptr::null(),
        ];
        look(Arguments { each: std::ptr::null(), packed: list.as_ptr() })
    }

    /// The argument at a position that the kernel has, which has a parameter of type `T` there; in a buffer it lies at
    /// an offset.
    pub(crate) fn at<T: Copy>(self, position: usize, offset: usize) -> Answer<T> {
        if self.each.is_null() {
            return self.in_buffer(offset);
        }
        // SAFETY: by the contract of cuLaunchKernel the array has a pointer for every parameter of the kernel.
        let argument = unsafe { self.each.add(position).read() };
        if argument.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by the same contract it points to a value of the parameter's type, which need not be aligned.
        Ok(unsafe { argument.cast::<T>().read_unaligned() })
    }

    fn in_buffer<T: Copy>(self, offset: usize) -> Answer<T> {
        if self.packed.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0);
        for pair in 0.. {
            // SAFETY: by the contract of cuLaunchKernel the list is pairs of a mark and a value, ended by NULL.
            let mark = unsafe { self.packed.add(2 * pair).read() };
            if mark.is_null() {
                break;
            }
            // SAFETY: as above; there is a value after every mark but the last.
            let value = unsafe { self.packed.add(2 * pair + 1).read() };
            match mark as usize {
                BUFFER => buffer = value.cast(),
                // SAFETY: by the same contract a pointer to a size follows this mark.
                BUFFER_SIZE if !value.is_null() => size = unsafe { value.cast::<usize>().read_unaligned() },
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        if buffer.is_null() || offset + size_of::<T>() > size {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the buffer has `size` bytes, and the value lies inside.
        Ok(unsafe { buffer.add(offset).cast::<T>().read_unaligned() })
    }
}

/// A list of pointers, as launches have two of.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Pointers(*const *const c_void);

impl Pointers {
    /// No list.
    pub(crate) const NONE: Pointers = Pointers(std::ptr::null());
}
