//! What is done to GPUs, step by step: places are promised at once and made ready one after another.

use super::{Begun, Gpu, Instance, Migs, Place, Step, Todo};
use crate::events::{MigChange, MigStep};
use carve_gpu_model::{ModeSwitch, Placed};
use carve_placement::{Claim, Fleet, NodeIndex, Placer, Spot};

impl Migs {
    /// Promises a place to a pod and begins to make it ready; says on how many GPUs it has to wait for that.
    pub(in crate::events) fn take(&mut self, fleet: &mut Fleet, place: &Place, pod: usize) -> usize {
        let node = place.spot.node;
        for give in &place.gives {
            let Some(state) = self.gpu(node, give.gpu) else { continue };
            let mut steps = Vec::new();
            if !state.aside {
                state.aside = true;
                steps.push(Todo::On);
                fleet.set_aside(node, give.gpu, true);
            }
            let mut steps_for = |state: &mut Gpu, gone: &Placed| {
                let idle = state.instances.iter_mut().find(|other| other.placed == *gone && !other.going);
                if let Some(idle) = idle {
                    idle.going = true;
                    steps.push(Todo::Destroy(*gone));
                }
            };
            give.destroyed.iter().for_each(|gone| steps_for(state, gone));
            let there = state.instances.iter_mut().find(|other| other.placed == give.placed && !other.going);
            match there.filter(|_| give.reused) {
                Some(there) => there.pod = Some(pod),
                None => {
                    state.instances.push(Instance::new(give.placed, pod, false));
                    steps.push(Todo::Make(give.placed));
                }
            }
            steps.into_iter().for_each(|what| self.step(node, give.gpu, Step { what, pod }));
            self.look(node, give.gpu);
        }
        let made = |gpu: &usize| place.gives.iter().any(|give| give.gpu == *gpu && !give.reused);
        let gpus: Vec<usize> = place.spot.gpus.iter().filter(made).collect();
        gpus.into_iter().filter(|gpu| self.wait(node, *gpu, pod)).count()
    }

    /// The same for a pod that has run there since before the beginning: its devices are there.
    pub(in crate::events) fn occupy(&mut self, fleet: &mut Fleet, place: &Place, pod: usize) {
        for give in &place.gives {
            let node = place.spot.node;
            let Some(state) = self.gpu(node, give.gpu) else { continue };
            if !state.aside {
                (state.aside, state.on) = (true, true);
                fleet.set_aside(node, give.gpu, true);
            }
            state.instances.push(Instance::new(give.placed, pod, true));
            self.look(node, give.gpu);
        }
    }

    /// A pod has been promised something on a GPU; whether it has to wait for changes there.
    pub(in crate::events) fn wait(&mut self, node: NodeIndex, gpu: usize, pod: usize) -> bool {
        let Some(state) = self.gpu(node, gpu).filter(|state| !state.steps.is_empty()) else { return false };
        state.steps.push_back(Step { what: Todo::Ready, pod });
        true
    }

    /// Gives GPUs that MIG does not need back to a claim that fits nowhere else: on the node where the fewest are needed. Says where the
    /// claim fits then; it has to wait for them.
    pub(in crate::events) fn give_back(
        &mut self,
        fleet: &mut Fleet,
        placer: &Placer,
        claim: &Claim,
        pod: usize,
    ) -> Option<Spot> {
        if claim.gpus == 0 {
            return None;
        }
        let mut best: Option<(NodeIndex, Vec<usize>)> = None;
        for node in fleet.nodes().filter(|node| fleet.is_in_use(*node)) {
            let Some(own) = self.nodes.get(node.0 as usize).and_then(Option::as_ref) else { continue };
            let mut idle: Vec<usize> = (0..own.gpus.len()).filter(|gpu| own.gpus[*gpu].is_idle()).collect();
            idle.sort_by_key(|gpu| own.gpus[*gpu].instances.len());
            let shape = fleet.shape(node);
            let mut room = *fleet.room(node);
            let enough = (1..=idle.len()).find(|count| {
                room = room.with_whole(idle[count - 1], shape);
                shape.fits(&room, claim).is_ok()
            });
            let Some(count) = enough else { continue };
            if best.as_ref().is_none_or(|(_, least)| count < least.len()) {
                idle.truncate(count);
                best = Some((node, idle));
            }
        }
        let (node, gpus) = best?;
        for gpu in gpus {
            fleet.set_aside(node, gpu, false);
            let Some(state) = self.gpu(node, gpu) else { continue };
            state.aside = false;
            state.instances.iter_mut().for_each(|instance| instance.going = true);
            let gone: Vec<Todo> =
                state.instances.iter().map(|instance| Todo::Destroy(instance.placed)).collect();
            gone.into_iter().chain([Todo::Off]).for_each(|what| self.step(node, gpu, Step { what, pod }));
            self.look(node, gpu);
        }
        Some(Spot { node, gpus: placer.score(fleet, node, claim).gpus })
    }

    /// Steps that have begun since this was last asked.
    pub(in crate::events) fn begun(&mut self) -> Vec<Begun> {
        std::mem::take(&mut self.begun)
    }

    /// The step of a GPU that has begun is done. Says what it was, and which pods need not wait for this GPU any more; nothing, if the
    /// step was lost with its node.
    pub(in crate::events) fn done(&mut self, begun: Begun) -> Option<(MigStep, Vec<usize>)> {
        let Begun { node, gpu, lives, takes_ms: took_ms } = begun;
        self.nodes.get(node.0 as usize)?.as_ref().filter(|own| own.lives == lives)?;
        let state = self.gpu(node, usize::from(gpu))?;
        let Step { what, pod } = state.steps.pop_front()?;
        let change = match what {
            Todo::On => {
                state.on = true;
                MigChange::On
            }
            Todo::Off => {
                state.on = false;
                MigChange::Off
            }
            Todo::Make(placed) => {
                let made = state.instances.iter_mut().find(|other| other.placed == placed && !other.made);
                if let Some(made) = made {
                    made.made = true;
                }
                MigChange::Made(placed)
            }
            Todo::Destroy(placed) => {
                state.instances.retain(|other| other.placed != placed || !other.going);
                MigChange::Destroyed(placed)
            }
            // Nobody waits for this: it is taken away with the step before it.
            Todo::Ready => return None,
        };
        let mut ready = Vec::new();
        while let Some(next) = state.steps.pop_front_if(|next| next.what == Todo::Ready) {
            ready.push(next.pod);
        }
        if let Some(next) = state.steps.front().copied() {
            self.begin(node, usize::from(gpu), next);
        }
        Some((MigStep { node, gpu, pod, change, took_ms }, ready))
    }

    fn step(&mut self, node: NodeIndex, gpu: usize, step: Step) {
        let Some(state) = self.gpu(node, gpu) else { return };
        state.steps.push_back(step);
        if state.steps.len() == 1 {
            self.begin(node, gpu, step);
        }
    }

    fn begin(&mut self, node: NodeIndex, gpu: usize, step: Step) {
        let Some(own) = self.nodes.get(node.0 as usize).and_then(Option::as_ref) else { return };
        let takes_ms = match step.what {
            Todo::On | Todo::Off => match self.products.kinds[own.kind.0].switch {
                ModeSwitch::NeedsReset => self.times.reset_ms,
                ModeSwitch::Immediate => self.times.mode_ms,
            },
            Todo::Make(_) => self.times.create_ms,
            Todo::Destroy(_) => self.times.destroy_ms,
            Todo::Ready => 0,
        };
        self.begun.push(Begun { node, gpu: gpu as u8, lives: own.lives, takes_ms });
    }
}
