//! The part of the controller that cuts MIG on demand, alone: it stands for election and works while it leads.
//!
//! Argument: what this replica is called. The cluster is that of `KUBECONFIG`.

use anyhow::Result;
use carve_controller::{Candidate, repartition};
use kube::Client;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    // Several crates bring a provider; this process uses one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let me = std::env::args().nth(1).unwrap_or_else(|| "one".to_owned());
    let client = Client::try_default().await?;
    let candidate = Candidate::new(&me);
    tokio::join!(
        candidate.stand(client.clone(), "default", "carve-repartition"),
        repartition::run(client.clone(), || candidate.leads()),
    );
    Ok(())
}
