//! Admission: what the API server asks about pods, and what it is answered.
//!
//! ```text
//!   configuration, conditions ──▶ API server ──▶ door ──▶ review ──▶ answer
//!                                                  │  ▲
//!                                       templates ◀┘  └── knowledge: road, fleet, policies
//! ```

mod conditions;
mod configuration;
mod door;
mod fleet;
mod knowledge;
mod policies;
mod review;
pub(crate) mod templates;

pub use configuration::Reached;
pub(crate) use door::routes;
pub(crate) use knowledge::Knowledge;

use crate::certificates::Certificates;
use crate::kubernetes::within;
use crate::store::StoreError;
use base64::Engine;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use std::time::Duration;
use tokio::sync::watch;

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the configurations are looked at, in case somebody changed them.
const LOOK: Duration = Duration::from_secs(60);
/// How soon what failed is tried again, and a new leader begins.
const SOON: Duration = Duration::from_millis(500);

/// Base64, as the API server has it in JSON.
fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Keeps the webhook configurations as they should be, for as long as this runs and the replica leads. Others wait until they are there.
pub(crate) async fn register(
    client: Client,
    knowledge: &Knowledge,
    reached: &Reached,
    own: &str,
    mut certificates: watch::Receiver<Certificates>,
    leads: impl Fn() -> bool,
) {
    let mut trouble = None;
    loop {
        let mut pause = SOON;
        let (done, tried) = if leads() {
            let bundle = certificates.borrow_and_update().bundle();
            let applied = apply(&client, reached, &bundle, own).await;
            if applied.is_ok() {
                pause = LOOK;
            }
            (applied.map(|()| true), "written")
        } else if knowledge.is_asked() {
            (Ok(true), "read")
        } else {
            (is_there(&client).await, "read")
        };
        match done {
            Ok(asked) => {
                trouble = None;
                if asked {
                    knowledge.will_be_asked();
                }
            }
            Err(error) => {
                let error = error.to_string();
                if trouble.as_ref() != Some(&error) {
                    tracing::error!(
                        "the webhook configurations '{}' can not be {tried}: {error}",
                        configuration::NAME
                    );
                }
                trouble = Some(error);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = certificates.changed() => {}
        }
    }
}

/// Whether somebody has written both configurations.
async fn is_there(client: &Client) -> Result<bool, StoreError> {
    let name = configuration::NAME;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = within(PATIENCE, mutating.get_metadata_opt(name)).await?;
    let validating = within(PATIENCE, validating.get_metadata_opt(name)).await?;
    Ok(mutating.is_some() && validating.is_some())
}

async fn apply(client: &Client, reached: &Reached, bundle: &str, own: &str) -> Result<(), StoreError> {
    let params = PatchParams::apply("carve-controller").force();
    let [mutating, validating] = configuration::configurations(reached, &base64(bundle), own);
    let name = configuration::NAME;
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    within(PATIENCE, api.patch(name, &params, &Patch::Apply(&mutating))).await?;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    within(PATIENCE, api.patch(name, &params, &Patch::Apply(&validating))).await?;
    Ok(())
}
