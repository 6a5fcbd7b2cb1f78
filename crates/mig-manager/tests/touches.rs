//! What a plan says it touches is what it touches, on any machine, from any layout, whoever is running.

mod machine;

use carve_formats::MigPartedConfig;
use carve_formats::mig_parted::ConfigEntry;
use carve_gpu_host::{GpuHost, MigDevice, SimulatedHost};
use carve_gpu_model::{Bytes, GpuIndex, MigUuid};
use carve_mig_manager::{
    ApplyOptions, GpuState, HookRunner, Outcome, PlanError, Progress, Silent, StateDir, Step, Touched, apply,
    apply_plan, builtin_config, builtin_names, inventory, plan, plan_drained, resolve,
};
use machine::{cut, entries, host, layouts, occupy};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use std::collections::{BTreeMap, BTreeSet};

fn folder() -> (tempfile::TempDir, StateDir) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = StateDir::new(folder.path());
    (folder, dir)
}

fn devices(host: &SimulatedHost) -> BTreeMap<MigUuid, (GpuIndex, MigDevice)> {
    let gpus = host.gpus().unwrap();
    let of = |gpu: GpuIndex| host.mig_devices(gpu).unwrap().into_iter().map(move |device| (gpu, device));
    gpus.iter()
        .flat_map(|gpu| of(gpu.index))
        .map(|(gpu, device)| (device.uuid.clone(), (gpu, device)))
        .collect()
}

/// A config by chance: one of the built-in ones, or for every GPU one of all the geometries it can have.
fn config(gpus: &[GpuState], chance: &[Index]) -> (String, Vec<ConfigEntry>) {
    let names = builtin_names(gpus);
    let all = names.len() * 4;
    if let Some(name) = names.get(chance[0].index(all)) {
        let mut config = builtin_config(gpus, name).unwrap();
        return config.configs.remove_entry(name).unwrap();
    }
    let mut text = "version: v1\nmig-configs:\n  chance:\n".to_owned();
    for (state, chance) in gpus.iter().zip(chance) {
        let Some(table) = &state.table else { continue };
        let geometries: Vec<Vec<u8>> = table.geometries().into_keys().collect();
        let counts = &geometries[chance.index(geometries.len())];
        let devices: Vec<String> = table
            .profiles()
            .iter()
            .zip(counts)
            .filter(|(_, count)| **count > 0)
            .map(|(profile, count)| format!("{}: {count}", profile.name))
            .collect();
        let (index, devices) = (state.gpu.index, devices.join(", "));
        text.push_str(&format!(
            "  - {{devices: [{index}], mig-enabled: true, mig-devices: {{{devices}}}}}\n"
        ));
    }
    let (mut config, _) = MigPartedConfig::parse(&text).into_result().unwrap();
    config.configs.remove_entry("chance").unwrap()
}

fn go_to(host: &mut SimulatedHost, dir: &StateDir, chance: &[Index]) {
    let (name, entries) = config(&inventory(host).unwrap(), chance);
    let options = ApplyOptions::default();
    apply(host, dir, (&name, &entries), options, &HookRunner::default(), &mut Silent).unwrap();
}

/// Counts what is destroyed, and which GPUs are reset or change mode.
#[derive(Default)]
struct Seen {
    destroyed: BTreeSet<(GpuIndex, u8)>,
    reset: BTreeSet<GpuIndex>,
    mode: BTreeSet<GpuIndex>,
    changed: BTreeSet<GpuIndex>,
}

impl Progress for Seen {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Destroy(gpu, _, start) => {
                self.destroyed.insert((*gpu, *start));
                self.changed.insert(*gpu);
            }
            Step::Create(gpu, ..) | Step::Divide(gpu, ..) => _ = self.changed.insert(*gpu),
            Step::Reset(gpus) => self.reset.extend(gpus),
            Step::Mode(gpu, _) => _ = self.mode.insert(*gpu),
            Step::Hook(_) | Step::Verify | Step::RollBack => {}
        }
    }
}

