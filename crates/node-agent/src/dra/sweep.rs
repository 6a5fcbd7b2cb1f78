//! Clears away what vanished claims have left: kubelet asks to take back what it knows, and no more.

use super::driver::ClaimDriver;
use crate::tell::Reporter;
use carve_cluster_api::Tone;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How often to look.
const AGAIN: Duration = Duration::from_secs(20);

/// Looks again and again.
pub(crate) async fn run(driver: Arc<ClaimDriver>, reporter: Reporter) {
    let mut told = BTreeSet::new();
    loop {
        match once(&driver).await {
            Ok(news) => {
                for (tone, text) in news {
                    if tone == Tone::Normal || told.insert(text.clone()) {
                        reporter.event(tone, "ClaimsSwept", text);
                    }
                }
            }
            Err(why) => tracing::debug!(why, "what vanished claims have left is looked for later"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn once(driver: &ClaimDriver) -> Result<Vec<(Tone, String)>, String> {
    let mut news: Vec<(Tone, String)> = Vec::new();
    let preparer = Arc::clone(&driver.preparer);
    let strays = tokio::task::spawn_blocking(move || preparer.has_strays()).await;
    if strays.map_err(|error| error.to_string())?.map_err(|error| error.to_string())? {
        news.extend(driver.recover().await?.into_iter().map(|text| (Tone::Warning, text)));
    }
    // Only what was there before claims are asked for can be known to be gone.
    let preparer = Arc::clone(&driver.preparer);
    let known = tokio::task::spawn_blocking(move || Ok((preparer.records()?, preparer.has_strays()?))).await;
    let (before, strays) = known
        .map_err(|error| error.to_string())?
        .map_err(|error: carve_dra_driver::PrepareError| error.to_string())?;
    let mut claims = Vec::new();
    if strays {
        claims = driver.api.claims_here(&driver.driver).await.map_err(|error| error.to_string())?;
    } else {
        for record in before.claims.values() {
            let claim = driver.api.claim(&record.namespace, &record.name).await;
            claims.extend(claim.map_err(|error| error.to_string())?);
        }
    }
    let preparer = Arc::clone(&driver.preparer);
    let swept = driver.machine.ask(move |host| preparer.sweep(host, &claims)).await;
    let swept = swept.map_err(|gone| gone.to_string())?.map_err(|error| error.to_string())?;
    news.extend(driver.preparer.troubles().into_iter().map(|text| (Tone::Warning, text)));
    news.extend(swept.kept.into_iter().map(|text| (Tone::Warning, text)));
    news.extend(swept.cleared.into_iter().map(|what| (Tone::Normal, format!("{what}, was cleared away"))));
    for uid in swept.gone.iter().filter(|uid| before.claims.contains_key(*uid)) {
        let title = before.claims.get(uid).map(|record| record.title()).unwrap_or_default();
        match driver.take_back(uid).await {
            Ok(()) => news.push((Tone::Normal, format!("claim {title} is gone; what it had is taken back"))),
            Err(why) => news.push((
                Tone::Warning,
                format!("claim {title} is gone, and can not be taken back yet: {why}"),
            )),
        }
    }
    Ok(news)
}
