//! `carve mig profiles` and `carve mig placements`: what can be cut, and where.

use super::show::drawn;
use crate::args::{ListArgs, Output};
use crate::failure::{Failure, Outcome};
use crate::machine::Chosen;
use crate::picture::picture;
use crate::print;
use crate::table::Table;
use carve_gpu_model::{Engines, Evidence, Fact, GpuProfile, ProfileTable};
use carve_mig_manager::{GpuState, Layout, inventory};
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GpuProfiles {
    gpu: u32,
    name: String,
    mig_capable: bool,
    slots: u8,
    compute_slices: u8,
    profiles: Vec<ProfileView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileView {
    name: String,
    id: u32,
    nvml_index: u32,
    compute_slices: u8,
    max_instances: u8,
    free_instances: u32,
    #[serde(rename = "memoryMiB")]
    memory: Option<u64>,
    multiprocessors: Option<u16>,
    engines: Engines,
    placements: Vec<(u8, u8)>,
    /// How memory and multiprocessors are known, and how the placements are.
    figures: Option<Evidence>,
    placement_evidence: Evidence,
}

fn view(state: &GpuState) -> GpuProfiles {
    let placed = state.placed();
    let profiles = state.table.as_ref().map(|table| {
        let profile = |(slot, profile): (carve_gpu_model::ProfileSlot, &GpuProfile)| ProfileView {
            name: profile.name.to_string(),
            id: profile.id.0,
            nvml_index: profile.index.0,
            compute_slices: profile.slices,
            max_instances: profile.max_instances,
            free_instances: table.remaining(&placed, slot),
            memory: profile.memory.map(|fact| fact.value.0),
            multiprocessors: profile.multiprocessors.map(|fact| fact.value),
            engines: profile.engines,
            placements: profile.placements.iter().map(|at| (at.start, at.size)).collect(),
            figures: profile.memory.map(|fact| fact.evidence),
            placement_evidence: profile.placement_evidence,
        };
        table.enumerate().map(profile).collect()
    });
    GpuProfiles {
        gpu: state.gpu.index.0,
        name: state.gpu.name.clone(),
        mig_capable: state.gpu.mig_capable,
        slots: state.table.as_ref().map_or(0, ProfileTable::slots),
        compute_slices: state.table.as_ref().map_or(0, ProfileTable::compute_slices),
        profiles: profiles.unwrap_or_default(),
    }
}

fn read(chosen: &Chosen) -> Result<Vec<GpuState>, Failure> {
    inventory(chosen.host.as_ref()).map_err(|error| chosen.failure(&error))
}

/// A figure; `?` where nobody knows it, `~` before it where it is assumed.
fn figure<T: Copy + ToString>(fact: Option<Fact<T>>) -> String {
    match fact {
        None => "?".to_owned(),
        Some(fact) if fact.evidence.is_assumed() => format!("~{}", fact.value.to_string()),
        Some(fact) => fact.value.to_string(),
    }
}

/// GPUs that are alike, told once.
fn alike(states: &[GpuState]) -> Vec<(String, &GpuState)> {
    let mut groups: Vec<(Vec<String>, &GpuState)> = Vec::new();
    for state in states {
        let same = |other: &GpuState| {
            other.gpu.name == state.gpu.name
                && other.table == state.table
                && Layout::of(other) == Layout::of(state)
                && other.trouble == state.trouble
        };
        match groups.iter_mut().find(|(_, other)| same(other)) {
            Some((indices, _)) => indices.push(state.gpu.index.to_string()),
            None => groups.push((vec![state.gpu.index.to_string()], state)),
        }
    }
    groups.into_iter().map(|(indices, state)| (indices.join(", "), state)).collect()
}

/// Lists profiles.
pub(crate) fn profiles(chosen: &Chosen, args: &ListArgs) -> Outcome {
    let states = read(chosen)?;
    match args.output {
        Output::Json => return print::json(&states.iter().map(view).collect::<Vec<_>>()),
        Output::Yaml => return print::yaml(&states.iter().map(view).collect::<Vec<_>>()),
        Output::Table | Output::Wide => {}
    }
    let mut assumed = false;
    for (indices, state) in alike(&states) {
        print::out(&format!("GPU {indices} ({})\n", state.gpu.name))?;
        let Some(table) = &state.table else {
            print::out(&without_table(state))?;
            continue;
        };
        let mut lines = Table::new([
            "PROFILE", "ID", "FREE", "MOST", "SLICES", "SLOTS", "MEMORY", "SMS", "COPY", "DEC", "ENC",
            "JPEG", "OFA",
        ])
        .right([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let placed = state.placed();
        for (slot, profile) in table.enumerate() {
            assumed |= profile.placement_evidence.is_assumed();
            assumed |= profile.memory.is_some_and(|fact| fact.evidence.is_assumed());
            let Engines { copy, decoder, encoder, jpeg, ofa } = profile.engines;
            lines.row([
                profile.name.to_string(),
                profile.id.to_string(),
                table.remaining(&placed, slot).to_string(),
                profile.max_instances.to_string(),
                profile.slices.to_string(),
                profile.size().to_string(),
                figure(profile.memory),
                figure(profile.multiprocessors),
                copy.to_string(),
                decoder.to_string(),
                encoder.to_string(),
                jpeg.to_string(),
                ofa.to_string(),
            ]);
        }
        print::out(&lines.render())?;
    }
    if assumed {
        eprintln!(
            "~ marks a figure that is assumed, not known, for this product; a real driver's report replaces it"
        );
    }
    Ok(())
}

fn without_table(state: &GpuState) -> String {
    match &state.trouble {
        Some(trouble) => format!("  does not answer: {}\n", trouble.failure),
        None => "  has no MIG\n".to_owned(),
    }
}

/// Lists placements and draws what is there.
pub(crate) fn placements(chosen: &Chosen, args: &ListArgs) -> Outcome {
    let states = read(chosen)?;
    match args.output {
        Output::Json => return print::json(&states.iter().map(view).collect::<Vec<_>>()),
        Output::Yaml => return print::yaml(&states.iter().map(view).collect::<Vec<_>>()),
        Output::Table | Output::Wide => {}
    }
    for (indices, state) in alike(&states) {
        print::out(&format!("GPU {indices} ({})\n", state.gpu.name))?;
        let Some(table) = &state.table else {
            print::out(&without_table(state))?;
            continue;
        };
        let mut lines = Table::new(["PROFILE", "ID", "SLOTS", "MAY START AT", "FREE NOW"]).right([1, 2]);
        let placed = state.placed();
        for (slot, profile) in table.enumerate() {
            let starts = |starts: &mut dyn Iterator<Item = u8>| {
                let starts: Vec<String> = starts.map(|start| start.to_string()).collect();
                if starts.is_empty() { "-".to_owned() } else { starts.join(" ") }
            };
            let assumed = if profile.placement_evidence.is_assumed() { " (assumed)" } else { "" };
            lines.row([
                profile.name.to_string(),
                profile.id.to_string(),
                profile.size().to_string(),
                format!("{}{assumed}", starts(&mut profile.placements.iter().map(|at| at.start))),
                starts(&mut table.open_starts(&placed, slot).into_iter()),
            ]);
        }
        print::out(&lines.render())?;
        if state.mig_enabled() {
            let busy = |at: &carve_gpu_model::Placed| {
                state.instances.iter().any(|instance| instance.placed == *at && instance.in_use())
            };
            let mark = |at: &carve_gpu_model::Placed| if busy(at) { " *" } else { "" };
            print::out(&picture(table, &drawn(table, &Layout::of(state), &mark), "  "))?;
            if state.instances.iter().any(carve_planner::PresentInstance::in_use) {
                eprintln!("* in use");
            }
        }
    }
    Ok(())
}
