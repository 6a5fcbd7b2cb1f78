//! The socket of the tokens: bound, registered with kubelet, and again after kubelet was restarted.

use super::start::Starter;
use super::tokens::{OPTIONS, TokenPlugin};
use crate::plugins::{self, Identity, identity, register};
use carve_cluster_api::names;
use carve_kubelet_api::device_plugin::{DevicePluginServer, RegisterRequest, VERSION};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tonic::transport::Server;

/// Its name in kubelet's folder.
const SOCKET: &str = "carve-slice.sock";

/// The socket.
pub(crate) struct Serving {
    kubelet: PathBuf,
    socket: PathBuf,
    starter: Arc<Starter>,
    /// The kubelet that knows of it.
    known: Option<Identity>,
    server: Option<plugins::Serving>,
    registered: bool,
}

impl Serving {
    /// For the kubelet behind this socket.
    pub(crate) fn new(kubelet: PathBuf, starter: Arc<Starter>) -> Self {
        let socket = kubelet.with_file_name(SOCKET);
        Serving { kubelet, socket, starter, known: None, server: None, registered: false }
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.registered
    }

    /// Binds and registers what is not yet, and again if kubelet is a new one or the socket is gone.
    pub(crate) async fn look_after(&mut self) {
        let kubelet = identity(&self.kubelet);
        let lost = self.server.as_ref().is_some_and(plugins::Serving::is_lost);
        if kubelet != self.known || lost {
            self.known = kubelet;
            self.withdraw().await;
        }
        // Before the driver's files are known there is nothing to offer.
        if kubelet.is_none() || self.starter.facts.borrow().parts.files.hook.is_none() {
            return;
        }
        if self.server.is_none() {
            let (stop, stopped) = watch::channel(false);
            let plugin = TokenPlugin { starter: Arc::clone(&self.starter), stop: stopped };
            let router = Server::builder().add_service(DevicePluginServer::new(plugin));
            match plugins::start(&self.socket, router, stop, &Handle::current()) {
                Ok(server) => self.server = Some(server),
                Err(error) => {
                    tracing::error!(%error, "tokens can not be served; trying again");
                    return;
                }
            }
        }
        if !self.registered {
            let request = RegisterRequest {
                version: VERSION.to_owned(),
                endpoint: SOCKET.to_owned(),
                resource_name: names::SLICE.to_owned(),
                options: Some(OPTIONS),
            };
            match register(&self.kubelet, request).await {
                Ok(()) => {
                    self.registered = true;
                    tracing::info!(resource = names::SLICE, "registered");
                }
                Err(error) => {
                    tracing::warn!(resource = names::SLICE, %error, "kubelet did not register it; trying again")
                }
            }
        }
    }

    /// Ends the server; what runs keeps its tokens.
    pub(crate) async fn withdraw(&mut self) {
        self.registered = false;
        if let Some(server) = self.server.take() {
            server.end().await;
        }
    }
}
