//! The one loop: what was written becomes pods, pods find machines, machines run them, and people see it.

use crate::books::Books;
use crate::fleet::{Fleet, FleetError, MachineSpec};
use crate::happening::{Teller, seen};
use crate::here::Here;
use crate::life;
use crate::machine::Machine;
use crate::nodes::{self, NodeView, Views};
use crate::objects::{is_ending, is_over, name_of, namespace_of, text, uid_of, workload_of};
use crate::placing::{Placing, waits};
use crate::tenant::{Stage, Tenant};
use crate::workloads::{Workloads, kind};
use carve_economics::Millis;
use carve_fleet_picture::{Happening, NodePicture, Picture, Tone, Waiting};
use carve_gpu_host::SimulatedState;
use carve_object_api::ObjectApi;
use carve_object_store::{Act, Key, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

/// How often what is used is looked at.
const LOOK: i64 = 1_000;

/// A machine as it is kept beside the objects.
#[derive(Serialize, Deserialize)]
struct Kept {
    spec: MachineSpec,
    state: SimulatedState,
}

fn kept_resource() -> Resource {
    Resource("machines.local.carve.dev".to_owned())
}

fn kept_key(name: &str) -> Key {
    Key { resource: kept_resource(), namespace: String::new(), name: name.to_owned() }
}

/// Which machines there are.
#[derive(Debug)]
pub enum Machines<'a> {
    /// Those that were there before.
    Kept,
    /// Simulated ones.
    Fleet(&'a Fleet),
    /// This one.
    Here(Box<Here>),
}

/// Everything that the loop owns.
#[derive(Debug)]
pub(crate) struct Engine {
    api: ObjectApi,
    teller: Teller,
    machines: BTreeMap<String, Machine>,
    placing: Placing,
    workloads: Workloads,
    views: Views,
    books: Books,
    /// Machines whose Node may not be true any more.
    dirty: BTreeSet<String>,
    /// Machines that are cut otherwise than is written down.
    unkept: BTreeSet<String>,
    looked: i64,
    saved: i64,
    picture: Picture,
    events_seen: carve_object_store::Version,
    happened: u64,
}

impl Engine {
    /// With this machine, those of a fleet, or those that were there before.
    pub(crate) fn new(
        api: ObjectApi,
        books: Books,
        machines: Machines<'_>,
        folder: &Path,
    ) -> Result<Self, FleetError> {
        let mut known: BTreeMap<String, Kept> = BTreeMap::new();
        for object in api.store().list(&kept_resource(), None).objects {
            match serde_json::from_value::<Kept>(object["machine"].clone()) {
                Ok(kept) => drop(known.insert(kept.spec.name.clone(), kept)),
                Err(error) => tracing::warn!(%error, "a machine does not read, and begins anew"),
            }
        }
        let folder = folder.join("machines");
        let (specs, here): (Vec<MachineSpec>, Option<Here>) = match machines {
            Machines::Fleet(fleet) => (fleet.machines.clone(), None),
            Machines::Kept => (known.values().map(|kept| kept.spec.clone()).collect(), None),
            Machines::Here(here) => (Vec::new(), Some(*here)),
        };
        let mut machines = BTreeMap::new();
        if let Some(here) = here {
            machines.insert(here.name.clone(), Machine::here(here, &folder)?);
        }
        for spec in specs {
            let state =
                known.remove(&spec.name).filter(|kept| kept.spec.kind == spec.kind).map(|kept| kept.state);
            machines.insert(spec.name.clone(), Machine::new(spec, state, &folder)?);
        }
        let mut engine = Engine {
            dirty: machines.keys().cloned().collect(),
            events_seen: api.store().version(),
            teller: Teller::default(),
            placing: Placing::default(),
            workloads: Workloads::default(),
            views: Views::default(),
            unkept: BTreeSet::new(),
            looked: 0,
            saved: 0,
            picture: Picture::default(),
            happened: 0,
            api,
            machines,
            books,
        };
        for gone in known.into_keys() {
            engine.forget_machine(&gone);
        }
        let names: Vec<String> = engine.machines.keys().cloned().collect();
        for name in names {
            engine.keep_state(&name);
            engine.placing.offers(&engine.machines[&name]);
        }
        engine.forget_nodes();
        Ok(engine)
    }

    /// Nodes of machines that are not there any more go, and their pods with them.
    fn forget_nodes(&mut self) {
        for node in self.api.list(kind("nodes"), None) {
            if !self.machines.contains_key(name_of(&node)) {
                let _ = self.api.delete(kind("nodes"), "", name_of(&node), None);
            }
        }
    }

    fn forget_machine(&mut self, name: &str) {
        self.machines.remove(name);
        self.placing.forget_machine(name);
        let _ = self.api.store().change(&kept_key(name), |_| Ok::<_, Infallible>(Act::Delete));
    }

    /// Keeps what the GPUs of a machine are cut into.
    fn keep_state(&mut self, name: &str) {
        let Some(machine) = self.machines.get(name) else { return };
        let Some(state) = machine.state() else { return };
        let kept = json!({"spec": machine.spec, "state": state});
        let put = |before: Option<&Value>| {
            Ok::<_, Infallible>(match before.is_some_and(|before| before["machine"] == kept) {
                true => Act::Leave,
                false => Act::Put(json!({"metadata": {}, "machine": kept})),
            })
        };
        match self.api.store().change(&kept_key(name), put) {
            Ok(_) => drop(self.unkept.remove(name)),
            Err(error) => {
                let what = "what GPUs are cut into can not be kept";
                self.teller.complain(what, name, &error.to_string());
                self.unkept.insert(name.to_owned());
            }
        }
    }

    /// Writes the Nodes, of which admission must know before anybody asks for something.
    pub(crate) fn appear(&self) {
        for (number, (name, machine)) in self.machines.iter().enumerate() {
            // All of them are written once more with the first round.
            if let Err(why) = nodes::keep(&self.api, machine, number) {
                self.teller.complain("Nodes can not be written", name, &why);
            }
        }
    }

    /// Makes those Nodes true that may not be any more.
    fn keep_nodes(&mut self) {
        let mut late = BTreeSet::new();
        for name in std::mem::take(&mut self.dirty) {
            let number = self.machines.keys().position(|one| *one == name).unwrap_or(0);
            if let Some(machine) = self.machines.get(&name) {
                self.placing.offers(machine);
                if let Err(why) = nodes::keep(&self.api, machine, number) {
                    self.teller.complain("Nodes can not be written", &name, &why);
                    late.insert(name);
                }
            }
        }
        self.dirty = late;
    }

    /// One round. Returns how many milliseconds it may take until the next one where nobody writes anything.
    pub(crate) async fn step(&mut self, now: i64) -> u64 {
        self.workloads.look(&self.api, &self.teller).await;
        let views = self.views.look(&self.api);
        // Configurations first: whoever was there before a restart has devices under the names of theirs.
        self.follow_nodes(&views, now);
        let pods = self.api.list(kind("pods"), None);
        self.follow_pods(&pods, now);
        self.pass_time(now);
        let came = self.placing.look(&self.api, &self.teller, &mut self.machines, &views, &pods, now);
        self.dirty.extend(came);
        if now - self.looked >= LOOK {
            self.measure(now);
            for name in self.unkept.clone() {
                self.keep_state(&name);
            }
        }
        self.keep_nodes();
        self.draw(now);
        self.pause(now)
    }

    fn pause(&self, now: i64) -> u64 {
        let busy = |tenant: &Tenant| !matches!(tenant.stage, Stage::Running { .. });
        // Nobody tells when a process that was started before this one ends.
        let watched =
            |machine: &Machine| machine.programs.as_ref().is_some_and(crate::programs::Programs::is_busy);
        let hurried = self.machines.values().any(|machine| {
            machine.cutting.is_some() || machine.tenants.values().any(busy) || watched(machine)
        });
        let next = (self.looked + LOOK - now).clamp(1, LOOK);
        u64::try_from(if hurried { next.min(100) } else { next }).unwrap_or(100)
    }

    /// Who has come to a machine, and who is gone.
    fn follow_pods(&mut self, pods: &[Arc<Value>], now: i64) {
        let mut there: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !is_over(pod)) {
            let node = text(&pod["spec"]["nodeName"]);
            if node.is_empty() {
                continue;
            }
            let Some(machine) = self.machines.get_mut(node) else {
                // Its machine is gone, and so is it.
                let _ = self.api.delete(kind("pods"), namespace_of(pod), name_of(pod), Some(0));
                continue;
            };
            there.entry(node).or_default().insert(uid_of(pod));
            if !machine.tenants.contains_key(uid_of(pod)) {
                machine.take_in(Tenant::of(pod, now), pod, now);
                self.placing.holds(pod, node);
                self.dirty.insert(node.to_owned());
            }
            if is_ending(pod) {
                life::end(machine, pod, now);
            }
        }
        let none = BTreeSet::new();
        for (name, machine) in &mut self.machines {
            let present = there.get(name.as_str()).unwrap_or(&none);
            let gone: Vec<String> =
                machine.tenants.keys().filter(|uid| !present.contains(uid.as_str())).cloned().collect();
            for uid in gone {
                machine.let_go(&uid);
                self.placing.released(&uid);
                self.dirty.insert(name.clone());
            }
        }
    }

    /// What people and the controller want of machines.
    fn follow_nodes(&mut self, views: &BTreeMap<String, NodeView>, now: i64) {
        // A Node that somebody has deleted was a machine of which nobody wants to know any more.
        let gone: Vec<String> = self
            .machines
            .keys()
            .filter(|name| !views.contains_key(*name) && !self.dirty.contains(*name) && self.looked > 0)
            .cloned()
            .collect();
        for name in gone {
            self.forget_machine(&name);
        }
        for (name, view) in views {
            let Some(machine) = self.machines.get_mut(name) else { continue };
            let before = (machine.asked.clone(), machine.order.clone(), machine.cutting.is_some());
            let mut changed = machine.configure(view.sharing.as_deref());
            machine.fix(view.layout.as_deref());
            let wanted = view.wanted_config();
            machine.ask(wanted.as_deref(), now);
            if let Some(order) = view.order.as_ref().filter(|_| wanted.is_none()) {
                let known = machine.order.as_ref().map_or(0, |report| report.generation);
                let asked_to_go: Vec<(String, String)> = machine
                    .tenants
                    .values()
                    .filter(|tenant| order.generation > known && order.evict.contains(&tenant.pod()))
                    .map(|tenant| (tenant.namespace.clone(), tenant.name.clone()))
                    .collect();
                if asked_to_go.is_empty() {
                    machine.obey(order, now);
                }
                for (namespace, pod) in asked_to_go {
                    let _ = self.api.delete(kind("pods"), &namespace, &pod, None);
                }
            }
            if let (Some(why), Some(node)) =
                (machine.newly_failed(before.0.as_ref()), self.api.get(kind("nodes"), "", name))
            {
                self.teller.tell(&self.api, &node, Tone::Warning, "CutFailed", why);
            }
            changed |= before != (machine.asked.clone(), machine.order.clone(), machine.cutting.is_some());
            if changed {
                self.dirty.insert(name.clone());
            }
        }
    }

    /// What is due comes to its end.
    fn pass_time(&mut self, now: i64) {
        let mut cut = Vec::new();
        for (name, machine) in &mut self.machines {
            if let Some(done) = machine.finish_cutting(now) {
                cut.push((name.clone(), done));
            }
            let gone = life::pass_time(&self.api, &self.teller, machine, name, now);
            for uid in gone {
                machine.let_go(&uid);
                self.placing.released(&uid);
                self.dirty.insert(name.clone());
            }
        }
        for (name, done) in cut {
            self.dirty.insert(name.clone());
            self.keep_state(&name);
            if let Some(node) = self.api.get(kind("nodes"), "", &name) {
                let (tone, reason) =
                    if done.worked { (Tone::Normal, "Cut") } else { (Tone::Warning, "CutFailed") };
                self.teller.tell(&self.api, &node, tone, reason, &done.words);
            }
        }
    }

    fn measure(&mut self, now: i64) {
        let time = Millis(u64::try_from((now - self.looked).clamp(0, 10_000)).unwrap_or(0));
        let first = self.looked == 0;
        self.looked = now;
        for (name, machine) in &mut self.machines {
            // What was used until now is what was measured at the last look.
            if !first {
                self.books.enter(name, &machine.spec.kind, machine.times(), time, now / 1000);
            }
            machine.measure(now);
        }
        if now - self.saved >= 30_000 {
            self.saved = now;
            self.books.save(now / 1000);
        }
    }

    /// The books, and what the GPUs are cut into, are kept for the next time.
    pub(crate) fn close(&mut self, now: i64) {
        self.books.save(now / 1000);
        for machine in self.machines.values_mut() {
            if let Some(programs) = &mut machine.programs {
                programs.close();
            }
        }
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names {
            self.keep_state(&name);
        }
        self.api.store().close();
    }

    /// Draws the picture.
    fn draw(&mut self, now: i64) {
        self.picture.at = now / 1000;
        self.picture.nodes.retain(|name, _| self.machines.contains_key(name));
        for (name, machine) in &mut self.machines {
            // Most of a large fleet is as it was a moment ago.
            if !machine.has_changed() && self.picture.nodes.contains_key(name) {
                continue;
            }
            let price = self.books.price(&machine.spec.kind);
            let node = NodePicture {
                kind: machine.spec.kind.clone(),
                ready: true,
                why: machine.wrong.clone().unwrap_or_default(),
                dollars_per_hour: price.map(|price| price.per_hour.micros() as f64 / 1e6),
                gpus: machine.picture(),
            };
            self.picture.nodes.insert(name.clone(), node);
        }
        let pods = self.api.list(kind("pods"), None);
        let waiting = pods.iter().filter(|pod| waits(pod));
        self.picture.waiting = waiting
            .map(|pod| (format!("{}/{}", namespace_of(pod), name_of(pod)), waiting_pod(pod)))
            .collect();
        self.hear();
    }

    /// What was told since the last round.
    fn hear(&mut self) {
        let events = self.api.list(kind("events"), None);
        let version = |event: &Value| text(&event["metadata"]["resourceVersion"]).parse::<u64>().unwrap_or(0);
        let mut new: Vec<&Arc<Value>> =
            events.iter().filter(|event| version(event) > self.events_seen.0).collect();
        new.sort_by_key(|event| version(event));
        for event in new {
            self.events_seen = carve_object_store::Version(version(event));
            self.happened += 1;
            let happening: Happening = seen(event, self.happened);
            self.picture.tell(happening);
        }
    }

    /// The picture as it was drawn last.
    pub(crate) fn picture(&self) -> &Picture {
        &self.picture
    }

    pub(crate) fn size(&self) -> (usize, usize) {
        (self.machines.len(), self.machines.values().map(|machine| machine.gpus.gpus.len()).sum())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }
}

fn waiting_pod(pod: &Value) -> Waiting {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let why =
        conditions.into_iter().find(|one| one["type"] == "PodScheduled").map(|one| text(&one["message"]));
    let since = text(&pod["metadata"]["creationTimestamp"]).parse::<jiff::Timestamp>();
    Waiting {
        workload: workload_of(pod),
        asks: asks(pod),
        why: why.unwrap_or_default().to_owned(),
        since: since.map_or(0, jiff::Timestamp::as_second),
    }
}

/// What a pod asks for, as it was understood or as it is written.
fn asks(pod: &Value) -> String {
    let annotations = &pod["metadata"]["annotations"];
    if let Some(words) = annotations[carve_admission::keys::UNDERSTOOD_AS].as_str() {
        return words.to_owned();
    }
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        for (name, amount) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let count = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned).parse::<i64>();
            if let (true, Ok(count)) = (name.contains('/'), count) {
                let sum = sums.entry(name.clone()).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }
    let short = |name: &str| name.trim_start_matches("nvidia.com/").trim_start_matches("mig-").to_owned();
    let words: Vec<String> = sums.iter().map(|(name, count)| format!("{count} × {}", short(name))).collect();
    if words.is_empty() { "no GPU".to_owned() } else { words.join(", ") }
}
