//! The built library through its C symbols alone, as a program that was linked against NVML would use it.
//!
//! Settings are read from the environment, so every case runs in a process of its own: this executable again.

#[path = "support/built.rs"]
mod built;
#[macro_use]
#[path = "support/c.rs"]
mod c;

use c::{C, Handle, child, gpu, load, passes, started, text, zeroed};
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceProfileInfo_t, nvmlEventData_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t,
    nvmlGpuFabricInfo_v3_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
    nvmlGpuInstanceProfileInfo_v3_t, nvmlMemory_t, nvmlPciInfo_t,
};
use std::ffi::{CString, c_char};
use std::os::unix::process::ExitStatusExt;
use std::ptr::null_mut;

fn create(library: &C, device: Handle, profile: u32, at: Option<(u32, u32)>) -> Result<Handle, u32> {
    let mut instance = null_mut();
    let code = match at {
        None => {
            c!(library, nvmlDeviceCreateGpuInstance(device => Handle, profile => u32, &mut instance => *mut Handle))
        }
        Some((start, size)) => {
            let at = nvmlGpuInstancePlacement_t { start, size };
            c!(library, nvmlDeviceCreateGpuInstanceWithPlacement(
                device => Handle, profile => u32, &at => *const nvmlGpuInstancePlacement_t, &mut instance => *mut Handle,
            ))
        }
    };
    if code == 0 { Ok(instance) } else { Err(code) }
}

#[test]
fn an_h200_reports_what_the_real_one_reported() {
    passes("child_h200", &[("CARVE_SIM_MACHINE", "h200")]);
}

