//! Where pictures of a fleet come from: a dashboard that is named, the `carve up` that runs here, or the controller of a cluster.

use crate::args::MachineArgs;
use crate::asked_of::AskedOf;
use crate::failure::Failure;
use crate::input;
use carve_fleet_picture::Picture;
use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// For so long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than a fleet's picture has.
const MOST_BYTES: u64 = 256 << 20;
/// The Service in front of the controller that leads, its port, and the Secret with the token, as they are shipped.
const SERVICE: &str = "carve-dashboard";
const PORT: &str = "dashboard";
const SECRET: &str = "carve-dashboard";
/// Where the dashboard of a cluster is explained.
const SWITCH_ON: &str = "docs/operations/dashboard.md says how the dashboard of a cluster is switched on; --url names one that is reached otherwise";

/// Which dashboard.
#[derive(Debug, Args)]
pub(crate) struct LooksArgs {
    /// Where a dashboard is, such as http://localhost:7411; without it the carve up that runs here, else the controller of the cluster
    #[arg(long, visible_alias = "dashboard", value_name = "URL")]
    url: Option<String>,
    /// File with the token of the dashboard, where it needs one; a cluster's is read from its Secret where that is allowed
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Namespace of carve's controller
    #[arg(long, env = "CARVE_NAMESPACE", default_value = "carve", value_name = "NAMESPACE")]
    controller_namespace: String,
    #[command(flatten)]
    asked: AskedOf,
}

/// Where pictures come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Straight from a dashboard.
    Straight { url: String, token: Option<String>, agent: ureq::Agent },
    /// Through an API server.
    Proxied { client: Client, namespace: String, token: Option<String>, runtime: Arc<Runtime> },
}

impl LooksArgs {
    /// Finds it.
    pub(crate) fn source(&self, machine: &MachineArgs) -> Result<Source, Failure> {
        let token = self.token_file.as_ref().map(|file| input::read(file)).transpose()?;
        let token = token.map(|text| text.trim().to_owned());
        let url = match &self.url {
            Some(url) => Some(url.trim_end_matches('/').to_owned()),
            None => self.asked.up(machine)?.map(|up| up.url),
        };
        if let Some(url) = url {
            let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
            return Ok(Source::Straight { url, token, agent });
        }
        let unable = |error: std::io::Error| Failure::new(format!("can not start: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
        let namespace = self.controller_namespace.clone();
        let (client, token) = runtime.block_on(async {
            let client = self.asked.client(machine).await.map_err(|failure| {
                let words = format!("no carve up runs here, and no cluster can be asked: {}", failure.message);
                Failure { message: words, ..failure }
                    .hint("start one in another terminal (carve up), name a dashboard with --url, or a cluster with --kubeconfig")
            })?;
            let token = match token {
                Some(token) => Some(token),
                None => secret(&client, &namespace).await,
            };
            Ok::<_, Failure>((client, token))
        })?;
        Ok(Source::Proxied { client, namespace, token, runtime: Arc::new(runtime) })
    }
}

/// The token of a cluster's dashboard, for those who may read it.
async fn secret(client: &Client, namespace: &str) -> Option<String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let asked = tokio::time::timeout(PATIENCE, secrets.get_opt(SECRET)).await;
    let found = asked.ok()?.ok()??;
    let token = found.data?.remove("token")?;
    String::from_utf8(token.0).ok().map(|text| text.trim().to_owned())
}

impl Source {
    /// What is seen now.
    pub(crate) fn picture(&self) -> Result<Picture, Failure> {
        match self {
            Source::Straight { url, token, agent } => {
                let failed = |why: String| Failure::new(format!("{url}: {why}"));
                straight(url, token.as_deref(), agent).and_then(|text| read(&text)).map_err(failed)
            }
            Source::Proxied { client, namespace, token, runtime } => {
                runtime.block_on(proxied(client, namespace, token.as_deref()))
            }
        }
    }
}

fn read(text: &str) -> Result<Picture, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    serde_json::from_value(value["picture"].take()).map_err(|error| error.to_string())
}

fn straight(url: &str, token: Option<&str>, agent: &ureq::Agent) -> Result<String, String> {
    let mut request = agent.get(format!("{url}/api/v1/picture"));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut answer = request.call().map_err(|error| error.to_string())?;
    answer.body_mut().with_config().limit(MOST_BYTES).read_to_string().map_err(|error| error.to_string())
}

/// An API server keeps `Authorization` for itself, so the token has a header of its own.
async fn proxied(client: &Client, namespace: &str, token: Option<&str>) -> Result<Picture, Failure> {
    let path = format!("/api/v1/namespaces/{namespace}/services/http:{SERVICE}:{PORT}/proxy/api/v1/picture");
    let mut request = http::Request::get(path);
    if let Some(token) = token {
        request = request.header("x-carve-token", token);
    }
    let request = request.body(Vec::new()).map_err(|error| Failure::new(error.to_string()))?;
    let what = format!("the dashboard of the cluster (Service {namespace}/{SERVICE})");
    match tokio::time::timeout(PATIENCE, client.request_text(request)).await {
        Ok(Ok(text)) => read(&text).map_err(|why| Failure::new(format!("{what}: {why}"))),
        Ok(Err(error)) => Err(refused(&what, namespace, &error)),
        // The client asks again where nobody serves it for the moment, so that this also means that.
        Err(_) => {
            let words = format!("{what}: nothing came in {} s", PATIENCE.as_secs());
            Err(Failure::new(words).hint(nobody(namespace)))
        }
    }
}

/// What to look at where nobody answers.
fn nobody(namespace: &str) -> String {
    format!(
        "perhaps no controller with --dashboard leads: kubectl get pods -n {namespace} -L carve.dev/leader; {SWITCH_ON}"
    )
}

fn refused(what: &str, namespace: &str, error: &kube::Error) -> Failure {
    let (code, why) = match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => (0, other.to_string()),
    };
    match code {
        404 => Failure::new(format!("{what} is not there")).hint(SWITCH_ON),
        503 => Failure::new(format!("{what} is served by nobody: {why}")).hint(nobody(namespace)),
        401 => Failure::new(format!("{what} wants a token that you may not read: {why}"))
            .hint(format!("give it with --token-file; it is in the Secret {namespace}/{SECRET}")),
        403 => Failure::new(format!("{what}: {why}")).hint(
            "whoever looks needs the right to get services/proxy there, and to get the Secret with the token",
        ),
        _ => Failure::new(format!("{what}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{read, refused};

    #[test]
    fn what_is_missing_says_what_to_do() {
        let error = |code: u16| {
            let status =
                serde_json::json!({"status": "Failure", "message": "said so", "reason": "r", "code": code});
            kube::Error::Api(serde_json::from_value(status).expect("a status"))
        };
        for (code, word, hint) in [
            (404, "is not there", "dashboard.md"),
            (503, "by nobody: said so", "--dashboard leads"),
            (401, "wants a token", "--token-file"),
            (403, "said so", "services/proxy"),
        ] {
            let failure = refused("the dashboard", "carve", &error(code));
            assert!(failure.message.contains(word), "{}", failure.message);
            assert!(failure.hint.as_deref().is_some_and(|text| text.contains(hint)), "{:?}", failure.hint);
        }
        assert!(refused("the dashboard", "carve", &error(500)).hint.is_none());
    }

    #[test]
    fn a_picture_is_read_from_its_envelope() {
        let text = r#"{"version": 3, "picture": {"at": 7, "nodes": {}, "waiting": {}, "happenings": []}}"#;
        assert_eq!(read(text).expect("a picture").at, 7);
        assert!(read("{}").is_err());
    }
}
