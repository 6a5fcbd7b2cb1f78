//! What each container of one pod asks for by itself, for whoever changes the pod; [`super::read`] tells what the pod needs as a whole.

use super::annotations::notes;
use super::ask::{Dialect, GpuAsk};
use super::container;
use super::fields::{at, field, items, text_at};
use super::pod::{apply, together};
use crate::diagnostic::{Finding, Parsed, Place, Report};
use crate::kubernetes_yaml;

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerKind {
    /// Before the others, and ends.
    Init,
    /// Started before the others, and stays beside them.
    Sidecar,
    /// The others.
    Main,
}

/// A container and what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerAsk {
    /// When it runs.
    pub kind: ContainerKind,
    /// Its place in `spec.containers`, or in `spec.initContainers`.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// GPUs and parts of GPUs; claims that the pod names are not among them.
    pub gpus: Vec<GpuAsk>,
}

impl ContainerAsk {
    /// Where it is in a pod: `spec.containers[0]`.
    pub fn path(&self) -> String {
        let list = if self.kind == ContainerKind::Main { "containers" } else { "initContainers" };
        format!("spec.{list}[{}]", self.index)
    }
}

/// Reads one pod, in YAML or JSON, container by container. What annotations ask for belongs to the container they name, else to the
/// first one.
pub fn read_containers(pod: &str) -> Parsed<Vec<ContainerAsk>> {
    let mut report = Report::default();
    match kubernetes_yaml::parse(pod) {
        Ok(node) => {
            let containers = containers(&Place::root(&node), &mut report);
            report.finish(Some(containers))
        }
        Err(error) => {
            report.syntax(error);
            report.finish(None)
        }
    }
}

fn containers(pod: &Place<'_>, report: &mut Report) -> Vec<ContainerAsk> {
    let Some(spec) = field(pod, "spec") else { return Vec::new() };
    let annotations = at(pod, &["metadata", "annotations"]);
    let notes = notes(annotations.as_ref(), report);
    let mut all = Vec::new();
    for (list, is_init) in [("containers", false), ("initContainers", true)] {
        for (index, place) in field(&spec, list).iter().flat_map(items).enumerate() {
            let kind = match (is_init, text_at(&place, "restartPolicy")) {
                (false, _) => ContainerKind::Main,
                (true, Some("Always")) => ContainerKind::Sidecar,
                (true, _) => ContainerKind::Init,
            };
            let name = text_at(&place, "name").unwrap_or_default().to_owned();
            all.push(ContainerAsk { kind, index, name, gpus: container::asks(&place, report) });
        }
    }
    // Only for what it says of requests that do not go together.
    let mut together_with: Vec<GpuAsk> = all.iter().flat_map(|container| container.gpus.clone()).collect();
    together(&notes, &mut together_with, &spec, report);
    for ask in &notes.asks {
        let named = |container: &&mut ContainerAsk| ask.asker.is_empty() || container.name == ask.asker;
        match all.iter_mut().find(named) {
            Some(container) => {
                container.gpus.push(GpuAsk { asker: container.name.clone(), ..ask.clone() });
            }
            None => unknown_container(ask, annotations.as_ref(), report),
        }
    }
    for ask in all.iter_mut().flat_map(|container| &mut container.gpus) {
        apply(&notes, ask);
    }
    all
}

fn unknown_container(ask: &GpuAsk, annotations: Option<&Place<'_>>, report: &mut Report) {
    let name = match ask.dialect {
        Dialect::TensorFusion => "tensor-fusion.ai/inject-container",
        _ => "gpu-fraction-container-name",
    };
    if let Some(place) = annotations.and_then(|annotations| field(annotations, name)) {
        let shown: String = ask.asker.chars().take(80).collect();
        Finding::error(&place, format!("the pod has no container '{shown}'"))
            .hint(format!("write the name of one container, or leave {name} out for the first one"))
            .report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::{ContainerKind, read_containers};
    use crate::workloads::{Dialect, dialect_of_resource, is_request_annotation};

    fn pod(annotations: &str) -> String {
        format!(
            "metadata: {{annotations: {{{annotations}}}}}\nspec:\n  initContainers:\n  - {{name: i, resources: {{limits: {{nvidia.com/gpu: \
             1}}}}}}\n  - {{name: s, restartPolicy: Always}}\n  containers:\n  - {{name: a}}\n  - {{name: b, resources: {{limits: \
             {{tencent.com/vcuda-core: 50}}}}}}\n"
        )
    }

    #[test]
    fn init_containers_are_told_even_where_others_need_more() {
        let read = read_containers(&pod("tencent.com/vcuda-core-limit: '80'")).value.expect("no errors");
        let said: Vec<(String, ContainerKind, usize)> =
            read.iter().map(|one| (one.path(), one.kind, one.gpus.len())).collect();
        assert_eq!(
            said,
            [
                ("spec.containers[0]".to_owned(), ContainerKind::Main, 0),
                ("spec.containers[1]".to_owned(), ContainerKind::Main, 1),
                ("spec.initContainers[0]".to_owned(), ContainerKind::Init, 1),
                ("spec.initContainers[1]".to_owned(), ContainerKind::Sidecar, 0),
            ]
        );
        assert!(read[1].gpus[0].burst, "80 % may be used, 50 % are its own");
        let level = read_containers(&pod("tencent.com/vcuda-core-limit: '50'")).value.expect("no errors");
        assert!(!level[1].gpus[0].burst);
    }

    #[test]
    fn annotations_go_to_the_container_they_name() {
        for (named, at) in [("", 0), (", tensor-fusion.ai/inject-container: b", 1)] {
            let text = pod(&format!("tensor-fusion.ai/vram-limit: 1Gi{named}"));
            let read = read_containers(&text).value.expect("no errors");
            assert!(read[at].gpus.iter().any(|ask| ask.dialect == Dialect::TensorFusion), "{read:?}");
        }
        let wrong = read_containers(&pod("gpu-memory: '9', gpu-fraction-container-name: c"));
        let said: Vec<String> = wrong.errors().map(ToString::to_string).collect();
        assert!(said.iter().any(|words| words.contains("no container 'c'")), "{said:?}");
    }

    #[test]
    fn every_annotation_that_is_read_is_known() {
        let source = include_str!("annotations.rs");
        let (_, matched) = source.split_once("match name {").expect("the reader");
        let (matched, _) = matched.split_once("_ => {}").expect("its end");
        // Keys of arms stand in quotes at their beginning; other texts in there hold spaces or no slash.
        let mut found = 0;
        for line in matched.lines().map(str::trim).filter(|line| line.starts_with('"')) {
            let keys = line.split("=>").next().unwrap_or_default();
            for key in
                keys.split('"').skip(1).step_by(2).filter(|key| *key != "partitioned" && *key != "hard")
            {
                if key.contains('/') || key.starts_with("gpu-") {
                    assert!(is_request_annotation(key), "{key}");
                    found += 1;
                }
            }
        }
        assert!(found > 20, "{found}");
        assert!(!is_request_annotation("example.com/other"));
        assert_eq!(dialect_of_resource("nvidia.com/mig-nonsense"), Some(Dialect::Nvidia));
        assert_eq!(dialect_of_resource("cpu"), None);
    }
}
