//! Memory of every kind: what it takes of the device, what is told about it, and that it comes back.

mod support;

use std::ptr::{from_mut, null_mut};
use support::{C, Pointer, c, ready};

const MIB: usize = 1 << 20;
const BLOCK: usize = 2 * MIB;
const STEP: usize = 32 * MIB;

#[test]
fn allocations_take_whole_blocks_and_small_ones_share() {
    support::run("child_allocates", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_allocates() {
    let Some(c) = ready() else { return };
    let free = c.free();
    let taken = || free - c.free();
    let first = c.allocate(1).unwrap();
    assert_eq!(taken(), BLOCK);
    let others: Vec<u64> = (0..100).map(|_| c.allocate(1000).unwrap()).collect();
    assert_eq!(taken(), BLOCK, "they share");
    let half = c.allocate(MIB - 1).unwrap();
    assert_eq!(taken(), BLOCK);
    let rest = c.allocate(MIB - 1).unwrap();
    assert_eq!(taken(), 2 * BLOCK, "no room in the first");
    for (bytes, blocks) in [(MIB, 1), (BLOCK, 1), (BLOCK + 1, 2), (5 * MIB, 3)] {
        let before = taken();
        let address = c.allocate(bytes).unwrap();
        assert_eq!(taken() - before, blocks * BLOCK, "{bytes}");
        assert_eq!(c.release(address), 0);
        assert_eq!(taken(), before);
    }
    assert_eq!(c.allocate(c.free() + 1), Err(2));

    // What is told about an address.
    let range = |address: u64| {
        let (mut start, mut bytes) = (0_u64, 0_usize);
        let answer = c!(c, cuMemGetAddressRange_v2(
            &mut start => *mut u64, &mut bytes => *mut usize, address => u64,
        ));
        (answer, start, bytes)
    };
    assert_eq!(range(half + 5), (0, half, MIB - 1));
    assert_eq!(range(half + MIB as u64), (500, 0, 0), "behind its end");

    // Rows begin where the device likes them to.
    let (mut address, mut pitch) = (0_u64, 0_usize);
    let mut pitched = |width: usize, height: usize, element: u32| {
        c!(c, cuMemAllocPitch_v2(
            &mut address => *mut u64, &mut pitch => *mut usize, width => usize, height => usize, element => u32,
        ))
    };
    assert_eq!(pitched(1000, 3000, 3), 1);
    let before = taken();
    assert_eq!(pitched(1000, 3000, 4), 0);
    assert!(pitch >= 1000 && pitch.is_multiple_of(256), "{pitch}");
    assert_eq!(taken() - before, (pitch * 3000).next_multiple_of(BLOCK));
    assert_eq!(c.release(address), 0);

    for address in others.into_iter().chain([first, half, rest]) {
        assert_eq!(c.release(address), 0);
    }
    assert_eq!(taken(), 0);

    // A second context on the device takes its share, and gives back what was left in it.
    let mut context = null_mut();
    assert_eq!(c!(c, cuCtxCreate_v2(&mut context => *mut Pointer, 0 => u32, 0 => i32)), 0);
    let of_context = taken();
    assert!(of_context > 0);
    c.allocate(3 * MIB).unwrap();
    c.allocate(3).unwrap();
    assert_eq!(taken(), of_context + 3 * BLOCK);
    let mut current = null_mut();
    assert_eq!(c!(c, cuCtxGetCurrent(&mut current => *mut Pointer)), 0);
    assert_eq!(current, context);
    assert_eq!(c!(c, cuCtxPopCurrent_v2(&mut current => *mut Pointer)), 0);
    assert_eq!(c!(c, cuCtxDestroy_v2(context => Pointer)), 0);
    assert_eq!(taken(), 0, "and the primary one is current again");
    assert_eq!(c!(c, cuCtxPushCurrent_v2(context => Pointer)), 201);
    let mut device = 7;
    assert_eq!(c!(c, cuCtxGetDevice(&mut device => *mut i32)), 0);
    assert_eq!(device, 0);
    let mut primary = null_mut();
    assert_eq!(c!(c, cuCtxGetCurrent(&mut primary => *mut Pointer)), 0);
    device = 7;
    assert_eq!(c!(c, cuCtxGetDevice_v2(&mut device => *mut i32, primary => Pointer)), 0);
    assert_eq!(device, 0);

    // A reset frees everything without anybody freeing it.
    let state = || {
        let (mut flags, mut active) = (0_u32, 7_i32);
        assert_eq!(
            c!(c, cuDevicePrimaryCtxGetState(0 => i32, &mut flags => *mut u32, &mut active => *mut i32)),
            0
        );
        active
    };
    c.allocate(BLOCK).unwrap();
    assert_eq!(c!(c, cuMemAllocAsync(&mut address => *mut u64, 1 => usize, null_mut() => Pointer)), 0);
    assert_eq!(state(), 1);
    assert_eq!(c!(c, cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    assert_eq!((state(), c.allocate(1)), (0, Err(709)));
    assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut context => *mut Pointer, 0 => i32)), 0);
    assert_eq!(taken(), 0);
}

#[test]
fn memory_of_the_host_counts_against_no_device() {
    support::run("child_uses_host_memory", &[]);
}

fn attribute<T: Copy>(c: &C, attribute: i32, address: u64, nothing: T) -> Result<T, u32> {
    let mut value = nothing;
    match c!(c, cuPointerGetAttribute(from_mut(&mut value).cast() => Pointer, attribute => i32, address => u64))
    {
        0 => Ok(value),
        code => Err(code),
    }
}

/// The four bytes at an address of this process that the library gave out.
fn bytes_at(address: u64) -> &'static mut [u8; 4] {
    #[allow(unsafe_code, reason = "the memory is the library's")]
    // SAFETY: it was just allocated with more bytes than that, and nobody else uses it.
    unsafe {
        &mut *(address as usize as *mut [u8; 4])
    }
}

