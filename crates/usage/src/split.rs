//! What a device did for a moment, divided among those who have parts of it.
//!
//! Drivers tell how long a device was busy, and rarely for whom: one noisy sample a second where processes take turns, and under MPS the server's
//! pid alone. Nothing is made of such samples. A container that has the device to itself used what the device did; a library in the container
//! counts what it used; for everybody else there are only promises, or nothing but their number. Each figure says which of these it is.

use carve_gpu_model::{Bytes, apportion};

/// Time in which a device was busy, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Busy(pub u64);

impl Busy {
    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// How a figure was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The driver told it of a device that nobody else has.
    Measured,
    /// A library in the container counted it.
    Limiter,
    /// The device's figure, divided by what was promised to those who have processes on it.
    Quota,
    /// The device's figure, divided evenly by those who have processes on it.
    Equal,
}

impl Evidence {
    /// All of them, the best first.
    pub const ALL: [Evidence; 4] = [Evidence::Measured, Evidence::Limiter, Evidence::Quota, Evidence::Equal];

    /// The word in labels.
    pub const fn word(self) -> &'static str {
        match self {
            Evidence::Measured => "measured",
            Evidence::Limiter => "limiter",
            Evidence::Quota => "quota",
            Evidence::Equal => "equal",
        }
    }
}

/// A container with a part of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantTick {
    /// What it was promised of the device's time, in thousandths; none where nothing was.
    pub promised: Option<u32>,
    /// What it used, as it counts itself; none where it does not.
    pub counted: Option<Busy>,
    /// Its processes on the device.
    pub processes: u32,
    /// Memory that the driver shows for them.
    pub memory: Bytes,
}

/// Processes on the device that belong to no container which has a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strangers {
    /// How many.
    pub processes: u32,
    /// Memory that the driver shows for them.
    pub memory: Bytes,
}

/// A moment of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tick {
    /// How long it was busy, by the driver; none where that is not told.
    pub busy: Option<Busy>,
    /// Memory in use, by the driver.
    pub memory: Bytes,
    /// Whether work of several tenants runs at once, as under MPS: then what they count overlaps.
    pub at_once: bool,
    /// Who has parts of it.
    pub tenants: Vec<TenantTick>,
    /// Who else is on it.
    pub strangers: Strangers,
    /// What was counted before beyond what the device did: clocks and figures do not agree to the moment, and over time they do.
    pub ahead: Busy,
}

/// What a tenant used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Time, and how it is known; none where it is not.
    pub busy: Option<(Busy, Evidence)>,
    /// Memory; the driver tells that of every process.
    pub memory: Bytes,
}

/// What no tenant used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rest {
    /// Time.
    pub busy: Busy,
    /// Memory.
    pub memory: Bytes,
}

/// A device's moment, divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// For each tenant, in their order.
    pub parts: Vec<Part>,
    /// For nobody.
    pub rest: Rest,
    /// What is counted by now beyond what the device did.
    pub ahead: Busy,
}

impl Split {
    /// All of the device's time.
    pub fn busy(&self) -> Busy {
        let parts = self.parts.iter().filter_map(|part| part.busy);
        Busy(parts.map(|(busy, _)| busy.0).sum::<u64>() + self.rest.busy.0)
    }

    /// All of its memory in use.
    pub fn memory(&self) -> Bytes {
        Bytes(self.parts.iter().map(|part| part.memory.0).sum::<u64>() + self.rest.memory.0)
    }
}

/// Divides a moment.
pub fn split(tick: &Tick) -> Split {
    let (times, rest, ahead) = times(tick);
    let memory: u64 = tick.tenants.iter().map(|tenant| tenant.memory.0).sum();
    let parts = tick.tenants.iter().zip(times).map(|(tenant, busy)| Part { busy, memory: tenant.memory });
    // What the driver keeps for itself is nobody's; where it shows more for processes than for the device, the processes count.
    let rest = Rest { busy: rest, memory: Bytes(tick.memory.0.saturating_sub(memory)) };
    Split { parts: parts.collect(), rest, ahead }
}

type Times = Vec<Option<(Busy, Evidence)>>;

/// More than this is no matter of moments: whoever counts wrongly does not take it from others for ever.
const MOST_AHEAD: u64 = 2_000_000_000;

fn times(tick: &Tick) -> (Times, Busy, Busy) {
    let Some(busy) = tick.busy else {
        let counted = tick.tenants.iter().map(|tenant| Some((tenant.counted?, Evidence::Limiter)));
        return (counted.collect(), Busy(0), tick.ahead);
    };
    if let ([only], 0) = (tick.tenants.as_slice(), tick.strangers.processes)
        && only.counted.is_none()
    {
        return (vec![Some((busy, Evidence::Measured))], Busy(0), Busy(0));
    }
    let counted = counted(tick, busy);
    let taken = counted.iter().flatten().map(|busy| busy.0).sum::<u64>().saturating_add(tick.ahead.0);
    let (left, ahead) = (busy.0.saturating_sub(taken), taken.saturating_sub(busy.0).min(MOST_AHEAD));
    // Who has no process on the device did nothing on it.
    let sharing = |tenant: &TenantTick| tenant.counted.is_none() && tenant.processes > 0;
    let strangers = tick.strangers.processes > 0;
    // Also of who has no process now: how a figure is obtained does not change with who works.
    let promised = tick.tenants.iter().all(|tenant| tenant.counted.is_some() || tenant.promised.is_some());
    let evidence = if promised && !strangers { Evidence::Quota } else { Evidence::Equal };
    let weight = |tenant: &TenantTick| match (sharing(tenant), evidence) {
        (false, _) => 0,
        (true, Evidence::Quota) => u64::from(tenant.promised.unwrap_or(0)).max(1),
        (true, _) => 1,
    };
    let weights: Vec<u64> = tick.tenants.iter().map(weight).chain([u64::from(strangers)]).collect();
    let divided = apportion(u128::from(left), &weights);
    let part = |at: usize| Busy(u64::try_from(divided[at]).unwrap_or(u64::MAX));
    let told = counted.iter().enumerate().map(|(at, counted)| match counted {
        Some(counted) => Some((*counted, Evidence::Limiter)),
        None => Some((part(at), evidence)),
    });
    let nobodys =
        if weights.iter().all(|weight| *weight == 0) { Busy(left) } else { part(tick.tenants.len()) };
    (told.collect(), nobodys, Busy(ahead))
}

/// What tenants counted themselves. Time of work that ran at once counts several times, so there it is brought to what the device did.
fn counted(tick: &Tick, busy: Busy) -> Vec<Option<Busy>> {
    let counted: Vec<Option<Busy>> = tick.tenants.iter().map(|tenant| tenant.counted).collect();
    let sum: u128 = counted.iter().flatten().map(|busy| u128::from(busy.0)).sum();
    if !tick.at_once || sum <= u128::from(busy.0) {
        return counted;
    }
    let weights: Vec<u64> = counted.iter().map(|busy| busy.map_or(0, |busy| busy.0)).collect();
    let parts = apportion(u128::from(busy.0), &weights);
    let scaled = |(counted, part): (&Option<Busy>, u128)| counted.map(|_| Busy(part as u64));
    counted.iter().zip(parts).map(scaled).collect()
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
