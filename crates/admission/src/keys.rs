//! Names that pods carry once they are admitted; nobody but carve writes them.

/// Annotation: what the pod asks for, after the dialect is gone ([`crate::PodClaims`]).
pub const CLAIM: &str = "carve.dev/claim";
/// Annotation: what a pod got, written when it is bound.
pub const SLICES: &str = "carve.dev/slices";
/// Annotation: what the pod was understood to ask for, for people.
pub const UNDERSTOOD_AS: &str = "carve.dev/understood-as";
/// Label: the road on which a pod was admitted.
pub const ADMITTED: &str = "carve.dev/admitted";
/// Resource: tokens, one for each part that a container holds.
pub const SLICE: &str = "carve.dev/slice";
/// Resource: memory of GPUs that a container takes at least, in MiB; the stock scheduler counts it for the node as a whole.
pub const MEMORY: &str = "carve.dev/memory";
/// Resource: percent of GPUs' compute that a container takes at least, likewise.
pub const COMPUTE: &str = "carve.dev/compute";
/// The scheduler of the scheduler road.
pub const SCHEDULER: &str = "carve-scheduler";
/// The scheduler of the claims road, and of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Annotations that only carve writes.
pub const ANNOTATIONS: [&str; 3] = [CLAIM, SLICES, UNDERSTOOD_AS];

/// Resources that only carve writes.
pub const RESOURCES: [&str; 3] = [SLICE, MEMORY, COMPUTE];

/// Whether a name is one that templates of ours have: `carve-` and twelve hexadecimal digits.
pub fn is_template_name(name: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix("carve-").is_some_and(|hash| hash.len() == 12 && hash.bytes().all(digit))
}
