//! Pods that are served by MIG: which GPUs are cut, into what, and which pod gets which device.
//!
//! Pods of several devices choose first, one after another ([`bundles`]), because the planner gives a claim one device. Pods of one
//! device are planned together over all machines by [`carve_planner::plan`] ([`fewest`]). A machine's CPU and memory are not the
//! planner's business: devices whose pods find too little of them are not made, and what is left is planned again on the machines
//! that have some. [`ledger`] writes the result down as a plan that [`carve_planner::check_plan`] can check.

mod bench;
mod bundles;
mod fewest;
mod ledger;
mod singles;

use crate::demand::Served;
use crate::plan::{Draft, Job};
use bench::{Bench, Product};
use carve_gpu_model::ProfileName;
use ledger::Ledger;
pub use ledger::MigCut;
use std::collections::BTreeMap;

/// Counts of each profile, in the order of the table.
type Counts = Vec<u8>;

/// Everything that is decided about MIG, while it is decided.
struct Cutting<'a, 'b> {
    jobs: &'a mut [Job],
    draft: &'a mut Draft<'b>,
    /// For each type of machine its product, where that has MIG and somebody wants devices of it.
    products: Vec<Option<Product>>,
    /// The types of machines, those to be cut first at the front.
    order: &'a [usize],
    /// The machines that may be cut, in that order.
    benches: Vec<Bench>,
    ledger: Ledger,
}

/// Cuts GPUs for pods that are served by MIG and takes what was served off the jobs. Among machines that serve the same pods, those that
/// stand first in `order` are cut first.
pub(crate) fn cut(jobs: &mut [Job], draft: &mut Draft<'_>, order: &[usize]) -> MigCut {
    let wanted = |pool: usize| jobs.iter().any(|job| wants(job, pool).is_some());
    let products: Vec<Option<Product>> = draft
        .pools
        .iter()
        .enumerate()
        .map(|(index, pool)| {
            pool.machine.table.as_ref().filter(|_| wanted(index)).map(|_| Product::of(pool))?
        })
        .collect();
    let mut benches = Vec::new();
    for pool in order {
        let Some(product) = products.get(*pool).and_then(Option::as_ref) else { continue };
        let nodes =
            draft.nodes.iter().zip(&draft.left).enumerate().filter(|(_, (node, _))| node.pool == *pool);
        benches.extend(nodes.map(|(index, (node, left))| Bench::new(index, node, left, product)));
    }
    let ledger = Ledger::new(jobs, &benches);
    let mut cutting = Cutting { jobs, draft, products, order, benches, ledger };
    if !cutting.benches.is_empty() {
        cutting.bundles();
        cutting.singles();
    }
    cutting.finish()
}

/// What a pod of a job wants of MIG on machines of a type: devices of each profile, how many pods use one together.
fn wants(job: &Job, pool: usize) -> Option<(&BTreeMap<ProfileName, u32>, u32)> {
    match job.served.get(pool) {
        Some(Served::Mig { devices, together, .. }) if !job.every_node => Some((devices, *together)),
        _ => None,
    }
}

/// How many MIG devices a pod of a job wants, the same on all machines that serve it so.
fn devices_of(job: &Job) -> u32 {
    let pools = 0..job.served.len();
    pools.filter_map(|pool| wants(job, pool)).map(|(devices, _)| devices.values().sum()).max().unwrap_or(0)
}

impl Cutting<'_, '_> {
    /// Puts what was cut into the draft.
    fn finish(self) -> MigCut {
        let Cutting { jobs, draft, products, benches, ledger, .. } = self;
        for bench in &benches {
            let Some(product) = products.get(bench.pool).and_then(Option::as_ref) else { continue };
            let left = &mut draft.left[bench.node];
            (left.cpu, left.memory) = (bench.cpu, bench.memory);
            left.cut = 0;
            for (gpu, counts) in bench.numbered() {
                left.cut += 1;
                draft.nodes[bench.node].mig[gpu] = Some(product.geometry(counts));
            }
        }
        ledger.close(jobs, draft, &products, &benches)
    }
}