#[test]
#[ignore = "run as a child process"]
fn child_uses_host_memory() {
    let Some(c) = ready() else { return };
    let free = c.free();
    let (mut pinned, mut mapped, mut managed) = (0_u64, 0_u64, 0_u64);
    assert_eq!(c!(c, cuMemAllocHost_v2(&mut pinned => *mut u64, 1 << 40 => usize)), 0);
    assert_eq!(c!(c, cuMemHostAlloc(&mut mapped => *mut u64, 4096 => usize, 2 => u32)), 0);
    assert_eq!(c!(c, cuMemAllocManaged(&mut managed => *mut u64, 1 << 40 => usize, 1 => u32)), 0);
    assert_eq!(c!(c, cuMemAllocManaged(&mut 0 => *mut u64, 4096 => usize, 0 => u32)), 1);
    assert_eq!(c.free(), free);
    // A program writes to it, the device reads it, and the other way round.
    let device = c.allocate(4).unwrap();
    *bytes_at(managed) = *b"many";
    assert_eq!(c!(c, cuMemcpyDtoD_v2(device => u64, managed => u64, 4 => usize)), 0);
    assert_eq!(c!(c, cuMemcpy(pinned => u64, device => u64, 4 => usize)), 0);
    assert_eq!(bytes_at(pinned), b"many");
    assert_eq!(c!(c, cuMemsetD8_v2(managed => u64, b'x' => u8, 3 => usize)), 0);
    assert_eq!(bytes_at(managed), b"xxxy");
    let mut flags = 0_u32;
    assert_eq!(c!(c, cuMemHostGetFlags(&mut flags => *mut u32, mapped => u64)), 0);
    assert_eq!(flags, 2);
    let mut seen = 0_u64;
    assert_eq!(c!(c, cuMemHostGetDevicePointer_v2(&mut seen => *mut u64, mapped => u64, 0 => u32)), 0);
    assert_eq!(seen, mapped);

    let (host, on_device) = (1_u32, 2_u32);
    for (address, kind, is_managed) in [(pinned, host, 0), (managed, on_device, 1), (device, on_device, 0)] {
        assert_eq!(attribute(&c, 2, address, 77_u32), Ok(kind));
        assert_eq!(attribute(&c, 8, address, 77_u8), Ok(is_managed));
        assert_eq!(attribute(&c, 9, address, 77_i32), Ok(0));
        assert_eq!(attribute(&c, 11, address + 3, 77_u64), Ok(address));
    }
    assert_eq!(attribute(&c, 12, device, 77_usize), Ok(4));
    let (mut kind, mut start, mut is_managed) = (77_u32, 77_u64, 77_u8);
    let mut all = |address: u64| {
        let mut places: [Pointer; 3] =
            [from_mut(&mut kind).cast(), from_mut(&mut start).cast(), from_mut(&mut is_managed).cast()];
        let attributes = [2_i32, 11, 8];
        let answer = c!(c, cuPointerGetAttributes(
            3 => u32, attributes.as_ptr() => *const i32, places.as_mut_ptr() => *mut Pointer, address => u64,
        ));
        (answer, kind, start, is_managed)
    };
    assert_eq!(all(managed + 1), (0, 2, managed, 1));
    assert_eq!(all(4096), (0, 0, 0, 0), "nothing is known, and that is no mistake here");
    assert_eq!(attribute(&c, 4, device, 77_u64), Err(1), "no address on the host");
    assert_eq!(attribute(&c, 2, 4096, 77_u32), Err(1), "nobody's");
    let mut context = null_mut::<u8>();
    assert_eq!(c!(c, cuCtxGetCurrent(&mut context => *mut *mut u8)), 0);
    assert_eq!(attribute(&c, 1, device, null_mut::<u8>()), Ok(context));

    let mut own = vec![0_u8; 64];
    let address = own.as_mut_ptr();
    assert_eq!(c!(c, cuMemHostRegister_v2(address => *mut u8, 64 => usize, 0 => u32)), 0);
    assert_eq!(c!(c, cuMemHostRegister_v2(address => *mut u8, 64 => usize, 0 => u32)), 712);
    assert_eq!(c!(c, cuMemHostUnregister(address => *mut u8)), 0);
    assert_eq!(c!(c, cuMemHostUnregister(address => *mut u8)), 713);

    assert_eq!(c!(c, cuMemFreeHost(managed => u64)), 1, "not so");
    assert_eq!(c.release(pinned), 1, "nor so");
    assert_eq!(c!(c, cuMemFreeHost(pinned => u64)), 0);
    assert_eq!(c!(c, cuMemFreeHost(mapped => u64)), 0);
    assert_eq!((c.release(managed), c.release(device)), (0, 0));
    assert_eq!(c.free(), free);
}

