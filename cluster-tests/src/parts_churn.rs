//! Pods with parts of GPUs that come and go all the time, whatever happens to whoever decides about them.

use crate::{Cluster, Namespace, part_asks};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Numbers that look random and are the same in every run of a seed.
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    /// One below a bound.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    /// Lets up to so many milliseconds pass.
    pub fn pass(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.below(most)));
    }
}

/// What has come of it so far.
#[derive(Debug, Default, Clone)]
pub struct Churned {
    /// Pods that were made.
    pub made: usize,
    /// Pods that were deleted.
    pub deleted: usize,
    /// What was said when a pod was refused.
    pub refused: Vec<String>,
}

/// Pods that come and go until this is stopped.
#[derive(Debug)]
pub struct Churn {
    churned: Arc<Mutex<Churned>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Churn {
    /// Lets pods come and go again, about `most` at a time and one every `pause` milliseconds; `dress` says where they may go, and what they do.
    pub fn start(
        cluster: &Cluster,
        namespace: &Namespace,
        (most, pause): (usize, u64),
        dress: impl Fn(&mut Value) + Send + 'static,
    ) -> Self {
        let (churned, stop): (Arc<Mutex<Churned>>, Arc<AtomicBool>) = Default::default();
        let (told, stopped) = (Arc::clone(&churned), Arc::clone(&stop));
        let namespace = namespace.name().to_owned();
        let thread = cluster.inside().spawn(move |client| async move {
            let pods: Api<Pod> = Api::namespaced(client, &namespace);
            let (mut chance, mut names, mut number) = (Chance(8), Vec::<String>::new(), 0usize);
            while !stopped.load(Ordering::Relaxed) {
                let full = names.len() >= most;
                if full || (!names.is_empty() && chance.below(3) == 0) {
                    let index = usize::try_from(chance.below(names.len() as u64)).unwrap_or(0);
                    // What could not be deleted now is chosen again.
                    if delete(&pods, &names[index]).await {
                        names.swap_remove(index);
                        told.lock().unwrap_or_else(PoisonError::into_inner).deleted += 1;
                    }
                } else {
                    let name = format!("churn-{number}");
                    number += 1;
                    let made = create(&pods, &name, &dress, &mut chance).await;
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    match made {
                        Ok(()) => told.made += 1,
                        Err(why) => told.refused.push(why),
                    }
                    // Also where no answer came: it may be there.
                    names.push(name);
                }
                tokio::time::sleep(Duration::from_millis(pause / 2 + chance.below(pause))).await;
            }
        });
        Churn { churned, stop, thread }
    }

    /// What has come of it so far.
    pub fn so_far(&self) -> Churned {
        self.churned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// No pod comes or goes any more.
    pub fn stop(self) -> Churned {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.churned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn create(
    pods: &Api<Pod>,
    name: &str,
    dress: &impl Fn(&mut Value),
    chance: &mut Chance,
) -> Result<(), String> {
    let asks = part_asks();
    let ask = &asks[usize::try_from(chance.below(asks.len() as u64)).unwrap_or(0)];
    let mut pod = ask.pod(name);
    dress(&mut pod);
    let pod: Pod = serde_json::from_value(pod).map_err(|error| error.to_string())?;
    pods.create(&PostParams::default(), &pod).await.map(drop).map_err(|error| error.to_string())
}

async fn delete(pods: &Api<Pod>, name: &str) -> bool {
    match pods.delete(name, &DeleteParams::default().grace_period(0)).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => status.code == 404,
        Err(_) => false,
    }
}
