//! What there is to show, line by line.

use carve_fleet_picture::{Evidence, GpuPicture, GpuState, Mechanism, Picture, Slice};

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// By node and GPU.
    #[default]
    Name,
    /// Those that are busiest first.
    Use,
    /// Those that hold most without using it first.
    Waste,
    /// Those that use most memory first.
    Memory,
    /// Those that are held back most first.
    Throttled,
}

impl Sort {
    /// All of them, in the order of the key that changes it.
    pub const ALL: [Sort; 5] = [Sort::Name, Sort::Use, Sort::Waste, Sort::Memory, Sort::Throttled];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Use => "use",
            Sort::Waste => "waste",
            Sort::Memory => "memory",
            Sort::Throttled => "throttled",
        }
    }

    /// The next one.
    pub fn next(self) -> Self {
        let place = Sort::ALL.iter().position(|one| *one == self).unwrap_or(0);
        Sort::ALL[(place + 1) % Sort::ALL.len()]
    }
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// A GPU.
    Gpu {
        /// `p4d-1:0`.
        name: String,
        /// What it is.
        product: String,
        /// How it is, where that is not well.
        state: String,
        /// Part of its time, where it is known.
        busy: Option<f64>,
        /// MiB in use, and there are.
        memory: (u64, u64),
        /// What is given away of it.
        slices: usize,
    },
    /// A slice of it.
    Slice {
        /// `namespace/name`.
        pod: String,
        /// The container.
        container: String,
        /// `MIG 1g.5gb`, `limiter`, …
        way: String,
        /// Part of the GPU's time that was promised.
        promised: Option<f64>,
        /// That is used.
        used: Option<f64>,
        /// How that is known.
        how: &'static str,
        /// MiB in use, and promised.
        memory: (u64, Option<u64>),
        /// Part of the time in which it was held back.
        throttled: f64,
    },
}

/// What one calls a way of sharing.
fn way(gpu: &GpuPicture, slice: &Slice) -> String {
    let word = match slice.mechanism {
        Mechanism::Exclusive => "whole",
        Mechanism::TimeSlicing => "turns",
        Mechanism::Mps => "MPS",
        Mechanism::Mig => "MIG",
        Mechanism::Limiter => "limiter",
    };
    let instance =
        slice.instance.as_ref().and_then(|uuid| gpu.instances.iter().find(|one| one.uuid == *uuid));
    match (instance, slice.mechanism) {
        (Some(instance), Mechanism::Mig) => format!("{word} {}", instance.profile),
        (Some(instance), _) => format!("{word} on {}", instance.profile),
        (None, _) => word.to_owned(),
    }
}

fn how(slice: &Slice) -> &'static str {
    match slice.how {
        Some(Evidence::Measured) => "measured",
        Some(Evidence::Limiter) => "limiter",
        Some(Evidence::Quota) => "quota",
        Some(Evidence::Equal) => "equal",
        None => "",
    }
}

/// What is held and not used, as a part of the GPU.
fn waste(slice: &Slice) -> f64 {
    (slice.compute.unwrap_or(0.0) - slice.compute_used.unwrap_or(0.0)).max(0.0)
}

fn weight(slice: &Slice, sort: Sort) -> f64 {
    match sort {
        Sort::Name => 0.0,
        Sort::Use => slice.compute_used.unwrap_or(0.0),
        Sort::Waste => waste(slice),
        Sort::Memory => slice.memory_used as f64,
        Sort::Throttled => slice.throttled,
    }
}

fn gpu_weight(gpu: &GpuPicture, sort: Sort) -> f64 {
    match sort {
        Sort::Name => 0.0,
        Sort::Use => gpu.busy.unwrap_or(0.0),
        // A GPU that nobody has is wasted as a whole.
        Sort::Waste if gpu.slices.is_empty() => 1.0,
        Sort::Memory => gpu.memory_used as f64,
        Sort::Waste => gpu.slices.iter().map(waste).sum(),
        Sort::Throttled => gpu.slices.iter().map(|slice| slice.throttled).fold(0.0, f64::max),
    }
}

/// Largest first; what can not be compared is the same.
fn largest_first(one: f64, other: f64) -> std::cmp::Ordering {
    other.partial_cmp(&one).unwrap_or(std::cmp::Ordering::Equal)
}

