//! A second stock scheduler with an extender: it asks, and the pod lands.

use carve_cluster_tests::{Cluster, PATIENCE, Pod};

#[test]
fn a_scheduler_asks_its_extender() {
    let Some(cluster) = Cluster::connect() else { return };
    let extender = cluster.background(&[env!("CARGO_BIN_EXE_scheduler_extender"), "18080"], &[]);
    let folder = cluster.scratch(&format!("carve-scheduler-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let config = folder.join("scheduler.yaml");
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {}}}
profiles: [{{schedulerName: extended}}]
extenders:
- urlPrefix: http://127.0.0.1:18080
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1
  nodeCacheCapable: true
",
        cluster.kubeconfig()
    );
    std::fs::write(&config, text).expect("the scheduler's config");
    let config = format!("--config={}", config.display());
    let scheduler = cluster.background(&["kube-scheduler", &config, "--secure-port=0"], &[]);
    let namespace = cluster.namespace("extender");
    let pod = Pod::sleeping(&cluster, "placed").spec("schedulerName", "extended".into());
    namespace.apply(&pod.manifest());
    cluster.until("the pod runs", PATIENCE, || namespace.phase("placed") == "Running");
    assert!(extender.heard().contains("filter \"placed\""), "{}\n{}", extender.heard(), scheduler.heard());
    let _ = std::fs::remove_dir_all(folder);
}
