//! The last thing an agent does where carve is taken off a cluster: nothing of it stays on the node but what pods still use.
//!
//! ```text
//!   SIGTERM ─▶ sockets away ─▶ is the DaemonSet of this pod gone? ──no──▶ everything stays for the next agent
//!                                       │ yes
//!                                       ▼
//!                 who still holds what ─▶ MPS daemons ─▶ files ─▶ words on the Node ─▶ an event that names what is left
//! ```
//! Everything is looked for rather than remembered, so that an agent that was killed half way is finished by running one again.

mod files;
mod in_use;

use crate::mps::MpsDoor;
use crate::options::{AgentOptions, Job, LabelTarget};
use carve_cluster_api::{NodeApi, Tone, names, take_back_slices, take_back_words};
use carve_slicing::{PartId, node_feature_name};
use files::Files;
use in_use::InUse;
use std::path::PathBuf;
use std::time::Duration;

/// How long the API server may take to say whether this is the end.
const ASKING: Duration = Duration::from_secs(10);
/// How long MPS daemons may take to end.
const DAEMONS: Duration = Duration::from_secs(15);
/// How long all of it may take. A DaemonSet should give a pod a minute to end: this, what is asked before, and sockets that are put away.
const LEAVING: Duration = Duration::from_secs(40);

/// What the agent knew of the driver while it worked.
#[derive(Debug, Clone)]
pub(crate) struct LastKnown {
    pub(crate) mps_root: PathBuf,
    pub(crate) driver_root: String,
    pub(crate) version: String,
}

/// Leaves the node, if the DaemonSet that this agent is of is gone.
pub(crate) async fn leave_if_over(options: &AgentOptions, known: Option<&LastKnown>) {
    let (Some(node), Some(own)) = (&options.node_name, &options.dra.instance) else { return };
    let Ok(api) = NodeApi::connect(options.kubeconfig.as_deref(), node).await else { return };
    let asked = tokio::time::timeout(ASKING, api.maker_is_gone(&options.namespace, own)).await;
    match asked {
        Ok(Ok(false)) => return,
        Ok(Ok(true)) => {}
        Ok(Err(error)) => {
            return tracing::warn!(%error, "not known whether carve leaves this node: everything stays as it is");
        }
        Err(_) => {
            return tracing::warn!(
                "the API server does not say whether carve leaves this node: everything stays"
            );
        }
    }
    tracing::info!("the DaemonSet of this agent is gone: carve leaves this node");
    let left = tokio::time::timeout(LEAVING, leave(options, &api, known)).await;
    let (tone, message) = match left {
        Ok(left) => left.told(),
        Err(_) => (
            Tone::Warning,
            format!(
                "carve has not left this node in {} s; look at {}, {} and {}",
                LEAVING.as_secs(),
                options.state_dir.display(),
                options.cdi_folder.display(),
                options.dra.limits.display()
            ),
        ),
    };
    tracing::info!("{message}");
    // `carve leave` prints it, and nobody else is left who could.
    if let Err(error) = api.tell(tone, names::LEFT, &message).await {
        tracing::warn!(%error, "what is left here could not be told");
    }
}

async fn leave(options: &AgentOptions, api: &NodeApi, known: Option<&LastKnown>) -> Left {
    let mut left = Left::default();
    let in_use = InUse::find(options).await;
    match &in_use {
        Ok(in_use) => {
            left.pods.extend(in_use.pods.iter().cloned());
            if let Some(known) = known {
                let (root, needed) = (&known.mps_root, &in_use.parts);
                let mut mps = MpsDoor::new(options);
                let daemons = mps.leave(root, &known.driver_root, &known.version, needed, DAEMONS).await;
                let folder = |part: PartId| root.join(part.as_str()).display().to_string();
                left.files.extend(daemons.into_iter().map(folder));
            }
            let files = Files::new(options, in_use);
            let removed = tokio::task::spawn_blocking(move || files.remove()).await;
            match removed {
                Ok((files, troubles)) => {
                    left.files.extend(files);
                    left.troubles.extend(troubles);
                }
                Err(error) => left.troubles.push(error.to_string()),
            }
        }
        // Who can not be asked may hold anything.
        Err(why) => left.troubles.push(format!("no file was removed, because {why}")),
    }
    if options.jobs.contains(&Job::Validation) {
        crate::validation::remove_files(&options.validations);
    }
    if let LabelTarget::File(path) = &options.label_target {
        let _ = std::fs::remove_file(path);
    }
    let mut words = Vec::new();
    if options.jobs.contains(&Job::Claims) {
        let slices = take_back_slices(&api.client(), &options.dra.driver_name, Some(api.node())).await;
        words.push(slices.map(drop));
    }
    let feature = node_feature_name(api.node());
    words.push(api.take_back_node_feature(&options.namespace, &feature).await.map(drop));
    words.push(take_back_words(&api.client(), api.node()).await.map(drop));
    left.troubles.extend(words.into_iter().filter_map(Result::err).map(|error| error.to_string()));
    left
}

/// What is still on the node, and why.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// Who uses it.
    pods: Vec<String>,
    files: Vec<String>,
    troubles: Vec<String>,
}

impl Left {
    fn told(&self) -> (Tone, String) {
        if *self == Left::default() {
            return (Tone::Normal, "carve has left this node, and nothing of it is here any more".to_owned());
        }
        let mut words = vec!["carve has left this node".to_owned()];
        if !self.pods.is_empty() {
            words.push(format!("pods that still use it: {}", self.pods.join(", ")));
        }
        if !self.files.is_empty() {
            words.push(format!("what is left: {}", self.files.join(", ")));
        }
        words.extend(self.troubles.iter().cloned());
        (Tone::Warning, words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::Left;
    use carve_cluster_api::Tone;

    #[test]
    fn what_is_left_is_named() {
        assert!(
            matches!(Left::default().told(), (Tone::Normal, text) if text.contains("nothing of it is here"))
        );
        let left = Left {
            pods: vec!["team/train".to_owned()],
            files: vec!["/var/run/cdi/a.json".to_owned(), "/var/lib/carve/bin/carve".to_owned()],
            troubles: Vec::new(),
        };
        let (tone, text) = left.told();
        assert_eq!(tone, Tone::Warning);
        assert_eq!(
            text,
            "carve has left this node; pods that still use it: team/train; what is left: /var/run/cdi/a.json, \
             /var/lib/carve/bin/carve"
        );
    }
}