const MACHINES: [&str; 5] = ["a100-40gb:2", "h200-141gb:2", "mixed", "a30-24gb:2", "rtx-pro-6000"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_that_is_not_touched_stays_and_only_those_in_the_way_must_end(
        machine in any::<Index>(),
        way in proptest::collection::vec(proptest::collection::vec(any::<Index>(), 4), 3),
        busy in proptest::collection::vec(any::<bool>(), 64),
    ) {
        let (_folder, dir) = folder();
        let mut host = host(MACHINES[machine.index(MACHINES.len())]);
        // Two configs one after the other: what is kept of the first makes layouts that none has on an empty GPU.
        go_to(&mut host, &dir, &way[0]);
        go_to(&mut host, &dir, &way[1]);
        let before = devices(&host);
        for (position, (gpu, device)) in before.values().enumerate().filter(|(position, _)| busy[position % 64]) {
            let at = Some((device.gpu_instance, device.compute_instance));
            host.start_process(*gpu, at, 100 + position as u32, Bytes(1), 1).unwrap();
        }

        let gpus = inventory(&host).unwrap();
        let (label, entries) = config(&gpus, &way[2]);
        let label = label.as_str();
        let target = resolve(label, &entries, &gpus).unwrap();
        let plan_now = plan_drained(&target, &gpus, false).unwrap();
        let touched = Touched::of(&host, &plan_now, &gpus).unwrap();

        // Fewer would not do: with any one program less ended, whichever they are, there is no way on that GPU.
        for state in gpus.iter().filter(|state| !touched.gpus.contains(&state.gpu.index)) {
            let needed = touched.blocked_by.iter().filter(|holder| holder.gpu == state.gpu.index).count() as u32;
            let pids: Vec<u32> = state.processes.iter().map(|process| process.pid).collect();
            let one_less = (0u32..1 << pids.len()).filter(|ended| ended.count_ones() + 1 == needed);
            for ended in one_less {
                let mut host = host.clone();
                let ended = pids.iter().enumerate().filter(|(position, _)| ended & (1 << position) != 0);
                ended.for_each(|(_, pid)| host.end_process(*pid));
                let now: Vec<GpuState> = inventory(&host).unwrap();
                let now: Vec<GpuState> = now.into_iter().filter(|now| now.gpu.uuid == state.gpu.uuid).collect();
                prop_assert!(plan(&target, &now, false).is_err());
            }
        }
        // Nobody is in the way exactly where a plan exists that needs nobody to end.
        prop_assert_eq!(touched.blocked_by.is_empty(), plan(&target, &gpus, false).is_ok());
        if !touched.blocked_by.is_empty() {
            let state = host.state().clone();
            let result = apply_plan(&mut host, &dir, (label, &plan_now), ApplyOptions::default(), &mut Silent);
            let result = result.unwrap();
            for holder in &touched.blocked_by {
                prop_assert!(matches!(result.gpus[&holder.gpu], Outcome::Blocked(_)), "{:?}", result.gpus);
            }
            // Put the others back for the second half.
            host = SimulatedHost::from_state(state);
        }

        // Those in the way end; a program in every device that is kept proves that it is not destroyed and made again.
        for holder in &touched.blocked_by {
            holder.pids.iter().for_each(|pid| host.end_process(*pid));
        }
        let ended: BTreeSet<u32> = touched.blocked_by.iter().flat_map(|holder| holder.pids.clone()).collect();
        for (number, device) in touched.kept.iter().enumerate() {
            if !touched.gpus.contains(&device.gpu) {
                let at = Some((device.gpu_instance, device.compute_instance));
                host.start_process(device.gpu, at, 900 + number as u32, Bytes(1), 1).unwrap();
            }
        }
        let running = |host: &SimulatedHost| -> BTreeSet<(GpuIndex, u32)> {
            let gpus = host.gpus().unwrap();
            let of = |gpu| host.processes(gpu).unwrap().into_iter().map(move |process| (gpu, process.pid));
            gpus.iter().flat_map(|gpu| of(gpu.index)).collect()
        };
        let running_before = running(&host);
        prop_assert!(running_before.iter().all(|(_, pid)| !ended.contains(pid)));

        let mut seen = Seen::default();
        let result =
            apply_plan(&mut host, &dir, (label, &plan_now), ApplyOptions::default(), &mut seen).unwrap();
        prop_assert!(result.is_complete(), "{:?}", result.gpus);
        prop_assert_eq!(running(&host), running_before);
        prop_assert_eq!(target.differing(&inventory(&host).unwrap()).count(), 0);

        let after = devices(&host);
        let destroyed: BTreeSet<&MigUuid> = touched.destroyed.iter().map(|device| &device.uuid).collect();
        for (uuid, (gpu, device)) in before.iter().filter(|(uuid, _)| !destroyed.contains(uuid)) {
            let (same_gpu, same) = &after[uuid];
            prop_assert_eq!(gpu, same_gpu);
            // Its place in the driver's list may move; the device itself may not.
            prop_assert_eq!(&MigDevice { position: 0, ..device.clone() }, &MigDevice { position: 0, ..same.clone() });
        }
        prop_assert_eq!(touched.destroyed.len(), seen.destroyed.len(), "whole instances, one device each");
        let named: BTreeSet<GpuIndex> = plan_now.gpus.iter().filter(|gpu| !gpu.is_empty()).map(|gpu| gpu.gpu).collect();
        let known = before.values().filter(|(gpu, _)| named.contains(gpu)).count();
        prop_assert_eq!(touched.destroyed.len() + touched.kept.len(), known);
        prop_assert_eq!(&seen.mode, &touched.gpus);
        prop_assert_eq!(&seen.reset, &touched.reset_needed);
        prop_assert_eq!(&seen.changed, &touched.recut);
    }
}

