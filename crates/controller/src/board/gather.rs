//! Asks all agents for their pictures: many at once, none for long.

use super::objects::AgentPod;
use crate::books::get_text;
use carve_fleet_picture::NodePicture;
use futures_util::{StreamExt, stream};
use kube::Client;
use std::time::Duration;

/// For so long an agent is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// Agents that are asked at once.
const AT_ONCE: usize = 64;

/// What each agent answers, by its node.
pub(super) async fn gather(
    client: &Client,
    port: u16,
    agents: impl IntoIterator<Item = AgentPod>,
) -> Vec<(String, Result<NodePicture, String>)> {
    let asked = stream::iter(agents).map(|agent| async move {
        let AgentPod { namespace, name, node, .. } = agent;
        let uri = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/api/v1/picture");
        let answer = get_text(client, &uri, PATIENCE).await.and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("what it says does not read: {error}"))
        });
        (node, answer.map_err(|why| format!("pod {namespace}/{name}: {why}")))
    });
    asked.buffer_unordered(AT_ONCE).collect().await
}