#[test]
fn pools_grow_in_steps_and_keep_until_they_are_trimmed() {
    support::run("child_uses_pools", &[]);
}

/// Reserved now and at most, used now and at most.
fn levels(c: &C, pool: Pointer) -> [u64; 4] {
    [5, 6, 7, 8].map(|attribute| {
        let mut value = 77_u64;
        let answer = c!(c, cuMemPoolGetAttribute(pool => Pointer, attribute => i32, &mut value => *mut u64));
        assert_eq!(answer, 0);
        value
    })
}

#[test]
#[ignore = "run as a child process"]
fn child_uses_pools() {
    let Some(c) = ready() else { return };
    let (free, stream, step) = (c.free(), c.stream(1), STEP as u64);
    let (mut pool, mut current) = (null_mut(), null_mut());
    assert_eq!(c!(c, cuDeviceGetDefaultMemPool(&mut pool => *mut Pointer, 0 => i32)), 0);
    assert_eq!(c!(c, cuDeviceGetMemPool(&mut current => *mut Pointer, 0 => i32)), 0);
    assert_eq!(pool, current);
    let device = [1, 0];
    assert_eq!(
        c!(c, cuMemGetMemPool(&mut current => *mut Pointer, device.as_ptr() => *const i32, 1 => i32)),
        0
    );
    assert_eq!(pool, current);
    let allocate = |bytes: usize| {
        let mut address = 0_u64;
        match c!(c, cuMemAllocAsync(&mut address => *mut u64, bytes => usize, stream => Pointer)) {
            0 => Ok(address),
            code => Err(code),
        }
    };
    let small = allocate(1).unwrap();
    assert_eq!(levels(&c, pool), [step, step, 512, 512]);
    assert_eq!(c.free(), free - STEP);
    let large = allocate(STEP).unwrap();
    assert_eq!((levels(&c, pool)[0], c.free()), (2 * step, free - 2 * STEP));
    assert_eq!(attribute(&c, 17, large, null_mut()), Ok(pool));
    assert_eq!(c!(c, cuMemsetD32Async(large => u64, 7 => u32, STEP / 4 => usize, stream => Pointer)), 0);
    assert_eq!(c!(c, cuMemFreeAsync(large => u64, stream => Pointer)), 0);
    assert_eq!(c!(c, cuMemFreeAsync(large => u64, stream => Pointer)), 1);
    assert_eq!(levels(&c, pool), [2 * step, 2 * step, 512, step + 512]);
    assert_eq!(c.free(), free - 2 * STEP, "the pool keeps it");
    assert_eq!(c!(c, cuMemPoolTrimTo(pool => Pointer, 2 * STEP => usize)), 0);
    assert_eq!(c.free(), free - 2 * STEP);
    assert_eq!(c!(c, cuMemPoolTrimTo(pool => Pointer, 0 => usize)), 0);
    assert_eq!(c.free(), free - STEP, "what is used stays");
    assert_eq!(c.release(small), 0, "the other way of freeing does it too");
    assert_eq!(c!(c, cuMemPoolTrimTo(pool => Pointer, 0 => usize)), 0);
    assert_eq!(c.free(), free);
    let mut zero = 0_u64;
    assert_eq!(c!(c, cuMemPoolSetAttribute(pool => Pointer, 8 => i32, &mut zero => *mut u64)), 0);
    assert_eq!(c!(c, cuMemPoolSetAttribute(pool => Pointer, 5 => i32, &mut zero => *mut u64)), 1);
    assert_eq!(levels(&c, pool), [0, 2 * step, 0, 0]);
    let (mut threshold, mut told) = (u64::MAX, 0_u64);
    assert_eq!(c!(c, cuMemPoolSetAttribute(pool => Pointer, 4 => i32, &mut threshold => *mut u64)), 0);
    assert_eq!(c!(c, cuMemPoolGetAttribute(pool => Pointer, 4 => i32, &mut told => *mut u64)), 0);
    assert_eq!(told, u64::MAX);
    assert_eq!(allocate(free + 1), Err(2));
    assert_eq!(c!(c, cuMemPoolDestroy(pool => Pointer)), 1, "the default one stays");

    // A pool of one's own: type, handles, location, and a size that it may not exceed.
    let mut properties = [0_u64; 11];
    (properties[0], properties[1], properties[3]) = (1, 1, 2 * step);
    let mut own = null_mut();
    assert_eq!(c!(c, cuMemPoolCreate(&mut own => *mut Pointer, properties.as_ptr() => *const u64)), 0);
    let mut address = 0_u64;
    let mut from_pool = |bytes: usize| {
        c!(c, cuMemAllocFromPoolAsync(
            &mut address => *mut u64, bytes => usize, own => Pointer, stream => Pointer,
        ))
    };
    assert_eq!(from_pool(3 * STEP), 2, "more than it may have");
    assert_eq!(from_pool(STEP), 0);
    assert_eq!((levels(&c, own)[0], levels(&c, pool)[0]), (step, 0));
    assert_eq!(c!(c, cuDeviceSetMemPool(0 => i32, own => Pointer)), 0);
    allocate(STEP).unwrap();
    assert_eq!(levels(&c, own)[2], 2 * step);
    assert_eq!(c!(c, cuMemPoolDestroy(own => Pointer)), 0);
    assert_eq!(c.free(), free);
    allocate(1).unwrap();
    assert_eq!(levels(&c, pool)[2], 512, "the default one is the current one again");
}

