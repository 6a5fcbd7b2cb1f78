//! The command lines of everything that runs in the lab.

use crate::audit;
use crate::lab::Node;
use std::path::Path;

/// A component: its name, which is also that of its log, and its command line.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

fn component(name: &str, program: &str, arguments: Vec<String>) -> Component {
    Component { name: name.to_owned(), program: program.to_owned(), arguments }
}

/// What every component of Kubernetes is told beside its own words.
fn with_gates(folder: &Path, name: &str, program: &str, mut arguments: Vec<String>) -> Component {
    let gates = std::fs::read_to_string(folder.join("feature-gates")).unwrap_or_default();
    if !gates.is_empty() {
        arguments.push(format!("--feature-gates={gates}"));
    }
    component(name, program, arguments)
}

pub(crate) fn etcd(folder: &Path) -> Component {
    let arguments = vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        "--listen-client-urls=http://127.0.0.1:2379".to_owned(),
        "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
        "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
        // A lab that loses its power is thrown away.
        "--unsafe-no-fsync".to_owned(),
    ];
    component("etcd", "etcd", arguments)
}

pub(crate) fn apiserver(folder: &Path, address: &str) -> Component {
    let pki = folder.join("pki");
    let pki = pki.display();
    let mut arguments = vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--advertise-address={address}"),
        // Its own service address and no other: the port of every other one belongs to a Service.
        "--bind-address=10.96.0.1".to_owned(),
        "--secure-port=443".to_owned(),
        format!("--cert-dir={pki}"),
        format!("--token-auth-file={pki}/tokens.csv"),
        "--authorization-mode=Node,RBAC".to_owned(),
        format!("--service-account-key-file={pki}/service-account.pub"),
        format!("--service-account-signing-key-file={pki}/service-account.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
    ];
    arguments.extend(audit::arguments(folder));
    with_gates(folder, "kube-apiserver", "kube-apiserver", arguments)
}

pub(crate) fn controller_manager(folder: &Path) -> Component {
    let home = folder.display();
    let arguments = vec![
        format!("--kubeconfig={home}/controller-manager.kubeconfig"),
        format!("--service-account-private-key-file={home}/pki/service-account.key"),
        // Without credentials of their own the controllers may not take the not-ready taint away.
        "--use-service-account-credentials=true".to_owned(),
        format!("--root-ca-file={home}/pki/apiserver.crt"),
        "--leader-elect=false".to_owned(),
        // The usual 20 requests a second would be most of the time of a test with hundreds of pods.
        "--kube-api-qps=300".to_owned(),
        "--kube-api-burst=600".to_owned(),
    ];
    with_gates(folder, "kube-controller-manager", "kube-controller-manager", arguments)
}

pub(crate) fn scheduler(folder: &Path) -> Component {
    let kubeconfig = format!("--kubeconfig={}/scheduler.kubeconfig", folder.display());
    let fast = ["--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000"].map(str::to_owned);
    with_gates(folder, "kube-scheduler", "kube-scheduler", [vec![kubeconfig], fast.to_vec()].concat())
}

pub(crate) fn containerd(folder: &Path, node: &Node) -> Component {
    let config = node.folder(folder).join("containerd.toml");
    component(
        &format!("containerd-{}", node.name),
        "containerd",
        vec![format!("--config={}", config.display())],
    )
}

pub(crate) fn kubelet(folder: &Path, node: &Node) -> Component {
    let arguments = vec![
        format!("--config={}", node.folder(folder).join("kubelet.yaml").display()),
        format!("--kubeconfig={}/{}.kubeconfig", folder.display(), node.name),
        format!("--hostname-override={}", node.name),
        format!("--node-ip={}", node.address),
    ];
    with_gates(folder, &format!("kubelet-{}", node.name), "kubelet", arguments)
}

/// Our own router of Services, which is this very program under another name.
pub(crate) fn services(folder: &Path, program: &Path) -> Component {
    let arguments = vec!["lab-services".to_owned(), folder.display().to_string()];
    component("services", &program.display().to_string(), arguments)
}

/// One more node, in namespaces of its own.
pub(crate) fn node(folder: &Path, program: &Path, number: usize) -> Component {
    let (program, folder) = (program.display().to_string(), folder.display().to_string());
    let words =
        ["--mount", "--net", "--propagation", "private", &program, "lab-node", &folder, &number.to_string()];
    component(&format!("node{number}"), "unshare", words.map(str::to_owned).to_vec())
}

/// Nodes without kubelets.
pub(crate) fn fleet(folder: &Path, program: &Path, nodes: &str) -> Component {
    let words = ["lab-fleet", &folder.display().to_string(), nodes].map(str::to_owned);
    component("fleet", &program.display().to_string(), words.to_vec())
}
