//! Settings of the card that a strategy needs: MIG devices and the length of turns. Changed only where that is allowed, and put back.

use crate::left_behind::{LAYOUT, TURNS};
use crate::{Bench, CellError};
use carve_dra_driver::{SetTurns, SmiTurns};
use carve_formats::mig_parted::MigPartedConfig;
use carve_gpu_model::GpuUuid;
use carve_mig_manager::{
    ApplyOptions, HookRunner, Layout, Silent, apply, checkpoint, inventory, restore, write_whole,
};
use carve_study::Strategy;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What was changed, and what it was before.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    layout: Option<Layout>,
    turns: bool,
}

/// The driver's own choice, short turns, long ones, as it counts them.
const OWN: u32 = 0;
const SHORT: u32 = 1;
const LONG: u32 = 3;

impl Bench<'_> {
    /// Why there are no MIG devices for so many tenants; nothing where there are, or can be made.
    pub(crate) fn why_no_mig(&self, strategy: Strategy, tenants: u32) -> Option<String> {
        if !self.gpu.mig_capable {
            return Some(format!("{} has no MIG", self.gpu.name));
        }
        let wanted = instances(strategy, tenants);
        if self.change_settings {
            return self
                .profile_for(wanted)
                .is_none()
                .then(|| format!("it can not be cut into {wanted} equal MIG devices"));
        }
        let there = self.host.mig_devices(self.gpu.index).map_or(0, |devices| devices.len());
        (there < wanted as usize).then(|| match there {
            0 => "it has no MIG devices now; --change-settings allows to make some".to_owned(),
            some => format!("it has {some} MIG devices now and {wanted} are needed; --change-settings allows to make others"),
        })
    }

    /// The largest profile of which so many fit.
    fn profile_for(&self, wanted: u32) -> Option<String> {
        let table = self.host.profile_table(self.gpu.index).ok()?;
        let mut fitting: Vec<(u8, String)> = Vec::new();
        for profile in table.profiles() {
            // Names with attributes are of instances with engines that others then lack.
            let plain = !profile.name.to_string().contains(['+', '-']);
            if plain && u32::from(profile.max_instances) >= wanted {
                fitting.push((profile.slices, profile.name.to_string()));
            }
        }
        fitting.into_iter().max_by_key(|(slices, _)| *slices).map(|(_, name)| name)
    }

    /// MIG devices for tenants: each has its own, or all have the first.
    pub(crate) fn mig_devices(&mut self, strategy: Strategy, tenants: u32) -> Result<Vec<String>, CellError> {
        let wanted = instances(strategy, tenants);
        if self.change_settings {
            let profile = self.profile_for(wanted).ok_or_else(|| {
                CellError::NotHere(format!("it can not be cut into {wanted} equal MIG devices"))
            })?;
            self.cut(&format!("mig-enabled: true, mig-devices: {{\"{profile}\": {wanted}}}"))?;
        }
        let devices =
            self.host.mig_devices(self.gpu.index).map_err(|error| CellError::Setting(error.to_string()))?;
        let uuids: Vec<String> = devices.into_iter().map(|device| device.uuid.0).collect();
        if uuids.len() < wanted as usize {
            return Err(CellError::NotHere(format!(
                "it has {} MIG devices and {wanted} are needed",
                uuids.len()
            )));
        }
        Ok((0..tenants as usize).map(|which| uuids[which.min(wanted as usize - 1)].clone()).collect())
    }

    /// The whole GPU, where it is cut and that may be changed.
    pub(crate) fn uncut(&mut self) -> Result<(), CellError> {
        if self.mig_is_on() { self.cut("mig-enabled: false, mig-devices: {}") } else { Ok(()) }
    }

    fn cut(&mut self, what: &str) -> Result<(), CellError> {
        let failed = |error: &dyn std::error::Error| CellError::Setting(error.to_string());
        if !self.change_settings {
            return Err(CellError::NotHere("settings of the card may not be changed".to_owned()));
        }
        if self.changed.layout.is_none() {
            let gpus = inventory(&*self.host).map_err(|error| failed(&error))?;
            let own = gpus.into_iter().find(|state| state.gpu.uuid == self.gpu.uuid);
            let own = own.ok_or_else(|| CellError::Setting("the GPU is gone".to_owned()))?;
            let text = checkpoint(std::slice::from_ref(&own)).map_err(|error| failed(&error))?;
            self.note(LAYOUT, &text)?;
            self.changed.layout = Some(Layout::of(&own));
        }
        let text =
            format!("version: v1\nmig-configs: {{bench: [{{devices: [{}], {what}}}]}}\n", self.gpu.index);
        let config = MigPartedConfig::parse(&text).value;
        let entries = config.and_then(|config| config.configs.get("bench").cloned()).unwrap_or_default();
        let hooks = HookRunner::default();
        let options = ApplyOptions::default();
        apply(&mut *self.host, self.state_dir, ("bench", &entries), options, &hooks, &mut Silent)
            .map_err(|error| failed(&error))?;
        Ok(())
    }

    /// Turns as long as the strategy has them; the driver's own choice where it has no wish.
    pub(crate) fn set_turns(&mut self, strategy: Strategy) -> Result<(), CellError> {
        let interval = match strategy {
            Strategy::TimeSlicingShort => SHORT,
            Strategy::TimeSlicingLong => LONG,
            _ if self.changed.turns => OWN,
            _ => return Ok(()),
        };
        if !self.change_settings {
            return Err(CellError::NotHere("the length of turns may not be changed".to_owned()));
        }
        if interval != OWN {
            self.note(TURNS, "")?;
        }
        self.changed.turns = interval != OWN;
        self.turns(interval).map_err(CellError::Setting)
    }

    /// Writes down what was, before it is changed.
    fn note(&self, name: &str, text: &str) -> Result<(), CellError> {
        let path = self.folder.join(name);
        let written = fs::create_dir_all(&self.folder).and_then(|()| write_whole(&path, text.as_bytes()));
        written.map_err(|source| CellError::Folder { path, source })
    }

    /// Puts back what a run had changed that was killed; the words of what came of it.
    pub fn put_back_left_behind(&mut self, folder: &Path) -> Result<String, String> {
        let mut back = Vec::new();
        if folder.join(TURNS).exists() {
            self.turns(OWN)?;
            back.push("the length of turns is the driver's own again");
        }
        if let Ok(text) = fs::read_to_string(folder.join(LAYOUT)) {
            let layouts = Layout::from_checkpoint(&text).map_err(|error| error.to_string())?;
            let (options, hooks) = (ApplyOptions::default(), HookRunner::default());
            restore(&mut *self.host, self.state_dir, &layouts, options, &hooks, &mut Silent)
                .map_err(|error| error.to_string())?;
            back.push("MIG is as it was");
        }
        let _ = fs::remove_dir_all(folder);
        Ok(back.join(", "))
    }

    fn turns(&self, interval: u32) -> Result<(), String> {
        let smi = SmiTurns { program: self.programs.nvidia_smi.clone(), environment: Vec::new() };
        smi.set(&self.gpu.uuid, interval)
    }

    /// Puts back what was changed; the words of what could not be.
    pub(crate) fn put_back(&mut self) -> Vec<String> {
        let mut trouble = Vec::new();
        if std::mem::take(&mut self.changed.turns)
            && let Err(why) = self.turns(OWN)
        {
            trouble.push(format!("the length of turns is not the driver's own again: {why}"));
        }
        if let Some(layout) = self.changed.layout.take() {
            let layouts: BTreeMap<GpuUuid, Layout> = BTreeMap::from([(self.gpu.uuid.clone(), layout)]);
            let (options, hooks) = (ApplyOptions::default(), HookRunner::default());
            if let Err(error) =
                restore(&mut *self.host, self.state_dir, &layouts, options, &hooks, &mut Silent)
            {
                trouble.push(format!("MIG is not as it was: {error}"));
            }
        }
        trouble
    }
}

/// How many MIG devices a strategy needs for so many tenants.
fn instances(strategy: Strategy, tenants: u32) -> u32 {
    match strategy {
        Strategy::Mig => tenants,
        // Half of the GPU, so that the layer is one.
        _ => 2,
    }
}