#[test]
#[ignore = "run as a child process"]
fn child_h200() {
    let Some(dump) = carve_test_support::fixture_text("mig/h200-nvml-dump.json") else { return };
    let dump: serde_json::Value = serde_json::from_str(&dump).unwrap();
    let library = started();
    let device = gpu(&library, 0);
    let driver =
        text(|buffer, length| c!(library, nvmlSystemGetDriverVersion(buffer => *mut c_char, length => u32)));
    assert_eq!(driver, dump["driver"]);
    assert_eq!(name(&library, device), dump["name"]);
    let mut pci: nvmlPciInfo_t = zeroed();
    assert_eq!(c!(library, nvmlDeviceGetPciInfo_v3(device => Handle, &mut pci => *mut nvmlPciInfo_t)), 0);
    assert_eq!(format!("0x{:08X}", pci.pciDeviceId), dump["pciDeviceId"]);
    assert_eq!(format!("0x{:08X}", pci.pciSubSystemId), dump["pciSubSystemId"]);
    let mut memory: nvmlMemory_t = zeroed();
    assert_eq!(c!(library, nvmlDeviceGetMemoryInfo(device => Handle, &mut memory => *mut nvmlMemory_t)), 0);
    assert_eq!(memory.total, dump["memoryTotalBytes"]);

    // What else that driver answered while MIG was off.
    let (mut number, mut none) = (77u32, null_mut());
    let mut handles = [null_mut::<u8>(); 16];
    assert_eq!(c!(library, nvmlDeviceGetMaxMigDeviceCount(device => Handle, &mut number => *mut u32)), 0);
    assert_eq!(number, 0);
    for index in [0, 8] {
        let code = c!(library, nvmlDeviceGetMigDeviceHandleByIndex(device => Handle, index => u32, &mut none => *mut Handle));
        assert_eq!(code, 6);
    }
    let code = c!(library, nvmlDeviceGetGpuInstances(
        device => Handle, 19 => u32, handles.as_mut_ptr() => *mut Handle, &mut number => *mut u32,
    ));
    assert_eq!((code, number), (0, 0));
    let code = c!(library, nvmlDeviceGetGpuInstanceRemainingCapacity(device => Handle, 19 => u32, &mut number => *mut u32));
    assert_eq!((code, number), (0, 7));
    let code = c!(library, nvmlDeviceGetGpuInstancePossiblePlacements(
        device => Handle, 19 => u32, null_mut() => *mut nvmlGpuInstancePlacement_t, &mut number => *mut u32,
    ));
    assert_eq!(code, 2);
    assert_eq!(
        c!(library, nvmlDeviceGetNvLinkState(device => Handle, 18 => u32, &mut number => *mut u32)),
        3
    );
    let mut kinds = 0u64;
    assert_eq!(c!(library, nvmlDeviceGetSupportedEventTypes(device => Handle, &mut kinds => *mut u64)), 0);
    assert_eq!(kinds, 0xFF9F);

    let profiles = dump["giProfiles"].as_array().unwrap();
    let absent: Vec<u64> =
        dump["notSupportedIndices"].as_array().unwrap().iter().map(|index| index.as_u64().unwrap()).collect();
    for index in 0..24u32 {
        let mut info: nvmlGpuInstanceProfileInfo_t = zeroed();
        let code = c!(library, nvmlDeviceGetGpuInstanceProfileInfo(
            device => Handle, index => u32, &mut info => *mut nvmlGpuInstanceProfileInfo_t,
        ));
        let known = profiles.iter().find(|profile| profile["index"] == index);
        let Some(known) = known else {
            let expected = if absent.contains(&u64::from(index)) { 3 } else { 2 };
            assert_eq!(code, expected, "index {index}");
            continue;
        };
        assert_eq!(code, 0, "index {index}");
        let figures = [
            ("id", info.id),
            ("sliceCount", info.sliceCount),
            ("instanceCount", info.instanceCount),
            ("multiprocessorCount", info.multiprocessorCount),
            ("copyEngineCount", info.copyEngineCount),
            ("decoderCount", info.decoderCount),
            ("encoderCount", info.encoderCount),
            ("jpegCount", info.jpegCount),
            ("ofaCount", info.ofaCount),
        ];
        for (field, value) in figures {
            assert_eq!(known[field], value, "{field} of index {index}");
        }
        assert_eq!(known["memorySizeMB"], info.memorySizeMB);
        assert_eq!(known["placements"], serde_json::json!(placements(&library, device, info.id)));
        let mut named: nvmlGpuInstanceProfileInfo_v3_t = zeroed();
        named.version = size_of::<nvmlGpuInstanceProfileInfo_v3_t>() as u32 | 3 << 24;
        let code = c!(library, nvmlDeviceGetGpuInstanceProfileInfoV(
            device => Handle, index => u32, &mut named => *mut nvmlGpuInstanceProfileInfo_v3_t,
        ));
        assert_eq!((code, named.memorySizeMB), (0, info.memorySizeMB));
        let name = text(|buffer, _| {
            #[allow(unsafe_code, reason = "copying C's characters")]
            // SAFETY: both hold 96 characters.
            unsafe {
                std::ptr::copy_nonoverlapping(named.name.as_ptr(), buffer, 96);
            }
            0
        });
        assert_eq!(name, format!("MIG {}", known["name"].as_str().unwrap()));
    }
}

fn name(library: &C, device: Handle) -> String {
    text(
        |buffer, length| c!(library, nvmlDeviceGetName(device => Handle, buffer => *mut c_char, length => u32)),
    )
}

fn placements(library: &C, device: Handle, profile: u32) -> Vec<[u32; 2]> {
    let mut count = 0u32;
    let mut all = [nvmlGpuInstancePlacement_t { start: 0, size: 0 }; 16];
    for array in [null_mut(), all.as_mut_ptr()] {
        let code = c!(library, nvmlDeviceGetGpuInstancePossiblePlacements_v2(
            device => Handle, profile => u32, array => *mut nvmlGpuInstancePlacement_t, &mut count => *mut u32,
        ));
        assert_eq!(code, 0);
    }
    all[..count as usize].iter().map(|placement| [placement.start, placement.size]).collect()
}

#[test]
fn instances_are_made_refused_and_gone() {
    passes("child_walk", &[("CARVE_SIM_MACHINE", "h100-sxm-80gb:2")]);
}

