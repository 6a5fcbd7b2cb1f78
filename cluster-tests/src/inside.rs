//! The test's own process in the lab's network: thousands of objects are made and watched without a program for each.

use crate::Cluster;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fmt::Debug;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// How many objects are made at once.
const AT_ONCE: usize = 16;

/// How a program outside speaks to the API server, and to programs on the first node.
#[derive(Debug, Clone)]
pub struct Inside {
    network: PathBuf,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// The way in.
    pub fn inside(&self) -> Inside {
        Inside { network: self.network(), kubeconfig: PathBuf::from(self.kubeconfig()) }
    }

    /// Does something in the lab's network and waits for it.
    pub fn within<T, F>(&self, act: impl FnOnce(Client) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let done = self.inside().spawn(act).join();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Inside {
    /// Does something in the lab's network, on a thread of its own that is there and nowhere else.
    pub fn spawn<T, F>(self, act: impl FnOnce(Client) -> F + Send + 'static) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        std::thread::spawn(move || {
            enter(&self.network);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
            runtime.block_on(async { act(client(&self.kubeconfig).await).await })
        })
    }
}

fn enter(network: &Path) {
    let file = File::open(network).unwrap_or_else(|error| panic!("{}: {error}", network.display()));
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .unwrap_or_else(|error| panic!("the lab's network can not be entered: {error}; is this root?"));
}

async fn client(kubeconfig: &Path) -> Client {
    // An error means that one is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = Kubeconfig::read_from(kubeconfig).unwrap_or_else(|error| panic!("{error}"));
    let config = Config::from_custom_kubeconfig(text, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap_or_else(|error| panic!("{error}")))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// What `GET` of a page on the first node answers, whoever signed its certificate.
pub(crate) async fn page(address: &str, path: &str) -> Result<String, String> {
    let address = format!("https://{address}").parse().map_err(|error| format!("{error}"))?;
    let mut config = Config::new(address);
    config.accept_invalid_certs = true;
    let client = Client::try_from(config).map_err(|error| error.to_string())?;
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map_err(|error| error.to_string())
}

/// Creates objects, several at once; the first refusal ends it.
pub(crate) async fn create_all<K>(api: Api<K>, objects: Vec<K>) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let params = PostParams::default();
    let created = stream::iter(&objects).map(|object| api.create(&params, object)).buffer_unordered(AT_ONCE);
    created.try_for_each(|_| async { Ok(()) }).await
}
