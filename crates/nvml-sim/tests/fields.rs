//! Fields, of which the recovery action of a GPU is simulated; the codes are those an R580 driver gave on an H200.

#[path = "support/built.rs"]
mod built;
#[macro_use]
#[path = "support/c.rs"]
mod c;

use c::{Handle, gpu, passes, started};
use carve_gpu_host::{Machine, RecoveryAction};
use carve_gpu_model::GpuIndex;
use carve_sim_store::SharedMachine;
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};
use std::ptr::null_mut;

const RECOVERY: u32 = 230;
/// What stands where nobody has written.
const UNTOUCHED: u64 = 0xABAB_ABAB_ABAB_ABAB;

fn field(id: u32) -> nvmlFieldValue_t {
    nvmlFieldValue_t {
        fieldId: id,
        scopeId: 0,
        timestamp: 0,
        latencyUsec: -1,
        valueType: 77,
        nvmlReturn: 77,
        value: nvmlValue_t { ullVal: UNTOUCHED },
    }
}

fn raw(field: &nvmlFieldValue_t) -> u64 {
    #[allow(unsafe_code, reason = "reading C's union")]
    // SAFETY: all of it was written when the field was made, and every bit pattern is a number.
    unsafe {
        field.value.ullVal
    }
}

#[test]
fn each_field_has_an_answer_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let mut machine = SharedMachine::open(&state, Machine::named("h200").unwrap()).unwrap();
    machine.change_world(|host| host.need_recovery(GpuIndex(0), RecoveryAction::DrainAndReset)).unwrap();
    passes("child_asks", &[("CARVE_SIM_STATE", state.to_str().unwrap())]);
}

#[test]
#[ignore = "run as a child process"]
fn child_asks() {
    let library = started();
    let device = gpu(&library, 0);
    let ask = |device: Handle, count: i32, fields: *mut nvmlFieldValue_t| c!(library, nvmlDeviceGetFieldValues(device => Handle, count => i32, fields => *mut nvmlFieldValue_t));
    let mut fields = [RECOVERY, 9999, 0, 83].map(field);
    assert_eq!(ask(device, 4, fields.as_mut_ptr()), 0);
    let [recovery, unknown, zero, energy] = fields;
    assert_eq!((recovery.nvmlReturn, recovery.valueType), (0, 1));
    // The upper half is no part of the number, and the driver leaves it alone.
    assert_eq!(raw(&recovery), UNTOUCHED & !0xFFFF_FFFF | 4);
    assert!(recovery.timestamp > 1_700_000_000_000_000 && recovery.latencyUsec >= 0, "microseconds");
    for (absent, code) in [(unknown, 2), (zero, 2), (energy, 3)] {
        assert_eq!((absent.nvmlReturn, absent.valueType, raw(&absent)), (code, 77, UNTOUCHED));
    }
    for (count, place) in [(0, fields.as_mut_ptr()), (-1, fields.as_mut_ptr()), (1, null_mut())] {
        assert_eq!(ask(device, count, place), 2);
    }
    assert_eq!(ask(null_mut(), 1, fields.as_mut_ptr()), 2);
}

#[test]
fn a_driver_before_the_field_does_not_know_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let machine = dir.path().join("old.yaml");
    std::fs::write(&machine, "name: old\ndriver: 535.183.06\ngpus:\n- product: t4").unwrap();
    passes("child_of_an_older_driver", &[("CARVE_SIM_MACHINE", machine.to_str().unwrap())]);
}

#[test]
#[ignore = "run as a child process"]
fn child_of_an_older_driver() {
    let library = started();
    let mut recovery = field(RECOVERY);
    let code = c!(library, nvmlDeviceGetFieldValues(
        gpu(&library, 0) => Handle, 1 => i32, &mut recovery => *mut nvmlFieldValue_t,
    ));
    assert_eq!((code, recovery.nvmlReturn, raw(&recovery)), (0, 2, UNTOUCHED));
}
