//! Tenants by what kubelet says that containers have: devices of plugins, and devices of claims; pure.

use super::tenant::{Mechanism, Tenant};
use crate::holders::{ClaimHeld, Holdings};
use carve_dra_driver::{ClaimRecord, Stage, UsageRecord};
use carve_economics::replica;
use carve_slicing::{Device, Held, Offer};
use std::collections::BTreeMap;

/// Claims of the driver that is ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OurClaims<'a> {
    pub(crate) driver: &'a str,
    pub(crate) records: &'a BTreeMap<String, ClaimRecord>,
}

/// Everybody who has something by devices or claims. Shares are told by whoever reads what they count.
pub(crate) fn by_kubelet(holdings: &Holdings, offer: &Offer, claims: OurClaims<'_>) -> Vec<Tenant> {
    let mut tenants = by_plugin(&holdings.devices, offer);
    tenants.extend(holdings.claims.iter().filter_map(|held| by_claim(held, claims)));
    tenants
}

/// Devices that kubelet counts. Of one that is not offered any more only the name is known.
fn by_plugin(held: &[Held], offer: &Offer) -> Vec<Tenant> {
    let devices: BTreeMap<&str, &Device> = offer
        .resources
        .values()
        .flat_map(|resource| &resource.devices)
        .map(|device| (device.id.as_str(), device))
        .collect();
    let tenant = |held: &Held| {
        let share = devices.get(held.device.as_str()).map(|device| device.share);
        let shares = share.map(|share| replica(u32::try_from(share.replicas).unwrap_or(u32::MAX)));
        let (mechanism, promised) = match share {
            Some(share) => match share.mechanism {
                carve_slicing::Mechanism::Exclusive => (Mechanism::Whole, None),
                carve_slicing::Mechanism::TimeSlicing => (Mechanism::TimeSlicing, None),
                carve_slicing::Mechanism::Mps => {
                    (Mechanism::Mps, Some(u32::try_from(1000 / share.replicas.max(1)).unwrap_or(0)))
                }
            },
            None if held.device.contains("::") => (Mechanism::TimeSlicing, None),
            None => (Mechanism::Whole, None),
        };
        let part = held.part().as_str().to_owned();
        Tenant { part, mechanism, shares, promised, ..Tenant::of(held.holder.clone()) }
    };
    // What is no part of a GPU, such as a token or somebody else's device, is told by whoever knows it.
    let parts = held.iter().filter(|held| ["GPU-", "MIG-"].iter().any(|kind| held.device.starts_with(kind)));
    parts.map(tenant).collect()
}

/// A device of a claim. Kubelet knows a claim by its name alone, so of two with one name the one that is ready counts.
fn by_claim(held: &ClaimHeld, claims: OurClaims<'_>) -> Option<Tenant> {
    if held.driver != claims.driver {
        return None;
    }
    let named = |record: &&ClaimRecord| record.namespace == held.claim_namespace && record.name == held.claim;
    let mut records: Vec<&ClaimRecord> = claims.records.values().filter(named).collect();
    records.sort_by_key(|record| record.stage != Stage::Ready);
    let devices = records.iter().flat_map(|record| &record.devices);
    let device =
        devices.into_iter().find(|device| device.device == held.device && device.share == held.share)?;
    let mebi = |number: u64| number.saturating_mul(1 << 20);
    let (mechanism, promised, memory_limit) = match &device.usage {
        UsageRecord::Alone => (Mechanism::Whole, None, None),
        UsageRecord::Turns { .. } => (Mechanism::TimeSlicing, None, None),
        UsageRecord::Mps { daemon_memory, daemon_threads, memory, threads, counted: None } => {
            let threads = threads.unwrap_or(*daemon_threads);
            (Mechanism::Mps, Some(threads.saturating_mul(10).min(1000)), memory.or(*daemon_memory).map(mebi))
        }
        // It has a share, which tells more; and who only looks uses nothing.
        UsageRecord::Mps { .. } | UsageRecord::Fraction { .. } | UsageRecord::Watch => return None,
    };
    let part = device.part.clone().unwrap_or_else(|| device.gpu.clone());
    Some(Tenant { part, mechanism, promised, memory_limit, ..Tenant::of(held.holder.clone()) })
}