#[test]
#[ignore = "run as a child process"]
fn child_walk() {
    let library = load();
    let mut count = 0u32;
    assert_eq!(c!(library, nvmlDeviceGetCount_v2(&mut count => *mut u32)), 1, "uninitialised");
    assert_eq!(c!(library, nvmlShutdown()), 1);
    assert_eq!((c!(library, nvmlInit_v2()), c!(library, nvmlInitWithFlags(0 => u32))), (0, 0));
    assert_eq!(c!(library, nvmlShutdown()), 0, "one of two");
    assert_eq!((c!(library, nvmlDeviceGetCount_v2(&mut count => *mut u32)), count), (0, 2));
    assert_eq!(c!(library, nvmlDeviceGetCount_v2(null_mut() => *mut u32)), 2, "NULL");
    let device = gpu(&library, 1);
    assert_eq!(name(&library, device), "NVIDIA H100 80GB HBM3");
    assert_eq!(create(&library, device, 19, None), Err(3), "MIG is off");
    let mut status = 99u32;
    let on = c!(library, nvmlDeviceSetMigMode(device => Handle, 1 => u32, &mut status => *mut u32));
    assert_eq!((on, status), (0, 0));

    // Where the driver likes, then at a place, then into it.
    let three = create(&library, device, 9, None).unwrap();
    let mut info: nvmlGpuInstanceInfo_t = zeroed();
    let code = c!(library, nvmlGpuInstanceGetInfo(three => Handle, &mut info => *mut nvmlGpuInstanceInfo_t));
    assert_eq!((code, info.profileId, info.placement.start, info.placement.size), (0, 9, 4, 4));
    let one = create(&library, device, 19, Some((0, 1))).unwrap();
    assert_eq!(create(&library, device, 19, Some((0, 1))), Err(23), "taken");
    assert_eq!(create(&library, device, 5, None), Err(23), "no room");
    assert_eq!(create(&library, device, 19, Some((7, 1))), Err(2), "no such place");
    assert_eq!(create(&library, device, 77, None), Err(2), "no such profile");
    let mut left = 0u32;
    let code = c!(library, nvmlDeviceGetGpuInstanceRemainingCapacity(device => Handle, 19 => u32, &mut left => *mut u32));
    assert_eq!((code, left), (0, 3));

    let mut offer: nvmlComputeInstanceProfileInfo_t = zeroed();
    let code = c!(library, nvmlGpuInstanceGetComputeInstanceProfileInfo(
        three => Handle, 0 => u32, 0 => u32, &mut offer => *mut nvmlComputeInstanceProfileInfo_t,
    ));
    assert_eq!((code, offer.id, offer.instanceCount), (0, 0, 3));
    let mut part: Handle = null_mut();
    let code = c!(library, nvmlGpuInstanceCreateComputeInstance(three => Handle, 0 => u32, &mut part => *mut Handle));
    assert_eq!(code, 0);
    assert_eq!(c!(library, nvmlGpuInstanceDestroy(three => Handle)), 19, "holds a compute instance");

    let mut mig: Handle = null_mut();
    let code =
        c!(library, nvmlDeviceGetMigDeviceHandleByIndex(device => Handle, 0 => u32, &mut mig => *mut Handle));
    assert_eq!(code, 0);
    assert_eq!(name(&library, mig), "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb");
    let uuid = text(
        |buffer, length| c!(library, nvmlDeviceGetUUID(mig => Handle, buffer => *mut c_char, length => u32)),
    );
    assert!(uuid.starts_with("MIG-"), "{uuid}");
    let wanted = CString::new(uuid).unwrap();
    let mut found: Handle = null_mut();
    let code =
        c!(library, nvmlDeviceGetHandleByUUID(wanted.as_ptr() => *const c_char, &mut found => *mut Handle));
    assert_eq!((code, found), (0, mig));
    let mut none: Handle = null_mut();
    let none = c!(library, nvmlDeviceGetMigDeviceHandleByIndex(device => Handle, 6 => u32, &mut none => *mut Handle));
    assert_eq!(none, 6, "no device there");

    assert_eq!(c!(library, nvmlComputeInstanceDestroy(part => Handle)), 0);
    assert_eq!(c!(library, nvmlGpuInstanceDestroy(three => Handle)), 0);
    assert_eq!(c!(library, nvmlGpuInstanceDestroy(one => Handle)), 0);
    // Stale, foreign and mixed-up handles.
    assert_eq!(c!(library, nvmlGpuInstanceDestroy(three => Handle)), 2);
    assert_eq!(c!(library, nvmlComputeInstanceDestroy(part => Handle)), 2);
    assert_eq!(c!(library, nvmlGpuInstanceDestroy(device => Handle)), 2);
    let mut index = 0u32;
    for wrong in [mig, null_mut(), 8 as Handle, &raw mut index as Handle, three] {
        assert_eq!(c!(library, nvmlDeviceGetIndex(wrong => Handle, &mut index => *mut u32)), 2);
    }
    nonsense_is_refused(&library, device);
    assert_eq!(c!(library, nvmlShutdown()), 0);
    assert_eq!(c!(library, nvmlDeviceGetIndex(device => Handle, &mut index => *mut u32)), 1);
}

