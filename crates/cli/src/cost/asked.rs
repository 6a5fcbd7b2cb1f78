//! Agents' books, through the API server or straight from them.

use super::args::CostArgs;
use crate::failure::Failure;
use carve_controller::{Agents, connect};
use carve_economics::Step;
use std::time::Duration;

/// For so long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
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
    let agents = Agents { namespace: None, selector: args.selector.clone(), port: args.port };
    let answers = agents.ledgers(&client, &args.since, Step::All).await;
    let answers =
        answers.map_err(|error| Failure::new(format!("can not list agents: {error}")).hint(hint))?;
    if answers.is_empty() {
        let what = format!("no pod of the cluster has the labels {}, so nobody keeps books", args.selector);
        return Err(Failure::new(what).hint("give --selector with the labels of carve's agents"));
    }
    Ok(answers)
}
