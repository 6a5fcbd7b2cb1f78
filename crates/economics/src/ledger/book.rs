//! Who pays for what: every moment of every GPU stands in one column of one row.

use super::amount::{Cost, Millis, Parts};
use super::interval::{Account, GpuTime, NodeTime, SliceTime};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What became of the money for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bill {
    /// Given out, and used.
    pub used: Cost,
    /// Given out, and not used.
    pub idle_held: Cost,
    /// Given out, and nobody can tell whether it was used.
    pub unmeasured: Cost,
    /// Not given out.
    pub idle: Cost,
    /// Not given out, and too little of something to be given out.
    pub fragmentation: Cost,
    /// Not to be had: sick GPUs, GPUs that are being cut, machines without GPUs that work.
    pub overhead: Cost,
}

impl Bill {
    /// What somebody was given.
    pub fn allocated(&self) -> Cost {
        self.used + self.idle_held + self.unmeasured
    }

    /// What it consists of, by name: first what somebody was given, then what nobody was.
    pub fn kinds(&self) -> [(&'static str, Cost); 6] {
        [
            ("used", self.used),
            ("idle-held", self.idle_held),
            ("unmeasured", self.unmeasured),
            ("idle", self.idle),
            ("fragmentation", self.fragmentation),
            ("overhead", self.overhead),
        ]
    }

    /// Everything.
    pub fn total(&self) -> Cost {
        self.allocated() + self.idle + self.fragmentation + self.overhead
    }
}

impl AddAssign for Bill {
    fn add_assign(&mut self, other: Bill) {
        self.used += other.used;
        self.idle_held += other.idle_held;
        self.unmeasured += other.unmeasured;
        self.idle += other.idle;
        self.fragmentation += other.fragmentation;
        self.overhead += other.overhead;
    }
}

/// What rows are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Namespaces.
    Namespace,
    /// What made the pods.
    Workload,
    /// Pods.
    Pod,
    /// Machines.
    Node,
    /// Ways of sharing.
    Mechanism,
}

impl By {
    /// All of them.
    pub const ALL: [By; 5] = [By::Namespace, By::Workload, By::Pod, By::Node, By::Mechanism];

    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            By::Namespace => "namespace",
            By::Workload => "workload",
            By::Pod => "pod",
            By::Node => "node",
            By::Mechanism => "mechanism",
        }
    }

    /// What a row with this owner on this machine is called; none where it is nobody's.
    fn name(self, node: &str, owner: Option<&Account>) -> Option<String> {
        match self {
            By::Node => Some(node.to_owned()),
            By::Namespace => owner.map(|account| account.namespace.clone()),
            By::Workload => owner.map(|account| format!("{}/{}", account.namespace, account.workload)),
            By::Pod => owner.map(|account| format!("{}/{}", account.namespace, account.pod)),
            By::Mechanism => owner.map(Account::way),
        }
    }
}

/// Whose a row is; none where it is nobody's.
type Owner = Option<Account>;

/// What machines cost, and who pays for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<(String, Owner), Bill>,
    /// What each machine cost, reckoned apart.
    prices: BTreeMap<String, Cost>,
    /// How much time of GPUs was given out to whom.
    gpu_time: BTreeMap<(String, Account), Millis>,
}

impl Ledger {
    /// Writes down a while on a machine.
    pub fn add(&mut self, time: &NodeTime) {
        let price = Cost::of(time.price, time.time);
        *self.prices.entry(time.node.clone()).or_default() += price;
        if time.gpus.is_empty() {
            self.note(&time.node, None, Bill { overhead: price, ..Bill::default() });
            return;
        }
        let shares = price.divide(&vec![1; time.gpus.len()]);
        for (gpu, cost) in time.gpus.iter().zip(shares) {
            match gpu {
                GpuTime::Withheld => {
                    self.note(&time.node, None, Bill { overhead: cost, ..Bill::default() });
                }
                GpuTime::Serving { slices, stranded } => {
                    self.serve(&time.node, time.time, cost, slices, *stranded);
                }
            }
        }
    }

    fn note(&mut self, node: &str, owner: Owner, bill: Bill) {
        *self.rows.entry((node.to_owned(), owner)).or_default() += bill;
    }

