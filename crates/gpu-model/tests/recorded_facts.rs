//! The product tables against the recorded geometry tables, maximal layouts, driver logs and an H200's own report.

use carve_gpu_model::{
    Architecture, Bytes, Engines, Evidence, Geometry, Mebibytes, ModeSwitch, PciId, Placed, Placement,
    Product, ProfileId, ProfileIndex, ProfileName, ProfileTable, ReportedProfile,
};
use carve_test_support::fixture_text;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct GeometryFile {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    key: String,
    arch: Architecture,
    pci_device_ids: Vec<PciId>,
    memory_slots: Option<u8>,
    compute_slices: u8,
    total_mib: Option<u64>,
    mode_change: String,
    profiles: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: ProfileName,
    profile_id: Option<u32>,
    nvml_index: Option<u32>,
    compute_slices: u8,
    max_instances: u8,
    memory_mib: Option<u64>,
    sm: Option<u16>,
    placement: Option<Starts>,
    engines: EngineRow,
    placements: String,
}

#[derive(Deserialize)]
struct Starts {
    size: u8,
    starts: Vec<u8>,
}

#[derive(Deserialize)]
struct EngineRow {
    copy: u8,
    nvdec: u8,
    nvenc: u8,
    nvjpg: u8,
    ofa: u8,
}

fn table(key: &str) -> ProfileTable {
    Product::by_key(key).and_then(Product::profile_table).unwrap_or_else(|| panic!("no table for {key}"))
}

fn profile(table: &ProfileTable, name: &str) -> carve_gpu_model::ProfileSlot {
    table.by_name(&name.parse().unwrap()).unwrap_or_else(|error| panic!("{error}")).0
}

/// Reads `1g.5gb@3`.
fn placed(table: &ProfileTable, text: &str) -> Placed {
    let (name, start) = text.split_once('@').unwrap();
    Placed { profile: profile(table, name), start: start.parse().unwrap() }
}

#[test]
fn every_recorded_model_is_in_the_catalogue_with_the_same_figures() {
    let Some(text) = fixture_text("mig/geometry.yaml") else { return };
    let file: GeometryFile = serde_saphyr::from_str(&text).expect("geometry.yaml reads");
    assert_eq!(file.models.len(), 19);
    for model in &file.models {
        let Some(slots) = model.memory_slots else {
            // Two tables of one board (by driver branch) are one product here.
            let key = model.key.split('.').next().unwrap();
            let product = Product::by_key(key).unwrap_or_else(|| panic!("no product {key}"));
            assert!(product.is_mig_capable() && product.profile_table().is_none(), "{key} must stay unknown");
            for row in &model.profiles {
                let name = row.name.to_string();
                assert!(product.documented_profiles().contains(&name.as_str()), "{key} lacks {name}");
            }
            continue;
        };
        let product = Product::by_key(&model.key).unwrap_or_else(|| panic!("no product {}", model.key));
        let table = product.profile_table().expect("a table");
        assert_eq!(product.architecture, model.arch, "{}", model.key);
        assert_eq!((table.slots(), table.compute_slices()), (slots, model.compute_slices), "{}", model.key);
        assert_eq!(table.profiles().len(), model.profiles.len(), "{}", model.key);
        match (model.total_mib, product.memory()) {
            (Some(total), memory) => {
                assert_eq!(memory.map(|fact| fact.value), Some(Mebibytes(total)), "{}", model.key)
            }
            (None, Some(memory)) => assert_eq!(memory.evidence, Evidence::Assumed, "{}", model.key),
            (None, None) => {}
        }
        for id in &model.pci_device_ids {
            assert_eq!(Product::by_pci_id(*id).map(|product| product.key), Some(model.key.as_str()), "{id}");
        }
        if model.mode_change.starts_with("gpu reset") {
            assert_eq!(product.mode_switch(), Some(ModeSwitch::NeedsReset), "{}", model.key);
        } else {
            assert_eq!(product.mode_switch(), Some(ModeSwitch::Immediate), "{}", model.key);
        }
        for row in &model.profiles {
            let (_, ours) = table.by_name(&row.name).unwrap_or_else(|error| panic!("{}: {error}", model.key));
            let EngineRow { copy, nvdec, nvenc, nvjpg, ofa } = row.engines;
            let placement = row.placement.as_ref().expect("a placed profile");
            let places: Vec<_> =
                placement.starts.iter().map(|start| Placement::new(*start, placement.size)).collect();
            assert_eq!(Some(ours.id.0), row.profile_id, "{} {}", model.key, row.name);
            assert_eq!(Some(ours.index.0), row.nvml_index, "{} {}", model.key, row.name);
            assert_eq!(ours.slices, row.compute_slices);
            assert_eq!(ours.max_instances, row.max_instances);
            assert_eq!(ours.memory.map(|fact| fact.value.0), row.memory_mib, "a null must stay unknown");
            assert_eq!(ours.multiprocessors.map(|fact| fact.value), row.sm, "a null must stay unknown");
            assert_eq!(ours.engines, Engines { copy, decoder: nvdec, encoder: nvenc, jpeg: nvjpg, ofa });
            assert_eq!(ours.placements, places);
            assert_eq!(
                ours.placement_evidence.is_assumed(),
                row.placements.starts_with("assumed"),
                "{} {}: an assumed placement stays marked",
                model.key,
                row.name
            );
        }
    }
}

