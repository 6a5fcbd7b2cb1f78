//! What ordinary Kubernetes manifests ask of GPUs, whoever's fractional-GPU system they were written for.
//!
//! [`read`] takes files with any number of documents, finds every pod and pod template in them, and turns each request (a
//! resource, an annotation or a resource claim) into a [`GpuAsk`]. What is wrong comes back with file, document, line, field
//! and a corrected example; what is not understood is said, never guessed.

mod annotations;
mod ask;
mod cel;
mod claims;
mod container;
mod containers;
mod fields;
mod names;
mod objects;
mod pod;
mod quantity;

pub use annotations::{is_request_annotation, request_annotations};
pub use ask::{Dialect, GpuAsk, MemoryAsk, Names, Thousandths};
pub use carve_gpu_model::{Isolation, Mechanism};
pub use containers::{ContainerAsk, ContainerKind, read_containers};
pub use names::{MIG as MIG_RESOURCE, dialect_of_resource, resource_names};
pub use quantity::{Quantity, QuantityError};

use crate::diagnostic::{Diagnostic, Severity};
use crate::kubernetes_yaml::{self, Position};
use carve_gpu_model::Mebibytes;
use std::collections::BTreeMap;

/// A file with manifests.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What it is called in messages.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// Which file, by its place in the list that was given to [`read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceIndex(pub usize);

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifests {
    /// Pods and pod templates, in the order of the files. One in which something is wrong is left out.
    pub workloads: Vec<Workload>,
    /// What is wrong or doubtful.
    pub findings: Vec<Finding>,
    /// Objects that make no pods, by kind, and how many.
    pub others: BTreeMap<String, u32>,
}

impl Manifests {
    /// Whether something would be refused by a cluster.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.diagnostic.severity == Severity::Error)
    }
}

/// Something wrong or doubtful, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub source: SourceIndex,
    /// The document in it, from 1.
    pub document: usize,
    /// The object, as `Deployment web/frontend`; empty where there is none.
    pub object: String,
    /// What it is.
    pub diagnostic: Diagnostic,
}

/// How many pods an object makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Replicas {
    /// So many.
    Count(u32),
    /// One on every node.
    EveryNode,
}

/// An object that makes pods, and what each of them asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The file.
    pub source: SourceIndex,
    /// The document in it, from 1.
    pub document: usize,
    /// Where the object begins.
    pub at: Position,
    /// Its kind.
    pub kind: String,
    /// Its namespace; `default` where none is written.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The template's path inside an object that has several, such as `spec.tasks[1]`; empty for the usual place.
    pub template: String,
    /// How many pods.
    pub replicas: Replicas,
    /// What each pod asks for.
    pub pod: PodAsk,
}

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodAsk {
    /// GPUs and parts of GPUs. Empty for work on CPUs alone.
    pub gpus: Vec<GpuAsk>,
    /// CPU, in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory of the machine.
    pub memory: Mebibytes,
    /// Products its node must have, by the label `nvidia.com/gpu.product`; empty for any.
    pub products: Vec<String>,
    /// The MIG devices of the pod must be parts of one GPU.
    pub same_gpu: bool,
}

/// More pods than any cluster runs; a number beyond it is a slip of the pen.
pub const MOST_REPLICAS: u32 = 1_000_000;
/// Findings beyond this many are only counted, so that a broken file does not fill the screen or the memory.
pub const MOST_FINDINGS: usize = 200;

/// Reads manifests. Resource claims are found wherever they stand, in whatever file.
pub fn read(sources: &[Source<'_>]) -> Manifests {
    let mut manifests = Manifests::default();
    let streams: Vec<_> = sources.iter().map(|source| kubernetes_yaml::parse_stream(source.text)).collect();
    let mut all = Vec::new();
    for (index, (nodes, _)) in streams.iter().enumerate() {
        for (document, node) in nodes.iter().enumerate() {
            objects::collect(SourceIndex(index), document + 1, node, &mut all, &mut manifests);
        }
    }
    let claims = claims::Claims::collect(&all, &mut manifests);
    let mut seen = objects::Seen::new();
    for object in &all {
        objects::read(object, &claims, &mut seen, &mut manifests);
    }
    for (index, (nodes, error)) in streams.into_iter().enumerate() {
        if let Some(error) = error {
            let document = nodes.len() + 1;
            let mut report = crate::diagnostic::Report::default();
            report.syntax(error);
            objects::file(SourceIndex(index), document, String::new(), report, &mut manifests);
        }
    }
    manifests.findings.sort_by_key(|finding| (finding.source, finding.document));
    let more = manifests.findings.len().saturating_sub(MOST_FINDINGS);
    if more > 0 {
        let worse = manifests.findings.iter().skip(MOST_FINDINGS);
        let error = worse.into_iter().any(|finding| finding.diagnostic.severity == Severity::Error);
        manifests.findings.truncate(MOST_FINDINGS);
        manifests.findings.push(Finding {
            source: SourceIndex(sources.len().saturating_sub(1)),
            document: 0,
            object: String::new(),
            diagnostic: Diagnostic {
                severity: if error { Severity::Error } else { Severity::Warning },
                at: None,
                path: String::new(),
                message: format!("{more} more findings are not shown"),
                hint: Some("correct these first, then try again".to_owned()),
                upstream: None,
            },
        });
    }
    manifests
}
