//! The layout of every product on the real API server.

use carve_cluster_tests::{Cluster, DeviceOrder, Offered, machine_layout, slice_objects};
use carve_dra::{Sharing, Ways};
use carve_gpu_model::products::CATALOGUE;
use std::collections::BTreeSet;

/// The API server drops fields whose feature is switched off, so what it keeps is compared with what was sent.
#[test]
fn the_api_server_takes_and_keeps_the_layout_of_every_product() {
    let Some(cluster) = Cluster::connect() else { return };
    let offered = Offered::new(&cluster, "every-product.example.com");
    let ways = Ways { shared_mig: BTreeSet::from(Sharing::ALL), ..Ways::default() };
    let mut seen = 0;
    for product in CATALOGUE {
        // Nine GPUs have more counter sets than one slice holds; one product is enough to see that.
        let gpus = if product.key == "h200-141gb" { 9 } else { 1 };
        let machine = format!("{}:{gpus}", product.key);
        let Some(layout) = machine_layout(&machine, &ways, DeviceOrder::Packing) else { continue };
        let sent = slice_objects(offered.driver(), "node0", &layout);
        offered.withdraw();
        offered.publish(&sent);
        let kept = offered.kept();
        assert_eq!(kept.len(), sent.len());
        for slice in &sent {
            let name = slice["metadata"]["name"].to_string();
            assert_eq!(kept.get(&name), Some(&slice["spec"]), "{name}");
        }
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} products could be laid out");
}