    /// Divides what a GPU cost. Where slices weigh more than the GPU, which dominant shares can, they pay in proportion.
    fn serve(&mut self, node: &str, time: Millis, cost: Cost, slices: &[SliceTime], stranded: Parts) {
        let given: u64 = slices.iter().map(|slice| u64::from(slice.weight.0)).sum();
        let rest = Parts(u32::try_from(u64::from(Parts::ALL.0).saturating_sub(given)).unwrap_or(0));
        let lost = stranded.min(rest);
        let weights = slices.iter().map(|slice| u64::from(slice.weight.0));
        let weights: Vec<u64> = weights.chain([u64::from(lost.0), u64::from(rest.0 - lost.0)]).collect();
        let costs = cost.divide(&weights);
        for (slice, cost) in slices.iter().zip(&costs) {
            let bill = match slice.used {
                Some(used) => {
                    let (used, idle_held) = cost.take(used.min(Parts::ALL));
                    Bill { used, idle_held, ..Bill::default() }
                }
                None => Bill { unmeasured: *cost, ..Bill::default() },
            };
            self.note(node, Some(slice.account.clone()), bill);
            let had = u128::from(time.0) * u128::from(slice.weight.0)
                / u128::from(Parts::ALL.0).max(u128::from(given));
            let entry = self.gpu_time.entry((node.to_owned(), slice.account.clone())).or_default();
            entry.0 += u64::try_from(had).unwrap_or(u64::MAX);
        }
        let (fragmentation, idle) = (costs[slices.len()], costs[slices.len() + 1]);
        self.note(node, None, Bill { idle, fragmentation, ..Bill::default() });
    }

    /// Writes down a row that was reckoned before.
    pub(super) fn enter(&mut self, node: &str, owner: Owner, bill: Bill, gpu_time: Millis) {
        *self.prices.entry(node.to_owned()).or_default() += bill.total();
        if let Some(owner) = &owner {
            self.gpu_time.entry((node.to_owned(), owner.clone())).or_default().0 += gpu_time.0;
        }
        self.note(node, owner, bill);
    }

    /// Adds another ledger.
    pub fn merge(&mut self, other: &Ledger) {
        for ((node, owner), bill) in &other.rows {
            self.note(node, owner.clone(), *bill);
        }
        for (node, price) in &other.prices {
            *self.prices.entry(node.clone()).or_default() += *price;
        }
        for (key, time) in &other.gpu_time {
            self.gpu_time.entry(key.clone()).or_default().0 += time.0;
        }
    }

    /// Everything, summed up.
    pub fn total(&self) -> Bill {
        let mut total = Bill::default();
        self.rows.values().for_each(|bill| total += *bill);
        total
    }

    /// What the machines cost.
    pub fn price(&self) -> Cost {
        self.prices.values().copied().sum()
    }

    /// Machines whose rows do not sum up to their price. There are none; this is for whoever doubts it.
    pub fn unbalanced(&self) -> Vec<&str> {
        let sum = |node: &str| -> Cost {
            let rows = self.rows.iter().filter(|((on, _), _)| on == node);
            rows.map(|(_, bill)| bill.total()).sum()
        };
        let wrong = self.prices.iter().filter(|(node, price)| sum(node) != **price);
        wrong.map(|(node, _)| node.as_str()).collect()
    }

    /// Every row: its machine, whose it is, and what it pays.
    pub fn rows(&self) -> impl Iterator<Item = (&str, Option<&Account>, &Bill)> {
        self.rows.iter().map(|((node, owner), bill)| (node.as_str(), owner.as_ref(), bill))
    }

    /// How much of GPUs' time somebody was given, a whole GPU for an hour being an hour.
    pub fn gpu_time(&self, node: &str, account: &Account) -> Millis {
        self.gpu_time.get(&(node.to_owned(), account.clone())).copied().unwrap_or_default()
    }

    /// How much of GPUs' time was given out, by the same names.
    pub fn gpu_time_by(&self, by: By) -> BTreeMap<Option<String>, Millis> {
        let mut times: BTreeMap<Option<String>, Millis> = BTreeMap::new();
        for ((node, account), time) in &self.gpu_time {
            times.entry(by.name(node, Some(account))).or_default().0 += time.0;
        }
        times
    }

    /// Rows summed up; `None` is what nobody was given, unless rows are about machines.
    pub fn by(&self, by: By) -> BTreeMap<Option<String>, Bill> {
        let mut rows: BTreeMap<Option<String>, Bill> = BTreeMap::new();
        for ((node, owner), bill) in &self.rows {
            let name = by.name(node, owner.as_ref());
            *rows.entry(name).or_default() += *bill;
        }
        rows
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
