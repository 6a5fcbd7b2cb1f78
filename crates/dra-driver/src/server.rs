//! Serves a driver to kubelet: two sockets, from the first registration to a clean end.
//!
//! The socket of the service is bound before the one of registration and outlives it: kubelet dials the first as soon as it has read
//! of it on the second. Each of two instances of a driver has sockets of its own, so that a new one is there before the old one goes.

use crate::calls::Calls;
use crate::health::Health;
use crate::kept::Kept;
use crate::places::{PlacesError, SocketPlaces};
use crate::services::{Door, Introduction};
use crate::stale::sweep;
use carve_kubelet_api::dra::{Claim, DRAPluginServer, Device, v1beta1};
use carve_kubelet_api::dra_health::{DRAResourceHealthServer, DeviceHealth, v1alpha1};
use carve_kubelet_api::registration::RegistrationServer;
use carve_kubelet_api::serve;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tonic::transport::Server;

/// What a driver does. Both answers go by the uid of the claim. The server asks for a claim once at a time; different claims may come
/// at the same time. A claim that is missing in the answer counts as failed.
pub trait Driver: Send + Sync + 'static {
    /// Makes the devices of claims ready, or says for each why they are not. Asked again for claims that are ready, it gives the
    /// same answer.
    fn prepare(
        &self,
        claims: Vec<Claim>,
    ) -> impl Future<Output = BTreeMap<String, Result<Vec<Device>, String>>> + Send;

    /// Takes the devices of claims back. Claims that nobody knows are done already.
    fn unprepare(
        &self,
        claims: Vec<Claim>,
    ) -> impl Future<Output = BTreeMap<String, Result<(), String>>> + Send;
}

/// What kubelet made of the driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Registered {
    /// It has not said anything yet, or the sockets are gone.
    #[default]
    No,
    /// It asks this driver from now on. Said again when kubelet has restarted.
    Yes,
    /// It does not, and why.
    Refused(String),
}

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// A call is answered within this; kubelet gives up after 45 s.
    pub answer: Duration,
    /// The health of devices is told again after this; kubelet takes it for outdated after 30 s, and forgets what this instance told
    /// it when another instance ends.
    pub health: Duration,
    /// A socket that is gone is bound again within this.
    pub look: Duration,
    /// Sockets of dead instances are looked for this often.
    pub sweep: Duration,
    /// Calls and work under way may take so long to finish; a pod has 30 s to end.
    pub drain: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            answer: Duration::from_secs(40),
            health: Duration::from_secs(10),
            look: Duration::from_millis(500),
            sweep: Duration::from_secs(30),
            drain: Duration::from_secs(25),
        }
    }
}

/// How long kubelet may take to hang up on the registration socket; it has nothing to wait for there.
const GOODBYE: Duration = Duration::from_secs(1);

/// Why a driver is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Places(#[from] PlacesError),
    #[error("can not create the folder {} for the driver's socket; the driver needs to write there: {source}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "kubelet's folder {} is not there; if kubelet keeps its files elsewhere, name its folder, and in a container mount it \
         under the same path", .0.display()
    )]
    NoRegistry(PathBuf),
    #[error(transparent)]
    Socket(#[from] serve::ServeError),
}

/// Serves a driver until `stop` is done, and returns once calls and work under way are finished.
///
/// `registered` is told what kubelet makes of the driver; `health` is every device with how it is.
pub async fn serve<D: Driver>(
    places: SocketPlaces,
    driver: Arc<D>,
    health: watch::Receiver<Vec<DeviceHealth>>,
    registered: watch::Sender<Registered>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    serve_at(Pace::default(), places, driver, health, registered, stop).await
}

/// Like [`serve`], at another pace.
pub async fn serve_at<D: Driver>(
    pace: Pace,
    places: SocketPlaces,
    driver: Arc<D>,
    health: watch::Receiver<Vec<DeviceHealth>>,
    registered: watch::Sender<Registered>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (service_path, registration_path) = (places.service()?, places.registration()?);
    let folder = places.folder();
    make_folder(&folder)?;
    if !places.registry.is_dir() {
        return Err(ServeError::NoRegistry(places.registry));
    }

    let (stopping, stopped) = watch::channel(false);
    let health = Health { devices: health, stop: stopped, again: pace.health };
    let calls = Arc::new(Calls::new(driver, pace.answer));
    let door = Door(Arc::clone(&calls));
    let services = move || {
        Server::builder()
            .add_service(DRAPluginServer::new(door.clone()))
            .add_service(v1beta1::DRAPluginServer::new(door.clone()))
            .add_service(DRAResourceHealthServer::new(health.clone()))
            .add_service(v1alpha1::DRAResourceHealthServer::new(health.clone()))
    };
    let mut service = Kept::bind(service_path.clone(), pace.drain, services)?;

    let registered = Arc::new(registered);
    let introduction = Introduction {
        driver: places.driver.clone(),
        endpoint: service_path.display().to_string(),
        registered: Arc::clone(&registered),
    };
    let introduce = move || Server::builder().add_service(RegistrationServer::new(introduction.clone()));
    let mut registration = match Kept::bind(registration_path.clone(), pace.drain.min(GOODBYE), introduce) {
        Ok(registration) => registration,
        Err(error) => {
            service.stop().await;
            return Err(error);
        }
    };

    let mut stop = pin!(stop);
    let (mut look, mut sweeping) = (interval(pace.look), interval(pace.sweep));
    for each in [&mut look, &mut sweeping] {
        each.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = look.tick() => {
                if let Err(error) = make_folder(&folder) {
                    tracing::debug!("{error}");
                }
                // In the order of the start: whoever reads of the service must find it.
                service.look();
                if registration.look() {
                    registered.send_replace(Registered::No);
                }
            }
            _ = sweeping.tick() => {
                sweep(&folder, &service_path, |name| places.is_service(name)).await;
                sweep(&places.registry, &registration_path, |name| places.is_registration(name)).await;
            }
        }
    }

    registration.stop().await;
    registered.send_replace(Registered::No);
    stopping.send_replace(true);
    let end = Instant::now() + pace.drain;
    service.stop().await;
    // Nobody can ask any more; what was asked goes on to its end, so that nothing is left half done.
    if timeout_at(end, calls.idle()).await.is_err() {
        tracing::warn!(
            "claims were still being worked on when the driver had to end; the next start goes on with them"
        );
    }
    Ok(())
}

fn make_folder(folder: &PathBuf) -> Result<(), ServeError> {
    std::fs::create_dir_all(folder).map_err(|source| ServeError::Folder { path: folder.clone(), source })
}