#[test]
fn physical_memory_is_mapped_and_shared() {
    support::run("child_maps", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_maps() {
    let Some(c) = ready() else { return };
    let free = c.free();
    // Pinned memory that can be exported as a descriptor, on device 0.
    let properties: [i32; 8] = [1, 1, 1, 0, 0, 0, 0, 0];
    let properties = properties.as_ptr();
    let mut granularity = 0_usize;
    let told = c!(c, cuMemGetAllocationGranularity(
        &mut granularity => *mut usize, properties => *const i32, 0 => u32,
    ));
    assert_eq!((told, granularity), (0, BLOCK));
    let create = |bytes: usize| {
        let mut handle = 0_u64;
        match c!(c, cuMemCreate(&mut handle => *mut u64, bytes => usize, properties => *const i32, 0 => u64))
        {
            0 => Ok(handle),
            code => Err(code),
        }
    };
    assert_eq!(create(BLOCK + 1), Err(1));
    assert_eq!(create(free.next_multiple_of(BLOCK)), Err(2));
    let handle = create(2 * BLOCK).unwrap();
    assert_eq!(c.free(), free - 2 * BLOCK);
    let mut address = 0_u64;
    let reserved = c!(c, cuMemAddressReserve(
        &mut address => *mut u64, 8 * BLOCK => usize, 0 => usize, 0 => u64, 0 => u64,
    ));
    assert_eq!((reserved, c.free()), (0, free - 2 * BLOCK), "addresses take nothing");
    let map = |address: u64, bytes: usize, handle: u64| {
        c!(c, cuMemMap(
            address => u64, bytes => usize, 0 => usize, handle => u64, 0 => u64,
        ))
    };
    let block = BLOCK as u64;
    assert_eq!(map(address, 4 * BLOCK, handle), 1, "longer than the memory");
    assert_eq!(map(address + 7 * block, 2 * BLOCK, handle), 1, "beyond the addresses");
    assert_eq!(map(address, 2 * BLOCK, handle), 0);
    assert_eq!(map(address + block, 2 * BLOCK, handle), 208, "there is something already");
    assert_eq!(map(address + 2 * block, 2 * BLOCK, handle), 0, "the same memory twice");
    let fill = |address: u64| c!(c, cuMemsetD8_v2(address => u64, 9 => u8, 2 * BLOCK => usize));
    assert_eq!(fill(address), 1, "nobody may touch it yet");
    let access: [i32; 3] = [1, 0, 3];
    let allowed = c!(c, cuMemSetAccess(
        address => u64, 4 * BLOCK => usize, access.as_ptr() => *const i32, 1 => usize,
    ));
    assert_eq!((allowed, fill(address)), (0, 0));
    let mut flags = 0_u64;
    assert_eq!(
        c!(c, cuMemGetAccess(&mut flags => *mut u64, access.as_ptr() => *const i32, address => u64)),
        0
    );
    assert_eq!(flags, 3);
    let mut bytes = [0_u8; 4];
    let read = c!(c, cuMemcpyDtoH_v2(
        bytes.as_mut_ptr() => *mut u8, address + 3 * block => u64, 4 => usize,
    ));
    assert_eq!((read, bytes), (0, [9; 4]), "seen through the other mapping");

    // Through a descriptor it is found again; the memory goes with the last handle and the last mapping.
    let mut descriptor = 0;
    let exported = c!(c, cuMemExportToShareableHandle(
        &mut descriptor => *mut i32, handle => u64, 1 => i32, 0 => u64,
    ));
    assert_eq!(exported, 0);
    let mut imported = 0_u64;
    let told = c!(c, cuMemImportFromShareableHandle(
        &mut imported => *mut u64, descriptor as usize => usize, 1 => i32,
    ));
    assert_eq!((told, imported), (0, handle));
    let nobody = c!(c, cuMemImportFromShareableHandle(&mut imported => *mut u64, 5 => usize, 1 => i32));
    assert_eq!(nobody, 1);
    let release = |handle: u64| c!(c, cuMemRelease(handle => u64));
    assert_eq!((release(handle), release(handle), release(handle)), (0, 0, 1));
    let free_addresses = || c!(c, cuMemAddressFree(address => u64, 8 * BLOCK => usize));
    assert_eq!(free_addresses(), 1, "something is mapped there");
    assert_eq!(c!(c, cuMemUnmap(address => u64, 2 * BLOCK => usize)), 0);
    let mut again = 0_u64;
    let retained = c!(c, cuMemRetainAllocationHandle(&mut again => *mut u64, address + 2 * block => u64));
    assert_eq!((retained, again), (0, handle));
    assert_eq!(release(again), 0);
    assert_eq!(c.free(), free - 2 * BLOCK);
    assert_eq!(c!(c, cuMemUnmap(address + 2 * block => u64, 2 * BLOCK => usize)), 0);
    assert_eq!(c.free(), free);
    assert_eq!((free_addresses(), free_addresses()), (0, 1));
}

#[test]
fn arrays_and_handles_for_others() {
    support::run("child_uses_arrays", &[]);
}

/// A handle for other processes, which goes by value.
#[derive(Clone, Copy)]
#[repr(C)]
struct IpcHandle([u8; 64]);

#[test]
#[ignore = "run as a child process"]
fn child_uses_arrays() {
    let Some(c) = ready() else { return };
    let free = c.free();
    // Width, height, then format and channels: single precision in four of them.
    let shape: [u64; 3] = [1024, 1024, (4 << 32) | 0x20];
    let (mut array, mut deep, mut mipmap) = (null_mut(), null_mut(), null_mut());
    assert_eq!(c!(c, cuArrayCreate_v2(&mut array => *mut Pointer, shape.as_ptr() => *const u64)), 0);
    assert_eq!(c.free(), free - 16 * MIB);
    let shape: [u64; 5] = [256, 256, 16, (4 << 32) | 0x20, 0];
    assert_eq!(c!(c, cuArray3DCreate_v2(&mut deep => *mut Pointer, shape.as_ptr() => *const u64)), 0);
    assert_eq!(c.free(), free - 32 * MIB);
    let made = c!(c, cuMipmappedArrayCreate(
        &mut mipmap => *mut Pointer, shape.as_ptr() => *const u64, 2 => u32,
    ));
    assert_eq!((made, c.free()), (0, free - 50 * MIB));
    assert_eq!(c!(c, cuArrayDestroy(array => Pointer)), 0);
    assert_eq!(c!(c, cuArrayDestroy(array => Pointer)), 400);
    assert_eq!(c!(c, cuArrayDestroy(deep => Pointer)), 0);
    assert_eq!(c!(c, cuMipmappedArrayDestroy(mipmap => Pointer)), 0);
    assert_eq!(c.free(), free);

    let memory = c.allocate(4096).unwrap();
    let (mut handle, mut opened) = (IpcHandle([0; 64]), 0_u64);
    assert_eq!(c!(c, cuIpcGetMemHandle(&mut handle => *mut IpcHandle, memory + 8 => u64)), 0);
    let open = |handle: IpcHandle, opened: &mut u64| {
        c!(c, cuIpcOpenMemHandle_v2(
            opened => *mut u64, handle => IpcHandle, 1 => u32,
        ))
    };
    assert_eq!(open(handle, &mut opened), 0);
    assert_eq!((opened, c.free()), (memory, free - BLOCK), "the same memory");
    let close = || c!(c, cuIpcCloseMemHandle(opened => u64));
    assert_eq!((close(), close()), (0, 1));
    assert_eq!(open(IpcHandle([7; 64]), &mut opened), 1);
}

#[test]
fn the_allocation_that_is_to_fail_does() {
    support::run("child_fails_to_allocate", &[("CARVE_SIM_CUDA_FAULT", "alloc-fails:3")]);
}

#[test]
#[ignore = "run as a child process"]
fn child_fails_to_allocate() {
    let Some(c) = ready() else { return };
    let mut address = 0_u64;
    assert!(c.allocate(1).is_ok());
    assert_eq!(c!(c, cuMemAllocAsync(&mut address => *mut u64, 1 => usize, null_mut() => Pointer)), 0);
    let free = c.free();
    assert_eq!(c.allocate(1), Err(2));
    assert_eq!(c.free(), free);
    assert!(c.allocate(1).is_ok(), "once is enough");
}

#[test]
fn settings_that_make_no_sense_stop_the_start() {
    for wrong in [("CARVE_SIM_CUDA_FAULT", "alloc-fails:0"), ("CARVE_SIM_CUDA_CLOCK", "/nowhere/clock")] {
        support::run("child_does_not_start", &[wrong]);
    }
}

#[test]
#[ignore = "run as a child process"]
fn child_does_not_start() {
    let Some(c) = support::loaded() else { return };
    assert_eq!(c!(c, cuInit(0 => u32)), 999);
}

#[test]
fn old_green_and_sparse_memory_counts() {
    support::run("child_uses_rare_memory", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_uses_rare_memory() {
    let Some(c) = ready() else { return };
    let free = c.free();
    let taken = || free - c.free();
    let mut low = 0_u32;
    assert_eq!(c!(c, cuMemAlloc(&mut low => *mut u32, 3 << 20 => u32)), 0);
    assert_eq!(taken(), 2 * BLOCK);
    assert_eq!(c!(c, cuMemFree(low => u32)), 0);
    assert_eq!(taken(), 0);

    // Green contexts are views of the primary one.
    let (mut green, mut view): (Pointer, Pointer) = (null_mut(), null_mut());
    assert_eq!(
        c!(c, cuGreenCtxCreate(&mut green => *mut Pointer, null_mut() => Pointer, 0 => i32, 1 => u32)),
        0
    );
    assert_eq!(c!(c, cuCtxFromGreenCtx(&mut view => *mut Pointer, green => Pointer)), 0);
    assert_eq!(c!(c, cuCtxPushCurrent_v2(view => Pointer)), 0);
    let address = c.allocate(MIB).unwrap();
    assert_eq!(c!(c, cuCtxPopCurrent_v2(&mut view => *mut Pointer)), 0);
    assert_eq!(c!(c, cuGreenCtxDestroy(green => Pointer)), 0);
    assert_eq!(taken(), BLOCK, "the primary one has it");
    assert_eq!(c!(c, cuCtxPushCurrent_v2(view => Pointer)), 201);
    assert_eq!(c.release(address), 0);

    // A context takes more for a larger heap, and for stacks of all threads.
    let mut heap = 0_usize;
    assert_eq!(c!(c, cuCtxGetLimit(&mut heap => *mut usize, 2 => i32)), 0);
    assert_eq!(c!(c, cuCtxSetLimit(2 => i32, heap + BLOCK => usize)), 0);
    assert_eq!(taken(), BLOCK);
    assert_eq!(c!(c, cuCtxSetLimit(2 => i32, heap => usize)), 0);
    assert_eq!(taken(), 0);
    assert_eq!(c!(c, cuCtxSetLimit(99 => i32, 1 => usize)), 215);
}
