//! The trait behind which a machine's GPUs live.

use crate::{
    BusyPart, ComputeInstance, Driver, Fabric, Gpu, GpuEvent, GpuInstance, GpuProcess, HostResult, Link,
    MemoryUse, MigDevice, MigMode, ModeOutcome, Readings, RecoveryAction, Utilisation,
};
use carve_gpu_model::{
    ComputeInstanceId, ComputeProfile, ComputeProfileIndex, GpuIndex, GpuInstanceId, Placement, ProfileId,
    ProfileTable,
};
use std::time::Duration;

/// A machine's GPUs.
///
/// One owner changes a GPU at a time; the verbs that change something take `&mut self`. Every verb is one question or
/// one step, so that a crash between two verbs leaves a state that can be read back.
pub trait GpuHost {
    /// The driver's versions.
    fn driver(&self) -> HostResult<Driver>;

    /// All GPUs, in the driver's order. A lost GPU stays in the list.
    fn gpus(&self) -> HostResult<Vec<Gpu>>;

    /// Memory of a GPU.
    fn memory(&self, gpu: GpuIndex) -> HostResult<MemoryUse>;

    /// How busy a GPU is.
    fn utilisation(&self, gpu: GpuIndex) -> HostResult<Utilisation>;

    /// What sensors and counters of a GPU say. It fails only where the GPU itself does not answer.
    fn readings(&self, gpu: GpuIndex) -> HostResult<Readings>;

    /// Which part of the time since the last question a GPU, or one of its GPU instances, was busy. None for the first question, where the driver does
    /// not tell, and for a GPU in MIG mode, whose instances are told instead.
    fn busy(&mut self, gpu: GpuIndex, instance: Option<GpuInstanceId>) -> HostResult<Option<BusyPart>>;

    /// Processes on a GPU and in its instances.
    fn processes(&self, gpu: GpuIndex) -> HostResult<Vec<GpuProcess>>;

    /// How two GPUs are connected.
    fn link(&self, from: GpuIndex, to: GpuIndex) -> HostResult<Link>;

    /// Where the GPU belongs in a fabric over several machines, or `None` while it belongs to none.
    fn fabric(&self, gpu: GpuIndex) -> HostResult<Option<Fabric>>;

    /// What the driver says must be done before the GPU is as it should be, or `None` where it can not tell.
    fn recovery_action(&self, gpu: GpuIndex) -> HostResult<Option<RecoveryAction>>;

    /// The next event, or `None` when the time is up.
    fn next_event(&mut self, wait: Duration) -> HostResult<Option<GpuEvent>>;

    /// MIG mode, or `None` where the GPU has none.
    fn mig_mode(&self, gpu: GpuIndex) -> HostResult<Option<MigMode>>;

    /// Switches MIG on or off. GPU instances must be gone before it can be switched off.
    fn set_mig_mode(&mut self, gpu: GpuIndex, enabled: bool) -> HostResult<ModeOutcome>;

    /// Resets GPUs. Everything on them is lost; a pending MIG mode takes hold.
    fn reset(&mut self, gpus: &[GpuIndex]) -> HostResult<()>;

    /// What the GPU can be cut into, as its driver reports it.
    fn profile_table(&self, gpu: GpuIndex) -> HostResult<ProfileTable>;

    /// GPU instances, by ascending id. Empty while MIG is off.
    fn gpu_instances(&self, gpu: GpuIndex) -> HostResult<Vec<GpuInstance>>;

    /// Creates a GPU instance at a place, or where the driver likes.
    fn create_gpu_instance(
        &mut self,
        gpu: GpuIndex,
        profile: ProfileId,
        at: Option<Placement>,
    ) -> HostResult<GpuInstance>;

    /// Destroys a GPU instance, which must hold no compute instance.
    fn destroy_gpu_instance(&mut self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<()>;

    /// Compute instances that a GPU instance can hold.
    fn compute_profiles(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeProfile>>;

    /// Compute instances of a GPU instance, by ascending id.
    fn compute_instances(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeInstance>>;

    /// Creates a compute instance.
    fn create_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        profile: ComputeProfileIndex,
    ) -> HostResult<ComputeInstance>;

    /// Destroys a compute instance, which no process may be using.
    fn destroy_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        compute: ComputeInstanceId,
    ) -> HostResult<()>;

    /// MIG devices of a GPU, in the driver's order.
    fn mig_devices(&self, gpu: GpuIndex) -> HostResult<Vec<MigDevice>>;

    /// More about the last failure than its code says, if there is more: what another program printed, which file.
    fn last_words(&self) -> Option<String> {
        None
    }
}
