//! Machines, configs and runs for the tests of the manager.
#![allow(dead_code, reason = "every test binary uses another part")]

use carve_formats::MigPartedConfig;
use carve_formats::mig_parted::ConfigEntry;
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_mig_manager::{
    Applied, ApplyError, ApplyOptions, HookRunner, Layout, Silent, StateDir, apply, inventory,
};

pub(crate) const CONFIGS: &str = "
version: v1
mig-configs:
  disabled: [{devices: all, mig-enabled: false}]
  enabled: [{devices: all, mig-enabled: true, mig-devices: {}}]
  seven: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb: 7}}]
  balanced: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb: 2, 2g.35gb: 1, 3g.71gb: 1}}]
  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.71gb: 2}}]
  mixed: [{devices: all, mig-enabled: true, mig-devices: {4g.71gb: 1, 1g.18gb: 3}}]
  whole: [{devices: all, mig-enabled: true, mig-devices: {7g.141gb: 1}}]
  divided: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.71gb: 3, 2c.4g.71gb: 2}}]
  only0: [{devices: [0], mig-enabled: true, mig-devices: {1g.18gb: 7}}]
  typo: [{devices: all, mig-enabled: true, mig-devices: {3g.70gb: 1}}]
  toomany: [{devices: all, mig-enabled: true, mig-devices: {3g.71gb: 2, 1g.18gb: 1}}]
  nogpu: [{devices: [0, 7], mig-enabled: true, mig-devices: {1g.18gb: 7}}]
  filtered: [{device-filter: '0x20B010DE', devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]
  contradiction:
  - {devices: all, mig-enabled: false}
  - {devices: [0], mig-enabled: true, mig-devices: {1g.18gb: 7}}
  zero: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb: 7, 2g.35gb: 0}}]
  explicit: [{devices: all, mig-enabled: true, mig-devices: {1c.1g.18gb: 7}}]
";

pub(crate) fn entries(name: &str) -> Vec<ConfigEntry> {
    let (config, _) =
        MigPartedConfig::parse(CONFIGS).into_result().unwrap_or_else(|found| panic!("{found:?}"));
    config.select(Some(name)).unwrap_or_else(|error| panic!("{error}")).1.to_vec()
}

pub(crate) fn host(machine: &str) -> SimulatedHost {
    SimulatedHost::new(Machine::named(machine).unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) fn run(host: &mut dyn GpuHost, dir: &StateDir, config: &str) -> Result<Applied, ApplyError> {
    run_with(host, dir, config, ApplyOptions::default())
}

pub(crate) fn run_with(
    host: &mut dyn GpuHost,
    dir: &StateDir,
    config: &str,
    options: ApplyOptions,
) -> Result<Applied, ApplyError> {
    apply(host, dir, (config, &entries(config)), options, &HookRunner::default(), &mut Silent)
}

pub(crate) fn layouts(host: &dyn GpuHost) -> Vec<Layout> {
    inventory(host).unwrap().iter().map(Layout::of).collect()
}

/// A machine that already has a config.
pub(crate) fn cut(machine: &str, dir: &StateDir, config: &str) -> SimulatedHost {
    let mut host = host(machine);
    run(&mut host, dir, config).unwrap_or_else(|error| panic!("{error}"));
    host
}

/// Starts a process in the MIG device at a position of GPU 0.
pub(crate) fn occupy(host: &mut SimulatedHost, device: usize, pid: u32) {
    let device = host.mig_devices(GpuIndex(0)).unwrap()[device].clone();
    let at = Some((device.gpu_instance, device.compute_instance));
    host.start_process(GpuIndex(0), at, pid, Bytes(1 << 20), 10).unwrap();
}
