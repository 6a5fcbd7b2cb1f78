//! `carve controller`: admits pods that ask for GPUs in any dialect, and places those with parts of GPUs.

use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::input;
use crate::service::serve;
use crate::webhook::address;
use carve_controller::cluster_names::CONTROLLER;
use carve_controller::{Agents, ControllerOptions, DashboardOptions, Reached, Road, connect, run};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What was typed after `carve controller`.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Where the API server asks about pods, over HTTPS
    #[arg(long, env = "CARVE_LISTEN", default_value = "0.0.0.0:8443", value_name = "ADDRESS")]
    listen: String,
    /// Where kube-scheduler asks where pods go, over HTTPS with certificates on both sides
    #[arg(long, env = "CARVE_EXTENDER_LISTEN", default_value = "0.0.0.0:8444", value_name = "ADDRESS")]
    extender_listen: String,
    /// Namespace of the controller's own objects: certificates, Lease
    #[arg(long, env = "CARVE_NAMESPACE", default_value = "carve", value_name = "NAMESPACE")]
    namespace: String,
    /// Service by which the API server reaches the controller
    #[arg(long, env = "CARVE_SERVICE", default_value = "carve-controller", value_name = "NAME")]
    service: String,
    /// Service by which the scheduler reaches the replica that leads
    #[arg(long, env = "CARVE_EXTENDER_SERVICE", default_value = "carve-extender", value_name = "NAME")]
    extender_service: String,
    /// Address by which the API server reaches the controller, where it is no Service: https://10.0.0.7:8443
    #[arg(long, env = "CARVE_WEBHOOK_URL", value_name = "URL")]
    webhook_url: Option<String>,
    /// Another name or address under which the controller is reached; several times for several
    #[arg(
        long = "certificate-name",
        env = "CARVE_CERTIFICATE_NAMES",
        value_delimiter = ',',
        value_name = "NAME"
    )]
    names: Vec<String>,
    /// How pods get their parts: claims where the cluster has DRA and carve's classes, else the scheduler
    #[arg(long, env = "CARVE_ROAD", value_enum, default_value_t = RoadArg::Auto)]
    road: RoadArg,
    /// Name of the agents' DRA driver
    #[arg(long, env = "CARVE_DRIVER_NAME", default_value = "gpu.carve.dev", value_name = "NAME")]
    driver_name: String,
    /// Deployment of the second kube-scheduler, in the same namespace: restarted when it must learn of a new authority
    #[arg(long, env = "CARVE_SCHEDULER", value_name = "NAME")]
    scheduler: Option<String>,
    /// Labels of the agents' pods, in the same namespace, whose books are added up under /api/v1/cost
    #[arg(long, env = "CARVE_AGENTS", default_value = "app=carve-agent", value_name = "LABELS")]
    agents: String,
    /// Port of the agents
    #[arg(long, env = "CARVE_AGENTS_PORT", default_value_t = 9411, value_name = "PORT")]
    agents_port: u16,
    /// Where the dashboard is served, over HTTP, such as 127.0.0.1:7411; others than this machine's may look only with --dashboard-token-file. Off without it
    #[arg(long, env = "CARVE_DASHBOARD", value_name = "ADDRESS")]
    dashboard: Option<String>,
    /// File with a token that whoever looks at the dashboard must know
    #[arg(long, env = "CARVE_DASHBOARD_TOKEN_FILE", value_name = "FILE", requires = "dashboard")]
    dashboard_token_file: Option<PathBuf>,
    /// Let whoever knows the token change things from the page, with the controller's rights
    #[arg(long, requires = "dashboard")]
    dashboard_allow_changes: bool,
    /// Name of this pod
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// How to reach the API server, where this is no pod
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Which road.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoadArg {
    Auto,
    Claims,
    Scheduler,
}

