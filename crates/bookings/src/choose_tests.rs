//! Choosing, against every assignment there is.

use super::{Misfit, choose};
use crate::offer::{Gpu, Offer};
use crate::room::{Held, Room};
use crate::slices::Slices;
use crate::want::{Compute, ContainerWant, Memory, Part, Stage, Want};
use carve_gpu_model::{GpuUuid, Mebibytes};
use proptest::prelude::*;

fn gpu(number: usize, memory: u64) -> Gpu {
    Gpu {
        uuid: GpuUuid(format!("GPU-{number}")),
        product: if memory > 20_000 { "NVIDIA A100-SXM4-80GB" } else { "Tesla T4" }.to_owned(),
        memory: Mebibytes(memory),
        withheld: None,
    }
}

fn room(memories: &[u64]) -> Room {
    let gpus = memories.iter().enumerate().map(|(number, memory)| gpu(number, *memory)).collect();
    Room::untouched(&Offer { gpus })
}

fn part(count: u32, memory: u64, compute: u32) -> Part {
    Part {
        count,
        memory: Memory::Amount(Mebibytes(memory)),
        compute: Some(Compute(compute)),
        burst: false,
        models: Default::default(),
        uuids: Default::default(),
    }
}

fn container(name: &str, stage: Stage, parts: &[Part]) -> ContainerWant {
    ContainerWant { name: name.to_owned(), stage, parts: parts.to_vec() }
}

fn want(containers: &[ContainerWant]) -> Want {
    Want { containers: containers.to_vec() }
}

fn held(memory: u64, compute: u32) -> Held {
    Held { memory: Mebibytes(memory), compute: Compute(compute) }
}

#[test]
fn the_tightest_gpu_is_taken() {
    let mut room = room(&[81_920, 81_920, 81_920]);
    room.hold(&GpuUuid("GPU-1".to_owned()), held(60_000, 500));
    let one = want(&[container("main", Stage::Main, &[part(1, 10_000, 250)])]);
    let found = choose(&room, &one).unwrap();
    assert_eq!(found.of("main").unwrap()[0].gpu.0, "GPU-1");
    assert_eq!(found.of("other"), None);
}

#[test]
fn parts_of_one_container_go_to_different_gpus_and_containers_may_meet() {
    let room = room(&[81_920, 81_920]);
    let two = container("a", Stage::Main, &[part(2, 10_000, 250)]);
    let found =
        choose(&room, &want(&[two.clone(), container("b", Stage::Main, &[part(1, 10_000, 250)])])).unwrap();
    let gpus: Vec<_> = found.of("a").unwrap().iter().map(|slice| slice.gpu.0.as_str()).collect();
    assert!(gpus.contains(&"GPU-0") && gpus.contains(&"GPU-1"));
    assert_eq!(found.held().values().map(|held| held.memory.0).sum::<u64>(), 30_000);
    let three = choose(&room, &want(&[container("a", Stage::Main, &[part(3, 1, 1)])])).unwrap_err();
    assert!(matches!(three, Misfit::Left { wanted: 3, serving: 2, .. }), "{three}");
}

#[test]
fn whoever_runs_before_the_others_uses_their_room() {
    let room = room(&[81_920, 81_920]);
    let init = container("load", Stage::Init, &[part(1, 70_000, 900)]);
    let side = container("proxy", Stage::Sidecar, &[part(1, 5_000, 50)]);
    let main = container("main", Stage::Main, &[part(1, 60_000, 500)]);
    let found = choose(&room, &want(&[side, init, main])).unwrap();
    let all = found.held();
    assert_eq!(all.len(), 1, "{found:?}");
    // The init container runs beside the sidecar and before the main one.
    assert_eq!(all.values().next(), Some(&held(75_000, 950)));
}

#[test]
fn an_init_container_has_the_parts_of_a_later_one_where_they_are_enough() {
    let room = room(&[81_920, 81_920]);
    let of = |memory: u64, count: u32| {
        let init = container("load", Stage::Init, &[part(count, memory, 100)]);
        let main = container("main", Stage::Main, &[part(1, 20_000, 500)]);
        choose(&room, &want(&[init, main])).unwrap()
    };
    let same = of(10_000, 1);
    assert_eq!(same.of("load"), same.of("main"));
    for other in [of(30_000, 1), of(10_000, 2)] {
        assert_ne!(other.of("load"), other.of("main"));
    }
}

