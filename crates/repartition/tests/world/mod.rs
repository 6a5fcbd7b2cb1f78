//! A small cluster to decide for: GPUs, a scheduler and agents that come late, fail or die.

use carve_gpu_model::{GpuUuid, Placed, Product, ProfileTable};
use carve_repartition::{
    Amounts, BoundPod, Facts, GpuReport, History, Instance, InstanceReport, Mode, NodeFacts, NodePlan,
    NodeReport, Order, OrderReport, OrderState, Ordered, Rules, Seconds, WaitingPod, Whereabouts,
};
use std::collections::BTreeMap;

/// Processors of a node that nobody runs out of.
const MANY: u64 = 1000;
/// The product of every GPU here.
const PRODUCT: &str = "a100-40gb";

pub(crate) fn table() -> ProfileTable {
    Product::by_key(PRODUCT).and_then(Product::profile_table).expect("an A100")
}

/// An instance that is there, and the pod that has it.
#[derive(Debug, Clone)]
pub(crate) struct Real {
    pub(crate) instance: Instance,
    pub(crate) pod: Option<String>,
    /// Told apart from another one of the same shape at the same place.
    pub(crate) serial: u64,
}

fn cpus(count: u64) -> Amounts {
    Amounts::of(&serde_json::json!({"cpu": count, "pods": 1000}))
}

