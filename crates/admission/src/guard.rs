//! Whoever tries to get around the limits: what a pod has that would let it, and what becomes of it.

use crate::Road;
use crate::claims::PodClaims;
use crate::guarded_env::widens;
use crate::guarded_paths::{guarded_host, guarded_mount};
use crate::keys;
use crate::policy::{Conduct, Policy};
use crate::reading::{LISTS, containers, containers_mut};
use crate::refusal::Refusal;
use serde_json::{Value, json};

/// Capabilities with which a container can undo what holds it, or reach GPUs that it was not given.
const CAPABILITIES: [&str; 4] = ["ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO"];

/// What was found in a pod that is ours.
#[derive(Debug, Default)]
pub(crate) struct Guarded {
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) warnings: Vec<String>,
}

impl Guarded {
    /// Files a finding; whether it is to be taken out.
    fn file(&mut self, conduct: Conduct, refusal: Refusal, done: &str) -> bool {
        match conduct {
            Conduct::Allow => false,
            Conduct::Refuse => {
                self.refusals.push(refusal);
                false
            }
            Conduct::Neutralise => {
                self.warnings.push(format!("{}: {}; {done}", refusal.field, refusal.reason));
                true
            }
        }
    }
}

/// Looks at a pod that is ours, and takes out what the policy says.
pub(crate) fn guard(pod: &mut Value, claims: &PodClaims, policy: &Policy, road: Road) -> Guarded {
    let mut found = Guarded::default();
    node_name(pod, policy, &mut found);
    scheduler_name(pod, policy, road, &mut found);
    host_namespaces(pod, policy, &mut found);
    volumes(pod, policy, &mut found);
    of_containers(pod, claims, policy, &mut found);
    found
}

/// Looks at what containers are allowed to do and have in their environment; also for containers that come later.
pub(crate) fn of_containers(pod: &mut Value, claims: &PodClaims, policy: &Policy, found: &mut Guarded) {
    privileges(pod, policy, found);
    environment(pod, claims, policy, found);
    mounts(pod, policy, found);
}

fn node_name(pod: &mut Value, policy: &Policy, found: &mut Guarded) {
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned)
    else {
        return;
    };
    let refusal = Refusal::new(
        "spec.nodeName",
        "a pod that names its node goes past every scheduler, and nobody books its part of a GPU",
        format!("write spec.nodeSelector: {{kubernetes.io/hostname: {node}}}"),
    );
    if found.file(policy.node_name, refusal, "it is an affinity to that node now") {
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("nodeName");
        }
        to_node(pod, &node);
    }
}

/// Binds a pod to a node by affinity, as the controller of DaemonSets does.
fn to_node(pod: &mut Value, node: &str) {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let mut place = &mut pod["spec"];
    for key in ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"] {
        if !place[key].is_object() {
            place[key] = json!({});
        }
        place = &mut place[key];
    }
    let terms = &mut place["nodeSelectorTerms"];
    match terms.as_array_mut().filter(|terms| !terms.is_empty()) {
        // One of the terms is enough for a node, so each needs it.
        Some(terms) => {
            for term in terms.iter_mut().filter_map(Value::as_object_mut) {
                let fields = term.entry("matchFields").or_insert_with(|| json!([]));
                if let Some(fields) = fields.as_array_mut() {
                    fields.push(field.clone());
                }
            }
        }
        None => *terms = json!([{"matchFields": [field]}]),
    }
}

fn scheduler_name(pod: &mut Value, policy: &Policy, road: Road, found: &mut Guarded) {
    let ours = road.scheduler();
    let named = pod["spec"]["schedulerName"].as_str().unwrap_or_default().to_owned();
    // What pods have that name none, and what they have from the other road.
    let nobodys = ["", keys::DEFAULT_SCHEDULER, keys::SCHEDULER].contains(&named.as_str());
    let replace = if nobodys {
        named != ours && (road == Road::Scheduler || named == keys::SCHEDULER)
    } else {
        let refusal = Refusal::new(
            "spec.schedulerName",
            format!("'{named}' does not know what is taken of the GPUs"),
            "leave schedulerName out",
        );
        found.file(policy.scheduler_name, refusal, &format!("it is {ours} now"))
    };
    if replace {
        pod["spec"]["schedulerName"] = json!(ours);
    }
}

fn host_namespaces(pod: &mut Value, policy: &Policy, found: &mut Guarded) {
    let reasons = [
        (
            "hostPID",
            "with the processes of the host in sight, those of other parts can be reached",
            "leave hostPID out; a container sees the processes of its own pod with shareProcessNamespace: true",
        ),
        (
            "hostIPC",
            "shared memory of the host holds that of other parts and of MPS daemons",
            "leave hostIPC out; for more shared memory mount an emptyDir of medium: Memory at /dev/shm",
        ),
    ];
    for (key, reason, example) in reasons {
        if pod["spec"][key] != json!(true) {
            continue;
        }
        let refusal = Refusal::new(format!("spec.{key}"), reason, example);
        if found.file(policy.host_namespaces, refusal, "it is off now") {
            pod["spec"][key] = json!(false);
        }
    }
}

