//! The simulated machine behaves like a driver: modes, conflicts, in-use instances, loss, reboot, faults.

use carve_gpu_host::{
    BusyPart, FaultInjectingHost, GpuEvent, GpuHost, HostFailure, Machine, MigMode, ModeOutcome, PciPath,
    RecoveryAction, SimulatedHost, Verb, mig_minors,
};
use carve_gpu_model::{
    Bytes, ComputeInstanceId, ComputeProfileIndex, GpuIndex, GpuInstanceId, Placed, Placement, ProfileId,
    ProfileTable,
};
use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_oneof, proptest};
use std::time::Duration;

const GPU: GpuIndex = GpuIndex(0);
const NOW: Duration = Duration::ZERO;

fn host(machine: &str) -> SimulatedHost {
    SimulatedHost::new(Machine::named(machine).unwrap_or_else(|error| panic!("{error}")))
}

/// A GPU of the machine in MIG mode.
fn cuttable(machine: &str) -> SimulatedHost {
    let mut host = host(machine);
    if host.set_mig_mode(GPU, true).unwrap() == ModeOutcome::NeedsReset {
        host.reset(&[GPU]).unwrap();
    }
    host
}

fn failure<T: std::fmt::Debug>(result: carve_gpu_host::HostResult<T>) -> HostFailure {
    result.unwrap_err().failure
}

#[test]
fn every_preset_starts_and_names_its_gpus_apart() {
    for name in carve_gpu_host::machine::preset_names() {
        let host = host(name);
        let gpus = host.gpus().unwrap();
        let mut uuids: Vec<_> = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        uuids.sort();
        uuids.dedup();
        assert_eq!(uuids.len(), gpus.len(), "{name}");
        for gpu in &gpus {
            assert_eq!(host.mig_mode(gpu.index).unwrap().is_some(), gpu.mig_capable, "{name}");
            assert_eq!(host.profile_table(gpu.index).is_ok(), gpu.mig_capable, "{name}");
            assert!(host.memory(gpu.index).unwrap().total.0 > 1 << 30);
        }
    }
    assert_eq!(host("p4d.24xlarge").gpus().unwrap().len(), 8);
    assert_eq!(host("h200-141gb:3").gpus().unwrap().len(), 3);
}

#[test]
fn ampere_needs_a_reset_and_hopper_does_not() {
    let mut ampere = host("p4d.24xlarge");
    assert_eq!(ampere.set_mig_mode(GPU, true).unwrap(), ModeOutcome::NeedsReset);
    assert_eq!(ampere.mig_mode(GPU).unwrap(), Some(MigMode { current: false, pending: true }));
    assert_eq!(failure(ampere.create_gpu_instance(GPU, ProfileId(19), None)), HostFailure::NotSupported);
    ampere.reset(&[GPU]).unwrap();
    assert_eq!(ampere.mig_mode(GPU).unwrap(), Some(MigMode { current: true, pending: true }));

    let mut hopper = host("h200");
    assert_eq!(hopper.set_mig_mode(GPU, true).unwrap(), ModeOutcome::Done);
    hopper.create_gpu_instance(GPU, ProfileId(9), None).unwrap();
    assert_eq!(failure(hopper.set_mig_mode(GPU, false)), HostFailure::InUse);

    assert_eq!(failure(host("g4dn.2xlarge").set_mig_mode(GPU, true)), HostFailure::NotSupported);
}

#[test]
fn instances_take_the_driver_slots_and_ids_seen_in_a_recorded_session() {
    let mut host = cuttable("h200");
    let made: Vec<(u8, u32)> = [9, 14, 19, 19]
        .into_iter()
        .map(|id| host.create_gpu_instance(GPU, ProfileId(id), None).unwrap())
        .map(|instance| (instance.placement.start, instance.id.0))
        .collect();
    assert_eq!(made, [(4, 2), (0, 3), (2, 9), (3, 10)]);
}

#[test]
fn a_taken_slot_a_wrong_slot_and_a_wrong_profile_are_told_apart() {
    let mut host = cuttable("h200");
    let at = |start, size| Some(Placement::new(start, size));
    host.create_gpu_instance(GPU, ProfileId(9), at(0, 4)).unwrap();
    assert_eq!(
        failure(host.create_gpu_instance(GPU, ProfileId(14), at(2, 2))),
        HostFailure::InsufficientResources
    );
    assert_eq!(failure(host.create_gpu_instance(GPU, ProfileId(9), at(2, 4))), HostFailure::InvalidArgument);
    assert_eq!(failure(host.create_gpu_instance(GPU, ProfileId(77), None)), HostFailure::InvalidArgument);
    assert_eq!(
        failure(host.create_gpu_instance(GpuIndex(9), ProfileId(9), None)),
        HostFailure::InvalidArgument
    );
    assert_eq!(host.gpu_instances(GPU).unwrap().len(), 1);
}

