//! Random hosts: several products, instances in use and idle ones, GPUs without MIG mode, claims of all sorts.

use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, Mebibytes, Placed, Product, ProfileTable};
use carve_planner::{
    ClaimName, Demand, FleetGpu, GpuAt, HostName, MigMode, PendingClaim, PoolName, PresentCompute,
    PresentInstance, RunningClaim, Substitution, Wants,
};
use proptest::prelude::{Strategy, any, prop};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

pub(crate) const PRODUCTS: [&str; 5] =
    ["a100-40gb", "h100-sxm-80gb", "h200-141gb", "a30-24gb", "rtx-pro-6000-96gb"];

/// A host and what is asked of it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) gpus: Vec<FleetGpu>,
    pub(crate) demand: Demand,
}

/// The table of a product and all its legal states.
pub(crate) fn states(product: &str) -> (&'static Arc<ProfileTable>, &'static [Vec<Placed>]) {
    type Known = BTreeMap<&'static str, (Arc<ProfileTable>, Vec<Vec<Placed>>)>;
    static KNOWN: OnceLock<Known> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let of = |key: &'static str| {
            let table = Product::by_key(key).and_then(Product::profile_table).unwrap();
            let mut states = Vec::new();
            table.visit_states(|state| states.push(state.to_vec()));
            (key, (Arc::new(table), states))
        };
        PRODUCTS.into_iter().map(of).collect()
    });
    let (table, states) = &known[product];
    (table, states)
}

pub(crate) fn at(gpu: usize) -> GpuAt {
    GpuAt { host: HostName("host".to_owned()), gpu: GpuIndex(gpu as u32) }
}

pub(crate) fn instance(table: &ProfileTable, id: usize, placed: Placed, in_use: bool) -> PresentInstance {
    let slices = table.get(placed.profile).unwrap().slices;
    PresentInstance {
        id: GpuInstanceId(id as u32),
        placed,
        compute: vec![PresentCompute { id: ComputeInstanceId(0), slices, in_use }],
    }
}

pub(crate) fn pending(number: usize, wants: Wants) -> PendingClaim {
    PendingClaim { name: ClaimName(format!("claim-{number:03}")), wants }
}

/// Hosts with so many GPUs and up to so many claims for up to four profiles.
pub(crate) fn case(gpus: RangeInclusive<usize>, claims: usize) -> impl Strategy<Value = Case> {
    let gpu = (any::<prop::sample::Index>(), any::<u32>(), 0..20u8, 0..10u8);
    (
        prop::sample::select(vec![0, 0, 1, 2, 3, 4]),
        prop::collection::vec(gpu, gpus),
        prop::collection::vec((0..4usize, 0..12u8), 0..=claims),
        prop::collection::vec(any::<prop::sample::Index>(), 4),
        0..3u8,
    )
        .prop_map(|(product, gpus, claims, wanted, substitution)| {
            let mut demand = Demand::default();
            if substitution == 0 {
                demand.substitution = Substitution::Larger;
            }
            let (table, _) = states(PRODUCTS[product]);
            let fleet = gpus.iter().enumerate().map(|(number, (state, bits, mode, other))| {
                // Now and then a host has two products.
                let product = if *other == 0 { (product + 1) % PRODUCTS.len() } else { product };
                build_gpu(number, PRODUCTS[product], state, *bits, *mode, &mut demand)
            });
            let gpus: Vec<FleetGpu> = fleet.collect();
            for (number, (which, sort)) in claims.into_iter().enumerate() {
                let profile = wanted[which].get(table.profiles());
                let memory = profile.memory.map_or(Mebibytes(4000), |memory| memory.value);
                let wants = match sort {
                    0 => Wants::AtLeast { memory, slices: 1 },
                    1 => Wants::AtLeast { memory: Mebibytes(1), slices: profile.slices },
                    2 => Wants::InPools([(PoolName::default(), profile.name.clone())].into()),
                    3 => Wants::InPools([(PoolName("elsewhere".into()), profile.name.clone())].into()),
                    _ => Wants::Profile(profile.name.clone()),
                };
                demand.pending.push(pending(number, wants));
            }
            Case { gpus, demand }
        })
}

