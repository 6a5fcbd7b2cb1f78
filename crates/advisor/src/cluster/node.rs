//! A node with GPUs.

use super::text;
use crate::input::Node;
use carve_economics::InstanceType;
use carve_economics::Prices;
use carve_formats::workloads::Quantity;
use carve_gpu_model::products::CATALOGUE;
use carve_gpu_model::{Mebibytes, Product};
use serde_json::Value;

/// A node, and whether a GPU of it is offered several times under its plain name.
pub(super) struct Found {
    pub(super) node: Node,
    pub(super) shared: bool,
}

/// Reads a node; nothing where it has no GPUs.
pub(super) fn node(object: &Value, prices: &Prices) -> Option<Found> {
    let name = text(&object["metadata"]["name"])?;
    let labels = &object["metadata"]["labels"];
    let label = |key: &str| text(&labels[key]);
    let machine = label("node.kubernetes.io/instance-type").or(label("beta.kubernetes.io/instance-type"));
    let listed = machine.and_then(InstanceType::named);
    let named = label("nvidia.com/gpu.product").and_then(product);
    let status = &object["status"];
    let amount = |list: &str, key: &str| -> Option<Quantity> {
        match &status[list][key] {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
    };
    let offered = amount("capacity", "nvidia.com/gpu").and_then(Quantity::whole).unwrap_or(0);
    let replicas: u64 = label("nvidia.com/gpu.replicas").and_then(|text| text.parse().ok()).unwrap_or(1);
    let counted: Option<u64> = label("nvidia.com/gpu.count").and_then(|text| text.parse().ok());
    let gpus = counted
        .or(listed.map(|listed| u64::from(listed.gpus)).filter(|gpus| *gpus > 0))
        .unwrap_or(offered / replicas.max(1));
    let gpus = u8::try_from(gpus).ok().filter(|gpus| *gpus > 0)?;
    let machine = machine.unwrap_or("unknown type");
    let node = Node {
        name: name.to_owned(),
        machine: machine.to_owned(),
        product: named.or(listed.and_then(InstanceType::gpu)),
        gpus,
        cpu_milli: amount("allocatable", "cpu").map_or(0, Quantity::thousandths),
        memory: amount("allocatable", "memory").map_or(Mebibytes(0), Quantity::whole_mebibytes),
        price: prices.of(machine),
        cordoned: object["spec"]["unschedulable"] == true,
    };
    Some(Found { node, shared: replicas > 1 && offered > u64::from(gpus) })
}

/// The product that a label names: `Tesla-T4`, `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`, `Tesla-T4-SHARED`.
fn product(label: &str) -> Option<&'static Product> {
    let plain = |name: &str| name.replace(' ', "-");
    let meant = |name: &str| label == plain(name) || label.starts_with(&format!("{}-", plain(name)));
    let named = |product: &&'static Product| product.boards.iter().any(|board| meant(board.name));
    // Of several the longest name is the one that is meant: an A100 is called as a part of others.
    let longest = |product: &&'static Product| {
        product.boards.iter().filter(|board| meant(board.name)).map(|board| board.name.len()).max()
    };
    CATALOGUE.iter().filter(named).max_by_key(longest)
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn labels_name_products_however_they_are_cut() {
        let key = |label: &str| product(label).map(|product| product.key);
        assert_eq!(key("Tesla-T4"), Some("t4"));
        assert_eq!(key("Tesla-T4-SHARED"), Some("t4"));
        assert_eq!(key("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"), Some("a100-40gb"));
        assert_eq!(key("NVIDIA-A10G"), Some("a10g"));
        assert_eq!(key("GeForce-256"), None);
    }
}
