//! What a cluster and its Prometheus answer.

use crate::args::MachineArgs;
use crate::asked_of::{AskedOf, wait};
use crate::failure::Failure;
use carve_advisor::{BUSY_SERIES, MEMORY_SERIES};
use carve_formats::prometheus::{Series, parse, parse_answer};
use std::time::{Duration, SystemTime};

/// Points that are asked for of each series.
const POINTS: i64 = 2000;
/// More than a cluster answers at once.
const MOST_BYTES: u64 = 1 << 30;
/// For so long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Objects in one answer of the API server.
const PAGE: usize = 500;

/// Nodes, pods, namespaces and claims of the cluster, as lists.
pub(super) fn cluster(asked: &AskedOf, machine: &MachineArgs) -> Result<Vec<(String, String)>, Failure> {
    wait(async {
        let hint = "or give --cluster FILE with what kubectl get nodes,pods -A -o json prints";
        let client = asked.client(machine).await.map_err(|failure| failure.hint(hint))?;
        let mut lists = Vec::new();
        for (path, needed) in [
            ("/api/v1/nodes", true),
            ("/api/v1/pods", true),
            ("/api/v1/namespaces", false),
            ("/apis/resource.k8s.io/v1/resourceclaims", false),
        ] {
            let mut next = String::new();
            loop {
                let uri = format!("{path}?limit={PAGE}&continue={next}");
                let request = http::Request::get(&uri).body(Vec::new());
                let request = request.map_err(|error| Failure::new(format!("{uri}: {error}")))?;
                let text = match client.request_text(request).await {
                    Ok(text) => text,
                    // Tenants of namespaces and claims make advice better; without the right to read them there is still advice.
                    Err(_) if !needed => break,
                    Err(error) => {
                        return Err(Failure::new(format!("can not list {path}: {error}")).hint(hint));
                    }
                };
                let list: serde_json::Value =
                    serde_json::from_str(&text).map_err(|error| Failure::new(format!("{path}: {error}")))?;
                next = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                lists.push((path.to_owned(), text));
                if next.is_empty() {
                    break;
                }
            }
        }
        Ok(lists)
    })
}

/// Every series that tells something, over so many seconds until now.
pub(super) fn prometheus(url: &str, since: i64) -> Result<Vec<Series>, Failure> {
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let step = (since / POINTS).max(30);
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build()
        .into();
    let address = format!("{}/api/v1/query_range", url.trim_end_matches('/'));
    let hint = "the URL is that of Prometheus itself, such as http://localhost:9090; kubectl port-forward brings it there";
    let mut all = Vec::new();
    for name in BUSY_SERIES.into_iter().chain(MEMORY_SERIES) {
        // Between two points peaks of memory must not be lost, and use is its mean; counters say all by themselves.
        let query = match name {
            _ if name.ends_with("_total") => name.to_owned(),
            _ if MEMORY_SERIES.contains(&name) => format!("max_over_time({name}[{step}s])"),
            _ => format!("avg_over_time({name}[{step}s])"),
        };
        let answer = agent
            .get(&address)
            .query("query", &query)
            .query("start", (now - since).to_string())
            .query("end", now.to_string())
            .query("step", step.to_string())
            .call();
        let failed = |what: String| Failure::new(format!("{address}: {what}")).hint(hint);
        let mut answer = answer.map_err(|error| failed(error.to_string()))?;
        let text = answer.body_mut().with_config().limit(MOST_BYTES).read_to_string();
        let text = text.map_err(|error| failed(error.to_string()))?;
        let found = if query == name { parse(&text) } else { parse_answer(&text, name) };
        let status = answer.status();
        all.extend(found.map_err(|error| failed(format!("{status}: {error}")))?);
    }
    Ok(all)
}
