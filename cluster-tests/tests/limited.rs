//! Fractions with the limiter installed: programs in the pod see their share, get no more, and the node counts what they use.

use carve_cluster_tests::{Ask, Audit, Cluster, GpuNode};
use carve_lab::Image;
use serde_json::Value;
use std::path::{Path, PathBuf};

const IMAGE: &str = "localhost/takes-memory:1";

/// The limiter's library; the tests' own command builds it.
fn library() -> Option<PathBuf> {
    let named = std::env::var_os("CARVE_LIMITER_LIBRARY").map(PathBuf::from);
    let found = named.filter(|path| path.exists());
    if found.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CARVE_LIMITER_LIBRARY must name the limiter");
        eprintln!("skipped: CARVE_LIMITER_LIBRARY does not name the limiter (cargo xtask limiter builds it)");
    }
    found
}

#[test]
fn programs_see_and_get_their_share() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "limited", "h200-141gb:1") else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_takes_memory"));
    let image = Image::new(IMAGE).program(program, "/takes-memory").expect("the program");
    let image = image.program(Path::new("/bin/sleep"), "/bin/sleep").expect("sleep");
    cluster.import(&image);
    let namespace = cluster.namespace("limited");
    let library = library.display().to_string();
    let agent = node.serve_claims(&namespace, &[("CARVE_LIMITER", &library)]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let ask = Ask::of("fraction").share("2Gi", "25");
    for name in ["one", "two"] {
        let text = node.claiming_pod(name, &ask);
        namespace.apply(&text);
    }
    namespace.apply(&node.claiming_pod("cuda", &ask).replace(cluster.looker_image(), IMAGE));
    audit.run(&["one", "two", "cuda"]);

    // NVML and CUDA in the pod show the share, and no more than that is to be had.
    let text = namespace.exec("one", &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(seen["gpus"][0]["memoryMiB"], 2_048, "{seen:#}");
    for _ in 0..2 {
        // Twice: what the first one had is free again when it is dead.
        assert_eq!(namespace.exec("cuda", &["/takes-memory"]).trim(), "2048 2048 0");
    }

    let claim = namespace.get(&["resourceclaim", "cuda"]);
    assert_eq!(claim["status"]["devices"][0]["data"]["enforced"], true, "{claim:#}");
    let uid = claim["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let record = audit.holdings().records.remove(&uid).expect("a record");
    let device = &record.devices[0];
    let (part, share) = (device.part.clone().expect("a part"), device.share.clone().expect("a share"));
    let folder = Path::new("/run/carve/limits").join(&uid);
    let there = cluster.on_node(&["ls", &folder.join("usage").join(&part).display().to_string()]);
    assert_eq!(there.trim(), share);

    audit.delete(&["one", "two", "cuda"]);
    audit.gone(&["one", "two", "cuda"]);
    audit.clean();
    agent.remove();
}
