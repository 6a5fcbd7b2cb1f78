//! Who is asked about objects: a `carve up` that runs here, or a cluster.

use crate::args::MachineArgs;
use crate::failure::Failure;
use crate::machine::state_home;
use carve_controller::cluster_names::COMMAND_LINE;
use carve_controller::connect;
use carve_up::{Place, Running};
use clap::Args;
use kube::Client;
use std::path::PathBuf;

/// Who is asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct AskedOf {
    /// How to reach the API server; without it the carve up that runs here is asked, and where none runs the cluster that kubectl would ask
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Ask the carve up that runs here, whatever KUBECONFIG says
    #[arg(long, conflicts_with = "kubeconfig")]
    pub(crate) local: bool,
}

impl AskedOf {
    /// The `carve up` that is meant, if one is.
    pub(crate) fn up(&self, machine: &MachineArgs) -> Result<Option<Running>, Failure> {
        let named = self.kubeconfig.as_ref().is_some_and(|path| !path.as_os_str().is_empty());
        if named && !self.local {
            return Ok(None);
        }
        let running = state_home(machine).ok().and_then(|home| Place::new(&home).running());
        match (running, self.local) {
            (None, true) => {
                Err(Failure::new("no carve up runs here").hint("start one in another terminal: carve up"))
            }
            (running, _) => Ok(running),
        }
    }

    /// A client of whoever is meant.
    pub(crate) async fn client(&self, machine: &MachineArgs) -> Result<Client, Failure> {
        let up = self.up(machine)?;
        let path = match &up {
            Some(running) => Some(running.kubeconfig.as_path()),
            None => self.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty()),
        };
        connect(path, COMMAND_LINE).await.map_err(|error| {
            Failure::of(&error)
                .hint("start carve up for a cluster on this machine, or name a kubeconfig with --kubeconfig")
        })
    }
}

/// Runs something that waits for answers.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let unable = |error: std::io::Error| Failure::new(format!("can not start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
    runtime.block_on(work)
}