#[test]
fn maximal_layouts_equal_the_recorded_ones() {
    #[derive(Deserialize)]
    struct Recorded {
        placed_states: usize,
        multisets: usize,
        maximal_multisets: usize,
        maximal: Vec<Layout>,
    }
    #[derive(Deserialize)]
    struct Layout {
        mig_devices: Geometry,
        example: Vec<String>,
    }
    let Some(text) = fixture_text("mig/maximal-configs.json") else { return };
    let recorded: BTreeMap<String, Recorded> =
        serde_json::from_str(&text).expect("maximal-configs.json reads");
    assert_eq!(recorded.len(), 15);
    for (key, recorded) in &recorded {
        let table = table(key);
        let census = table.census();
        assert_eq!(census.placed_states, recorded.placed_states, "{key}");
        assert_eq!(census.geometries, recorded.multisets, "{key}");
        assert_eq!(census.maximal, recorded.maximal_multisets, "{key}");
        for layout in &recorded.maximal {
            let example: Vec<Placed> = layout.example.iter().map(|text| placed(&table, text)).collect();
            assert_eq!(table.check(&example), Ok(()), "{key}");
            assert_eq!(Geometry::of(&table, &example), layout.mig_devices, "{key}");
        }
        let theirs: BTreeSet<Geometry> =
            recorded.maximal.iter().map(|layout| layout.mig_devices.clone()).collect();
        let ours: BTreeSet<Geometry> =
            table.maximal_geometries().into_iter().map(|found| found.geometry).collect();
        assert_eq!(ours, theirs, "{key}");
    }
}

#[test]
fn names_follow_from_reported_memory() {
    for key in carve_gpu_model::products::CATALOGUE.iter().map(|product| product.key) {
        let product = Product::by_key(key).unwrap();
        let (Some(table), Some(memory)) = (product.profile_table(), product.memory()) else { continue };
        let reported = table.profiles().iter().filter(|profile| profile.memory.is_some()).map(|profile| {
            ReportedProfile {
                index: profile.index,
                id: profile.id,
                slices: profile.slices,
                max_instances: profile.max_instances,
                memory: profile.memory.unwrap().value,
                multiprocessors: 1,
                engines: profile.engines,
                placements: profile.placements.clone(),
            }
        });
        let reported = ProfileTable::from_report(reported.collect(), memory.value.bytes());
        for profile in reported.profiles() {
            let (_, known) = table.by_index(profile.index).unwrap();
            assert_eq!(profile.name, known.name, "{key}");
        }
    }
}

