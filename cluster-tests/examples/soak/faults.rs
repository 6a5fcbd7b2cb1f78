//! What goes wrong while pods come and go: whoever is killed, stopped, away or sick, and how that ends.

use crate::roads::Roads;
use carve_cluster_tests::Chance;
use carve_cluster_tests::soak::Tally;
use carve_gpu_model::GpuIndex;
use std::time::{Duration, Instant};

/// Time between two of them, on average.
const BETWEEN: u64 = 12_000;
/// How long a GPU is away, or a process stands still.
const LASTS: Duration = Duration::from_secs(8);

/// Programs of Kubernetes that are killed and come back.
const COMPONENTS: [&str; 9] = [
    "kubelet-node0",
    "kubelet-node1",
    "kubelet-node2",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "containerd-node0",
    "containerd-node1",
    "containerd-node2",
];

/// What ends by itself after a while.
#[derive(Debug)]
enum Lasting {
    Lost(usize, GpuIndex),
    Stopped(usize),
}

/// The faults of a round.
#[derive(Debug)]
pub(crate) struct Faults {
    ours_die: bool,
    next: Instant,
    lasting: Vec<(Instant, Lasting)>,
}

impl Faults {
    /// None yet. `ours_die`: also carve's own processes are killed.
    pub(crate) fn new(ours_die: bool) -> Self {
        Faults { ours_die, next: Instant::now() + Duration::from_millis(BETWEEN), lasting: Vec::new() }
    }

    /// One more, if it is time.
    pub(crate) fn step(&mut self, roads: &mut Roads<'_>, chance: &mut Chance, tally: &mut Tally) {
        let (over, lasting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.lasting).into_iter().partition(|(end, _)| *end < Instant::now());
        self.lasting = lasting;
        over.into_iter().for_each(|(_, what)| end(roads, what));
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + Duration::from_millis(BETWEEN / 2 + chance.below(BETWEEN));
        let road = chance.below(3) as usize;
        match chance.below(if self.ours_die { 8 } else { 5 }) {
            0 | 1 => {
                let component = COMPONENTS[chance.below(COMPONENTS.len() as u64) as usize];
                roads.cluster.restart(component);
                tally.one(&format!(
                    "faults: {} was killed",
                    component.split("-node").next().unwrap_or(component)
                ));
            }
            2 => {
                let gpu = GpuIndex(chance.below(2) as u32);
                roads.lose(road, gpu);
                self.lasting.push((Instant::now() + LASTS, Lasting::Lost(road, gpu)));
                tally.one("faults: a GPU was away");
            }
            3 => {
                roads.stop(road);
                self.lasting.push((Instant::now() + LASTS, Lasting::Stopped(road)));
                tally.one("faults: an agent stood still");
            }
            4 => {
                roads.restart_scheduler();
                tally.one("faults: the scheduler of parts was killed");
            }
            5 => {
                roads.kill_controller(chance.below(2) as usize);
                tally.one("faults: a controller was killed");
            }
            _ => {
                // One that stands still is another fault.
                if !self.lasting.iter().any(|(_, what)| matches!(what, Lasting::Stopped(one) if *one == road))
                {
                    roads.kill_agent(road);
                    tally.one("faults: an agent was killed");
                }
            }
        }
    }

    /// Ends whatever lasts.
    pub(crate) fn mend(&mut self, roads: &mut Roads<'_>) {
        std::mem::take(&mut self.lasting).into_iter().for_each(|(_, what)| end(roads, what));
    }
}

fn end(roads: &mut Roads<'_>, what: Lasting) {
    match what {
        Lasting::Lost(road, gpu) => roads.find(road, gpu),
        Lasting::Stopped(road) => roads.go_on(road),
    }
}
