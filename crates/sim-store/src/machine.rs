//! The shared machine: every verb of a host, each on the newest state of the file.

use crate::StoreError;
use crate::file::{self, Reading, Stamp};
use crate::lock::Lock;
use carve_gpu_host::{
    BusyPart, ComputeInstance, Driver, Fabric, Gpu, GpuEvent, GpuHost, GpuInstance, GpuProcess, HostError,
    HostFailure, HostResult, Link, Machine, MemoryUse, MigDevice, MigMode, ModeOutcome, Readings,
    RecoveryAction, SimulatedHost, SimulatedState, Utilisation, Verb,
};
use carve_gpu_model::{
    ComputeInstanceId, ComputeProfile, ComputeProfileIndex, GpuIndex, GpuInstanceId, Placement, ProfileId,
    ProfileTable,
};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a waiting `next_event` looks into the file.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What NVML calls an error it has no name for.
const UNKNOWN: HostFailure = HostFailure::Other(999);

/// A simulated machine in a file that several processes share.
#[derive(Debug)]
pub struct SharedMachine {
    path: PathBuf,
    seen: RefCell<Seen>,
    /// Why the file could not be used in the last verb that failed for that reason.
    trouble: RefCell<Option<StoreError>>,
}

/// The machine as this process last saw it.
#[derive(Debug)]
struct Seen {
    host: SimulatedHost,
    stamp: Stamp,
}