#[test]
fn the_fewest_holders_are_asked_to_go() {
    let (_folder, dir) = folder();
    let mut host = cut("h200", &dir, "seven");
    for device in 0..7 {
        occupy(&mut host, device, 10 + device as u32);
    }
    let gpus = inventory(&host).unwrap();
    for (config, least) in [("balanced", 5), ("mixed", 4), ("whole", 7), ("disabled", 7), ("seven", 0)] {
        let target = resolve(config, &entries(config), &gpus).unwrap();
        let drained = plan_drained(&target, &gpus, false).unwrap();
        let touched = Touched::of(&host, &drained, &gpus).unwrap();
        assert_eq!(touched.blocked_by.len(), least, "{config}: {:?}", touched.blocked_by);
        assert_eq!(touched.destroyed.len(), least, "{config}");
        // No smaller set of programs would do, whichever they are.
        for ending in (0u32..1 << 7).filter(|ending| (ending.count_ones() as usize) < least) {
            let mut host = host.clone();
            (0..7).filter(|pid| ending & (1 << pid) != 0).for_each(|pid| host.end_process(10 + pid));
            assert!(plan(&target, &inventory(&host).unwrap(), false).is_err(), "{config}: {ending:b}");
        }
    }
    let target = resolve("whole", &entries("whole"), &gpus).unwrap();
    let touched = Touched::of(&host, &plan_drained(&target, &gpus, false).unwrap(), &gpus).unwrap();
    let text = touched.blocked_by[0].to_string();
    assert!(text.starts_with("GPU 0, MIG-") && text.ends_with(": in use by process 10"), "{text}");
}

