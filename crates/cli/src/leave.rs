//! `carve leave`: takes carve off a cluster, before the release or the manifests go.

use crate::asked_of::wait;
use crate::failure::{Failure, Outcome};
use crate::print;
use carve_controller::cluster_names::LEAVE;
use carve_controller::{LeaveOptions, Told, connect, leave as take_off};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct LeaveArgs {
    /// Namespace of agents and controller
    #[arg(short, long, env = "CARVE_NAMESPACE", default_value = "carve", value_name = "NAMESPACE")]
    namespace: String,
    /// Name of the agents' DRA driver
    #[arg(long, env = "CARVE_DRIVER_NAME", default_value = "gpu.carve.dev", value_name = "NAME")]
    driver_name: String,
    /// Go on although pods hold claims: without an agent kubelet ends them only by force
    #[arg(long)]
    even_if_claimed: bool,
    /// Leave the definitions of SlicePolicy and SlicePlan alone
    #[arg(long)]
    keep_definitions: bool,
    /// How long pods of agents, controller and scheduler may take to end, in seconds
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    patience: u64,
    /// How to reach the API server, where this is no pod
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Leaves.
pub(crate) fn leave(args: &LeaveArgs) -> Outcome {
    let options = LeaveOptions {
        namespace: args.namespace.clone(),
        driver: args.driver_name.clone(),
        even_if_claimed: args.even_if_claimed,
        keep_definitions: args.keep_definitions,
        patience: Duration::from_secs(args.patience),
    };
    let mut left = 0;
    wait(async {
        // Never the carve up that may run here: nobody leaves by mistake.
        let path = args.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty());
        let client = connect(path, LEAVE).await.map_err(|error| Failure::of(&error))?;
        let told = |told: Told| {
            left += usize::from(matches!(told, Told::Left(..)));
            // Said at once: what comes next may take a while.
            let _ = print::out(&line(&told));
        };
        take_off(&client, &options, told).await.map_err(|error| Failure::of(&error))
    })?;
    print::out(match left {
        0 => "carve has left this cluster.\n",
        _ => "carve has left this cluster, except what is in use.\n",
    })
}

fn line(told: &Told) -> String {
    match told {
        Told::Gone(what) => format!("gone  {what}\n"),
        Told::Left(what, why) => format!("left  {what}: {why}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::line;
    use carve_controller::Told;

    #[test]
    fn what_is_gone_and_what_is_left_stand_under_each_other() {
        let gone = line(&Told::Gone("Lease carve/carve-controller".to_owned()));
        let left = line(&Told::Left("on node a".to_owned(), "pods still use it".to_owned()));
        assert_eq!(gone, "gone  Lease carve/carve-controller\n");
        assert_eq!(left, "left  on node a: pods still use it\n");
    }
}
