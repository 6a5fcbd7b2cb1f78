//! A real Prometheus on the lab, with the rules and dashboards that are shipped; it comes from Debian's package and is not installed.

use crate::{Background, Cluster, PATIENCE};
use carve_lab::{Places, debian_package};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Suite and package; it brings promtool along. Later suites split it off.
const PACKAGE: (&str, &str) = ("bookworm", "prometheus");
/// Where it answers on the first node.
const ADDRESS: &str = "127.0.0.1:19090";
/// What is shipped.
const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../monitoring");

/// Prometheus, until this is dropped.
#[derive(Debug)]
pub struct Prometheus {
    cluster: Cluster,
    program: Background,
    folder: PathBuf,
}

/// What is asked for pages.
#[derive(Debug, Clone)]
pub struct Scraped {
    /// `carve-agent` or `carve-controller`.
    pub job: &'static str,
    /// Host and port.
    pub address: String,
    /// The node that it is on.
    pub node: String,
    /// Whether it speaks TLS, with a certificate that nobody knows.
    pub tls: bool,
}

/// A query of a dashboard, with its variables filled in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DashboardQuery {
    /// Dashboard and panel.
    pub shown_in: String,
    /// What is asked.
    pub query: String,
}

/// The folder with both programs; `None` (said aloud) where Debian can not be reached.
fn programs() -> Option<PathBuf> {
    let (suite, package) = PACKAGE;
    match debian_package(&Places::usual(), suite, package) {
        Ok(usr) => Some(usr.join("bin")),
        Err(error) => {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "no Prometheus, and CI must not skip: {error:#}"
            );
            eprintln!("SKIPPED: no Prometheus: {error:#}");
            None
        }
    }
}

/// Runs promtool in the folder of the rules; `None` (said aloud) where it is not to be had.
pub fn promtool(words: &[&str]) -> Option<Result<String, String>> {
    let program = programs()?.join("promtool");
    let output =
        Command::new(&program).args(words).current_dir(Path::new(MONITORING).join("prometheus")).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Some(if output.status.success() { Ok(said) } else { Err(said) })
}

