//! The driver interface itself, on a simulated machine that this process has loaded.
//!
//! The library reads its settings once per process, so there is one machine and one test function for it.

mod support;

use carve_cuda::{Cuda, CudaCode, DeviceChoice, OpenError, look, vector_add};
use carve_gpu_host::GpuHost;
use carve_gpu_model::Mebibytes;
use std::path::Path;
use std::process::Command;
use support::Simulated;

const CHILD: &str = "child_uses_the_interface";

#[test]
fn the_interface_gives_back_what_it_takes() {
    let simulated = Simulated::named("p4d.24xlarge");
    support::library();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--ignored", "--nocapture"])
        .env("CARVE_SIM_STATE", simulated.machine.path())
        .env(support::BUILT, "yes")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the child ran no test");
}

#[test]
#[ignore = "run as a child process"]
fn child_uses_the_interface() {
    let Some(state) = std::env::var_os("CARVE_SIM_STATE") else { return };
    let machine = carve_sim_store::SharedMachine::attach(Path::new(&state)).unwrap();
    let gpus = machine.gpus().unwrap();
    let cuda = Cuda::open(Some(support::library())).unwrap();
    assert_eq!(cuda.version().unwrap(), machine.driver().unwrap().cuda);
    assert_eq!(cuda.count().unwrap() as usize, gpus.len());
    let fault = cuda.device(8).unwrap_err();
    assert_eq!((fault.code, fault.name.as_str()), (CudaCode::INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"));

    let device = cuda.device(3).unwrap();
    assert_eq!(device.uuid().unwrap(), gpus[3].uuid.0.parse().unwrap());
    let chosen: DeviceChoice = gpus[3].uuid.0.parse().unwrap();
    assert_eq!(chosen.find(&cuda).unwrap().ordinal(), 3);
    let seen = look(device).unwrap();
    assert_eq!(seen.multiprocessors, 108);
    assert_eq!(device.memory().unwrap(), seen.total);

    // All but one block of a GPU can be had, one byte more than a block then can not, and everything comes back. The driver
    // hands out whole blocks of 2 MiB.
    let context = device.context().unwrap();
    let free = context.memory().unwrap().free;
    assert_eq!(free, seen.free);
    let block = Mebibytes(2).bytes().0;
    let most = context.allocate((free.0 / block * block - block) as usize).unwrap();
    assert_eq!(context.memory().unwrap().free.0, block + free.0 % block);
    let refused = context.allocate(block as usize + 1).unwrap_err();
    assert_eq!(refused.code, CudaCode::OUT_OF_MEMORY);
    assert!(refused.to_string().contains("allocate 2097153 bytes on device 3"), "{refused}");
    let context_of_other = cuda.device(4).unwrap().context().unwrap();
    assert_eq!(context_of_other.memory().unwrap().free, free, "one GPU's use is not another's");
    drop(most);
    assert_eq!(context.memory().unwrap().free, free);

    // Two contexts on one thread, used in turn: each buffer finds its own.
    let (mut here, mut there) = (context.allocate(8).unwrap(), context_of_other.allocate(8).unwrap());
    here.write(b"here....").unwrap();
    there.write(b"there...").unwrap();
    let (mut first, mut second) = ([0; 8], [0; 8]);
    here.read(&mut first).unwrap();
    there.read(&mut second).unwrap();
    assert_eq!((&first, &second), (b"here....", b"there..."));
    assert_eq!(here.write(&[0; 9]).unwrap_err().code, CudaCode::INVALID_VALUE);
    assert_eq!(here.read(&mut [0; 9]).unwrap_err().code, CudaCode::INVALID_VALUE);

    let module = context.load_ptx(".version 6.0\n.visible .entry other() { ret; }").unwrap();
    assert_eq!(module.function("other").unwrap_err().code, CudaCode::NOT_FOUND);
    assert_eq!(module.function("vector_add").unwrap_err().code, CudaCode::NOT_FOUND);
    assert_eq!(context.load_ptx("no program").unwrap_err().code, CudaCode::INVALID_PTX);
    assert_eq!(context.load_ptx("\u{7f}ELF").unwrap_err().code, CudaCode::INVALID_PTX);
    assert_eq!(context.load_ptx(".version\0").unwrap_err().code, CudaCode::INVALID_PTX);
    context.synchronise().unwrap();
    context.synchronise_stream().unwrap();

    // A probe in the same process shares the primary context and leaves it as it was.
    let before = context.memory().unwrap();
    assert_eq!(vector_add(device).unwrap().elements, 1 << 20);
    assert_eq!(context.memory().unwrap(), before);
    drop((here, there, module));
    drop((context, context_of_other));
    assert_eq!(look(device).unwrap(), seen, "nothing is left of all this");
}

#[test]
fn what_is_not_cuda_is_told_apart() {
    let absent = Cuda::open(Some(Path::new("/nowhere/libcuda.so.1"))).unwrap_err();
    assert!(matches!(&absent, OpenError::LibraryNotFound { refusals } if refusals.len() == 1), "{absent:?}");
    assert!(absent.to_string().contains("/nowhere/libcuda.so.1"), "{absent}");
    // A library that is there but another one; the C library is in every process.
    let other = Cuda::open(Some(Path::new("libc.so.6"))).unwrap_err();
    assert!(matches!(other, OpenError::SymbolMissing { symbol: "cuInit", .. }), "{other:?}");
}