fn volumes(pod: &Value, policy: &Policy, found: &mut Guarded) {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    for (index, volume) in volumes.enumerate() {
        let Some(path) = volume["hostPath"]["path"].as_str() else { continue };
        let Some(folder) = guarded_host(path) else { continue };
        let refusal = Refusal::new(
            format!("spec.volumes[{index}].hostPath.path"),
            format!("'{}' reaches {folder} of the node, from which GPUs are given out and held", cut(path)),
            match folder {
                "/run/nvidia" | "/tmp/nvidia-mps" => {
                    "leave the volume out; a container whose part is held by MPS finds its daemon without it"
                }
                _ => "mount a folder of your own, such as /var/lib/NAME, or use a PersistentVolumeClaim",
            },
        );
        found.file(policy.host_path, refusal, "");
    }
}

fn mounts(pod: &Value, policy: &Policy, found: &mut Guarded) {
    for (at, container) in containers(pod) {
        for list in ["volumeMounts", "volumeDevices"] {
            let key = if list == "volumeMounts" { "mountPath" } else { "devicePath" };
            for (index, mount) in container[list].as_array().into_iter().flatten().enumerate() {
                let Some(path) = mount[key].as_str().filter(|path| guarded_mount(path)) else { continue };
                let refusal = Refusal::new(
                    format!("{at}.{list}[{index}].{key}"),
                    format!("'{}' is where a container finds what holds it to its part of a GPU", cut(path)),
                    "mount the volume somewhere else, such as /data",
                );
                found.file(policy.host_path, refusal, "");
            }
        }
    }
}

fn privileges(pod: &mut Value, policy: &Policy, found: &mut Guarded) {
    let mut take_out = false;
    for (at, container) in containers(pod) {
        let context = &container["securityContext"];
        if context["privileged"] == json!(true) {
            let refusal = Refusal::new(
                format!("{at}.securityContext.privileged"),
                "a privileged container has all GPUs of its node, and nothing holds it to a part",
                "leave privileged out, or ask for the machine as a whole without parts of GPUs",
            );
            take_out |= found.file(policy.privileged, refusal, "it is off now");
        }
        for (index, name) in added(context).enumerate().filter(|(_, name)| is_too_much(name)) {
            let refusal = Refusal::new(
                format!("{at}.securityContext.capabilities.add[{index}]"),
                format!("with {} a container can take away what holds it to its part of a GPU", cut(name)),
                "leave it out; profilers of CUDA need none of ALL, SYS_ADMIN, SYS_MODULE and SYS_RAWIO on current drivers",
            );
            take_out |= found.file(policy.privileged, refusal, "it is taken out");
        }
    }
    if !take_out {
        return;
    }
    for container in containers_mut(pod) {
        let Some(context) = container.get_mut("securityContext").and_then(Value::as_object_mut) else {
            continue;
        };
        if context.get("privileged") == Some(&json!(true)) {
            context.insert("privileged".to_owned(), json!(false));
        }
        let add = context.get_mut("capabilities").and_then(|capabilities| capabilities.get_mut("add"));
        if let Some(add) = add.and_then(Value::as_array_mut) {
            add.retain(|name| !name.as_str().is_some_and(is_too_much));
        }
    }
}

fn added(context: &Value) -> impl Iterator<Item = &str> {
    let names = context["capabilities"]["add"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str)
}

fn is_too_much(capability: &str) -> bool {
    let name = capability.to_ascii_uppercase();
    CAPABILITIES.contains(&name.strip_prefix("CAP_").unwrap_or(&name))
}

fn environment(pod: &mut Value, claims: &PodClaims, policy: &Policy, found: &mut Guarded) {
    let mut take_out: Vec<(String, usize)> = Vec::new();
    for (at, container) in containers(pod) {
        let claim = claims.container(container["name"].as_str().unwrap_or_default());
        for (index, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
            let name = variable["name"].as_str().unwrap_or_default();
            // What comes from a ConfigMap or a field is not known here.
            let value =
                variable.get("valueFrom").is_none().then(|| variable["value"].as_str().unwrap_or_default());
            let Some(reason) = widens(name, value, claim) else { continue };
            let refusal = Refusal::new(
                format!("{at}.env[{index}]"),
                format!("{}: {reason}", cut(name)),
                "leave the variable out; what the pod asks for decides what its containers get",
            );
            if found.file(policy.device_env, refusal, "it is taken out") {
                take_out.push((at.clone(), index));
            }
        }
    }
    if policy.device_env == Conduct::Allow {
        return;
    }
    for list in LISTS {
        let items = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for (place, item) in items.into_iter().flatten().enumerate() {
            let at = format!("spec.{list}[{place}]");
            let mut index = 0;
            if let Some(env) = item.get_mut("env").and_then(Value::as_array_mut) {
                env.retain(|_| {
                    index += 1;
                    !take_out.contains(&(at.clone(), index - 1))
                });
            }
            no_devices_by_name(item);
        }
    }
}

/// Images of CUDA say `NVIDIA_VISIBLE_DEVICES=all`, and older runtimes give that to whoever brings it. What a container says itself wins over
/// its image and over ConfigMaps; devices come by CDI, which does not ask.
fn no_devices_by_name(container: &mut Value) {
    const NAME: &str = "NVIDIA_VISIBLE_DEVICES";
    let Some(container) = container.as_object_mut() else { return };
    let env = container.entry("env").or_insert_with(|| json!([]));
    if env.is_null() {
        *env = json!([]);
    }
    if let Some(env) = env.as_array_mut().filter(|env| env.iter().all(|one| one["name"] != NAME)) {
        env.push(json!({"name": NAME, "value": "void"}));
    }
}

/// As much of a tenant's text as belongs into a message.
fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}