impl SharedMachine {
    /// The machine in a file, which is made if it is not there (with its directories).
    ///
    /// Events from before this call are not handed out, as a driver would not.
    pub fn open(state_file: &Path, machine: Machine) -> Result<Self, StoreError> {
        if let Some(parent) = state_file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(StoreError::io(parent, "make the directory"))?;
        }
        let _lock = Lock::alone(state_file)?;
        match file::read(state_file, None)? {
            Reading::New(state, stamp) if state.machine == machine => {
                Ok(Self::new(state_file, *state, stamp))
            }
            Reading::New(state, _) if state.machine.name() == machine.name() => {
                Err(StoreError::ChangedMachine {
                    path: state_file.to_owned(),
                    name: machine.name().to_owned(),
                })
            }
            Reading::New(state, _) => Err(StoreError::OtherMachine {
                path: state_file.to_owned(),
                held: state.machine.name().to_owned(),
                wanted: machine.name().to_owned(),
            }),
            Reading::Absent | Reading::Known => {
                let state = SimulatedState::switched_on(machine);
                let stamp = file::write(state_file, &state)?;
                Ok(Self::new(state_file, state, stamp))
            }
        }
    }

    /// The machine in a file that must be there.
    pub fn attach(state_file: &Path) -> Result<Self, StoreError> {
        let absent = || StoreError::Absent { path: state_file.to_owned() };
        // Looked at before locking, so that a wrong path does not gain a lock file.
        if !state_file.exists() {
            return Err(absent());
        }
        let _lock = Lock::shared(state_file)?;
        match file::read(state_file, None)? {
            Reading::New(state, stamp) => Ok(Self::new(state_file, *state, stamp)),
            Reading::Absent | Reading::Known => Err(absent()),
        }
    }

    fn new(state_file: &Path, state: SimulatedState, stamp: Stamp) -> Self {
        let mut host = SimulatedHost::from_state(state);
        while let Ok(Some(_)) = host.next_event(Duration::ZERO) {}
        let seen = RefCell::new(Seen { host, stamp });
        SharedMachine { path: state_file.to_owned(), seen, trouble: RefCell::new(None) }
    }

    /// The state file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the machine is made of, as last seen.
    pub fn machine(&self) -> Machine {
        self.seen.borrow().host.state().machine.clone()
    }

    /// The newest state.
    pub fn state(&self) -> Result<SimulatedState, StoreError> {
        let _lock = Lock::shared(&self.path)?;
        self.refresh()?;
        Ok(self.seen.borrow().host.state().clone())
    }

    /// Why the file could not be used in the last verb that answered "driver error 999".
    pub fn take_trouble(&self) -> Option<StoreError> {
        self.trouble.borrow_mut().take()
    }

    /// Lets something happen to the machine that no driver is asked for: a process starts, a GPU is lost.
    pub fn change_world<T>(&mut self, act: impl FnOnce(&mut SimulatedHost) -> T) -> Result<T, StoreError> {
        let _lock = Lock::alone(&self.path)?;
        self.refresh()?;
        let seen = self.seen.get_mut();
        let mut next = seen.host.clone();
        let answer = act(&mut next);
        if next.state() != seen.host.state() {
            seen.stamp = file::write(&self.path, next.state())?;
        }
        seen.host = next;
        Ok(answer)
    }

    /// Reads the file again if it was replaced. The caller holds the lock.
    fn refresh(&self) -> Result<(), StoreError> {
        let mut seen = self.seen.borrow_mut();
        match file::read(&self.path, Some(seen.stamp))? {
            Reading::Known => {}
            Reading::New(state, stamp) => {
                seen.host.adopt(*state);
                seen.stamp = stamp;
            }
            Reading::Absent => return Err(StoreError::Absent { path: self.path.clone() }),
        }
        Ok(())
    }

    /// Turns trouble with the file into what a driver answers when it does not know what is wrong.
    fn told<T>(&self, verb: Verb, gpu: Option<GpuIndex>, result: Result<T, StoreError>) -> HostResult<T> {
        result.map_err(|trouble| {
            *self.trouble.borrow_mut() = Some(trouble);
            HostError { verb, gpu, failure: UNKNOWN }
        })
    }

    fn ask<T>(
        &self,
        verb: Verb,
        gpu: impl Into<Option<GpuIndex>>,
        question: impl FnOnce(&SimulatedHost) -> HostResult<T>,
    ) -> HostResult<T> {
        let fresh = || {
            let lock = Lock::shared(&self.path)?;
            self.refresh().map(|()| lock)
        };
        let _lock = self.told(verb, gpu.into(), fresh())?;
        question(&self.seen.borrow().host)
    }

    fn change<T>(
        &mut self,
        verb: Verb,
        gpu: Option<GpuIndex>,
        act: impl FnOnce(&mut SimulatedHost) -> HostResult<T>,
    ) -> HostResult<T> {
        // A verb that fails may have changed half of what it should, so it acts on a copy.
        let outcome = || -> Result<HostResult<T>, StoreError> {
            let _lock = Lock::alone(&self.path)?;
            self.refresh()?;
            let mut seen = self.seen.borrow_mut();
            let mut next = seen.host.clone();
            let answer = act(&mut next);
            if answer.is_ok() {
                if next.state() != seen.host.state() {
                    seen.stamp = file::write(&self.path, next.state())?;
                }
                seen.host = next;
            }
            Ok(answer)
        };
        let outcome = outcome();
        self.told(verb, gpu, outcome)?
    }
}

impl GpuHost for SharedMachine {
    fn driver(&self) -> HostResult<Driver> {
        self.ask(Verb::Driver, None, |host| host.driver())
    }

    fn gpus(&self) -> HostResult<Vec<Gpu>> {
        self.ask(Verb::Gpus, None, |host| host.gpus())
    }

    fn memory(&self, gpu: GpuIndex) -> HostResult<MemoryUse> {
        self.ask(Verb::Memory, gpu, |host| host.memory(gpu))
    }

    fn utilisation(&self, gpu: GpuIndex) -> HostResult<Utilisation> {
        self.ask(Verb::Utilisation, gpu, |host| host.utilisation(gpu))
    }

    fn readings(&self, gpu: GpuIndex) -> HostResult<Readings> {
        self.ask(Verb::Readings, gpu, |host| host.readings(gpu))
    }

    fn busy(&mut self, gpu: GpuIndex, instance: Option<GpuInstanceId>) -> HostResult<Option<BusyPart>> {
        self.ask(Verb::Busy, gpu, |host| {
            let now = host.busy_now(gpu, instance);
            now.map_err(|failure| HostError { verb: Verb::Busy, gpu: Some(gpu), failure })
        })
    }

