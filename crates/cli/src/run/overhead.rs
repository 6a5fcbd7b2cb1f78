//! What the command's processes have on the GPU beyond what they count, such as code: it is charged to the share while the command runs.

use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;
use carve_limiter_host::{Overhead, Share, Snapshot};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often to look.
const LOOK: Duration = Duration::from_secs(2);

/// Looks again and again.
pub(crate) struct Watch<'a> {
    host: &'a dyn GpuHost,
    /// None for a part whose processes are not told apart from those of others.
    gpu: Option<GpuIndex>,
    overhead: Overhead,
    last: Instant,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(host: &'a dyn GpuHost, gpu: Option<GpuIndex>) -> Self {
        Watch { host, gpu, overhead: Overhead::default(), last: Instant::now() }
    }

    /// Looks, if it is time to, and says what the share is charged.
    pub(crate) fn look(&mut self, share: &Share) {
        let Some(gpu) = self.gpu.filter(|_| self.last.elapsed() >= LOOK) else { return };
        self.last = Instant::now();
        let Ok(mut snapshot) = share.snapshot() else { return };
        snapshot.forget_the_dead(|owner, _| Path::new(&format!("/proc/{}", owner.pid())).exists());
        let shown = shown(self.host, gpu, &snapshot);
        if let Some(overhead) = self.overhead.look(shown, snapshot.counters().memory) {
            share.charge(overhead);
        }
    }
}

/// Bytes that the driver shows for all processes of the share; nothing where it does not tell them of one, or where one has a number that means
/// something elsewhere.
fn shown(host: &dyn GpuHost, gpu: GpuIndex, snapshot: &Snapshot) -> Option<u64> {
    let here = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    let owners = snapshot.owners();
    if owners.iter().any(|(_, namespace)| *namespace != here) {
        return None;
    }
    let processes = host.processes(gpu).ok()?;
    let ours = processes.iter().filter(|process| owners.iter().any(|(owner, _)| owner.pid() == process.pid));
    ours.map(|process| process.memory.map(|bytes| bytes.0)).sum()
}

#[cfg(test)]
mod tests {
    use super::shown;
    use carve_gpu_host::{Machine, SimulatedHost};
    use carve_gpu_model::{Bytes, GpuIndex};
    use carve_limiter_host::{Limits, Owner, Share};
    use std::os::unix::fs::{FileExt, MetadataExt};

    const UUID: &str = "GPU-00112233-4455-6677-8899-aabbccddeeff";

    #[test]
    fn what_the_driver_shows_for_the_command_is_added_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits =
            Limits { memory: 1 << 30, compute: 0, context: 0, burst: false, pass: false, mps: false };
        let share = Share::create(folder.path(), UUID, "share", &limits).expect("a share");
        let here = std::fs::metadata("/proc/self/ns/pid").expect("a namespace").ino();
        // Two slots, as the limiter writes them.
        let path = folder.path().join("usage").join(UUID).join("share");
        let file = std::fs::File::options().write(true).open(path).expect("the file");
        file.write_all_at(&2u32.to_le_bytes(), 12).expect("how many slots were reached");
        for (slot, pid) in [(0, 100), (1, 200)] {
            for (field, value) in [(0, Owner::new(pid, 1).to_bits()), (1, here)] {
                file.write_all_at(&value.to_le_bytes(), 64 + 128 * slot + 8 * field).expect("a field");
            }
        }
        let mut host = SimulatedHost::new(Machine::named("h200").expect("a machine"));
        for (pid, bytes) in [(100, 3), (200, 4), (300, 50)] {
            host.start_process(GpuIndex(0), None, pid, Bytes(bytes), 0).expect("a process");
        }
        let shown = || shown(&host, GpuIndex(0), &share.snapshot().expect("what is counted"));
        assert_eq!(shown(), Some(7), "the third is somebody else's");
        file.write_all_at(&(here + 1).to_le_bytes(), 64 + 8).expect("a field");
        assert_eq!(shown(), None, "who is elsewhere has another number there");
    }
}
