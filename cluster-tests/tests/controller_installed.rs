//! The controller as it is installed: the shipped manifests, two replicas with the rights that they name and no others, a second scheduler as a
//! Deployment, and a leader that goes.

use carve_cluster_tests::{Cluster, HollowNodes, PATIENCE, documents, stand_ins};
use carve_lab::{Image, Programs};
use serde_json::{Value, json};
use std::path::PathBuf;

const SUITE: &str = "installed";
const SCHEDULER: &str = "localhost/kube-scheduler:1";
/// Address of the Service by which the scheduler reaches the leader.
const EXTENDER: &str = "10.96.200.10";
const MANIFESTS: [&str; 4] = [
    include_str!("../../examples/controller/rbac.yaml"),
    include_str!("../../examples/controller/controller.yaml"),
    include_str!("../../examples/controller/scheduler.yaml"),
    include_str!("../../examples/controller/dashboard.yaml"),
];
/// What switches the dashboard on.
const DASHBOARD: &str = include_str!("../../examples/controller/dashboard-patch.yaml");

/// What was applied; it goes when this is dropped.
struct Installed {
    cluster: Cluster,
    objects: String,
}

/// The Deployment as kubectl patches it, before it is there: replicas that are replaced at once would disturb what is looked at.
fn with_dashboard(cluster: &Cluster, deployment: &Value) -> Value {
    let patch = documents(DASHBOARD).remove(0).to_string();
    let words = ["patch", "--local", "-f", "-", "-p", &patch, "-o", "json"];
    let patched = cluster.try_kubectl(&words, Some(&deployment.to_string()));
    let patched = patched.unwrap_or_else(|error| panic!("{error}"));
    serde_json::from_str(&patched).unwrap_or_else(|error| panic!("{error}: {patched}"))
}

impl Installed {
    fn new(cluster: &Cluster) -> Self {
        cluster.not_leaving("carve");
        let mut all = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "carve"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "carve-dashboard", "namespace": "carve"},
                "stringData": {"token": "long-enough-to-be-one"}}),
        ];
        for mut object in MANIFESTS.iter().flat_map(|text| documents(text)) {
            if object["kind"] == "Deployment" {
                let scheduler = object["metadata"]["name"] == "carve-scheduler";
                let spec = &mut object["spec"]["template"]["spec"];
                spec["containers"][0]["image"] =
                    if scheduler { SCHEDULER.into() } else { cluster.carve_image().into() };
                spec["containers"][0]["imagePullPolicy"] = "Never".into();
                spec["terminationGracePeriodSeconds"] = 1.into();
                // Nodes without kubelets say nothing of their system.
                spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
                // The lab has no name server.
                spec["hostAliases"] = json!([{"ip": EXTENDER, "hostnames": ["carve-extender.carve.svc"]}]);
            }
            if object["kind"] == "Service" && object["metadata"]["name"] == "carve-extender" {
                object["spec"]["clusterIP"] = EXTENDER.into();
            }
            if object["kind"] == "Deployment" && object["metadata"]["name"] == "carve-controller" {
                object = with_dashboard(cluster, &object);
            }
            all.push(object);
        }
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
        let installed = Installed { cluster: cluster.clone(), objects };
        let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&installed.objects));
        applied.unwrap_or_else(|error| panic!("{error}"));
        installed
    }

    fn pods(&self, app: &str) -> Vec<Value> {
        let label = format!("app={app}");
        let all = self.cluster.get(&["pods", "-n", "carve", "-l", &label]);
        all["items"].as_array().cloned().unwrap_or_default()
    }

    fn ready(&self, app: &str) -> usize {
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            pod["metadata"]["deletionTimestamp"].is_null()
                && conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        self.pods(app).iter().filter(is_ready).count()
    }

    /// The replica that says it leads.
    fn leaders(&self) -> Vec<String> {
        let leads = |pod: &&Value| {
            pod["metadata"]["labels"]["carve.dev/leader"] == "true"
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.pods("carve-controller").iter().filter(leads).map(name).collect()
    }

    fn logs(&self) -> String {
        let of = |app: &str| {
            let label = format!("app={app}");
            let words = ["logs", "-n", "carve", "-l", &label, "--tail=60", "--prefix"];
            self.cluster.try_kubectl(&words, None).unwrap_or_else(|error| error)
        };
        format!("{}\n{}", of("carve-controller"), of("carve-scheduler"))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let _ = self.cluster.try_kubectl(&["delete", kind, "carve", "--ignore-not-found"], None);
        }
        let words = ["delete", "-f", "-", "--ignore-not-found", "--wait=false"];
        let _ = self.cluster.try_kubectl(&words, Some(&self.objects));
    }
}