    fn processes(&self, gpu: GpuIndex) -> HostResult<Vec<GpuProcess>> {
        self.ask(Verb::Processes, gpu, |host| host.processes(gpu))
    }

    fn link(&self, from: GpuIndex, to: GpuIndex) -> HostResult<Link> {
        self.ask(Verb::Link, from, |host| host.link(from, to))
    }

    fn fabric(&self, gpu: GpuIndex) -> HostResult<Option<Fabric>> {
        self.ask(Verb::Fabric, gpu, |host| host.fabric(gpu))
    }

    fn recovery_action(&self, gpu: GpuIndex) -> HostResult<Option<RecoveryAction>> {
        self.ask(Verb::RecoveryAction, gpu, |host| host.recovery_action(gpu))
    }

    /// Which events were handed out is this process's own memory: nothing is written, and the lock is held only
    /// while looking.
    fn next_event(&mut self, wait: Duration) -> HostResult<Option<GpuEvent>> {
        let until = Instant::now() + wait;
        loop {
            self.ask(Verb::NextEvent, None, |_| Ok(()))?;
            if let Some(event) = self.seen.get_mut().host.next_event(Duration::ZERO)? {
                return Ok(Some(event));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(left.min(LOOK_AGAIN));
        }
    }

    fn mig_mode(&self, gpu: GpuIndex) -> HostResult<Option<MigMode>> {
        self.ask(Verb::MigMode, gpu, |host| host.mig_mode(gpu))
    }

    fn set_mig_mode(&mut self, gpu: GpuIndex, enabled: bool) -> HostResult<ModeOutcome> {
        self.change(Verb::SetMigMode, Some(gpu), |host| host.set_mig_mode(gpu, enabled))
    }

    fn reset(&mut self, gpus: &[GpuIndex]) -> HostResult<()> {
        self.change(Verb::Reset, gpus.first().copied(), |host| host.reset(gpus))
    }

    fn profile_table(&self, gpu: GpuIndex) -> HostResult<ProfileTable> {
        self.ask(Verb::ProfileTable, gpu, |host| host.profile_table(gpu))
    }

    fn gpu_instances(&self, gpu: GpuIndex) -> HostResult<Vec<GpuInstance>> {
        self.ask(Verb::GpuInstances, gpu, |host| host.gpu_instances(gpu))
    }

    fn create_gpu_instance(
        &mut self,
        gpu: GpuIndex,
        profile: ProfileId,
        at: Option<Placement>,
    ) -> HostResult<GpuInstance> {
        self.change(Verb::CreateGpuInstance, Some(gpu), |host| host.create_gpu_instance(gpu, profile, at))
    }

    fn destroy_gpu_instance(&mut self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<()> {
        self.change(Verb::DestroyGpuInstance, Some(gpu), |host| host.destroy_gpu_instance(gpu, instance))
    }

    fn compute_profiles(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeProfile>> {
        self.ask(Verb::ComputeProfiles, gpu, |host| host.compute_profiles(gpu, instance))
    }

    fn compute_instances(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeInstance>> {
        self.ask(Verb::ComputeInstances, gpu, |host| host.compute_instances(gpu, instance))
    }

    fn create_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        profile: ComputeProfileIndex,
    ) -> HostResult<ComputeInstance> {
        self.change(Verb::CreateComputeInstance, Some(gpu), |host| {
            host.create_compute_instance(gpu, instance, profile)
        })
    }

    fn destroy_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        compute: ComputeInstanceId,
    ) -> HostResult<()> {
        self.change(Verb::DestroyComputeInstance, Some(gpu), |host| {
            host.destroy_compute_instance(gpu, instance, compute)
        })
    }

    fn mig_devices(&self, gpu: GpuIndex) -> HostResult<Vec<MigDevice>> {
        self.ask(Verb::MigDevices, gpu, |host| host.mig_devices(gpu))
    }

    fn last_words(&self) -> Option<String> {
        self.trouble.borrow().as_ref().map(ToString::to_string)
    }
}