#[test]
fn compute_that_nobody_speaks_of_is_not_limited_and_takes_nothing() {
    let mut half = part(1, 40_960, 0);
    half.compute = None;
    let found = choose(&room(&[81_920]), &want(&[container("main", Stage::Main, &[half])])).unwrap();
    let slice = &found.of("main").unwrap()[0];
    assert_eq!((slice.compute, slice.burst), (Compute(0), true));
}

#[test]
fn two_halves_fit() {
    let half = Part { memory: Memory::Share(500), ..part(1, 0, 500) };
    let both = ["a", "b"].map(|name| container(name, Stage::Main, std::slice::from_ref(&half)));
    let found = choose(&room(&[15_361]), &want(&both)).unwrap();
    assert_eq!(found.held().into_values().next(), Some(held(15_360, 1000)));
}

#[test]
fn models_are_named_as_labels_or_drivers_write_them() {
    for (name, fits) in [
        ("a100-sxm4", true),
        ("A100 SXM4", true),
        ("NVIDIA-A100-SXM4-80GB", true),
        ("T4", false),
        ("A100PCIE", false),
    ] {
        let mut named = part(1, 1, 1);
        named.models.wanted = vec![name.to_owned()];
        let found = choose(&room(&[81_920]), &want(&[container("main", Stage::Main, &[named])]));
        assert_eq!(found.is_ok(), fits, "{name}");
    }
}

#[test]
fn why_not_is_said_with_figures() {
    let mut small = room(&[15_360, 15_360]);
    small.hold(&GpuUuid("GPU-0".to_owned()), held(10_000, 900));
    let ask = |part: Part| choose(&small, &want(&[container("main", Stage::Main, &[part])])).unwrap_err();
    assert_eq!(
        ask(part(1, 20_000, 255)).to_string(),
        "container main wants 1 × 20000 MiB and 25.5 %; most left is 15360 MiB and 100 %"
    );
    let mut named = part(1, 1, 1);
    named.models.wanted = vec!["a100".to_owned()];
    assert_eq!(ask(named).to_string(), "no GPU of the model or id that container main names");
    let mut sick = small.clone();
    sick.gpus.iter_mut().for_each(|(gpu, _)| gpu.withheld = Some("XID 79".to_owned()));
    let error = choose(&sick, &want(&[container("main", Stage::Main, &[part(1, 1, 1)])])).unwrap_err();
    assert_eq!(error.to_string(), "GPUs are withheld: XID 79");
    assert_eq!(choose(&Room::default(), &Want::default()).unwrap_err(), Misfit::NoGpus);
    let both = want(&[
        container("a", Stage::Main, &[part(1, 12_000, 100)]),
        container("b", Stage::Main, &[part(1, 12_000, 100)]),
    ]);
    assert_eq!(choose(&small, &both).unwrap_err(), Misfit::Together);
}

