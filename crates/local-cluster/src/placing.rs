//! Which pod goes where: parts of GPUs by the same book and the same choice as on a cluster, devices where there are enough of them.

use crate::happening::Teller;
use crate::machine::Machine;
use crate::nodes::NodeView;
use crate::objects::{is_ending, is_over, name_of, namespace_of, text, uid_of};
use crate::tenant::{DEVICES, Devices, Tenant, plain};
use crate::workloads::kind;
use carve_admission::keys;
use carve_bookings::{Book, Booking, PodUid, Slices};
use carve_extender::{Asked, decide, shortlist};
use carve_fleet_picture::Tone;
use carve_object_api::{ObjectApi, set_condition};
use carve_repartition::{Amounts, Whereabouts};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Places pods.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    book: Book,
    /// Why pods wait, as it was last said.
    told: BTreeMap<String, String>,
}

/// Where a pod goes, and with what.
struct Place {
    node: String,
    slices: Option<Slices>,
    devices: Devices,
}

/// Why it does not fit, and on how many machines for that reason.
type Reasons = BTreeMap<String, usize>;

/// Whether a pod waits for a place.
pub(crate) fn waits(pod: &Value) -> bool {
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    text(&pod["spec"]["nodeName"]).is_empty() && !is_ending(pod) && !is_over(pod) && !gated
}

/// Devices that containers ask for, by container and resource.
fn devices_of(spec: &Value) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut wanted = BTreeMap::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        let limits = container["resources"]["limits"].as_object().into_iter().flatten();
        let counted: BTreeMap<String, usize> = limits
            .filter(|(name, _)| {
                name.contains('/') && !name.starts_with("carve.dev/") && !name.starts_with("kubernetes.io/")
            })
            .filter_map(|(name, amount)| {
                let count = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned).parse().ok()?;
                (count > 0).then(|| (name.clone(), count))
            })
            .collect();
        if !counted.is_empty() {
            wanted.insert(text(&container["name"]).to_owned(), counted);
        }
    }
    wanted
}

impl Placing {
    /// A machine has other GPUs to give away now.
    pub(crate) fn offers(&mut self, machine: &Machine) {
        let offer = machine.parts();
        match offer.gpus.is_empty() {
            true => self.book.withdraw(&machine.spec.name),
            false => self.book.offer(&machine.spec.name, offer),
        }
    }

    /// A machine is gone.
    pub(crate) fn forget_machine(&mut self, name: &str) {
        self.book.withdraw(name);
    }

    /// A pod is on a machine.
    pub(crate) fn holds(&mut self, pod: &Value, node: &str) {
        let Some(text) = pod["metadata"]["annotations"][keys::SLICES].as_str() else { return };
        if let Ok(slices) = Slices::from_annotation(text) {
            let priority =
                pod["spec"]["priority"].as_i64().and_then(|one| i32::try_from(one).ok()).unwrap_or(0);
            let name = format!("{}/{}", namespace_of(pod), name_of(pod));
            let booking = Booking::new(&name, node, &slices, priority, true);
            self.book.hold(PodUid(uid_of(pod).to_owned()), booking);
        }
    }

    /// A pod holds nothing any more.
    pub(crate) fn released(&mut self, uid: &str) {
        self.book.release(&PodUid(uid.to_owned()));
    }

    /// Places whoever waits, those with higher priority and the older first. Returns machines that somebody came to.
    pub(crate) fn look(
        &mut self,
        api: &ObjectApi,
        teller: &Teller,
        machines: &mut BTreeMap<String, Machine>,
        nodes: &BTreeMap<String, NodeView>,
        pods: &[Arc<Value>],
        now: i64,
    ) -> Vec<String> {
        let mut waiting: Vec<&Arc<Value>> = pods.iter().filter(|pod| waits(pod)).collect();
        let age = |pod: &Value| {
            (
                std::cmp::Reverse(pod["spec"]["priority"].as_i64().unwrap_or(0)),
                text(&pod["metadata"]["creationTimestamp"]).to_owned(),
                name_of(pod).to_owned(),
            )
        };
        waiting.sort_by_cached_key(|pod| age(pod));
        let wait: BTreeSet<&str> = waiting.iter().map(|pod| uid_of(pod)).collect();
        self.told.retain(|uid, _| wait.contains(uid.as_str()));
        let mut came = Vec::new();
        // What did not fit a moment ago does not fit for others that ask for the same.
        let mut refused: BTreeMap<String, String> = BTreeMap::new();
        // Where the last one went is best for the next that asks for the same, until it is full: what is begun is filled first.
        let mut begun: BTreeMap<String, String> = BTreeMap::new();
        for pod in waiting {
            let alike = format!("{}{}", pod["spec"], pod["metadata"]["annotations"][keys::CLAIM]);
            if let Some(words) = refused.get(&alike) {
                self.say_why(api, teller, pod, words);
                continue;
            }
            let again = begun.get(&alike).and_then(|node| self.place_again(machines, nodes, pod, node));
            match again.map_or_else(|| self.place(machines, nodes, pod), Ok) {
                Ok(place) => {
                    if place.slices.is_some() {
                        begun.insert(alike, place.node.clone());
                    }
                    let mut annotations = json!({});
                    if let Some(slices) = &place.slices {
                        annotations[keys::SLICES] = slices.to_annotation().into();
                    }
                    if !place.devices.is_empty() {
                        annotations[DEVICES] = place.devices.to_annotation().into();
                    }
                    if let Err(failure) = api.bind(pod, &place.node, &annotations) {
                        teller.complain("pods can not be bound", name_of(pod), &failure.message);
                        continue;
                    }
                    let bound = api.get(kind("pods"), namespace_of(pod), name_of(pod));
                    if let (Some(bound), Some(machine)) = (bound, machines.get_mut(&place.node)) {
                        machine.take_in(Tenant::of(&bound, now), &bound, now);
                        self.holds(&bound, &place.node);
                        self.offers(machine);
                        came.push(place.node.clone());
                        let words = format!("{}/{} goes to {}", namespace_of(pod), name_of(pod), place.node);
                        teller.tell(api, &bound, Tone::Normal, "Scheduled", &words);
                    }
                }
                Err(words) => {
                    self.say_why(api, teller, pod, &words);
                    refused.insert(alike, words);
                }
            }
        }
        came
    }

