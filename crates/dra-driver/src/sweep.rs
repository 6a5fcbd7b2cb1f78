//! What vanished claims left behind: records, files and instances that nobody will ask to take back.

use crate::prepare_error::PrepareError;
use crate::preparer::Preparer;
use crate::record::{Records, UsageRecord};
use carve_dra::{Claim, DeviceName, MigPlace};
use carve_gpu_host::GpuHost;
use carve_gpu_model::{GpuUuid, ProfileId};
use carve_mig_manager::{InstanceError, instances_on, remove_instance, uncut};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Claims that are ready here and gone from the cluster: they are to be taken back.
    pub gone: Vec<String>,
    /// What was cleared away, in words.
    pub cleared: Vec<String>,
    /// What could not be, in words; it is tried again.
    pub kept: Vec<String>,
}

impl Preparer {
    /// Looks for what vanished claims have left. `claims` are all that the API server has allocated on this node.
    pub fn sweep(&self, host: &mut dyn GpuHost, claims: &[Claim]) -> Result<Swept, PrepareError> {
        let _lock = self.store.lock()?;
        let records = self.read()?;
        let mut swept = Swept { kept: records.troubles, ..Swept::default() };
        let allocated: BTreeSet<&str> = claims
            .iter()
            .filter(|claim| claim.allocation.is_some())
            .map(|claim| claim.uid.as_str())
            .collect();
        swept.gone = records.claims.keys().filter(|uid| !allocated.contains(uid.as_str())).cloned().collect();

        for entry in fs::read_dir(&self.settings.cdi_folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(uid) = self.names.claim_of(&name) else { continue };
            if !records.claims.contains_key(uid) && !allocated.contains(uid) {
                match self.remove_files(uid) {
                    Ok(()) => swept.cleared.push(format!("{name}, of a claim that is gone")),
                    Err(error) => swept.kept.push(error.to_string()),
                }
            }
        }

        // A place is taken by a record, or by a claim whose record was lost.
        let mut taken: BTreeSet<(String, ProfileId, u8)> = BTreeSet::new();
        let mut busy: BTreeSet<String> = BTreeSet::new();
        let gpus = host.gpus().map_err(|source| PrepareError::Host { claim: "(any)".to_owned(), source })?;
        let by_minor: BTreeMap<u32, &GpuUuid> = gpus.iter().map(|gpu| (gpu.minor, &gpu.uuid)).collect();
        let recorded = records
            .claims
            .values()
            .flat_map(|record| &record.devices)
            .filter(|device| device.usage != UsageRecord::Watch)
            .filter_map(|device| device.device.parse::<DeviceName>().ok());
        let promised = claims
            .iter()
            .filter_map(|claim| claim.allocation.as_ref())
            .flat_map(|allocation| &allocation.results)
            .filter(|result| result.driver == self.settings.driver && result.pool == self.settings.pool)
            .filter(|result| !result.admin)
            .filter_map(|result| result.device.parse::<DeviceName>().ok());
        for name in recorded.chain(promised) {
            let Some(gpu) = by_minor.get(&name.minor) else { continue };
            busy.insert(gpu.0.clone());
            if let Some(place) = name.mig {
                taken.insert((gpu.0.clone(), place.id, place.start));
            }
        }
        for (gpu, place) in self.marked() {
            if taken.contains(&(gpu.0.clone(), place.id, place.start)) {
                continue;
            }
            let what = format!("instance {} at slot {} of {gpu}", place.profile, place.start);
            match remove_instance(host, &self.settings.mig, &gpu, place.id, place.start) {
                Ok(()) | Err(InstanceError::NoGpu { .. }) => {
                    self.unmark(&gpu, &place)?;
                    swept.cleared.push(what);
                }
                Err(error) => swept.kept.push(format!("{what}: {error}")),
            }
        }
        for gpu in gpus.iter().filter(|gpu| !busy.contains(&gpu.uuid.0)) {
            let on = host.mig_mode(gpu.index).ok().flatten().is_some_and(|mode| mode.current);
            if !on || !instances_on(host, &gpu.uuid).is_ok_and(|instances| instances.is_empty()) {
                continue;
            }
            match uncut(host, &self.settings.mig, &gpu.uuid) {
                Ok(true) => swept.cleared.push(format!("MIG mode of {}, which nobody uses", gpu.uuid)),
                Ok(false) => {}
                Err(error) => swept.kept.push(error.to_string()),
            }
        }
        Ok(swept)
    }

    /// Whether anything is here that no record speaks of. Only then are all claims of the cluster worth asking for.
    pub fn has_strays(&self) -> Result<bool, PrepareError> {
        let _lock = self.store.lock()?;
        let records = self.read()?;
        let file = !self.files_without_record(&records).is_empty();
        let devices = || records.claims.values().flat_map(|record| &record.devices);
        let instance = self.marked().into_iter().any(|(gpu, place)| {
            !devices().any(|device| {
                let name = device.device.parse::<DeviceName>();
                device.gpu == gpu.0 && name.is_ok_and(|name| name.mig.as_ref() == Some(&place))
            })
        });
        Ok(file || instance)
    }

    /// Uids of claims that have a file for containers and no record.
    pub(crate) fn files_without_record(&self, records: &Records) -> Vec<String> {
        let entries = fs::read_dir(&self.settings.cdi_folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let uid = |name: String| self.names.claim_of(&name).map(str::to_owned);
        names.filter_map(uid).filter(|uid| !records.claims.contains_key(uid)).collect()
    }

    /// Those of these claims that were ready and whose records were lost: containers may run with them. [`Preparer::begin`] and
    /// [`Preparer::finish`] write the records anew and find everything as it was.
    pub fn lost(&self, claims: Vec<Claim>) -> Result<Vec<Claim>, PrepareError> {
        let _lock = self.store.lock()?;
        let records = self.read()?;
        let lost = self.files_without_record(&records);
        let is_lost = |claim: &Claim| claim.allocation.is_some() && lost.contains(&claim.uid);
        Ok(claims.into_iter().filter(is_lost).collect())
    }

    /// Instances of each GPU that this driver has not made.
    pub fn foreign(&self, host: &dyn GpuHost) -> BTreeMap<GpuUuid, Vec<(ProfileId, u8)>> {
        let marked = self.marked();
        let mut foreign = BTreeMap::new();
        for gpu in host.gpus().unwrap_or_default() {
            if !host.mig_mode(gpu.index).ok().flatten().is_some_and(|mode| mode.current) {
                continue;
            }
            let mut instances = instances_on(host, &gpu.uuid).unwrap_or_default();
            instances.retain(|(profile, start)| {
                !marked
                    .iter()
                    .any(|(of, place)| *of == gpu.uuid && (place.id, place.start) == (*profile, *start))
            });
            if !instances.is_empty() {
                foreign.insert(gpu.uuid, instances);
            }
        }
        foreign
    }

    fn marked(&self) -> Vec<(GpuUuid, MigPlace)> {
        let entries = fs::read_dir(self.marks()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let read = |name: String| {
            let mut parts = name.split('@');
            let gpu = GpuUuid(parts.next()?.to_owned());
            let profile = parts.next()?.to_owned();
            let id = ProfileId(parts.next()?.parse().ok()?);
            let start = parts.next()?.parse().ok()?;
            Some((gpu, MigPlace { profile, id, start }))
        };
        let mut marked: Vec<(GpuUuid, MigPlace)> = names.filter_map(read).collect();
        marked.sort();
        marked
    }
}