/// A file of the rules as it is shipped.
pub fn shipped_rules() -> String {
    let path = Path::new(MONITORING).join("prometheus/carve-alerts.yaml");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rules in the time of a test, where faults last for seconds: whatever has to last does so for one second, rates and increases are those of 15
/// seconds, and a pod has waited for long after five. Nothing else is changed.
pub fn hurried(rules: &str) -> String {
    let mut text = String::new();
    for line in rules.lines() {
        let line = match line.split_once("for: ") {
            Some((before, _)) if before.trim().is_empty() => format!("{before}for: 1s"),
            _ => line.replace("_oldest_seconds) > 900", "_oldest_seconds) > 5"),
        };
        let mut rest = line.as_str();
        while let Some((before, (_, after))) =
            rest.split_once('[').and_then(|(before, after)| Some((before, after.split_once(']')?)))
        {
            text.push_str(before);
            text.push_str("[15s]");
            rest = after;
        }
        text.push_str(rest);
        text.push('\n');
    }
    text
}

/// Every query of every dashboard, for a node and all namespaces.
pub fn dashboard_queries(node: &str) -> Vec<DashboardQuery> {
    let mut queries = Vec::new();
    for name in ["fleet", "node", "tenant", "cost"] {
        let path = Path::new(MONITORING).join(format!("grafana/{name}.json"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let dashboard: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for panel in dashboard["panels"].as_array().into_iter().flatten() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().unwrap_or_default();
                let query = query
                    .replace("$__rate_interval", "15s")
                    .replace("$__range", "60s")
                    .replace("$namespace", ".*")
                    .replace("=~\"$node\"", "=~\".*\"")
                    .replace("$node", node);
                assert!(!query.contains('$'), "{name}: {query}");
                let shown_in = format!("{name}: {}", panel["title"].as_str().unwrap_or_default());
                queries.push(DashboardQuery { shown_in, query });
            }
        }
    }
    queries
}

impl Prometheus {
    /// Starts it with these rules. `None` (said aloud) where it is not to be had.
    pub fn start(cluster: &Cluster, rules: &str, scraped: &[Scraped]) -> Option<Self> {
        let program = programs()?.join("prometheus");
        let folder = cluster.scratch("carve-prometheus");
        let _ = std::fs::remove_dir_all(&folder);
        let jobs = ["carve-agent", "carve-controller"].map(|job| {
            let mine: Vec<&Scraped> = scraped.iter().filter(|one| one.job == job).collect();
            let target = |one: &&Scraped| json!({"targets": [one.address], "labels": {"node": one.node}});
            json!({
                "job_name": job, "honor_labels": true,
                "scheme": if mine.iter().any(|one| one.tls) { "https" } else { "http" },
                "tls_config": {"insecure_skip_verify": true},
                "static_configs": mine.iter().map(target).collect::<Vec<_>>(),
            })
        });
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": jobs,
        });
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join("rules.yaml"), rules))
            .and_then(|()| std::fs::write(folder.join("prometheus.yaml"), config.to_string()));
        written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let words = [
            program.display().to_string(),
            format!("--config.file={}", folder.join("prometheus.yaml").display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address={ADDRESS}"),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let program = cluster.background(&words, &[]);
        let prometheus = Prometheus { cluster: cluster.clone(), program, folder };
        prometheus.until("Prometheus answers", || prometheus.ask("vector(1)").is_ok());
        Some(prometheus)
    }

    /// Samples that a query gives now.
    pub fn ask(&self, query: &str) -> Result<Vec<Value>, String> {
        let path = format!("/api/v1/query?query={}", encoded(query));
        let answer = self.cluster.within(move |_| async move { plain_page(&path).await })?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        answer["data"]["result"].as_array().cloned().ok_or_else(|| answer.to_string())
    }

    /// Whether a query gives a number.
    pub fn answers(&self, query: &str) -> bool {
        let samples = self.ask(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        samples.iter().any(|sample| sample["value"][1].as_str().is_some_and(|value| value != "NaN"))
    }

    /// Names of alerts that fire, of those about something that has these labels.
    pub fn firing(&self, labels: &str) -> Vec<String> {
        let query = format!("ALERTS{{alertstate=\"firing\",{labels}}}");
        let samples = self.ask(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut names: Vec<String> =
            samples.iter().filter_map(|one| Some(one["metric"]["alertname"].as_str()?.to_owned())).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Waits until each of these alerts has fired, about something that has the labels given with it. Some are over while others are waited for.
    pub fn fire(&self, alerts: &[(&str, &str)]) {
        self.until_each(alerts, "fires", |alert, labels| {
            self.firing(labels).iter().any(|name| name == alert)
        });
    }

    /// Waits until each of these alerts has been seen not to fire.
    pub fn clear(&self, alerts: &[(&str, &str)]) {
        self.until_each(alerts, "clears", |alert, labels| {
            self.firing(labels).iter().all(|name| name != alert)
        });
    }

    fn until_each(&self, alerts: &[(&str, &str)], verb: &str, holds: impl Fn(&str, &str) -> bool) {
        let start = std::time::Instant::now();
        let pending = std::cell::RefCell::new(alerts.to_vec());
        let all = || {
            pending.borrow_mut().retain(|(alert, labels)| {
                let waits = !holds(alert, labels);
                if !waits {
                    println!("{alert} {verb} ({labels}): {:.1} s", start.elapsed().as_secs_f64());
                }
                waits
            });
            pending.borrow().is_empty()
        };
        self.cluster.until_or(&format!("each {verb}"), PATIENCE, all, || {
            format!("left: {:?}\n{}", pending.borrow(), self.known())
        });
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        self.cluster.until_or(what, PATIENCE, holds, || self.known());
    }

    /// For whoever waited in vain.
    fn known(&self) -> String {
        let all =
            |query: &str| self.ask(query).map_or_else(|error| error, |all| Value::from(all).to_string());
        format!("{}\n{}\n{}", all("ALERTS"), all("up"), self.program.heard())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.program.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A query as it stands in an address.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

async fn plain_page(path: &str) -> Result<String, String> {
    let address = format!("http://{ADDRESS}").parse().map_err(|error| format!("{error}"))?;
    let client = Client::try_from(Config::new(address)).map_err(|error| error.to_string())?;
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map_err(|error| error.to_string())
}