#[test]
fn what_is_in_use_stays() {
    let mut host = cuttable("h200");
    let instance = host.create_gpu_instance(GPU, ProfileId(9), None).unwrap().id;
    let compute = host.create_compute_instance(GPU, instance, ComputeProfileIndex(2)).unwrap().id;
    assert_eq!(failure(host.destroy_gpu_instance(GPU, instance)), HostFailure::InUse);
    host.start_process(GPU, Some((instance, compute)), 4711, Bytes(1 << 30), 40).unwrap();
    assert_eq!(failure(host.destroy_compute_instance(GPU, instance, compute)), HostFailure::InUse);
    assert_eq!(failure(host.reset(&[GPU])), HostFailure::InUse);
    assert_eq!(host.processes(GPU).unwrap()[0].gpu_instance, Some(instance));
    assert_eq!(host.memory(GPU).unwrap().used, Bytes(1 << 30));
    assert_eq!(host.utilisation(GPU).unwrap().compute_percent, 40);
    assert_eq!(host.busy(GPU, Some(instance)).unwrap(), Some(BusyPart(400_000)));
    assert_eq!(host.busy(GPU, None).unwrap(), None, "in MIG mode instances are told");
    host.end_process(4711);
    host.destroy_compute_instance(GPU, instance, compute).unwrap();
    host.destroy_gpu_instance(GPU, instance).unwrap();
    assert_eq!(host.start_process(GPU, None, 1, Bytes(0), 0), Err(HostFailure::InvalidArgument));
}

#[test]
fn an_instance_divides_into_compute_instances() {
    let mut host = cuttable("h200");
    let instance = host.create_gpu_instance(GPU, ProfileId(5), None).unwrap().id;
    let offered: Vec<u8> =
        host.compute_profiles(GPU, instance).unwrap().iter().map(|offer| offer.slices).collect();
    assert_eq!(offered, [1, 2, 4]);
    for _ in 0..2 {
        host.create_compute_instance(GPU, instance, ComputeProfileIndex(1)).unwrap();
    }
    let full = host.create_compute_instance(GPU, instance, ComputeProfileIndex(0));
    assert_eq!(failure(full), HostFailure::InsufficientResources);
    assert_eq!(
        failure(host.create_compute_instance(GPU, instance, ComputeProfileIndex(2))),
        HostFailure::NotSupported
    );
    let devices = host.mig_devices(GPU).unwrap();
    assert_eq!(devices.len(), 2);
    assert!(devices[0].uuid.0.starts_with("MIG-") && devices[0].uuid != devices[1].uuid);
    assert_eq!((devices[0].gpu_slices, devices[0].compute_slices, devices[0].multiprocessors), (4, 2, 32));
}

#[test]
fn the_same_instance_gets_the_same_mig_uuid_again() {
    let mut host = cuttable("h200");
    let make = |host: &mut SimulatedHost| {
        let instance = host.create_gpu_instance(GPU, ProfileId(9), None).unwrap().id;
        host.create_compute_instance(GPU, instance, ComputeProfileIndex(2)).unwrap();
        host.mig_devices(GPU).unwrap()[0].uuid.clone()
    };
    let first = make(&mut host);
    host.reset(&[GPU]).unwrap();
    assert_eq!(make(&mut host), first);
}

#[test]
fn a_reboot_erases_instances_and_hoppers_mode() {
    let mut hopper = cuttable("h200");
    hopper.create_gpu_instance(GPU, ProfileId(9), None).unwrap();
    hopper.reboot();
    assert_eq!(hopper.mig_mode(GPU).unwrap(), Some(MigMode { current: false, pending: false }));
    let mut ampere = cuttable("a100-40gb");
    ampere.create_gpu_instance(GPU, ProfileId(9), None).unwrap();
    ampere.reboot();
    assert_eq!(ampere.mig_mode(GPU).unwrap(), Some(MigMode { current: true, pending: true }));
    assert!(ampere.gpu_instances(GPU).unwrap().is_empty());
}

