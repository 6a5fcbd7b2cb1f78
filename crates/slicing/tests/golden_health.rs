//! Every recorded fault under NVIDIA's device plugin, replayed: what it marked, what carve marks, and why they differ.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_gpu_host::GpuEvent;
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId};
use carve_slicing::health::{HealthBook, HealthSettings, Seconds};
use carve_slicing::{NodeGpus, Settings, offer};
use carve_test_support::{fixture_text, fixtures};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What was done to the machine.
enum Injected {
    Xid { gpu: u32, xid: u64, instance: Option<u32> },
    Lost { gpu: u32 },
}

/// A recording, and how many devices are sick afterwards, in it and with carve.
struct Case {
    name: &'static str,
    gpus: &'static str,
    mig: &'static str,
    config: &'static str,
    disable: &'static str,
    enable: &'static str,
    injected: Injected,
    theirs: usize,
    ours: usize,
    /// Why carve means to differ.
    because: Option<&'static str>,
}

const NOTHING: Case = Case {
    name: "",
    gpus: "H200*2",
    mig: "",
    config: "none",
    disable: "",
    enable: "",
    injected: Injected::Lost { gpu: 0 },
    theirs: 0,
    ours: 0,
    because: None,
};

const SEVEN: &str = "0=1g.18gb,1g.18gb,1g.18gb,1g.18gb,1g.18gb,1g.18gb,1g.18gb";

const fn whole_gpu(xid: u64) -> Injected {
    Injected::Xid { gpu: 0, xid, instance: None }
}

const CASES: &[Case] = &[
    Case { name: "full2_xid79", injected: whole_gpu(79), theirs: 1, ours: 1, ..NOTHING },
    Case {
        name: "full2_xid94",
        injected: whole_gpu(94),
        theirs: 1,
        ours: 0,
        because: Some("a contained memory error: the catalogue restarts the application and keeps the GPU"),
        ..NOTHING
    },
    Case {
        name: "full2_disableall_enable79",
        disable: "all",
        enable: "79",
        injected: whole_gpu(79),
        theirs: 0,
        ours: 1,
        because: Some("an XID that was asked for by number acts although all others are off"),
        ..NOTHING
    },
    Case {
        name: "full4_lost2",
        gpus: "H200*4",
        injected: Injected::Lost { gpu: 2 },
        theirs: 0,
        ours: 1,
        because: Some("a lost GPU is sick although no XID came"),
        ..NOTHING
    },
    Case {
        name: "ts4_xid79",
        config: "ts4",
        injected: whole_gpu(79),
        theirs: 1,
        ours: 4,
        because: Some("shares of a GPU that fell off the bus are all off the bus"),
        ..NOTHING
    },
    Case {
        name: "ts4_lost1",
        config: "ts4",
        injected: Injected::Lost { gpu: 1 },
        theirs: 0,
        ours: 4,
        because: Some("a lost GPU is sick although no XID came, in all its shares"),
        ..NOTHING
    },
    Case {
        name: "mig7_mixed_xid_wholegpu",
        gpus: "H200*1",
        mig: SEVEN,
        injected: whole_gpu(79),
        theirs: 1,
        ours: 7,
        because: Some("an error of the whole GPU is one of all its MIG devices"),
        ..NOTHING
    },
    Case {
        name: "mig7_mixed_xid_gi9",
        gpus: "H200*1",
        mig: SEVEN,
        // Any XID that is neither an application's nor the end of the whole GPU; the recording dropped the event.
        injected: Injected::Xid { gpu: 0, xid: 48, instance: Some(9) },
        theirs: 0,
        ours: 1,
        because: Some("an error confined to an instance is one of the MIG device in it"),
        ..NOTHING
    },
];

/// What kubelet was told at the end of a recording: all devices, and those it could still hand out.
fn recorded_outcome(golden: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let resources = golden["resources"].as_object().expect("resources");
    assert_eq!(resources.len(), 1, "each of these recordings has one resource");
    let resource = resources.values().next().expect("one");
    let texts = |list: &Value| -> BTreeSet<String> {
        list.as_array().expect("a list").iter().map(|id| id.as_str().expect("text").to_owned()).collect()
    };
    let devices = resource["Devices"].as_array().expect("devices");
    let all: BTreeSet<String> =
        devices.iter().map(|device| device["ID"].as_str().expect("id").to_owned()).collect();
    let calls = resource["Calls"].as_array().expect("calls");
    let mut offered =
        calls.iter().filter(|call| !call["Available"].is_null()).map(|call| texts(&call["Available"]));
    let offered = offered.next_back().expect("the call after the fault");
    // Told in two ways; they must agree.
    let last = resource["Updates"].as_array().and_then(|updates| updates.last()).expect("an update");
    assert_eq!(last["Healthy"].as_u64(), Some(offered.len() as u64));
    assert_eq!(last["Unhealthy"].as_u64().unwrap_or(0), (all.len() - offered.len()) as u64);
    (all, offered)
}