/// Whether any assignment at all serves the pod, by trying every one.
fn exists(room: &Room, want: &Want) -> bool {
    fn go(room: &Room, want: &Want, units: &[(usize, usize)], chosen: &mut Vec<usize>) -> bool {
        let Some((container, number)) = units.get(chosen.len()) else {
            return fits(room, want, units, chosen);
        };
        let part = &want.containers[*container].parts[*number];
        for (at, (gpu, _)) in room.gpus.iter().enumerate() {
            let twice =
                units.iter().zip(chosen.iter()).any(|(unit, by)| *unit == (*container, *number) && *by == at);
            if twice || !part.names(gpu) {
                continue;
            }
            chosen.push(at);
            if go(room, want, units, chosen) {
                return true;
            }
            chosen.pop();
        }
        false
    }
    fn fits(room: &Room, want: &Want, units: &[(usize, usize)], chosen: &[usize]) -> bool {
        room.gpus.iter().enumerate().all(|(at, (gpu, left))| {
            let of = |container: usize| {
                let own = units.iter().zip(chosen).filter(|(unit, by)| unit.0 == container && **by == at);
                own.fold((0, 0), |(memory, compute), (unit, _)| {
                    let (more, also) = want.containers[container].parts[unit.1].of(gpu);
                    (memory + more.0, compute + also.0)
                })
            };
            let (mut stays, mut peak) = ((0, 0), (0, 0));
            for (number, container) in want.containers.iter().enumerate() {
                let own = of(number);
                if container.stage == Stage::Init {
                    peak = (peak.0.max(stays.0 + own.0), peak.1.max(stays.1 + own.1));
                } else {
                    stays = (stays.0 + own.0, stays.1 + own.1);
                }
            }
            peak.0.max(stays.0) <= left.memory.0 && peak.1.max(stays.1) <= left.compute.0
        })
    }
    let units: Vec<(usize, usize)> = want
        .containers
        .iter()
        .enumerate()
        .flat_map(|(at, one)| {
            one.parts
                .iter()
                .enumerate()
                .flat_map(move |(number, part)| vec![(at, number); part.count as usize])
        })
        .collect();
    go(room, want, &units, &mut Vec::new())
}

fn any_part() -> impl Strategy<Value = Part> {
    (1u32..=2, 1u64..=10, 0u32..=10, any::<bool>(), 0u8..4).prop_map(
        |(count, memory, compute, said, model)| {
            let mut part = part(count, memory * 4_000, compute * 100);
            part.compute = said.then_some(Compute(compute * 100));
            if model == 0 {
                part.models.unwanted = vec!["T4".to_owned()];
            }
            part
        },
    )
}

fn any_want() -> impl Strategy<Value = Want> {
    let main = prop::collection::vec(prop::collection::vec(any_part(), 1..=2), 1..=2);
    let early = prop::collection::vec((any::<bool>(), any_part()), 0..=1);
    (early, main).prop_map(|(early, main)| {
        let early = early.into_iter().enumerate().map(|(at, (init, part))| {
            container(&format!("early-{at}"), if init { Stage::Init } else { Stage::Sidecar }, &[part])
        });
        let main =
            main.iter().enumerate().map(|(at, parts)| container(&format!("main-{at}"), Stage::Main, parts));
        Want { containers: early.chain(main).collect() }
    })
}

fn any_room() -> impl Strategy<Value = Room> {
    prop::collection::vec((any::<bool>(), 0u64..=10, 0u32..=10), 1..=3).prop_map(|gpus| {
        let memories: Vec<u64> =
            gpus.iter().map(|(large, ..)| if *large { 81_920 } else { 15_360 }).collect();
        let mut room = room(&memories);
        for (at, (_, memory, compute)) in gpus.iter().enumerate() {
            room.hold(&GpuUuid(format!("GPU-{at}")), held(memory * 4_000, compute * 50));
        }
        room
    })
}

/// What a pod holds fits into what was left.
fn is_within(room: &Room, slices: &Slices) -> bool {
    let held = slices.held();
    let known = held.keys().all(|gpu| room.gpus.iter().any(|(one, _)| one.uuid == *gpu));
    known && room.gpus.iter().all(|(gpu, left)| held.get(&gpu.uuid).is_none_or(|held| held.is_within(*left)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_found_fits_and_what_fits_is_found(room in any_room(), want in any_want()) {
        let stays_first = want.containers.iter().all(|one| one.stage != Stage::Init);
        match choose(&room, &want) {
            Ok(slices) => {
                prop_assert!(is_within(&room, &slices));
                prop_assert!(exists(&room, &want));
                for (container, found) in want.containers.iter().zip(&slices.containers) {
                    let parts: u32 = container.parts.iter().map(|part| part.count).sum();
                    prop_assert_eq!(found.slices.len(), parts as usize);
                }
                let text = slices.to_annotation();
                prop_assert_eq!(Slices::from_annotation(&text).unwrap(), slices);
            }
            // Where sidecars could have made room for an init container by standing elsewhere, that is not tried.
            Err(_) => prop_assert!(!stays_first || !exists(&room, &want)),
        }
    }
}
