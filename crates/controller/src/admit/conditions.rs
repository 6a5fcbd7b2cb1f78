//! Which objects the webhook is asked about, as expressions that the API server evaluates itself (CEL).
//!
//! A cluster whose controller is away must start everything else, so what is required to be asked about is named as narrowly as it can be.

use carve_admission::keys;
use carve_formats::workloads::{Dialect, MIG_RESOURCE, request_annotations, resource_names};

/// A list of words as CEL has it.
fn list(words: impl IntoIterator<Item = &'static str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("'{word}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// Whether a map of an object's metadata has a key for which something holds; `k` is the key.
fn some_key(object: &str, map: &str, holds: &str) -> String {
    let map = format!("{object}.metadata.{map}");
    format!("(has({object}.metadata) && has({map}) && {map}.exists(k, {holds}))")
}

/// Whether some container of a pod asks for a resource for which something holds; `k` is the resource.
fn some_resource(pod: &str, holds: &str) -> String {
    let of_list = |list: &str| {
        let of = |kind: &str| format!("(has(c.resources.{kind}) && c.resources.{kind}.exists(k, {holds}))");
        let asks = format!("has(c.resources) && ({} || {})", of("limits"), of("requests"));
        format!("{pod}.spec.{list}.exists(c, {asks})")
    };
    let (main, init) = (of_list("containers"), of_list("initContainers"));
    format!("({main} || (has({pod}.spec.initContainers) && {init}))")
}

/// Pods that ask for parts of GPUs, or carry what only admission writes. The pod is `object`, or something in it that pods are made after.
pub(crate) fn asks_for_parts(pod: &str) -> String {
    let annotations = request_annotations().chain(keys::ANNOTATIONS);
    let resources = resource_names().filter(|(_, dialect)| *dialect != Dialect::Nvidia).map(|(name, _)| name);
    let template = format!(
        "(has({pod}.spec.resourceClaims) && {pod}.spec.resourceClaims.exists(c, has(c.resourceClaimTemplateName) && \
         c.resourceClaimTemplateName.matches('^carve-[0-9a-f]{{12}}$')))"
    );
    [
        some_key(pod, "annotations", &format!("k in {}", list(annotations))),
        some_key(pod, "labels", &format!("k == '{}'", keys::ADMITTED)),
        some_resource(pod, &format!("k in {}", list(resources))),
        template,
    ]
    .join(" || ")
}

/// Pods that ask for GPUs in the device plugin's words. Most clusters leave those alone, so nothing waits for the webhook because of them.
pub(crate) fn asks_for_gpus(pod: &str) -> String {
    let names = resource_names().filter(|(_, dialect)| *dialect == Dialect::Nvidia).map(|(name, _)| name);
    some_resource(pod, &format!("k in {} || k.startsWith('{MIG_RESOURCE}')", list(names)))
}

/// What a map of an object's metadata says under the key `k`.
fn said(object: &str, map: &str) -> String {
    let map = format!("{object}.metadata.{map}");
    format!("(has({map}) && k in {map} ? {map}[k] : '')")
}

fn some_change(map: &str, words: impl IntoIterator<Item = &'static str>) -> String {
    format!("{}.exists(k, {} != {})", list(words), said("oldObject", map), said("object", map))
}

/// Changes of what was decided when a pod was created. Everything else about a pod, its status above all, is written without asking.
pub(crate) fn changes_what_was_decided() -> String {
    let admitted = some_key("oldObject", "labels", &format!("k == '{}'", keys::ADMITTED));
    [
        some_change("annotations", keys::ANNOTATIONS),
        some_change("labels", [keys::ADMITTED]),
        format!("({admitted} && {})", some_change("annotations", request_annotations())),
    ]
    .join(" || ")
}

/// Pods that were admitted before.
pub(crate) fn was_admitted() -> String {
    some_key("oldObject", "labels", &format!("k == '{}'", keys::ADMITTED))
}

#[cfg(test)]
mod tests {
    use super::{asks_for_gpus, asks_for_parts, changes_what_was_decided};

    #[test]
    fn the_device_plugins_words_are_not_among_those_that_must_be_asked_about() {
        let (parts, gpus) = (asks_for_parts("object"), asks_for_gpus("object"));
        for word in [
            "'nvidia.com/gpumem'",
            "'gpu-fraction'",
            "'carve.dev/slice'",
            "'aliyun.com/gpu-mem'",
            "'carve.dev/claim'",
        ] {
            assert!(parts.contains(word), "{word} in {parts}");
            assert!(!gpus.contains(word), "{word} in {gpus}");
        }
        assert!(!parts.contains("'nvidia.com/gpu'"), "{parts}");
        assert!(
            gpus.contains(
                "k in ['nvidia.com/gpu', 'nvidia.com/gpu.shared'] || k.startsWith('nvidia.com/mig-')"
            )
        );
        assert!(changes_what_was_decided().contains("'carve.dev/slices'"));
    }
}
