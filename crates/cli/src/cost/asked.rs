//! Agents' books, through the API server or straight from them.

use super::args::CostArgs;
use crate::failure::Failure;
use carve_controller::connect;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// For so long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Agents that are asked at once.
const AT_ONCE: usize = 32;
/// More than an agent answers.
const MOST_BYTES: u64 = 256 << 20;

/// Who was asked, and what came.
type Answer = (String, Result<String, String>);

/// What every agent answers.
pub(super) fn ledgers(args: &CostArgs) -> Result<Vec<Answer>, Failure> {
    if !args.agent.is_empty() {
        return Ok(args.agent.iter().map(|url| (url.clone(), straight(url, &args.since))).collect());
    }
    let unable = |error: std::io::Error| Failure::new(format!("can not start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
    runtime.block_on(through_cluster(args))
}

fn straight(url: &str, since: &str) -> Result<String, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
    let address = format!("{}/api/v1/ledger", url.trim_end_matches('/'));
    let mut answer = agent.get(&address).query("since", since).call().map_err(|error| error.to_string())?;
    answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(|error| error.to_string())
}

async fn through_cluster(args: &CostArgs) -> Result<Vec<Answer>, Failure> {
    let kubeconfig = args.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty());
    let hint = "or give --agent URL, or --ledger FILE with what agents answer under /api/v1/ledger";
    let client = connect(kubeconfig).await.map_err(|error| Failure::of(&error).hint(hint))?;
    let uri = format!("/api/v1/pods?labelSelector={}", encoded(&args.selector));
    let request = http::Request::get(&uri).body(Vec::new());
    let request =
        request.map_err(|error| Failure::new(format!("--selector '{}': {error}", args.selector)))?;
    let listed = client.request_text(request).await;
    let listed = listed.map_err(|error| Failure::new(format!("can not list agents: {error}")).hint(hint))?;
    let pods: serde_json::Value =
        serde_json::from_str(&listed).map_err(|error| Failure::new(format!("{uri}: {error}")))?;
    let pods = pods["items"].as_array().into_iter().flatten();
    let pods: Vec<(String, String)> = pods
        .filter(|pod| pod["spec"]["nodeName"].is_string())
        .filter_map(|pod| {
            let text = |name: &str| Some(pod["metadata"][name].as_str()?.to_owned());
            Some((text("namespace")?, text("name")?))
        })
        .collect();
    if pods.is_empty() {
        let what = format!("no pod of the cluster has the labels {}, so nobody keeps books", args.selector);
        return Err(Failure::new(what).hint("give --selector with the labels of carve's agents"));
    }
    let (gate, mut asked) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for (namespace, name) in pods {
        let (gate, client) = (Arc::clone(&gate), client.clone());
        let uri = format!(
            "/api/v1/namespaces/{namespace}/pods/{name}:{}/proxy/api/v1/ledger?since={}",
            args.port,
            encoded(&args.since)
        );
        asked.spawn(async move {
            let _turn = gate.acquire().await;
            let answer = match http::Request::get(&uri).body(Vec::new()) {
                Ok(request) => match tokio::time::timeout(PATIENCE, client.request_text(request)).await {
                    Ok(answer) => answer.map_err(|error| error.to_string()),
                    Err(_) => Err(format!("nothing came in {} s", PATIENCE.as_secs())),
                },
                Err(error) => Err(error.to_string()),
            };
            (format!("{namespace}/{name}"), answer)
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(answers)
}

/// What may stand in a query.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