fn inject(book: &mut HealthBook, node: &NodeGpus, injected: &Injected) {
    match *injected {
        Injected::Lost { gpu } => book.lost(&node.gpu(GpuIndex(gpu)).expect("it is there").gpu.uuid),
        Injected::Xid { gpu, xid, instance } => {
            let compute_instance = instance.map(|_| ComputeInstanceId(0));
            let gpu_instance = instance.map(GpuInstanceId);
            book.xid(&GpuEvent { gpu: GpuIndex(gpu), xid, gpu_instance, compute_instance }, Seconds(100))
        }
    };
}

/// Health of every device that is offered.
fn ours(case: &Case) -> Option<BTreeMap<String, bool>> {
    let mut config = recorded::config(case.config)?;
    config.flags.mig_strategy = (!case.mig.is_empty()).then(|| "mixed".to_owned());
    let settings = Settings::new(&config, false).expect("settings");
    let node = recorded::machine(case.gpus, case.mig);
    let offered = offer(&node, &settings).expect("an offer");
    let mut remarks = Vec::new();
    let health = HealthSettings::parse(case.disable, case.enable, &mut remarks);
    assert!(remarks.is_empty(), "{}: {remarks:?}", case.name);
    let mut book = HealthBook::new(health, &node);
    let devices = || offered.resources.values().flat_map(|resource| &resource.devices);
    assert!(devices().all(|device| book.health_of(&device.part).is_healthy()), "{}: at first", case.name);
    inject(&mut book, &node, &case.injected);
    let healthy = |part| book.health_of(part).is_healthy();
    Some(devices().map(|device| (device.id.to_string(), healthy(&device.part))).collect())
}

#[test]
fn recorded_faults_mark_what_they_are_about() {
    for case in CASES {
        let Some(text) = fixture_text(&format!("device-plugin/golden-health/{}.json", case.name)) else {
            return;
        };
        let (all, offered) = recorded_outcome(&serde_json::from_str(&text).expect("JSON"));
        let Some(ours) = ours(case) else { return };
        assert_eq!(ours.keys().cloned().collect::<BTreeSet<_>>(), all, "{}: the same devices", case.name);

        let name = case.name;
        assert_eq!(all.len() - offered.len(), case.theirs, "{name}: sick with NVIDIA's plugin");
        let sick: Vec<&String> = ours.iter().filter(|(_, healthy)| !**healthy).map(|(id, _)| id).collect();
        assert_eq!(sick.len(), case.ours, "{name}: sick with carve: {sick:?}");
        match case.because {
            None => assert_eq!(
                all.difference(&offered).collect::<Vec<_>>(),
                sick,
                "{name}: no difference is intended"
            ),
            Some(_) => assert_ne!(case.theirs, case.ours, "{name}: a reason without a difference"),
        }
    }
}

/// Which devices, beyond how many: all shares of the GPU in question and nothing of another.
#[test]
fn the_right_devices_are_marked() {
    let marked = |name: &str| -> Option<Vec<String>> {
        let case = CASES.iter().find(|case| case.name == name).expect("a case");
        Some(ours(case)?.into_iter().filter(|(_, healthy)| !healthy).map(|(id, _)| id).collect())
    };
    let on = |prefix: &str, ids: Vec<String>| ids.iter().all(|id| id.starts_with(prefix));
    let Some(ids) = marked("ts4_xid79") else { return };
    assert!(on("GPU-10000000-", ids));
    assert!(on("GPU-10000001-", marked("ts4_lost1").expect("fixtures are there")));
    assert!(on("GPU-10000002-", marked("full4_lost2").expect("fixtures are there")));
    let node = recorded::machine("H200*1", SEVEN);
    let ninth: Vec<String> = node.gpus[0]
        .migs
        .iter()
        .filter(|mig| mig.device.gpu_instance == GpuInstanceId(9))
        .map(|mig| mig.part().to_string())
        .collect();
    assert_eq!(ninth.len(), 1);
    assert_eq!(marked("mig7_mixed_xid_gi9").expect("fixtures are there"), ninth);
}

#[test]
fn no_recording_is_left_out() {
    let Some(folder) = fixtures("device-plugin/golden-health") else { return };
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let json = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let there: BTreeSet<String> =
        json.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    let replayed: BTreeSet<String> = CASES.iter().map(|case| case.name.to_owned()).collect();
    assert_eq!(there, replayed);
}
