//! What machines cost now and then, with the arithmetic, and which other types would do for less.

use crate::advice::{Cheaper, FleetMoney, MachineRow};
use crate::input::{Node, Settings};
use carve_economics::Prices;
use carve_economics::{CATALOGUE, InstanceType, Money};
use std::collections::BTreeMap;

/// What a machine that stays has on it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) gpus: u8,
    pub(crate) cpu: u64,
    pub(crate) memory: u64,
}

/// Type, price and GPUs of machines.
type Alike<'a> = (&'a str, Option<u64>, u8);

/// Machines by type, and what they cost. `kept` says which nodes stay.
pub(crate) fn money(nodes: &[Node], kept: &[bool], settings: &Settings) -> (Vec<MachineRow>, FleetMoney) {
    let mut rows: BTreeMap<Alike<'_>, (u32, u32, usize)> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let price = node.price.as_ref().map(|price| price.per_hour.micros());
        let row = rows.entry((node.machine.as_str(), price, node.gpus)).or_insert((0, 0, index));
        row.0 += 1;
        row.1 += u32::from(kept[index]);
    }
    let hours = settings.hours.0;
    let mut machines = Vec::new();
    let (mut now, mut then) = (Money::ZERO, Money::ZERO);
    let mut sums = [Vec::new(), Vec::new()];
    let mut without_price = Vec::new();
    for ((machine, _, gpus), (count, left, example)) in rows {
        let price = nodes[example].price.as_ref();
        match price {
            Some(price) => {
                let each = price.per_hour.for_hours(hours);
                now = now + each.times(count);
                then = then + each.times(left);
                for (sum, number) in sums.iter_mut().zip([count, left]) {
                    sum.push(format!(
                        "{number} × {machine} × {} × {hours} h = {}",
                        price.per_hour,
                        each.times(number)
                    ));
                }
            }
            None => without_price.push(machine.to_owned()),
        }
        machines.push(MachineRow {
            machine: machine.to_owned(),
            gpus,
            price_per_hour: price.map(|price| price.per_hour.to_string()),
            price_source: price.map(|price| price.source.clone()),
            now: count,
            then: left,
        });
    }
    let (now, then) = (now.rounded(), then.rounded());
    let [before, after] = sums;
    let line = |word: &str, parts: Vec<String>, sum: Money| match parts.as_slice() {
        [] => format!("{word}: {sum}"),
        [one] => format!("{word}: {one}"),
        several => format!("{word}: {} = {sum}", several.join(" + ")),
    };
    let cents = |money: Money| i64::try_from(money.cents()).unwrap_or(i64::MAX);
    let money = FleetMoney {
        hours,
        now_cents: cents(now),
        then_cents: cents(then),
        saved_cents: cents(now) - cents(then),
        arithmetic: vec![
            line("now", before, now),
            line("then", after, then),
            format!("saved: {now} - {then} = {}", now - then),
        ],
        without_price,
    };
    (machines, money)
}

/// Types with the same GPUs that would hold what is on the machines that stay, for less. Only the machine around the GPU is compared: what
/// another GPU would do with the same work is not known.
pub(crate) fn cheaper(
    nodes: &[Node],
    loads: &[Option<Load>],
    prices: &Prices,
    settings: &Settings,
) -> Vec<Cheaper> {
    let mut found: BTreeMap<(&str, &str), Cheaper> = BTreeMap::new();
    for (node, load) in nodes.iter().zip(loads) {
        let Some(load) = load else { continue };
        let Some((to, saved)) = instead(node, *load, prices, settings) else { continue };
        let entry = found.entry((node.machine.as_str(), to.name)).or_insert_with(|| Cheaper {
            nodes: Vec::new(),
            from: node.machine.clone(),
            to: to.name.to_owned(),
            saved_cents: 0,
            words: format!(
                "{} has the same GPUs and holds what processors and memory are asked for; {} more would be saved on each in {} hours",
                to.name, saved, settings.hours.0
            ),
        });
        entry.nodes.push(node.name.clone());
        entry.saved_cents += i64::try_from(saved.cents()).unwrap_or(0);
    }
    found.into_values().collect()
}

fn instead(
    node: &Node,
    load: Load,
    prices: &Prices,
    settings: &Settings,
) -> Option<(&'static InstanceType, Money)> {
    let present = InstanceType::named(&node.machine)?;
    let price = node.price.as_ref()?.per_hour;
    let host = present.host?;
    // What kubelet and the system keep of a machine they keep of another, too.
    let kept_cpu = (u64::from(host.cpus) * 1000).saturating_sub(node.cpu_milli);
    let kept_memory = host.memory.0.saturating_sub(node.memory.0);
    let holds = |machine: &&InstanceType| {
        machine.provider == present.provider
            && machine.product == present.product
            && machine.gpus >= load.gpus.max(1)
            && machine.host.is_some_and(|host| {
                u64::from(host.cpus) * 1000 >= load.cpu + kept_cpu
                    && host.memory.0 >= load.memory + kept_memory
            })
    };
    let priced = |machine: &'static InstanceType| Some((prices.of(machine.name)?.per_hour, machine));
    let (best, machine) = CATALOGUE
        .iter()
        .filter(|machine| present.product.is_some() && holds(machine))
        .filter_map(priced)
        .min_by_key(|(price, machine)| (price.micros(), machine.name))?;
    (best < price).then(|| {
        let hours = settings.hours.0;
        (machine, (price.for_hours(hours) - best.for_hours(hours)).rounded())
    })
}
