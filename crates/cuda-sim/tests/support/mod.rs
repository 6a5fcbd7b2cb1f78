//! The built library through its C symbols, as a program that was linked against CUDA would use it.
//!
//! Settings are read from the environment, so what calls the library runs in a process of its own: the test executable
//! again, told to run one ignored test.

#[path = "../../../nvml-sim/tests/support/built.rs"]
mod built;

use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::{from_mut, null_mut};
use std::sync::OnceLock;

/// What C has for every handle.
pub(crate) type Pointer = *mut c_void;

/// A program with the kernels that calculate and that take as long as they are told.
pub(crate) const PTX: &CStr = c".version 6.0
    .visible .entry vector_add(.param .u64 a) { ret; }
    .visible .entry spin(.param .u64 ns) { ret; }";

pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built::package("carve-cuda-sim").join("libcarve_cuda_sim.so"))
}

/// A child that runs one ignored test of this executable on a machine with one H200.
#[allow(dead_code, reason = "not every test that includes this file has several children")]
pub(crate) fn start(test: &str, variables: &[(&str, &str)]) -> Child {
    library();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]).env("CARVE_SIM_MACHINE", "h200");
    for inherited in [
        "CARVE_SIM_STATE",
        "CARVE_SIM_CUDA_CLOCK",
        "CARVE_SIM_CUDA_FAULT",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_MPS_PIPE_DIRECTORY",
    ] {
        command.env_remove(inherited);
    }
    command.env(built::BUILT, "yes").envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a child, which must have run its test, and answers what it printed.
pub(crate) fn finish(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let (told, trouble) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}{trouble}");
    assert!(told.contains("1 passed"), "the child ran no test: {told}");
    told.into_owned()
}

/// Runs one ignored test in a child.
pub(crate) fn run(test: &str, variables: &[(&str, &str)]) {
    finish(start(test, variables));
}

/// The library, each call spelled out with the types of its arguments.
pub(crate) struct C(pub(crate) Library);

macro_rules! c {
    ($library:expr, $name:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        let name = concat!(stringify!($name), "\0");
        #[allow(unsafe_code, reason = "calling C")]
        // SAFETY: the types are those of CUDA's header.
        unsafe {
            let function = $library.0.get::<unsafe extern "C" fn($($type),*) -> u32>(name.as_bytes()).unwrap();
            function($($argument),*)
        }
    }};
}

pub(crate) use c;

/// The library in a child; `None` in the parent, where ignored tests were asked for by hand.
pub(crate) fn loaded() -> Option<C> {
    std::env::var_os(built::BUILT)?;
    #[allow(unsafe_code, reason = "loading a library runs its initialisers")]
    // SAFETY: it is the library under test, which has none.
    Some(C(unsafe { Library::new(library()) }.unwrap()))
}

/// The library in a child, with the first device's context current.
#[allow(dead_code, reason = "not every test that includes this file needs a context")]
pub(crate) fn ready() -> Option<C> {
    let c = loaded()?;
    let mut context = null_mut();
    assert_eq!(c!(c, cuInit(0 => u32)), 0);
    assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut context => *mut Pointer, 0 => i32)), 0);
    assert_eq!(c!(c, cuCtxSetCurrent(context => Pointer)), 0);
    Some(c)
}

#[allow(dead_code, reason = "not every test that includes this file uses every call")]
impl C {
    /// The address of a symbol.
    pub(crate) fn symbol(&self, name: &str) -> Option<Pointer> {
        #[allow(unsafe_code, reason = "looking a symbol up")]
        // SAFETY: the address is only compared.
        let found = unsafe { self.0.get::<Pointer>(format!("{name}\0").as_bytes()) };
        found.ok().map(|symbol| *symbol)
    }

    pub(crate) fn function(&self, name: &CStr) -> Pointer {
        let (mut module, mut function) = (null_mut(), null_mut());
        assert_eq!(c!(self, cuModuleLoadData(&mut module => *mut Pointer, PTX.as_ptr() => *const c_char)), 0);
        let name = name.as_ptr();
        let found = c!(self, cuModuleGetFunction(
            &mut function => *mut Pointer, module => Pointer, name => *const c_char,
        ));
        assert_eq!(found, 0);
        function
    }

    pub(crate) fn stream(&self, flags: u32) -> Pointer {
        let mut stream = null_mut();
        assert_eq!(c!(self, cuStreamCreate(&mut stream => *mut Pointer, flags => u32)), 0);
        stream
    }

    pub(crate) fn event(&self) -> Pointer {
        let mut event = null_mut();
        assert_eq!(c!(self, cuEventCreate(&mut event => *mut Pointer, 0 => u32)), 0);
        event
    }

    /// Records a new event in a stream.
    pub(crate) fn recorded(&self, stream: Pointer) -> Pointer {
        let event = self.event();
        assert_eq!(c!(self, cuEventRecord(event => Pointer, stream => Pointer)), 0);
        event
    }

    pub(crate) fn spin(&self, function: Pointer, stream: Pointer, nanoseconds: u64) -> u32 {
        let mut nanoseconds = nanoseconds;
        let mut arguments: [Pointer; 1] = [from_mut(&mut nanoseconds).cast()];
        c!(self, cuLaunchKernel(
            function => Pointer, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32,
            stream => Pointer, arguments.as_mut_ptr() => *mut Pointer, null_mut() => Pointer,
        ))
    }

    /// Nanoseconds between two events, to the microsecond.
    pub(crate) fn elapsed(&self, from: Pointer, to: Pointer) -> f64 {
        let mut milliseconds = 0.0_f32;
        let answer =
            c!(self, cuEventElapsedTime(&mut milliseconds => *mut f32, from => Pointer, to => Pointer));
        assert_eq!(answer, 0);
        f64::from(milliseconds) * 1e6
    }

    pub(crate) fn free(&self) -> usize {
        let (mut free, mut total) = (0_usize, 0_usize);
        assert_eq!(c!(self, cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize)), 0);
        free
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, u32> {
        let mut address = 0;
        match c!(self, cuMemAlloc_v2(&mut address => *mut u64, bytes => usize)) {
            0 => Ok(address),
            code => Err(code),
        }
    }

    pub(crate) fn release(&self, address: u64) -> u32 {
        c!(self, cuMemFree_v2(address => u64))
    }
}