/// The lines of a picture: every GPU, and its slices below it. A filter is words that must all be found in node, product, state, pod, workload or way.
pub fn rows(picture: &Picture, sort: Sort, filter: &str) -> Vec<Row> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let found = |text: &str| words.iter().all(|word| text.contains(word));
    let mut gpus: Vec<(String, &GpuPicture)> = picture
        .nodes
        .iter()
        .flat_map(|(node, pictured)| {
            pictured.gpus.iter().map(move |gpu| (format!("{node}:{}", gpu.index), gpu))
        })
        .collect();
    gpus.sort_by(|one, other| largest_first(gpu_weight(one.1, sort), gpu_weight(other.1, sort)));
    let mut rows = Vec::new();
    for (name, gpu) in gpus {
        let state = match gpu.state {
            GpuState::Ok => String::new(),
            GpuState::Cutting => "being cut".to_owned(),
            GpuState::Sick => format!("sick: {}", gpu.why),
            GpuState::Lost => "lost".to_owned(),
        };
        let head = format!("{name} {} {state}", gpu.product).to_lowercase();
        let mut slices: Vec<&Slice> = gpu
            .slices
            .iter()
            .filter(|slice| {
                found(&format!("{head} {} {} {}", slice.pod, slice.workload, way(gpu, slice)).to_lowercase())
            })
            .collect();
        if slices.is_empty() && !found(&head) {
            continue;
        }
        slices.sort_by(|one, other| largest_first(weight(one, sort), weight(other, sort)));
        rows.push(Row::Gpu {
            name,
            product: gpu.product.clone(),
            state,
            busy: gpu.busy,
            memory: (gpu.memory_used, gpu.memory),
            slices: gpu.slices.len(),
        });
        rows.extend(slices.into_iter().map(|slice| Row::Slice {
            pod: slice.pod.clone(),
            container: slice.container.clone(),
            way: way(gpu, slice),
            promised: slice.compute,
            used: slice.compute_used,
            how: how(slice),
            memory: (slice.memory_used, slice.memory),
            throttled: slice.throttled,
        }));
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Row, Sort, rows};
    use carve_fleet_picture::{
        Evidence, GpuPicture, GpuState, Instance, Mechanism, NodePicture, Picture, Slice, Waiting,
    };

    pub(crate) fn picture() -> Picture {
        let slice = |pod: &str, mechanism, compute, used: f64| Slice {
            pod: pod.to_owned(),
            container: "main".to_owned(),
            workload: "Deployment/web".to_owned(),
            mechanism,
            compute,
            compute_used: Some(used),
            memory: Some(5_120),
            memory_used: 900,
            how: Some(Evidence::Measured),
            ..Slice::default()
        };
        let mig =
            Slice { instance: Some("MIG-1".to_owned()), ..slice("chat/a", Mechanism::Mig, Some(0.42), 0.3) };
        let cut = GpuPicture {
            product: "NVIDIA A100-SXM4-40GB".to_owned(),
            memory: 40_960,
            memory_used: 900,
            slots: Some(8),
            instances: vec![Instance {
                uuid: "MIG-1".to_owned(),
                profile: "3g.20gb".to_owned(),
                size: 4,
                ..Instance::default()
            }],
            slices: vec![mig],
            busy: Some(0.3),
            ..GpuPicture::default()
        };
        let held_back = Slice {
            throttled: 0.2,
            how: Some(Evidence::Limiter),
            ..slice("search/b", Mechanism::Limiter, Some(0.25), 0.25)
        };
        let idle = slice("search/c", Mechanism::Limiter, Some(0.5), 0.01);
        let shared = GpuPicture {
            index: 1,
            product: "NVIDIA A10G".to_owned(),
            memory: 23_028,
            memory_used: 1_800,
            slices: vec![held_back, idle],
            busy: Some(0.26),
            ..GpuPicture::default()
        };
        let lost = GpuPicture {
            index: 2,
            product: "NVIDIA A10G".to_owned(),
            state: GpuState::Lost,
            ..GpuPicture::default()
        };
        let node = NodePicture {
            kind: "p4d.24xlarge".to_owned(),
            ready: true,
            dollars_per_hour: Some(30.0),
            gpus: vec![cut, shared, lost],
            ..NodePicture::default()
        };
        let waiting =
            Waiting { why: "no room".to_owned(), asks: "8 × gpu".to_owned(), ..Waiting::default() };
        Picture {
            at: 1_794_880_000,
            nodes: [("p4d-1".to_owned(), node)].into(),
            waiting: [("lab/big".to_owned(), waiting)].into(),
            ..Picture::default()
        }
    }

    fn names(rows: &[Row]) -> Vec<&str> {
        let name = |row: &'_ Row| match row {
            Row::Gpu { name, .. } => name.as_str().to_owned(),
            Row::Slice { pod, .. } => pod.as_str().to_owned(),
        };
        rows.iter().map(|row| Box::leak(name(row).into_boxed_str()) as &str).collect()
    }

    #[test]
    fn gpus_come_with_their_slices_in_the_order_that_is_asked_for() {
        let picture = picture();
        let order = |sort| names(&rows(&picture, sort, "")).join(" ");
        assert_eq!(order(Sort::Name), "p4d-1:0 chat/a p4d-1:1 search/b search/c p4d-1:2");
        assert_eq!(order(Sort::Waste), "p4d-1:2 p4d-1:1 search/c search/b p4d-1:0 chat/a");
        assert_eq!(order(Sort::Throttled), "p4d-1:1 search/b search/c p4d-1:0 chat/a p4d-1:2");
    }

    #[test]
    fn filters_look_everywhere() {
        let picture = picture();
        let found = |filter| names(&rows(&picture, Sort::Name, filter)).join(" ");
        assert_eq!(found("chat"), "p4d-1:0 chat/a");
        assert_eq!(found("MIG 3g"), "p4d-1:0 chat/a");
        assert_eq!(found("a10g search/c"), "p4d-1:1 search/c");
        assert_eq!(found("lost"), "p4d-1:2");
        assert_eq!(found("nobody"), "");
    }
}