#[test]
fn a_lost_gpu_answers_nothing_but_stays_in_the_list() {
    let mut host = host("p4d.24xlarge");
    host.lose(GpuIndex(3));
    assert_eq!(host.gpus().unwrap().len(), 8);
    assert_eq!(failure(host.memory(GpuIndex(3))), HostFailure::GpuLost);
    assert_eq!(failure(host.mig_mode(GpuIndex(3))), HostFailure::GpuLost);
    assert!(host.memory(GpuIndex(2)).is_ok());
    host.find_again(GpuIndex(3));
    assert!(host.memory(GpuIndex(3)).is_ok());
}

#[test]
fn events_come_once_and_in_order() {
    let mut host = host("p4d.24xlarge");
    let event = |xid| GpuEvent { gpu: GpuIndex(1), xid, gpu_instance: None, compute_instance: None };
    assert_eq!(host.next_event(NOW).unwrap(), None);
    host.raise(event(79));
    host.raise(event(31));
    assert_eq!(host.next_event(NOW).unwrap(), Some(event(79)));
    assert_eq!(host.next_event(NOW).unwrap(), Some(event(31)));
    assert_eq!(host.next_event(NOW).unwrap(), None);
}

#[test]
fn links_follow_numa_nodes_and_nvlink() {
    let host = host("p4d.24xlarge");
    let near = host.link(GpuIndex(0), GpuIndex(1)).unwrap();
    let far = host.link(GpuIndex(0), GpuIndex(7)).unwrap();
    assert_eq!((near.pci, near.nvlinks), (PciPath::SeveralSwitches, 12));
    assert_eq!((far.pci, far.nvlinks), (PciPath::AcrossNodes, 12));
    let mixed = self::host("mixed");
    assert_eq!(mixed.link(GpuIndex(0), GpuIndex(1)).unwrap().nvlinks, 12);
    assert_eq!(mixed.link(GpuIndex(0), GpuIndex(2)).unwrap().nvlinks, 0);
}

#[test]
fn a_fabric_belongs_to_its_group_and_lost_gpus_tell_nothing() {
    let text = "name: rack
gpus:
- product: gb200-186gb
  count: 2
  fabric: {cluster: 00112233-4455-6677-8899-AABBCCDDEEFF, clique: 32766}
- product: t4";
    let mut host = SimulatedHost::new(Machine::parse(text).unwrap());
    let fabric = host.fabric(GpuIndex(1)).unwrap().unwrap();
    assert_eq!(format!("{}.{}", fabric.cluster, fabric.clique), "00112233-4455-6677-8899-aabbccddeeff.32766");
    assert_eq!(host.fabric(GpuIndex(2)).unwrap(), None);
    assert_eq!(failure(host.fabric(GpuIndex(3))), HostFailure::InvalidArgument);
    host.lose(GpuIndex(0));
    assert_eq!(failure(host.fabric(GpuIndex(0))), HostFailure::GpuLost);
    let written = serde_json::to_string(host.state()).unwrap();
    let back = SimulatedHost::from_state(serde_json::from_str(&written).unwrap());
    assert_eq!(back.fabric(GpuIndex(1)).unwrap(), Some(fabric));
    let planned =
        FaultInjectingHost::new(back, "fabric:1:before:999".parse().unwrap(), |_| HostFailure::Timeout);
    assert_eq!(planned.fabric(GpuIndex(1)).unwrap_err().verb, Verb::Fabric);
    assert_eq!(planned.fabric(GpuIndex(1)).unwrap(), Some(fabric));

    let wrong = Machine::parse(&text.replace("00112233-", "")).unwrap_err();
    assert!(wrong.to_string().contains("not the UUID of a fabric"), "{wrong}");
}

