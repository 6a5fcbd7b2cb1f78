//! How the GPUs of a node are connected, read once and asked often.

use carve_gpu_host::Link;
use carve_gpu_model::GpuIndex;

/// The links between the GPUs of a node. What is not known is no link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// In order, each once.
    gpus: Vec<GpuIndex>,
    /// A row per GPU; the same in both directions.
    links: Vec<Option<Link>>,
    lost: Vec<bool>,
}

impl Topology {
    /// Asks for the link between every two GPUs, and of every GPU with itself, as `GpuHost::link` answers it.
    ///
    /// No answer means that the link is not known. A GPU is lost when it gives no answer about itself, or none about
    /// any other GPU while others answer about each other.
    pub fn new(
        gpus: impl IntoIterator<Item = GpuIndex>,
        mut link: impl FnMut(GpuIndex, GpuIndex) -> Option<Link>,
    ) -> Self {
        let mut gpus: Vec<GpuIndex> = gpus.into_iter().collect();
        gpus.sort();
        gpus.dedup();
        let count = gpus.len();
        let mut links = vec![None; count * count];
        for (row, from) in gpus.iter().enumerate() {
            for (column, to) in gpus.iter().enumerate().skip(row) {
                let found = link(*from, *to).or_else(|| if row == column { None } else { link(*to, *from) });
                links[row * count + column] = found;
                links[column * count + row] = found;
            }
        }
        let knows_others = |row: usize| (0..count).any(|to| to != row && links[row * count + to].is_some());
        let any_known = (0..count).any(knows_others);
        let lost =
            (0..count).map(|row| links[row * count + row].is_none() || (any_known && !knows_others(row)));
        let lost: Vec<bool> = lost.collect();
        Topology { gpus, links, lost }
    }

    /// From a table of links: `table[from][to]`, GPUs numbered from 0. Missing cells are unknown links.
    pub fn from_table(table: &[Vec<Option<Link>>]) -> Self {
        let gpus = (0..).zip(table).map(|(number, _)| GpuIndex(number));
        Topology::new(gpus, |from, to| {
            table.get(from.0 as usize).and_then(|row| row.get(to.0 as usize)).copied().flatten()
        })
    }

    /// The GPUs, in order.
    pub fn gpus(&self) -> &[GpuIndex] {
        &self.gpus
    }

    /// The link between two GPUs, where it is known and both are there.
    pub fn link(&self, from: GpuIndex, to: GpuIndex) -> Option<Link> {
        let (row, column) = (self.place(from)?, self.place(to)?);
        if self.lost[row] || self.lost[column] {
            return None;
        }
        self.links[row * self.gpus.len() + column]
    }

    /// Whether a GPU is lost, or was never seen.
    pub fn is_lost(&self, gpu: GpuIndex) -> bool {
        self.place(gpu).is_none_or(|place| self.lost[place])
    }

    fn place(&self, gpu: GpuIndex) -> Option<usize> {
        self.gpus.binary_search(&gpu).ok()
    }
}