fn besides(cpus: u64) -> Amounts {
    Amounts::asked_by(&serde_json::json!({"containers": [{"resources": {"requests": {"cpu": cpus}}}]}))
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RealNode {
    /// Processors in all.
    pub(crate) cpus: u64,
    pub(crate) gpus: Vec<Vec<Real>>,
    /// What the agent said last.
    pub(crate) report: NodeReport,
    /// What was ordered and not answered.
    pub(crate) order: Option<Order>,
    pub(crate) history: History,
    pub(crate) generation: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct RealPod {
    pub(crate) wants: BTreeMap<String, u32>,
    pub(crate) node: Option<usize>,
    /// The only node it may go to.
    pub(crate) only: Option<usize>,
    /// Processors that it asks for.
    pub(crate) cpus: u64,
    pub(crate) since: u64,
}

pub(crate) struct World {
    pub(crate) nodes: Vec<RealNode>,
    pub(crate) pods: BTreeMap<String, RealPod>,
    pub(crate) rules: Rules,
    pub(crate) now: u64,
    pub(crate) table: ProfileTable,
    serial: u64,
    /// When instances were destroyed, by GPU.
    pub(crate) destroyed: BTreeMap<String, Vec<u64>>,
}

pub(crate) fn uuid(node: usize, gpu: usize) -> GpuUuid {
    GpuUuid(format!("GPU-{node}-{gpu}"))
}

impl World {
    pub(crate) fn new(gpus: &[usize], nodes_at_once: u32, pause: u64) -> Self {
        let rules = Rules {
            name: "all".to_owned(),
            selector: BTreeMap::new(),
            priority: 0,
            mode: Mode::Automatic,
            profiles: Vec::new(),
            switch_mode_on: false,
            nodes_at_once,
            pause,
            evictions: 0,
            least_gain: None,
        };
        let nodes = gpus.iter().map(|gpus| RealNode {
            gpus: vec![Vec::new(); *gpus],
            cpus: MANY,
            ..RealNode::default()
        });
        let mut world = World {
            nodes: nodes.collect(),
            pods: BTreeMap::new(),
            rules,
            now: 1000,
            table: table(),
            serial: 0,
            destroyed: BTreeMap::new(),
        };
        (0..world.nodes.len()).for_each(|node| world.report(node));
        world
    }

    /// Processors of a node that nobody has.
    pub(crate) fn cpus_left(&self, node: usize) -> u64 {
        let there = self.pods.values().filter(|pod| pod.node == Some(node));
        self.nodes[node].cpus - there.map(|pod| pod.cpus).sum::<u64>()
    }

    pub(crate) fn arrive(&mut self, form: &str, count: u32, only: Option<usize>) -> String {
        self.arrive_asking(1, form, count, only)
    }

    pub(crate) fn arrive_asking(&mut self, cpus: u64, form: &str, count: u32, only: Option<usize>) -> String {
        self.serial += 1;
        let name = format!("default/pod-{}", self.serial);
        let wants = BTreeMap::from([(form.to_owned(), count)]);
        self.pods.insert(name.clone(), RealPod { wants, node: None, only, cpus, since: self.now });
        name
    }

    pub(crate) fn end(&mut self, name: &str) {
        self.pods.remove(name);
        let parts = self.nodes.iter_mut().flat_map(|node| &mut node.gpus).flatten();
        parts.filter(|part| part.pod.as_deref() == Some(name)).for_each(|part| part.pod = None);
    }

    /// The agent of a node tells what it sees.
    pub(crate) fn report(&mut self, node: usize) {
        let tables = BTreeMap::from([("A100".to_owned(), self.table.clone())]);
        let known = &mut self.nodes[node];
        let gpus = known.gpus.iter().enumerate().map(|(gpu, parts)| GpuReport {
            uuid: uuid(node, gpu),
            index: gpu as u32,
            product: "A100".to_owned(),
            mig: true,
            held: false,
            instances: parts
                .iter()
                .map(|part| InstanceReport {
                    instance: part.instance.clone(),
                    held: part.pod.is_some(),
                    pods: part.pod.iter().cloned().collect(),
                })
                .collect(),
        });
        let report =
            NodeReport { gpus: gpus.collect(), tables, manual: None, order: known.report.order.clone() };
        // What is read is what was written.
        known.report = NodeReport::parse(&report.to_text()).expect("it reads");
    }

    /// The scheduler and kubelet: every pod that fits somewhere gets its instances.
    pub(crate) fn schedule(&mut self) {
        let mut left: Vec<u64> = (0..self.nodes.len()).map(|node| self.cpus_left(node)).collect();
        for (name, pod) in self.pods.iter_mut().filter(|(_, pod)| pod.node.is_none()) {
            for (number, node) in self.nodes.iter_mut().enumerate() {
                if pod.only.is_some_and(|only| only != number) || left[number] < pod.cpus {
                    continue;
                }
                let (form, count) = pod.wants.iter().next().expect("it wants something");
                let free =
                    |part: &&mut Real| part.pod.is_none() && part.instance.profile.resource_form() == *form;
                let found: Vec<&mut Real> =
                    node.gpus.iter_mut().flatten().filter(free).take(*count as usize).collect();
                if found.len() == *count as usize {
                    found.into_iter().for_each(|part| part.pod = Some(name.clone()));
                    pod.node = Some(number);
                    left[number] -= pod.cpus;
                    break;
                }
            }
        }
    }

    pub(crate) fn facts(&self) -> Facts {
        let nodes = self.nodes.iter().enumerate().map(|(number, node)| NodeFacts {
            name: format!("node{number}"),
            labels: BTreeMap::from([("number".to_owned(), number.to_string())]),
            taints: Vec::new(),
            ready: true,
            report: Some(node.report.clone()),
            ordered: node.order.clone().map(|order| Ordered { policy: "all".to_owned(), order }),
            next_generation: node.generation + 1,
            history: node.history.clone(),
            left: Some(cpus(self.cpus_left(number))),
            bound: self
                .pods
                .iter()
                .filter(|(_, pod)| pod.node == Some(number))
                .map(|(name, pod)| BoundPod {
                    name: name.clone(),
                    wants: pod.wants.clone(),
                    besides: besides(pod.cpus),
                    whereabouts: Whereabouts::of(&serde_json::json!({})),
                    priority: 0,
                    comes_back: true,
                })
                .collect(),
        });
        let waiting = self.pods.iter().filter(|(_, pod)| pod.node.is_none()).map(|(name, pod)| {
            let spec = pod.only.map_or(
                serde_json::json!({}),
                |only| serde_json::json!({"nodeSelector": {"number": only.to_string()}}),
            );
            WaitingPod {
                name: name.clone(),
                wants: pod.wants.clone(),
                besides: besides(pod.cpus),
                whereabouts: Whereabouts::of(&spec),
                priority: 0,
                since: Seconds(pod.since),
            }
        });
        let (nodes, pods) = (nodes.collect(), waiting.collect());
        Facts { nodes, pods, rules: vec![self.rules.clone()], now: Seconds(self.now), defragment: true }
    }

    /// A plan becomes an order.
    pub(crate) fn order(&mut self, plan: &NodePlan) {
        let number: usize = plan.node.trim_start_matches("node").parse().expect("a node");
        let node = &mut self.nodes[number];
        assert!(node.order.is_none(), "one order at a time");
        node.generation = plan.generation;
        let gpus = plan.gpus.iter().map(|gpu| (gpu.uuid.clone(), gpu.layout.clone()));
        let order = Order { generation: plan.generation, gpus: gpus.collect(), evict: plan.evicts.clone() };
        node.order = Some(Order::parse(&order.to_text()).expect("it reads"));
    }

    /// The agent carries its order out as far as it may, or fails for a reason of its own.
    pub(crate) fn act(&mut self, number: usize, fails: bool) {
        let Some(order) = self.nodes[number].order.take() else { return };
        for name in order.evict.iter().filter(|_| !fails) {
            if let Some(pod) = self.pods.get(name).cloned() {
                self.end(name);
                // Whoever made it makes another one.
                self.pods.insert(format!("{name}-again"), RealPod { node: None, since: self.now, ..pod });
            }
        }
        let obstacle = fails || !self.is_possible(number, &order);
        let node = &mut self.nodes[number];
        let state = if obstacle { OrderState::Failed } else { OrderState::Done };
        if obstacle {
            node.history.failures += 1;
            node.history.failed_at = Seconds(self.now);
        } else {
            node.history.failures = 0;
            for (gpu, parts) in node.gpus.iter_mut().enumerate() {
                let Some(layout) = order.gpus.get(&uuid(number, gpu)) else { continue };
                node.history.recuts.insert(uuid(number, gpu), Seconds(self.now));
                let same = |part: &Real, wanted: &Instance| part.instance == *wanted;
                let before = parts.len();
                parts.retain(|part| layout.iter().any(|wanted| same(part, wanted)));
                for _ in parts.len()..before {
                    self.destroyed.entry(uuid(number, gpu).0).or_default().push(self.now);
                }
                for wanted in layout {
                    if !parts.iter().any(|part| same(part, wanted)) {
                        self.serial += 1;
                        parts.push(Real { instance: wanted.clone(), pod: None, serial: self.serial });
                    }
                }
            }
        }
        node.report.order = Some(OrderReport { generation: order.generation, state, message: String::new() });
        self.report(number);
    }

    /// Whether everything in use would stay.
    pub(crate) fn is_possible(&self, number: usize, order: &Order) -> bool {
        let node = &self.nodes[number];
        node.gpus.iter().enumerate().all(|(gpu, parts)| {
            let Some(layout) = order.gpus.get(&uuid(number, gpu)) else { return true };
            let stays = |pod: &String| !order.evict.contains(pod);
            let used = parts.iter().filter(|part| part.pod.as_ref().is_some_and(stays));
            used.into_iter().all(|part| layout.contains(&part.instance))
        })
    }

    pub(crate) fn placed(&self, instances: &[&Instance]) -> Vec<Placed> {
        let place = |instance: &&Instance| {
            let (profile, _) = self.table.by_name(&instance.profile).expect("a profile");
            Placed { profile, start: instance.start }
        };
        instances.iter().map(place).collect()
    }

    /// Pods of one instance that wait although a GPU they may have could hold it beside what is in use.
    pub(crate) fn forgotten(&self) -> Vec<String> {
        let could = |pod: &RealPod| {
            let (form, count) = pod.wants.iter().next().expect("it wants something");
            let (slot, _) = self
                .table
                .enumerate()
                .find(|(_, profile)| profile.name.resource_form() == *form)
                .expect("known");
            *count == 1
                && self.nodes.iter().enumerate().any(|(number, node)| {
                    pod.only.is_none_or(|only| only == number)
                        && self.cpus_left(number) >= pod.cpus
                        && node.gpus.iter().any(|parts| {
                            let used: Vec<&Instance> = parts
                                .iter()
                                .filter(|part| part.pod.is_some())
                                .map(|part| &part.instance)
                                .collect();
                            !self.table.open_starts(&self.placed(&used), slot).is_empty()
                        })
                })
        };
        let waiting = self.pods.iter().filter(|(_, pod)| pod.node.is_none() && could(pod));
        waiting.map(|(name, _)| name.clone()).collect()
    }

    /// Everything that is in use, by serial number.
    pub(crate) fn in_use(&self) -> BTreeMap<u64, String> {
        let parts = self.nodes.iter().flat_map(|node| &node.gpus).flatten();
        parts.filter_map(|part| Some((part.serial, part.pod.clone()?))).collect()
    }
}
