//! What a node of a pool advertises once its GPUs are cut: the promise that Karpenter relies on before there is a node.

use crate::{Cut, MigCut, Refusal};
use carve_admission::keys;
use carve_gpu_model::{Geometry, Mebibytes, Product, ProfileName, ProfileTable};
use carve_planner::{feasible, wanted};
use carve_slicing::MOST_REPLICAS;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A GPU, or a share of one that kept the name.
pub const GPU: &str = "nvidia.com/gpu";
/// A share of a GPU under a name of its own.
pub const GPU_SHARED: &str = "nvidia.com/gpu.shared";

/// Drivers keep a part of a GPU's memory for themselves (615 MiB of 143,771 on an H200), and how much is known only on the node. A promise
/// must not be larger than what comes, or pods for which Karpenter brought a machine would not fit on it.
fn kept_by_driver(memory: Mebibytes) -> u64 {
    (memory.0 / 128).max(1024)
}

/// Resources of a node by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    resources: BTreeMap<String, u64>,
    /// Of these the node may have more.
    at_least: BTreeSet<String>,
}

/// A resource of which a node does not have what was promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub resource: String,
    /// What was promised.
    pub promised: u64,
    /// What the node advertises.
    pub advertised: u64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} promised, {} advertised", self.resource, self.promised, self.advertised)
    }
}

impl Promise {
    /// What the node must advertise. What is not named it must not have.
    pub fn resources(&self) -> &BTreeMap<String, u64> {
        &self.resources
    }

    /// What Karpenter is told: the same, and that there are no whole GPUs where the node has none by that name. Without the zero
    /// it would count the GPUs that the cloud lists beside the parts into which they are cut.
    pub fn capacity(&self) -> BTreeMap<String, u64> {
        let mut capacity = self.resources.clone();
        capacity.entry(GPU.to_owned()).or_insert(0);
        capacity
    }

    /// Where a node does not keep the promise.
    pub fn broken_by(&self, advertised: &BTreeMap<String, u64>) -> Vec<Broken> {
        let broken = |(resource, promised): (&String, &u64)| {
            let has = advertised.get(resource).copied().unwrap_or(0);
            let kept = if self.at_least.contains(resource) { has >= *promised } else { has == *promised };
            let broken = Broken { resource: resource.clone(), promised: *promised, advertised: has };
            (!kept).then_some(broken)
        };
        self.capacity().iter().filter_map(broken).collect()
    }

    /// What the node has so much of and not more.
    pub(crate) fn exact(&self) -> impl Iterator<Item = (&String, u64)> {
        let exact = self.resources.iter().filter(|(name, _)| !self.at_least.contains(*name));
        exact.map(|(name, amount)| (name, *amount))
    }

    fn exactly(resources: impl IntoIterator<Item = (String, u64)>) -> Self {
        Promise { resources: resources.into_iter().collect(), at_least: BTreeSet::new() }
    }
}

/// What a node with so many GPUs of a product advertises under a cut.
pub fn predicted(product: &Product, gpus: u8, cut: &Cut) -> Result<Promise, Refusal> {
    let gpus = u64::from(gpus);
    match cut {
        Cut::Shared { replicas, renamed } => {
            check_replicas(*replicas)?;
            let name = if *renamed { GPU_SHARED } else { GPU };
            Ok(Promise::exactly([(name.to_owned(), gpus * u64::from(*replicas))]))
        }
        Cut::Mig(cut) => {
            let each = instances(product, cut)?;
            let resource = |(name, count): (&ProfileName, u32)| (mig_resource(name), gpus * u64::from(count));
            Ok(Promise::exactly(each.iter().map(resource)))
        }
        Cut::Parts => parts(product, gpus),
    }
}

fn check_replicas(replicas: u32) -> Result<(), Refusal> {
    if replicas < 2 {
        let reason = format!("a GPU of which there are {replicas} shares is not shared");
        return Err(Refusal::new("cut.replicas", reason, "write 2 or more, or use a NodePool without carve"));
    }
    if u64::from(replicas) > MOST_REPLICAS {
        let reason = format!("{replicas} shares of a GPU are more than kubelet can be told of");
        return Err(Refusal::new("cut.replicas", reason, format!("write at most {MOST_REPLICAS}")));
    }
    Ok(())
}