#[test]
fn an_h200_report_gives_the_table_of_the_product() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Dump {
        memory_total_bytes: u64,
        gi_profiles: Vec<DumpedProfile>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DumpedProfile {
        index: u32,
        id: u32,
        name: String,
        slice_count: u8,
        instance_count: u8,
        multiprocessor_count: u16,
        copy_engine_count: u8,
        decoder_count: u8,
        encoder_count: u8,
        jpeg_count: u8,
        ofa_count: u8,
        #[serde(rename = "memorySizeMB")]
        memory: u64,
        placements: Vec<(u8, u8)>,
    }
    let Some(text) = fixture_text("mig/h200-nvml-dump.json") else { return };
    let dump: Dump = serde_json::from_str(&text).expect("the dump reads");
    let names: Vec<String> = dump.gi_profiles.iter().map(|profile| profile.name.clone()).collect();
    let reported = dump.gi_profiles.iter().map(|profile| ReportedProfile {
        index: ProfileIndex(profile.index),
        id: ProfileId(profile.id),
        slices: profile.slice_count,
        max_instances: profile.instance_count,
        memory: Mebibytes(profile.memory),
        multiprocessors: profile.multiprocessor_count,
        engines: Engines {
            copy: profile.copy_engine_count,
            decoder: profile.decoder_count,
            encoder: profile.encoder_count,
            jpeg: profile.jpeg_count,
            ofa: profile.ofa_count,
        },
        placements: profile.placements.iter().map(|(start, size)| Placement::new(*start, *size)).collect(),
    });
    let reported = ProfileTable::from_report(reported.collect(), Bytes(dump.memory_total_bytes));
    let known = table("h200-141gb");
    for (index, name) in dump.gi_profiles.iter().map(|profile| profile.index).zip(names) {
        let (_, profile) = reported.by_index(ProfileIndex(index)).unwrap();
        assert_eq!(profile.name.to_string(), name);
        let (_, known) = known.by_index(ProfileIndex(index)).unwrap();
        assert_eq!(profile.placements, known.placements);
        assert_eq!(profile.memory.unwrap().value, known.memory.unwrap().value);
        assert_eq!(profile.placement_evidence, Evidence::Reported);
    }
    assert_eq!(reported.census(), known.census());
}

#[test]
fn the_driver_takes_the_slots_seen_in_logs() {
    #[derive(Deserialize)]
    struct Sequence {
        id: String,
        table: String,
        profiles: Vec<u32>,
        starts: Vec<Option<u8>>,
    }
    let Some(text) = fixture_text("mig/vectors/driver-placement.yaml") else { return };
    let sequences: Vec<Sequence> = serde_saphyr::from_str(&text).expect("vectors read");
    assert_eq!(sequences.len(), 8);
    for sequence in sequences {
        let table = table(match sequence.table.as_str() {
            "8slot" => "a100-40gb",
            "a30" => "a30-24gb",
            "rtx6000" => "rtx-pro-6000-96gb",
            other => panic!("unknown table {other}"),
        });
        let mut state = Vec::new();
        for (id, start) in sequence.profiles.iter().zip(&sequence.starts) {
            let (profile, _) = table.by_id(ProfileId(*id)).unwrap();
            let chosen = table.driver_choice(&state, profile);
            assert_eq!(chosen, *start, "{}: {state:?}", sequence.id);
            state.extend(chosen.map(|start| Placed { profile, start }));
        }
    }
}

#[test]
fn free_counts_equal_what_nvidia_smi_printed() {
    #[derive(Deserialize)]
    struct Step {
        state: Vec<String>,
        free: BTreeMap<String, u32>,
    }
    let Some(text) = fixture_text("mig/vectors/remaining-capacity.yaml") else { return };
    let steps: Vec<Step> = serde_saphyr::from_str(&text).expect("vectors read");
    let table = table("a100-40gb");
    for step in steps {
        let state: Vec<Placed> = step.state.iter().map(|text| placed(&table, text)).collect();
        table.check(&state).unwrap();
        for (name, free) in step.free {
            assert_eq!(
                table.remaining(&state, profile(&table, &name)),
                free,
                "{name} after {:?}",
                step.state
            );
        }
    }
}

#[test]
fn acceptable_device_maps_equal_mig_parteds_unit_table() {
    #[derive(Deserialize)]
    struct Vectors {
        valid_configuration: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        mig_devices: Option<BTreeMap<String, u32>>,
        valid: bool,
    }
    let Some(text) = fixture_text("mig/vectors/mig-parted-unit-tables.yaml") else { return };
    let vectors: Vectors = serde_saphyr::from_str(&text).expect("vectors read");
    let table = table("a100-40gb");
    let possible = table.geometries();
    for case in vectors.valid_configuration {
        let devices = case.mig_devices.clone().unwrap_or_default();
        let all_zero = !devices.is_empty() && devices.values().all(|count| *count == 0);
        let names: Result<Geometry, _> = devices
            .iter()
            .map(|(name, count)| name.parse::<ProfileName>().map(|name| (name, *count)))
            .collect();
        let legal =
            names.ok().filter(|_| !all_zero).and_then(|geometry| geometry.counts(&table).ok()).is_some_and(
                |counts| possible.contains_key(&counts.iter().map(|count| *count as u8).collect::<Vec<_>>()),
            );
        assert_eq!(legal, case.valid, "{devices:?}");
    }
}
