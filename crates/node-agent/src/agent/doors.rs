//! Opens the doors that work beside the agent: for claims, for tokens, and for what is told of use.

use super::Agent;
use crate::dra::{DraBeginning, DraDoor};
use crate::leave::LastKnown;
use crate::ledger::Accountant;
use crate::metrics::NodeLabels;
use crate::slices::{SlicesBeginning, SlicesDoor};
use crate::usage::{self, UsageBeginning};
use carve_cluster_api::NodeApi;
use carve_dra_driver::RecordStore;
use std::path::PathBuf;
use std::sync::Arc;

impl Agent {
    /// What is known of the driver, for whoever puts things away after this agent.
    pub(crate) fn last_known(&self) -> LastKnown {
        LastKnown {
            mps_root: PathBuf::from(&self.settings.mps_root),
            driver_root: self.settings.driver_root.clone(),
            version: self.node.driver.version.clone(),
        }
    }

    /// Serves claims from now on.
    pub(crate) fn open_dra(&mut self, api: NodeApi) {
        let beginning = DraBeginning {
            options: self.options.clone(),
            settings: Arc::clone(&self.settings),
            machine: self.machine.clone(),
            api,
            reporter: self.reporter.clone(),
            metrics: Arc::clone(&self.metrics),
            usage: Arc::clone(&self.usage),
            boot: self.boot.clone(),
            news: self.news_for_dra(),
        };
        self.dra = Some(DraDoor::open(beginning));
    }

    /// Serves tokens from now on.
    pub(crate) fn open_slices(&mut self, api: NodeApi) {
        let (settings, news) = (Arc::clone(&self.settings), self.news_for_dra());
        self.slices = Some(SlicesDoor::open(SlicesBeginning {
            options: &self.options,
            settings,
            machine: self.machine.clone(),
            api,
            reporter: &self.reporter,
            metrics: Arc::clone(&self.metrics),
            usage: Arc::clone(&self.usage),
            news,
        }));
    }

    /// Tells what containers use from now on.
    pub(crate) fn open_usage(&self) {
        self.metrics.node(NodeLabels {
            node: self.options.node_name.clone().unwrap_or_default(),
            driver: self.node.driver.version.clone(),
        });
        let beginning = UsageBeginning {
            machine: self.machine.clone(),
            metrics: Arc::clone(&self.metrics),
            known: Arc::clone(&self.usage),
            easel: Arc::clone(&self.easel),
            api: self.api.clone(),
            own_pod: self.options.dra.instance.clone(),
            pod_resources: self.options.pod_resources_socket.clone(),
            claims: RecordStore::of_agent(&self.options.state_dir),
            driver: self.options.dra.driver_name.clone(),
            boot: self.boot.clone(),
            accountant: Accountant::new(
                self.options.node_name.clone().unwrap_or_else(hostname),
                Arc::clone(&self.desk),
                &self.options.prices,
                Arc::clone(&self.metrics),
            ),
        };
        tokio::spawn(usage::run(beginning));
    }
}

/// What the machine calls itself, where no cluster has a name for it.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "this machine".to_owned(), |name| name.trim().to_owned())
}