/// NULL where an answer should go, and handles that nobody gave out.
fn nonsense_is_refused(library: &C, device: Handle) {
    let nowhere: *mut u8 = null_mut();
    for code in [
        c!(library, nvmlDeviceGetHandleByIndex_v2(0 => u32, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetHandleByUUID(nowhere => *mut u8, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetName(device => Handle, nowhere => *mut u8, 96 => u32)),
        c!(library, nvmlDeviceGetMemoryInfo(device => Handle, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetMemoryInfo_v2(device => Handle, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetPciInfo_v3(device => Handle, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetMigMode(device => Handle, nowhere => *mut u8, nowhere => *mut u8)),
        c!(library, nvmlDeviceSetMigMode(device => Handle, 1 => u32, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetGpuInstanceProfileInfo(device => Handle, 0 => u32, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetGpuInstanceProfileInfoV(device => Handle, 0 => u32, nowhere => *mut u8)),
        c!(library, nvmlDeviceGetGpuInstances(
            device => Handle, 19 => u32, nowhere => *mut u8, nowhere => *mut u8,
        )),
        c!(library, nvmlDeviceCreateGpuInstance(device => Handle, 19 => u32, nowhere => *mut u8)),
        c!(library, nvmlDeviceCreateGpuInstanceWithPlacement(
            device => Handle, 19 => u32, nowhere => *mut u8, nowhere => *mut u8,
        )),
        c!(library, nvmlDeviceGetComputeRunningProcesses_v3(
            device => Handle, nowhere => *mut u8, nowhere => *mut u8,
        )),
        c!(library, nvmlEventSetCreate(nowhere => *mut u8)),
        c!(library, nvmlEventSetWait_v2(nowhere => *mut u8, nowhere => *mut u8, 0 => u32)),
    ] {
        assert_eq!(code, 2);
    }
    // A cheap walk over the numbers around real handles (the constants are Knuth's).
    let mut number = device as usize as u64;
    for _ in 0..20_000 {
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let wrong = (device as usize & !0xFFFF_FFFF | (number >> 32) as usize) as Handle;
        let mut buffer = [0u64; 32];
        let out = buffer.as_mut_ptr();
        for code in [
            c!(library, nvmlGpuInstanceGetInfo(wrong => Handle, out => *mut u64)),
            c!(library, nvmlComputeInstanceGetInfo_v2(wrong => Handle, out => *mut u64)),
            c!(library, nvmlDeviceGetAttributes_v2(wrong => Handle, out => *mut u64)),
            c!(library, nvmlEventSetFree(wrong => Handle)),
        ] {
            assert!([2, 3, 6].contains(&code), "{wrong:?}: {code}");
        }
    }
}

#[test]
fn everything_else_is_there_and_not_supported() {
    passes("child_unknown", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_unknown() {
    let library = started();
    let mut count = 0u32;
    assert_eq!(
        (c!(library, nvmlDeviceGetCount(&mut count => *mut u32)), count),
        (0, 8),
        "the default machine"
    );
    let table = include_str!("../src/not_supported.rs");
    let names: Vec<&str> = table.lines().map(str::trim).filter(|line| line.starts_with("nvml")).collect();
    assert!(names.len() > 290, "{}", names.len());
    for name in names {
        let symbol = CString::new(name).unwrap();
        #[allow(unsafe_code, reason = "calling C")]
        // SAFETY: these take no arguments, whatever the header says.
        let code = unsafe {
            let function = library.0.get::<unsafe extern "C" fn() -> u32>(symbol.as_bytes_with_nul());
            function.unwrap_or_else(|error| panic!("{name}: {error}"))()
        };
        assert_eq!(code, 3, "{name}");
    }
}

#[test]
fn threads_share_the_library() {
    passes("child_threads", &[("CARVE_SIM_MACHINE", "h200-141gb:4")]);
}

#[test]
#[ignore = "run as a child process"]
fn child_threads() {
    let library = started();
    std::thread::scope(|scope| {
        for index in 0..4 {
            let library = &library;
            scope.spawn(move || {
                let device = gpu(library, index);
                let mut status = 0u32;
                let on =
                    c!(library, nvmlDeviceSetMigMode(device => Handle, 1 => u32, &mut status => *mut u32));
                assert_eq!(on, 0);
                for _ in 0..100 {
                    let instance = create(library, device, 19, None).unwrap();
                    assert_eq!(c!(library, nvmlGpuInstanceDestroy(instance => Handle)), 0);
                    assert_eq!((c!(library, nvmlInit_v2()), c!(library, nvmlShutdown())), (0, 0));
                }
            });
        }
        // Somebody waits for events meanwhile and must hold nobody up.
        let mut set: Handle = null_mut();
        assert_eq!(c!(library, nvmlEventSetCreate(&mut set => *mut Handle)), 0);
        let device = gpu(&library, 0);
        let watch = c!(library, nvmlDeviceRegisterEvents(device => Handle, 8 => u64, set => Handle));
        assert_eq!(watch, 0);
        let mut event: nvmlEventData_t = zeroed();
        let wait =
            c!(library, nvmlEventSetWait_v2(set => Handle, &mut event => *mut nvmlEventData_t, 100 => u32));
        assert_eq!(wait, 10);
        assert_eq!(c!(library, nvmlEventSetFree(set => Handle)), 0);
        assert_eq!(c!(library, nvmlEventSetFree(set => Handle)), 2);
    });
}

#[test]
fn a_fabric_is_told_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let machine = dir.path().join("rack.yaml");
    let text = "name: rack
gpus:
- {product: gb200-186gb, fabric: {cluster: 00112233-4455-6677-8899-aabbccddeeff, clique: 7}}
- {product: t4}";
    std::fs::write(&machine, text).unwrap();
    passes("child_fabric", &[("CARVE_SIM_MACHINE", machine.to_str().unwrap())]);
}

#[test]
#[ignore = "run as a child process"]
fn child_fabric() {
    const DONE: u8 = 3;
    let library = started();
    let (member, loner) = (gpu(&library, 0), gpu(&library, 1));
    let cluster: [u8; 16] = std::array::from_fn(|position| position as u8 * 0x11);
    let mut first: nvmlGpuFabricInfo_t = zeroed();
    let code =
        c!(library, nvmlDeviceGetGpuFabricInfo(member => Handle, &mut first => *mut nvmlGpuFabricInfo_t));
    assert_eq!(
        (code, first.clusterUuid, first.cliqueId, first.state, first.status),
        (0, cluster, 7, DONE, 0)
    );
    let mut second: nvmlGpuFabricInfo_v2_t = zeroed();
    second.version = size_of::<nvmlGpuFabricInfo_v2_t>() as u32 | 2 << 24;
    let code = c!(library, nvmlDeviceGetGpuFabricInfoV(member => Handle, &mut second => *mut nvmlGpuFabricInfo_v2_t));
    assert_eq!((code, second.clusterUuid, second.cliqueId, second.state), (0, cluster, 7, DONE));
    let mut third: nvmlGpuFabricInfo_v3_t = zeroed();
    third.version = size_of::<nvmlGpuFabricInfo_v3_t>() as u32 | 3 << 24;
    let code =
        c!(library, nvmlDeviceGetGpuFabricInfoV(member => Handle, &mut third => *mut nvmlGpuFabricInfo_v3_t));
    assert_eq!(
        (code, third.clusterUuid, third.cliqueId, third.state, third.healthSummary),
        (0, cluster, 7, DONE, 1)
    );
    let code =
        c!(library, nvmlDeviceGetGpuFabricInfoV(loner => Handle, &mut third => *mut nvmlGpuFabricInfo_v3_t));
    assert_eq!(code, 3);
    third.version += 1;
    let code =
        c!(library, nvmlDeviceGetGpuFabricInfoV(member => Handle, &mut third => *mut nvmlGpuFabricInfo_v3_t));
    assert_eq!(code, 25);
    let nowhere = null_mut::<nvmlGpuFabricInfo_v3_t>();
    let code =
        c!(library, nvmlDeviceGetGpuFabricInfoV(member => Handle, nowhere => *mut nvmlGpuFabricInfo_v3_t));
    assert_eq!(code, 2);
}

#[test]
fn planned_faults_strike_and_calls_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let settings = |fault| {
        [
            ("CARVE_SIM_MACHINE", "h200"),
            ("CARVE_SIM_FAULT", fault),
            ("CARVE_SIM_TRACE", trace.to_str().unwrap()),
        ]
    };
    passes("child_second_create_fails", &settings("create-gpu-instance:2:before:23"));
    let recorded = std::fs::read_to_string(&trace).unwrap();
    let creates: Vec<&str> = recorded.lines().filter(|line| line.contains("CreateGpuInstance")).collect();
    assert_eq!(creates, ["nvmlDeviceCreateGpuInstance -> 0", "nvmlDeviceCreateGpuInstance -> 23"]);
    let died = child("child_second_create_fails", &settings("create-gpu-instance:1:after:die"));
    assert_eq!(died.status.signal(), Some(9));
}

#[test]
#[ignore = "run as a child process"]
fn child_second_create_fails() {
    let library = started();
    let device = gpu(&library, 0);
    let mut status = 0u32;
    assert_eq!(c!(library, nvmlDeviceSetMigMode(device => Handle, 1 => u32, &mut status => *mut u32)), 0);
    assert!(create(&library, device, 19, None).is_ok());
    // Shutting down and starting again does not start the count of faults again.
    assert_eq!((c!(library, nvmlShutdown()), c!(library, nvmlInit_v2())), (0, 0));
    assert_eq!(create(&library, device, 19, None), Err(23));
}

#[test]
fn wrong_settings_are_told_in_one_line() {
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("CARVE_SIM_MACHINE", "h2000")], "there is no machine 'h2000'"),
        (&[("CARVE_SIM_MACHINE", "/nowhere/machine.yaml")], "/nowhere/machine.yaml"),
        (&[("CARVE_SIM_STATE", "/nowhere/state.json")], "there is no state file"),
        (&[("CARVE_SIM_FAULT", "nonsense")], "'nonsense' is not a fault"),
        (&[("CARVE_SIM_STATE", "/proc/state.json"), ("CARVE_SIM_MACHINE", "h200")], "/proc/state.json"),
    ];
    for (settings, expected) in cases {
        let output = child("child_can_not_start", settings);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(expected) && told.contains(settings[0].0), "{told}");
    }
}

#[test]
#[ignore = "run as a child process"]
fn child_can_not_start() {
    let library = load();
    assert_eq!(c!(library, nvmlInit_v2()), 9);
    let mut count = 0u32;
    assert_eq!(c!(library, nvmlDeviceGetCount_v2(&mut count => *mut u32)), 1);
}