fn pod(name: &str, image: &str) -> Value {
    let mut spec = json!({"containers": [{"name": "main", "image": image,
        "resources": {"limits": {"nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "25"}}}]});
    HollowNodes::allow(&mut spec, SUITE);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// Without agents there is nothing to add up, and that is told; with agents it has the right to ask them, and nobody else.
fn adds_up_books(cluster: &Cluster, installed: &Installed) {
    let leader = installed.leaders().remove(0);
    let asked = |path: &str| {
        let path = format!("/api/v1/namespaces/carve/pods/https:{leader}:8443/proxy{path}");
        cluster.try_kubectl(&["get", "--raw", &path], None)
    };
    let report =
        asked("/api/v1/cost?by=node").unwrap_or_else(|error| panic!("{error}\n{}", installed.logs()));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!((&report["kind"], &report["rows"]), (&"CostReport".into(), &json!([])), "{report:#}");
    let told = asked("/allocation/compute?window=1d&aggregate=namespace").expect("it is answered");
    assert_eq!(serde_json::from_str::<Value>(&told).expect("JSON"), json!({"code": 200, "data": [{}]}));
    let account = "--as=system:serviceaccount:carve:carve-controller";
    // It says yes or no by how it ends.
    for (namespace, may) in [("carve", true), ("default", false)] {
        let words = ["auth", "can-i", "get", "pods", "--subresource=proxy", "-n", namespace, account];
        assert_eq!(cluster.try_kubectl(&words, None).is_ok(), may, "{namespace}");
    }
}

/// The replica that leads shows the page to everybody who may ask the Service, and the picture to who knows the token.
fn shows_the_cluster(cluster: &Cluster, installed: &Installed) {
    let asked = |path: &str| {
        let path = format!("/api/v1/namespaces/carve/services/http:carve-dashboard:dashboard/proxy{path}");
        cluster.try_kubectl(&["get", "--raw", &path], None)
    };
    let page = || asked("/").is_ok_and(|page| page.contains("<html"));
    cluster.until_or("the page is shown", PATIENCE, page, || installed.logs());
    let refusal = asked("/api/v1/picture").expect_err("kubectl knows no token");
    // kubectl has words of its own for an answer of 401.
    assert!(refusal.contains("credentials"), "{refusal}");
    let Some(built) = stand_ins() else { return };
    let carve = built.join("carve").display().to_string();
    let top = format!("{carve} top --once --kubeconfig {} 2>&1", cluster.kubeconfig());
    let told = cluster.on_node(&["sh", "-c", &top]);
    assert!(
        told.contains("installed-0") && told.contains("no agent of carve runs here"),
        "{told}\n{}",
        installed.logs()
    );
    assert!(told.contains("first"), "what was booked is shown: {told}");
}

#[test]
fn the_shipped_manifests_work_with_the_rights_that_they_name() {
    let Some(cluster) = Cluster::connect() else { return };
    let program = cluster.on_node(&["sh", "-c", "readlink -f $(command -v kube-scheduler)"]);
    let program = PathBuf::from(program.trim());
    let image = Image::new(SCHEDULER).program(&program, "/usr/local/bin/kube-scheduler");
    cluster.import(&image.unwrap_or_else(|error| panic!("{}: {error:#}", program.display())));
    let name = format!("{SUITE}-0");
    let _nodes = HollowNodes::new(&cluster, SUITE, std::slice::from_ref(&name));
    let gpus =
        json!({"v": 1, "gpus": [{"uuid": "GPU-installed-0", "product": "Tesla T4", "memory": 15_000}]});
    cluster.kubectl(&["annotate", "node", &name, "--overwrite", &format!("carve.dev/gpus={gpus}")]);
    let sizes = json!({"carve.dev/slice": "16", "carve.dev/memory": "15000", "carve.dev/compute": "100"});
    let patch = json!({"status": {"capacity": sizes, "allocatable": sizes}}).to_string();
    cluster.kubectl(&["patch", "node", &name, "--subresource=status", "--type=merge", "-p", &patch]);

    let installed = Installed::new(&cluster);
    let namespace = cluster.namespace(SUITE);
    let both = || installed.ready("carve-controller") == 2 && installed.ready("carve-scheduler") == 2;
    cluster.until_or("everything is ready", PATIENCE, both, || installed.logs());
    cluster.until_or("one replica leads", PATIENCE, || installed.leaders().len() == 1, || installed.logs());
    let create = |name: &str| {
        let text = pod(name, cluster.probe_image()).to_string();
        cluster.until_or(name, PATIENCE, || namespace.try_apply(&text).is_ok(), || installed.logs());
        let placed =
            || namespace.get(&["pod", name])["metadata"]["annotations"]["carve.dev/slices"].is_string();
        cluster.until_or(&format!("{name} is placed"), PATIENCE, placed, || installed.logs());
    };
    create("first");
    adds_up_books(&cluster, &installed);
    shows_the_cluster(&cluster, &installed);
    // The leader goes, without a chance to say so.
    let first = installed.leaders().remove(0);
    cluster.kubectl(&["delete", "pod", &first, "-n", "carve", "--force", "--grace-period=0"]);
    // It may still place a pod in its last moment, so the second pod comes when another leads.
    let other_leads = || matches!(installed.leaders().as_slice(), [leader] if *leader != first);
    cluster.until_or("another replica leads", PATIENCE, other_leads, || installed.logs());
    create("second");
    let logs = installed.logs();
    assert!(!logs.contains("orbidden") && !logs.contains("certificate signed by unknown"), "{logs}");
}