    fn place(
        &self,
        machines: &BTreeMap<String, Machine>,
        nodes: &BTreeMap<String, NodeView>,
        pod: &Value,
    ) -> Result<Place, String> {
        let spec = &pod["spec"];
        let (whereabouts, besides) = (Whereabouts::of(spec), Amounts::asked_by(&plain(spec)));
        let mut reasons = Reasons::new();
        let mut fitting: Vec<String> = Vec::new();
        for (name, machine) in machines {
            let Some(node) = nodes.get(name) else { continue };
            let why = if node.unschedulable {
                Some("node(s) were unschedulable".to_owned())
            } else if !whereabouts.allow(name, &node.labels, &node.taints) {
                Some(
                    "node(s) didn't match Pod's node affinity/selector or had untolerated taint(s)"
                        .to_owned(),
                )
            } else {
                let mut lacking = node.allocatable.lacking_beside(&machine.taken, &besides);
                lacking.next().map(|lacking| format!("Insufficient {lacking}"))
            };
            match why {
                Some(why) => *reasons.entry(why).or_default() += 1,
                None => fitting.push(name.clone()),
            }
        }
        let found = if spec["schedulerName"] == keys::SCHEDULER {
            self.place_parts(&fitting, pod, &mut reasons)
        } else {
            place_devices(machines, &fitting, &devices_of(spec), &mut reasons)
        };
        found.ok_or_else(|| {
            let words: Vec<String> = reasons.iter().map(|(why, count)| format!("{count} {why}")).collect();
            format!("0/{} nodes are available: {}.", machines.len(), words.join(", "))
        })
    }

    /// A part on the machine where one like it went a moment ago, if there is still room.
    fn place_again(
        &self,
        machines: &BTreeMap<String, Machine>,
        nodes: &BTreeMap<String, NodeView>,
        pod: &Value,
        name: &str,
    ) -> Option<Place> {
        let (machine, node) = (machines.get(name)?, nodes.get(name)?);
        let besides = Amounts::asked_by(&plain(&pod["spec"]));
        if node.allocatable.lacking_beside(&machine.taken, &besides).next().is_some() {
            return None;
        }
        let asked = Asked::of(&serde_json::from_value(pod.clone()).ok()?).ok()?;
        let slices = decide(&self.book, name, &asked).ok()?;
        Some(Place { node: name.to_owned(), slices: Some(slices), devices: Devices::default() })
    }

    fn place_parts(&self, nodes: &[String], pod: &Value, reasons: &mut Reasons) -> Option<Place> {
        let asked = match serde_json::from_value(pod.clone()).map(|pod| Asked::of(&pod)) {
            Ok(Ok(asked)) => asked,
            Ok(Err(error)) => {
                *reasons.entry(error.to_string()).or_default() += nodes.len();
                return None;
            }
            Err(error) => {
                *reasons.entry(format!("the pod does not read: {error}")).or_default() += nodes.len();
                return None;
            }
        };
        let found = shortlist(&self.book, nodes, &asked);
        for why in found.failed_nodes.values().chain(found.failed_and_unresolvable_nodes.values()) {
            *reasons.entry(why.clone()).or_default() += 1;
        }
        let node = found.node_names.first()?;
        let slices = decide(&self.book, node, &asked).ok()?;
        Some(Place { node: node.clone(), slices: Some(slices), devices: Devices::default() })
    }

    /// Says why a pod waits, once for each reason.
    fn say_why(&mut self, api: &ObjectApi, teller: &Teller, pod: &Value, words: &str) {
        if self.told.get(uid_of(pod)).is_some_and(|told| told == words) {
            return;
        }
        let told = api.update(kind("pods"), namespace_of(pod), name_of(pod), |pod| {
            set_condition(pod, "PodScheduled", "False", "Unschedulable", words);
        });
        if let Err(failure) = told {
            teller.complain("pods can not be told why they wait", name_of(pod), &failure.message);
            return;
        }
        self.told.insert(uid_of(pod).to_owned(), words.to_owned());
        teller.tell(api, pod, Tone::Warning, "FailedScheduling", words);
    }
}

/// The machine that has least left of what is asked for: large rests stay for those who need them.
fn place_devices(
    machines: &BTreeMap<String, Machine>,
    fitting: &[String],
    wanted: &BTreeMap<String, BTreeMap<String, usize>>,
    reasons: &mut Reasons,
) -> Option<Place> {
    let mut best: Option<(usize, Place)> = None;
    for name in fitting {
        let Some(machine) = machines.get(name) else { continue };
        match machine.choose(wanted) {
            Ok(devices) => {
                let kinds = wanted.values().flat_map(|resources| resources.keys());
                // Whoever needs no GPU goes where the fewest are free.
                let left: usize = match wanted.is_empty() {
                    true => machine.free("nvidia.com/gpu").len(),
                    false => kinds.map(|resource| machine.free(resource).len()).sum(),
                };
                if best.as_ref().is_none_or(|(least, _)| left < *least) {
                    best = Some((left, Place { node: name.clone(), slices: None, devices }));
                }
            }
            Err(resource) => *reasons.entry(format!("Insufficient {resource}")).or_default() += 1,
        }
    }
    best.map(|(_, place)| place)
}