#[test]
fn a_gpu_says_what_it_needs_until_that_is_done() {
    let (mut host, sick, well) = (host("mixed"), GpuIndex(1), GpuIndex(0));
    assert_eq!(host.recovery_action(sick).unwrap(), Some(RecoveryAction::NoneNeeded));
    assert_eq!(failure(host.recovery_action(GpuIndex(9))), HostFailure::InvalidArgument);
    let healthy = serde_json::to_string(host.state()).unwrap();
    assert!(!healthy.contains("recovery"), "{healthy}");

    // A reset is what some faults take, and not enough for others; a reboot always is.
    for (action, after_reset) in [
        (RecoveryAction::Reset, RecoveryAction::NoneNeeded),
        (RecoveryAction::DrainAndReset, RecoveryAction::NoneNeeded),
        (RecoveryAction::Reboot, RecoveryAction::Reboot),
        (RecoveryAction::Other(99), RecoveryAction::Other(99)),
    ] {
        host.need_recovery(sick, action);
        let written = serde_json::to_string(host.state()).unwrap();
        let mut host = SimulatedHost::from_state(serde_json::from_str(&written).unwrap());
        assert_eq!(host.recovery_action(sick).unwrap(), Some(action));
        assert_eq!(host.recovery_action(well).unwrap(), Some(RecoveryAction::NoneNeeded));
        host.reset(&[sick]).unwrap();
        assert_eq!(host.recovery_action(sick).unwrap(), Some(after_reset));
        host.reboot();
        assert_eq!(host.recovery_action(sick).unwrap(), Some(RecoveryAction::NoneNeeded));
    }
    host.lose(sick);
    assert_eq!(failure(host.recovery_action(sick)), HostFailure::GpuLost);
    let planned = FaultInjectingHost::new(host, "recovery-action:1:before:999".parse().unwrap(), |_| {
        HostFailure::Timeout
    });
    assert_eq!(planned.recovery_action(well).unwrap_err().verb, Verb::RecoveryAction);
    assert_eq!(planned.recovery_action(well).unwrap(), Some(RecoveryAction::NoneNeeded));
}

#[test]
fn a_driver_from_before_recovery_actions_can_not_tell() {
    for (driver, tells) in [("560.35.05", false), ("565.57.01", true), ("580.95.05", true)] {
        let text = format!("name: old\ndriver: {driver}\ngpus:\n- product: t4");
        let mut host = SimulatedHost::new(Machine::parse(&text).unwrap());
        host.need_recovery(GpuIndex(0), RecoveryAction::Reset);
        assert_eq!(host.recovery_action(GpuIndex(0)).unwrap(), tells.then_some(RecoveryAction::Reset));
    }
}

#[test]
fn state_survives_being_written_and_read() {
    let mut host = cuttable("h200");
    host.create_gpu_instance(GPU, ProfileId(9), None).unwrap();
    let text = serde_json::to_string(host.state()).unwrap();
    let back = SimulatedHost::from_state(serde_json::from_str(&text).unwrap());
    assert_eq!(back.state(), host.state());
    assert_eq!(back.gpu_instances(GPU).unwrap(), host.gpu_instances(GPU).unwrap());
}

#[test]
fn capability_minors_count_as_the_driver_does() {
    let text = mig_minors(2);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        &lines[..5],
        ["config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4", "gpu0/gi0/ci1/access 5"]
    );
    assert!(lines.contains(&"gpu0/gi1/access 12") && lines.contains(&"gpu0/gi7/ci0/access 67"));
    assert!(lines.contains(&"gpu1/gi0/access 138"));
}

#[test]
fn a_fault_strikes_the_nth_call_before_or_after_its_effect() {
    let inject = |plan: &str| {
        FaultInjectingHost::new(cuttable("h200"), plan.parse().unwrap(), |_| HostFailure::Timeout)
    };
    let mut before = inject("create-gpu-instance:2:before:23");
    assert!(before.create_gpu_instance(GPU, ProfileId(19), None).is_ok());
    assert_eq!(
        failure(before.create_gpu_instance(GPU, ProfileId(19), None)),
        HostFailure::InsufficientResources
    );
    assert_eq!(before.gpu_instances(GPU).unwrap().len(), 1);
    let mut after = inject("change:1:after:die");
    assert_eq!(failure(after.create_gpu_instance(GPU, ProfileId(19), None)), HostFailure::Timeout);
    assert_eq!(after.gpu_instances(GPU).unwrap().len(), 1);
    assert!("create-gpu-instance:2".parse::<carve_gpu_host::FaultPlan>().is_err());
    for (verb, name) in Verb::ALL {
        assert_eq!(name.parse::<Verb>(), Ok(verb));
    }
}

#[test]
fn a_bad_machine_description_is_refused_with_the_field() {
    let message = |text: &str| Machine::parse(text).unwrap_err().to_string();
    assert!(
        message("name: x\ngpus: [{product: a100-41gb}]")
            .contains("gpus[0].product: there is no product 'a100-41gb'")
    );
    assert!(message("name: x\ngpus: [{product: a100-41gb}]").contains("a100-40gb"));
    assert!(message("name: x\ngpus: [{product: t4, mig-enabled: true}]").contains("gpus[0].mig-enabled"));
    assert!(message("name: x\ngpus: [{product: t4, count: 0}]").contains("gpus[0].count"));
    assert!(message("name: x\ngpus: [{product: t4, count: 4000000000}]").contains("at most 64"));
    assert!(message("name: x\ngpus: [{product: thor-igpu}]").contains("only its driver knows"));
    assert!(message("name: x\ngpus: [{product: t4, board: Nope}]").contains("Tesla T4"));
    assert!(message("name: x\ndriver: newest\ngpus: []").contains("driver"));
    assert!(message("name: x\ngpu: []").contains("gpu"));
    assert!(message("]").contains("does not read"));
    assert!(Machine::named("p4d").unwrap_err().to_string().contains("p4d.24xlarge"));
}