fn options(args: &ControllerArgs) -> Result<ControllerOptions, Failure> {
    let listen = address("--listen", &args.listen)?;
    let extender_listen = address("--extender-listen", &args.extender_listen)?;
    let mut names = args.names.clone();
    for service in [&args.service, &args.extender_service] {
        let short = format!("{service}.{}.svc", args.namespace);
        names.extend([format!("{short}.cluster.local"), short]);
    }
    let reached = match &args.webhook_url {
        None => Reached::Service { namespace: args.namespace.clone(), name: args.service.clone(), port: 443 },
        Some(url) => {
            let host = url.strip_prefix("https://").filter(|host| !host.contains('/') && !host.is_empty());
            let Some(host) = host else {
                let words = format!(
                    "--webhook-url '{url}' is no address that an API server asks; write for example https://10.0.0.7:8443"
                );
                return Err(Failure { code: UNREADABLE, ..Failure::new(words) });
            };
            names.push(without_port(host).to_owned());
            Reached::Url(url.clone())
        }
    };
    names.sort();
    names.dedup();
    let beside = || format!("{}-{}", hostname(), std::process::id());
    Ok(ControllerOptions {
        listen,
        extender_listen,
        namespace: args.namespace.clone(),
        reached,
        names,
        identity: args.pod_name.clone().unwrap_or_else(beside),
        is_pod: args.pod_name.is_some(),
        road: match args.road {
            RoadArg::Auto => None,
            RoadArg::Claims => Some(Road::Claims),
            RoadArg::Scheduler => Some(Road::Scheduler),
        },
        driver: args.driver_name.clone(),
        scheduler: args.scheduler.clone(),
        agents: Agents {
            namespace: Some(args.namespace.clone()),
            selector: args.agents.clone(),
            port: args.agents_port,
        },
        dashboard: dashboard(args)?,
    })
}

fn dashboard(args: &ControllerArgs) -> Result<Option<DashboardOptions>, Failure> {
    let Some(text) = args.dashboard.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
    let listen = address("--dashboard", text)?;
    let token = args.dashboard_token_file.as_deref().map(input::token).transpose()?;
    if !listen.ip().is_loopback() && token.is_none() {
        let words =
            format!("--dashboard {listen} can be reached from other machines, and anybody there could look");
        let failure = Failure { code: UNREADABLE, ..Failure::new(words) };
        return Err(failure.hint("give a token with --dashboard-token-file, or listen on 127.0.0.1"));
    }
    Ok(Some(DashboardOptions { listen, token, may_change: args.dashboard_allow_changes }))
}

/// A host without its port; addresses of version 6 stand in brackets.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn hostname() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if text.trim().is_empty() { "controller".to_owned() } else { text.trim().to_owned() }
}

/// Runs the controller until it is told to end.
pub(crate) fn controller(args: &ControllerArgs) -> Outcome {
    let options = options(args)?;
    serve(|stop| async {
        let kubeconfig = args.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty());
        let client = connect(kubeconfig, CONTROLLER).await.map_err(|error| Failure::of(&error))?;
        run(options, client, stop).await.map_err(|error| Failure::of(&error))
    })
}

#[cfg(test)]
mod tests {
    use super::{ControllerArgs, options};
    use carve_controller::{Reached, Road};
    use clap::{Args, Command, FromArgMatches};

    fn parsed(words: &[&str]) -> ControllerArgs {
        let command = ControllerArgs::augment_args(Command::new("controller"));
        let words = [&["controller"], words].concat();
        ControllerArgs::from_arg_matches(&command.get_matches_from(words)).expect("arguments")
    }

    #[test]
    fn a_service_is_the_usual_way_and_its_names_are_certified() {
        let options = options(&parsed(&["--road", "scheduler"])).expect("options");
        assert_eq!(options.road, Some(Road::Scheduler));
        assert!(
            matches!(&options.reached, Reached::Service { namespace, port: 443, .. } if namespace == "carve")
        );
        for name in ["carve-controller.carve.svc", "carve-extender.carve.svc.cluster.local"] {
            assert!(options.names.iter().any(|one| one == name), "{name}: {:?}", options.names);
        }
    }

    #[test]
    fn an_address_is_certified_without_its_port() {
        for (url, name) in [
            ("https://10.0.0.7:8443", "10.0.0.7"),
            ("https://[fd00::1]:8443", "fd00::1"),
            ("https://gpu", "gpu"),
        ] {
            let options = options(&parsed(&["--webhook-url", url])).expect("options");
            assert!(options.names.iter().any(|one| one == name), "{name}: {:?}", options.names);
        }
        for url in ["http://10.0.0.7", "https://", "https://host/path"] {
            let failure = options(&parsed(&["--webhook-url", url])).expect_err(url);
            assert!(failure.message.contains("https://10.0.0.7:8443"), "{}", failure.message);
        }
    }
}
