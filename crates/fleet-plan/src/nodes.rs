//! The machines of a plan: `p4d.24xlarge=1,g5.2xlarge=4` and what each of them has.

use carve_economics::{InstanceType, Rate};
use carve_gpu_host::machine::NvLink;
use carve_gpu_host::{Machine, MachineError};
use carve_gpu_model::{Mebibytes, Product, ProfileTable};
use carve_placement::MOST_GPUS;
use thiserror::Error;

/// More machines than a plan is made for.
const MOST_NODES: u32 = 100_000;

/// A type of machine.
#[derive(Debug, Clone)]
pub struct NodeType {
    /// What it is called.
    pub name: String,
    /// Its GPUs, all alike.
    pub product: &'static Product,
    /// How many.
    pub gpus: u8,
    /// Memory of each.
    pub gpu_memory: Mebibytes,
    /// What MIG can cut each into.
    pub table: Option<ProfileTable>,
    /// NUMA node of each GPU.
    pub numa: Vec<u8>,
    /// NVLink island of each GPU.
    pub islands: Vec<u8>,
    /// Thousandths of CPU cores, where known.
    pub cpu_milli: Option<u64>,
    /// Memory of the machine, where known.
    pub memory: Option<Mebibytes>,
    /// Its entry in the price list.
    pub listed: Option<&'static InstanceType>,
}

impl NodeType {
    /// Price of an hour, where known.
    pub fn price(&self) -> Option<Rate> {
        self.listed.and_then(|listed| listed.price)
    }
}

/// Machines of one type.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The type.
    pub machine: NodeType,
    /// How many.
    pub count: u32,
}

/// Why a list of machines can not be planned with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodesError {
    /// Not `TYPE=COUNT`.
    #[error("'{written}' is not TYPE=COUNT; write for example p4d.24xlarge=1,g5.2xlarge=4")]
    Shape {
        /// What was written.
        written: String,
    },
    /// A count that makes no sense.
    #[error("'{written}' of {name} machines: expected a number from 1 to {MOST_NODES}")]
    Count {
        /// The type.
        name: String,
        /// What was written.
        written: String,
    },
    /// One type twice.
    #[error("{name} is listed twice; add the numbers up")]
    Twice {
        /// The type.
        name: String,
    },
    /// In the price list, but its GPUs are not known.
    #[error(
        "{name} has GPUs that can not be planned with (older than Pascal, or parts of one); choose another type"
    )]
    UnknownGpus {
        /// The type.
        name: String,
    },
    /// Several kinds of GPU, or none, or too many.
    #[error("{name} has {found}; a plan takes machines with 1 to {MOST_GPUS} GPUs of one product")]
    NotAlike {
        /// The type.
        name: String,
        /// What it has.
        found: String,
    },
    /// No such machine.
    #[error("{name}: no such machine")]
    Unknown {
        /// The type.
        name: String,
        /// What the presets say.
        #[source]
        source: MachineError,
    },
}

/// Reads `TYPE=COUNT,…`: types of the price list, presets, or `PRODUCT:COUNT`.
pub fn pools(text: &str) -> Result<Vec<Pool>, NodesError> {
    let mut pools: Vec<Pool> = Vec::new();
    for written in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, count) =
            written.split_once('=').ok_or_else(|| NodesError::Shape { written: written.to_owned() })?;
        let (name, count) = (name.trim(), count.trim());
        let number = count.parse().ok().filter(|number| (1..=MOST_NODES).contains(number));
        let number: u32 =
            number.ok_or_else(|| NodesError::Count { name: name.to_owned(), written: count.to_owned() })?;
        if pools.iter().any(|pool| pool.machine.name == name) {
            return Err(NodesError::Twice { name: name.to_owned() });
        }
        pools.push(Pool { machine: machine(name)?, count: number });
    }
    if pools.is_empty() {
        return Err(NodesError::Shape { written: text.to_owned() });
    }
    Ok(pools)
}

fn machine(name: &str) -> Result<NodeType, NodesError> {
    let listed = InstanceType::named(name);
    let machine = match (Machine::named(name), listed) {
        (Ok(machine), _) => machine,
        (Err(_), Some(listed)) => {
            let product = listed.product.ok_or_else(|| NodesError::UnknownGpus { name: name.to_owned() })?;
            let described = format!("{product}:{}", listed.gpus);
            Machine::named(&described).map_err(|_| NodesError::UnknownGpus { name: name.to_owned() })?
        }
        (Err(source), None) => return Err(NodesError::Unknown { name: name.to_owned(), source }),
    };
    let found = |found: String| NodesError::NotAlike { name: name.to_owned(), found };
    let group = match machine.groups() {
        [group] => group,
        [] => return Err(found("no GPUs".to_owned())),
        groups => return Err(found(format!("{} kinds of GPUs", groups.len()))),
    };
    let gpus = u8::try_from(group.count).ok().filter(|gpus| usize::from(*gpus) <= MOST_GPUS);
    let gpus = gpus.ok_or_else(|| found(format!("{} GPUs", group.count)))?;
    let unknown = || NodesError::UnknownGpus { name: name.to_owned() };
    let product = Product::by_key(&group.product).ok_or_else(unknown)?;
    let gpu_memory = product.memory().ok_or_else(unknown)?.value;
    let last = group.numa_nodes.last().copied().unwrap_or(0);
    let numa = |gpu: u8| group.numa_nodes.get(usize::from(gpu)).copied().unwrap_or(last) as u8;
    let island = |gpu: u8| match group.nvlink {
        NvLink::Switched => 0,
        NvLink::Pairs => gpu / 2,
        NvLink::None => gpu,
    };
    let host = listed.and_then(|listed| listed.host);
    Ok(NodeType {
        name: name.to_owned(),
        product,
        gpus,
        gpu_memory,
        table: product.profile_table(),
        numa: (0..gpus).map(numa).collect(),
        islands: (0..gpus).map(island).collect(),
        cpu_milli: host.map(|host| u64::from(host.cpus) * 1000),
        memory: host.map(|host| host.memory),
        listed,
    })
}

#[cfg(test)]
mod tests {
    use super::pools;

    #[test]
    fn presets_listed_types_and_products() {
        let read = pools("p4d.24xlarge=1, g4dn.xlarge=4,h100-pcie-80gb:2=3").unwrap();
        let shown: Vec<_> = read
            .iter()
            .map(|pool| {
                (pool.count, pool.machine.gpus, pool.machine.product.key, pool.machine.price().is_some())
            })
            .collect();
        assert_eq!(shown, [(1, 8, "a100-40gb", true), (4, 1, "t4", true), (3, 2, "h100-pcie-80gb", false)]);
        assert_eq!(read[0].machine.cpu_milli, Some(96_000));
    }

    #[test]
    fn what_can_not_be_planned_with_is_said() {
        for (text, part) in [
            ("", "TYPE=COUNT"),
            ("p4d.24xlarge", "TYPE=COUNT"),
            ("p4d.24xlarge=0", "from 1"),
            ("p4d.24xlarge=many", "from 1"),
            ("p4d.24xlarge=99999999999", "from 1"),
            ("t4:1=1,t4:1=2", "twice"),
            ("mixed=1", "3 kinds of GPUs"),
            ("none=1", "no GPUs"),
            ("t4:32=1", "32 GPUs"),
            ("p2.xlarge=1", "older than Pascal"),
            ("g6f.large=1", "parts of one"),
            ("banana=1", "no such machine"),
        ] {
            let said = pools(text).unwrap_err().to_string();
            assert!(said.contains(part), "'{part}' in '{said}'");
        }
    }
}