/// One thing that can be asked of a machine.
#[derive(Debug, Clone)]
enum Step {
    Create(u32, Option<u8>),
    Destroy(u32),
    Divide(u32, u32),
    Undivide(u32, u32),
    Start(u32, u32),
    End,
    Mode(bool),
    Reset,
    Reboot,
}

fn any_step() -> impl Strategy<Value = Step> {
    let profile = prop_oneof![Just(19u32), Just(20), Just(15), Just(14), Just(9), Just(5), Just(0), 0u32..25];
    prop_oneof![
        6 => (profile, prop::option::of(0u8..9)).prop_map(|(profile, start)| Step::Create(profile, start)),
        2 => (0u32..15).prop_map(Step::Destroy),
        4 => (0u32..15, 0u32..9).prop_map(|(instance, profile)| Step::Divide(instance, profile)),
        2 => (0u32..15, 0u32..8).prop_map(|(instance, compute)| Step::Undivide(instance, compute)),
        1 => (0u32..15, 0u32..8).prop_map(|(instance, compute)| Step::Start(instance, compute)),
        1 => Just(Step::End),
        1 => proptest::bool::ANY.prop_map(Step::Mode),
        1 => Just(Step::Reset),
        1 => Just(Step::Reboot),
    ]
}

fn placed(table: &ProfileTable, host: &SimulatedHost) -> Vec<Placed> {
    let instances = host.gpu_instances(GPU).unwrap();
    let place = |id| table.by_id(id).unwrap().0;
    instances
        .iter()
        .map(|made| Placed { profile: place(made.profile), start: made.placement.start })
        .collect()
}

proptest! {
    #[test]
    fn whatever_is_asked_the_machine_stays_legal(steps in prop::collection::vec(any_step(), 0..60), ampere in proptest::bool::ANY) {
        let mut host = cuttable(if ampere { "a100-40gb" } else { "h200" });
        let table = host.profile_table(GPU).unwrap();
        for step in steps {
            let before = host.state().clone();
            let used: Vec<_> = host.processes(GPU).unwrap();
            let failed = match step {
                Step::Create(profile, start) => {
                    let size = table.by_id(ProfileId(profile)).map_or(1, |(_, profile)| profile.size());
                    let at = start.map(|start| Placement::new(start, size));
                    host.create_gpu_instance(GPU, ProfileId(profile), at).is_err()
                }
                Step::Destroy(id) => host.destroy_gpu_instance(GPU, GpuInstanceId(id)).is_err(),
                Step::Divide(id, profile) => {
                    host.create_compute_instance(GPU, GpuInstanceId(id), ComputeProfileIndex(profile)).is_err()
                }
                Step::Undivide(id, compute) => {
                    host.destroy_compute_instance(GPU, GpuInstanceId(id), ComputeInstanceId(compute)).is_err()
                }
                Step::Start(id, compute) => {
                    let at = Some((GpuInstanceId(id), ComputeInstanceId(compute)));
                    host.start_process(GPU, at, 7, Bytes(1), 1).is_err()
                }
                Step::End => { host.end_process(7); false }
                Step::Mode(on) => host.set_mig_mode(GPU, on).is_err(),
                Step::Reset => host.reset(&[GPU]).is_err(),
                Step::Reboot => { host.reboot(); false }
            };
            prop_assert!(!failed || *host.state() == before, "a failed verb changed something");
            prop_assert!(table.check(&placed(&table, &host)).is_ok());
            let ended = matches!(step, Step::End | Step::Reboot);
            for process in used.iter().filter(|_| !ended) {
                let still = host.mig_devices(GPU).unwrap().iter().any(|device| {
                    Some(device.gpu_instance) == process.gpu_instance
                        && Some(device.compute_instance) == process.compute_instance
                });
                prop_assert!(still, "an instance in use vanished");
            }
            if host.mig_mode(GPU).unwrap() == Some(MigMode { current: false, pending: false }) {
                prop_assert!(host.gpu_instances(GPU).unwrap().is_empty());
            }
        }
    }
}