/// One GPU: an arbitrary legal state, of which half is in use; now and then empty, without MIG mode, or in use as a whole.
fn build_gpu(
    number: usize,
    product: &'static str,
    state: &prop::sample::Index,
    bits: u32,
    mode: u8,
    demand: &mut Demand,
) -> FleetGpu {
    let (table, states) = states(product);
    let at = at(number);
    let mode = match mode {
        0 => MigMode::OffAndInUse,
        1 | 2 => MigMode::Off,
        _ => MigMode::On,
    };
    let state: &[Placed] =
        if mode == MigMode::On && !bits.is_multiple_of(4) { state.get(states).as_slice() } else { &[] };
    let mut instances = Vec::new();
    for (id, placed) in state.iter().enumerate() {
        // Two bits each: idle, idle, in use, or held by a claim without a process in it.
        let sort = bits >> (2 + 2 * id) & 3;
        instances.push(instance(table, id, *placed, sort == 2));
        if sort == 3 {
            let name = ClaimName(format!("running-{number}-{id}"));
            demand.running.push(RunningClaim { name, on: at.clone(), instance: GpuInstanceId(id as u32) });
        }
    }
    FleetGpu { at, pool: PoolName::default(), table: table.clone(), mode, instances }
}

/// Whether a profile serves a claim, said once more for the tests.
pub(crate) fn serves(
    table: &ProfileTable,
    profile: usize,
    wants: &Wants,
    substitution: Substitution,
) -> bool {
    let has = &table.profiles()[profile];
    let name = match wants {
        Wants::Profile(name) => Some(name),
        // Random cases put every GPU into the pool without a name.
        Wants::InPools(names) => names.get(&PoolName::default()),
        Wants::AtLeast { .. } => None,
    };
    match (wants, name) {
        (Wants::AtLeast { memory, slices }, _) => {
            has.slices >= *slices && has.memory.is_some_and(|known| known.value >= *memory)
        }
        (_, None) => false,
        (_, Some(name)) => table.profiles().iter().any(|asked| {
            let more = has.slices >= asked.slices
                && has.size() >= asked.size()
                && has.engines.copy >= asked.engines.copy
                && has.engines.decoder >= asked.engines.decoder
                && has.engines.encoder >= asked.engines.encoder
                && has.engines.jpeg >= asked.engines.jpeg
                && has.engines.ofa >= asked.engines.ofa
                && (has.name.to_string().contains("+gfx") || !asked.name.to_string().contains("+gfx"));
            asked.name == *name && (has.name == *name || substitution == Substitution::Larger && more)
        }),
    }
}

/// Instances of a GPU that stay, and those that nobody uses.
pub(crate) fn pinned_and_idle(gpu: &FleetGpu, demand: &Demand) -> (Vec<Placed>, Vec<Placed>) {
    let held = |instance: &&PresentInstance| {
        instance.compute.iter().any(|part| part.in_use)
            || demand.running.iter().any(|claim| claim.on == gpu.at && claim.instance == instance.id)
    };
    let (pinned, idle): (Vec<_>, Vec<_>) = gpu.instances.iter().partition(held);
    let places =
        |instances: Vec<&PresentInstance>| instances.iter().map(|instance| instance.placed).collect();
    (places(pinned), places(idle))
}

/// The most claims that instances can serve, each one claim, by augmenting paths; `edges[instance]` lists the claims it could serve.
pub(crate) fn matching(edges: &[&[usize]], claims: usize) -> usize {
    fn augment(instance: usize, edges: &[&[usize]], owner: &mut [Option<usize>], seen: &mut [bool]) -> bool {
        edges[instance].iter().any(|claim| {
            if std::mem::replace(&mut seen[*claim], true) {
                return false;
            }
            let free = owner[*claim].is_none_or(|other| augment(other, edges, owner, seen));
            if free {
                owner[*claim] = Some(instance);
            }
            free
        })
    }
    let mut owner = vec![None; claims];
    (0..edges.len())
        .filter(|instance| augment(*instance, edges, &mut owner, &mut vec![false; claims]))
        .count()
}
