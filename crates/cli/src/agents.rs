//! Agents, and what they answer: through the API server, or straight from them.

use crate::args::MachineArgs;
use crate::asked_of::{AskedOf, wait};
use crate::failure::Failure;
use carve_controller::{Agents, Answer};
use clap::Args;
use std::time::Duration;

/// For so long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// More than an agent answers.
const MOST_BYTES: u64 = 256 << 20;

/// Which agents.
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// Ask this agent and not a cluster's, such as http://localhost:9411; several times for several
    #[arg(long, value_name = "URL")]
    pub(crate) agent: Vec<String>,
    /// Labels of the agents' pods
    #[arg(long, value_name = "LABELS", default_value = "app=carve-agent")]
    pub(crate) selector: String,
    /// Port of the agents
    #[arg(long, value_name = "PORT", default_value_t = 9411)]
    pub(crate) port: u16,
}

impl AgentsArgs {
    /// What every agent answers under a path.
    pub(crate) fn ask(
        &self,
        asked: &AskedOf,
        machine: &MachineArgs,
        path: &str,
        hint: &str,
    ) -> Result<Vec<Answer>, Failure> {
        if !self.agent.is_empty() {
            return Ok(self.agent.iter().map(|url| (url.clone(), straight(url, path))).collect());
        }
        // A carve up is all its agents in one.
        if let Some(up) = asked.up(machine)? {
            return Ok(vec![("carve up".to_owned(), straight(&up.url, path))]);
        }
        let agents = Agents { namespace: None, selector: self.selector.clone(), port: self.port };
        let answers = wait(async {
            let client = asked.client(machine).await.map_err(|failure| failure.hint(hint))?;
            let answers = agents.ask(&client, path).await;
            answers.map_err(|error| Failure::new(format!("can not list agents: {error}")).hint(hint))
        })?;
        if answers.is_empty() {
            let what =
                format!("no pod of the cluster has the labels {}, so there is nobody to ask", self.selector);
            return Err(Failure::new(what).hint("give --selector with the labels of carve's agents"));
        }
        Ok(answers)
    }
}

fn straight(url: &str, path: &str) -> Result<String, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
    let address = format!("{}{path}", url.trim_end_matches('/'));
    let mut answer = agent.get(&address).call().map_err(|error| error.to_string())?;
    answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(|error| error.to_string())
}