#[test]
fn parts_of_an_instance_are_told_apart() {
    let (_folder, dir) = folder();
    let mut host = cut("h200", &dir, "divided");
    // One of the three 1c of the 3g works; turned into 2c + 1c the 3g stays, and with it the one in use.
    let third =
        host.mig_devices(GpuIndex(0)).unwrap().iter().rposition(|device| device.gpu_slices == 3).unwrap();
    occupy(&mut host, third, 77);
    let busy = host.mig_devices(GpuIndex(0)).unwrap()[third].uuid.clone();
    let text = "version: v1\nmig-configs: {c: [{devices: all, mig-enabled: true, \
                mig-devices: {2c.3g.71gb: 1, 1c.3g.71gb: 1, 2c.4g.71gb: 2}}]}";
    let (config, _) = carve_formats::MigPartedConfig::parse(text).into_result().unwrap();
    let (name, list) = config.select(None).unwrap();
    let gpus = inventory(&host).unwrap();
    let plan = plan_drained(&resolve(name, list, &gpus).unwrap(), &gpus, false).unwrap();
    let touched = Touched::of(&host, &plan, &gpus).unwrap();
    assert_eq!((touched.destroyed.len(), touched.kept.len()), (2, 3));
    assert!(touched.blocked_by.is_empty() && touched.kept.iter().any(|device| device.uuid == busy));
    // By the time the plan is carried out the program has ended; the promise still holds.
    host.end_process(77);
    apply_plan(&mut host, &dir, (name, &plan), ApplyOptions::default(), &mut Silent).unwrap();
    for kept in &touched.kept {
        assert!(host.mig_devices(GpuIndex(0)).unwrap().iter().any(|device| device.uuid == kept.uuid));
    }
    assert_eq!(host.mig_devices(GpuIndex(0)).unwrap().len(), 4);
}

#[test]
fn whole_gpus_in_use_are_named_where_a_mode_changes() {
    let mut host = host("a100-40gb:2");
    host.start_process(GpuIndex(1), None, 42, Bytes(1), 1).unwrap();
    let gpus = inventory(&host).unwrap();
    let plan = plan_drained(&resolve("enabled", &entries("enabled"), &gpus).unwrap(), &gpus, false).unwrap();
    let touched = Touched::of(&host, &plan, &gpus).unwrap();
    assert_eq!(touched.gpus, [GpuIndex(0), GpuIndex(1)].into());
    assert_eq!(touched.reset_needed, touched.gpus);
    assert_eq!(touched.blocked_by.len(), 1);
    assert_eq!(touched.blocked_by[0].to_string(), "GPU 1: in use by process 42");
}

#[test]
fn a_plan_that_no_longer_holds_changes_nothing() {
    let (_folder, dir) = folder();
    let mut host = cut("h200-141gb:2", &dir, "balanced");
    let gpus = inventory(&host).unwrap();
    let plan = plan_drained(&resolve("seven", &entries("seven"), &gpus).unwrap(), &gpus, false).unwrap();
    // Somebody recuts GPU 0 by hand, and a program starts in what should go on GPU 1.
    let devices = host.mig_devices(GpuIndex(0)).unwrap();
    let gone = devices.last().unwrap();
    host.destroy_compute_instance(GpuIndex(0), gone.gpu_instance, gone.compute_instance).unwrap();
    let three = host.mig_devices(GpuIndex(1)).unwrap();
    let three = three.iter().find(|device| device.gpu_slices == 3).unwrap();
    let at = Some((three.gpu_instance, three.compute_instance));
    host.start_process(GpuIndex(1), at, 5, Bytes(1), 1).unwrap();
    let before = (host.state().clone(), layouts(&host));
    let result = apply_plan(&mut host, &dir, ("seven", &plan), ApplyOptions::default(), &mut Silent).unwrap();
    assert!(matches!(result.gpus[&GpuIndex(0)], Outcome::Stale), "{:?}", result.gpus);
    let Outcome::Blocked(PlanError::Blocked { users, .. }) = &result.gpus[&GpuIndex(1)] else { panic!() };
    assert_eq!(*users, [5]);
    assert_eq!((host.state().clone(), layouts(&host)), before);
}