fn mig_resource(profile: &ProfileName) -> String {
    format!("nvidia.com/mig-{}", profile.resource_form())
}

/// What carve's scheduler counts of GPUs that are given out in parts.
fn parts(product: &Product, gpus: u64) -> Result<Promise, Refusal> {
    let memory = product.memory().ok_or_else(|| {
        let reason = format!("the memory of {} is not known", product.name());
        Refusal::new("models", reason, "cut it in another way, or choose a model whose memory is known")
    })?;
    let tokens = u64::try_from(carve_bookings::TOKENS_FOR_EACH_GPU).unwrap_or(0);
    let mut promise = Promise::exactly([
        (keys::SLICE.to_owned(), gpus * tokens),
        (keys::COMPUTE.to_owned(), gpus * 100),
        (keys::MEMORY.to_owned(), gpus * memory.value.0.saturating_sub(kept_by_driver(memory.value))),
    ]);
    promise.at_least.insert(keys::MEMORY.to_owned());
    Ok(promise)
}

/// What MIG makes of one GPU.
fn instances(product: &Product, cut: &MigCut) -> Result<Geometry, Refusal> {
    let Some(table) = product.profile_table() else {
        let reason = if product.is_mig_capable() {
            format!("what MIG makes of {} only its driver knows", product.name())
        } else {
            format!("{} can not be cut by MIG", product.name())
        };
        return Err(Refusal::new("models", reason, "share it by replicas, or choose a model such as h100"));
    };
    match cut {
        MigCut::All(profile) => {
            let most = most(&table, product, profile)?;
            Ok(Geometry::from_iter([(profile.clone(), most)]))
        }
        MigCut::Mixed(geometry) => {
            if geometry.is_empty() {
                let reason = "it asks for no instance";
                return Err(Refusal::new(
                    "cut.mixed",
                    reason,
                    "name profiles with counts: 3g.40gb=1,1g.10gb=4",
                ));
            }
            for (profile, _) in geometry.iter() {
                most(&table, product, profile)?;
            }
            check_together(&table, product, geometry)?;
            Ok(geometry.clone())
        }
    }
}

/// How many instances of a profile an empty GPU holds.
fn most(table: &ProfileTable, product: &Product, profile: &ProfileName) -> Result<u32, Refusal> {
    let field = "cut.profile";
    if !profile.is_whole() {
        let reason = format!("{profile} is a part of a GPU instance, for which there is no resource name");
        return Err(Refusal::new(field, reason, format!("write {}", profile.gpu_instance())));
    }
    let (_, known) = table.by_name(profile).map_err(|unknown| {
        let names: Vec<String> = table.profiles().iter().map(|known| known.name.to_string()).collect();
        let reason = format!("{} has no profile {profile}", product.name());
        let remedy = match unknown.nearest {
            Some(nearest) => format!("write {nearest}; it has {}", names.join(", ")),
            None => format!("it has {}", names.join(", ")),
        };
        Refusal::new(field, reason, remedy)
    })?;
    let fits = |count: &u32| {
        let geometry = Geometry::from_iter([(profile.clone(), *count)]);
        check_together(table, product, &geometry).is_ok()
    };
    (1..=u32::from(known.max_instances)).rev().find(fits).ok_or_else(|| {
        let reason = format!("no place for a {profile} is known on {}", product.name());
        Refusal::new(field, reason, "choose another profile")
    })
}

fn check_together(table: &ProfileTable, product: &Product, geometry: &Geometry) -> Result<(), Refusal> {
    let field = "cut.mixed";
    let counts = geometry.iter().map(|(name, count)| (name, u64::from(count)));
    let wanted = wanted(table, counts).map_err(|error| {
        let remedy = format!("`carve mig profiles` shows what {} holds", product.name());
        Refusal::new(field, format!("on {}: {error}", product.name()), remedy)
    })?;
    feasible(table, &wanted).map(|_| ()).map_err(|error| {
        let remedy = format!("the most of it that fits is {}", error.nearest);
        Refusal::new(field, format!("on {}: {error}", product.name()), remedy)
    })
}
