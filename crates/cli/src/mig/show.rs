//! How a plan looks: old and new slots of every GPU that changes, and what happens to each instance.

use crate::picture::{Drawn, picture};
use carve_gpu_model::{Geometry, Placed, ProfileTable};
use carve_mig_manager::{GpuPlan, Layout, ModeChange, Plan};

/// What a plan comes to, counted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) gpus: usize,
    pub(crate) kept: usize,
    pub(crate) removed: usize,
    pub(crate) created: usize,
}

impl Counts {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut counts = Counts::default();
        for gpu in &plan.gpus {
            counts.gpus += usize::from(!gpu.is_empty());
            counts.kept += gpu.recut.keep.len();
            counts.removed += gpu.recut.destroy.len();
            counts.created += gpu.recut.create.len();
        }
        counts
    }

    /// Steps of a change, for the progress line: each instance, each mode, the check at the end.
    pub(crate) fn steps(plan: &Plan) -> usize {
        let modes = plan.gpus.iter().filter(|gpu| gpu.mode.is_some()).count();
        let counts = Counts::of(plan);
        counts.removed + counts.created + modes + 1
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { gpus, kept, removed, created } = self;
        let plural = if *gpus == 1 { "" } else { "s" };
        write!(f, "{gpus} GPU{plural} (instances: {kept} kept, {removed} removed, {created} created)")
    }
}

/// The plan with a picture for every GPU that changes; GPUs with the same change share one.
pub(crate) fn plan(plan: &Plan) -> String {
    let mut text = String::new();
    let mut shown: Vec<&GpuPlan> = Vec::new();
    for gpu in plan.gpus.iter().filter(|gpu| !gpu.is_empty()) {
        if shown.iter().any(|other| alike(other, gpu)) {
            continue;
        }
        shown.push(gpu);
        let others: Vec<String> =
            plan.gpus.iter().filter(|other| alike(other, gpu)).map(|other| other.gpu.to_string()).collect();
        text.push_str(&format!("GPU {} ({})\n", others.join(", "), gpu.name));
        text.push_str(&describe(gpu));
    }
    let same: Vec<String> =
        plan.gpus.iter().filter(|gpu| gpu.is_empty()).map(|gpu| gpu.gpu.to_string()).collect();
    if !same.is_empty() {
        text.push_str(&format!("GPU {}: already as it should be\n", same.join(", ")));
    }
    if !plan.skipped.is_empty() {
        let skipped: Vec<String> = plan.skipped.iter().map(ToString::to_string).collect();
        text.push_str(&format!("GPU {}: passed over, has no MIG\n", skipped.join(", ")));
    }
    text
}

fn alike(a: &GpuPlan, b: &GpuPlan) -> bool {
    a.name == b.name
        && a.before == b.before
        && a.after == b.after
        && a.mode == b.mode
        && in_use(a) == in_use(b)
}

fn in_use(gpu: &GpuPlan) -> Vec<Placed> {
    gpu.recut.destroy.iter().filter(|instance| instance.in_use()).map(|instance| instance.placed).collect()
}

fn describe(gpu: &GpuPlan) -> String {
    let mut text = String::new();
    match gpu.mode {
        Some(ModeChange::Enable) => text.push_str("  MIG mode: off → on\n"),
        Some(ModeChange::Disable) => text.push_str("  MIG mode: on → off\n"),
        None => {}
    }
    let kept: Vec<Placed> = gpu.recut.keep.iter().map(|kept| kept.placed).collect();
    if !gpu.before.instances.is_empty() {
        let mark = |placed: &Placed| if kept.contains(placed) { "" } else { " −" };
        text.push_str(if gpu.recut.destroy.is_empty() { "  now\n" } else { "  now ( − goes )\n" });
        text.push_str(&picture(&gpu.table, &drawn(&gpu.table, &gpu.before, &mark), "  "));
    }
    if gpu.after.mig_enabled && !gpu.after.instances.is_empty() {
        let mark = |placed: &Placed| if kept.contains(placed) { " =" } else { "" };
        text.push_str(if kept.is_empty() { "  then\n" } else { "  then ( = stays )\n" });
        text.push_str(&picture(&gpu.table, &drawn(&gpu.table, &gpu.after, &mark), "  "));
    }
    let names =
        |placed: &mut dyn Iterator<Item = Placed>| Geometry::of(&gpu.table, &placed.collect::<Vec<_>>());
    let keep = names(&mut kept.iter().copied());
    let remove = names(&mut gpu.recut.destroy.iter().map(|instance| instance.placed));
    let create = names(&mut gpu.recut.create.iter().map(|created| created.placed));
    text.push_str(&format!("  keep {keep}; remove {remove}; create {create}\n"));
    text
}

/// A layout as something to draw.
pub(crate) fn drawn(
    table: &ProfileTable,
    layout: &Layout,
    mark: &dyn Fn(&Placed) -> &'static str,
) -> Vec<Drawn> {
    let draw = |instance: &carve_mig_manager::InstanceLayout| {
        let (profile, known) = table.by_index(instance.profile)?;
        let placed = Placed { profile, start: instance.placement.start };
        let whole = instance.compute == [known.slices];
        let division = (!whole).then(|| match instance.compute.len() {
            0 => "not divided".to_owned(),
            _ => instance.compute.iter().map(|slices| format!("{slices}c")).collect::<Vec<_>>().join(" "),
        });
        Some(Drawn { placed, division, mark: mark(&placed) })
    };
    layout.instances.iter().filter_map(draw).collect()
}
