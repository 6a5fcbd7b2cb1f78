//! What is painted is what is there: instances at their slots, slices with what was promised and used, and what is wrong in words.

use super::{Cuts, Easel, Painter, Scene, read_cuts};
use crate::usage::{ContainerRow, UnitRow, UsageRows};
use carve_economics::replica;
use carve_fleet_picture::{Evidence, GpuState, Mechanism, NodePicture};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::GpuIndex;
use carve_slicing::{Holder, MigMinors, NodeGpus};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const GIB: u64 = 1 << 30;

/// Two GPUs, the second of which is cut.
struct Bench {
    node: NodeGpus,
    cuts: Cuts,
    rows: UsageRows,
    sick: BTreeMap<String, String>,
    cutting: BTreeSet<String>,
    painter: Painter,
    silent: bool,
}

impl Bench {
    fn new(profiles: &[&str]) -> Self {
        let mut host = SimulatedHost::new(Machine::named("a100-40gb:2").expect("a machine"));
        let gpu = GpuIndex(1);
        host.set_mig_mode(gpu, true).expect("MIG is on");
        host.reset(&[gpu]).expect("it takes hold");
        let table = host.profile_table(gpu).expect("a table");
        for name in profiles {
            let (_, profile) = table.by_name(&name.parse().expect("a name")).expect("a profile");
            let whole = table.compute_profiles(profile).last().expect("the whole of it").index;
            let instance = host.create_gpu_instance(gpu, profile.id, None).expect("an instance").id;
            host.create_compute_instance(gpu, instance, whole).expect("all of it");
        }
        Bench {
            node: NodeGpus::read(&host, &MigMinors::default()).expect("GPUs"),
            cuts: read_cuts(&host, &[gpu]),
            rows: UsageRows::default(),
            sick: BTreeMap::new(),
            cutting: BTreeSet::new(),
            painter: Painter::default(),
            silent: false,
        }
    }

    fn whole(&self) -> String {
        self.node.gpus[0].gpu.uuid.0.clone()
    }

    fn mig(&self, number: usize) -> String {
        self.node.gpus[1].migs[number].device.uuid.0.clone()
    }

    /// A unit was busy for so much of the time, and has so much memory in use.
    fn unit(&mut self, gpu: u32, uuid: &str, now: f64, gib: u64) {
        self.rows.units.push(UnitRow {
            uuid: uuid.to_owned(),
            gpu,
            instance: None,
            seconds: 0.0,
            former: 0.0,
            unattributed: 0.0,
            now: Some(now),
            rest_now: 0.0,
            rest_memory: 0,
            memory: gib * GIB,
            memory_total: None,
            containers: Vec::new(),
        });
    }

    fn paint(&mut self, at: Instant) -> NodePicture {
        let scene = Scene {
            node: &self.node,
            rows: &self.rows,
            cuts: &self.cuts,
            sick: &self.sick,
            cutting: &self.cutting,
            kind: "p4d.24xlarge",
            price: Some(32.77),
            silent: self.silent,
        };
        let since = |holder: &Holder| (holder.pod != "young").then_some(1_000);
        self.painter.paint(&scene, |holder| format!("Deployment/{}", holder.pod), since, at)
    }
}

fn row(pod: &str, uuid: &str, mechanism: &'static str, now: f64) -> ContainerRow {
    ContainerRow {
        holder: Holder { namespace: "team".to_owned(), pod: pod.to_owned(), container: "main".to_owned() },
        uuid: uuid.to_owned(),
        mechanism,
        seconds: Vec::new(),
        now: Some(now),
        how: Some(carve_usage::Evidence::Measured),
        memory: GIB,
        memory_limit: Some(8 * GIB),
        part_memory: Some(40 * GIB),
        shares: None,
        promised: None,
        throttled: None,
        denied: None,
    }
}

#[test]
fn a_gpu_shows_what_was_promised_and_what_is_used() {
    let mut bench = Bench::new(&[]);
    let gpu = bench.whole();
    let limited = ContainerRow {
        promised: Some(0.25),
        how: Some(carve_usage::Evidence::Limiter),
        ..row("limited", &gpu, "fraction", 0.2)
    };
    let turns = row("turns", &gpu, "time-slicing", 0.1);
    let server =
        ContainerRow { promised: Some(0.5), shares: Some(replica(2)), ..row("server", &gpu, "mps", 0.3) };
    bench.rows.containers = vec![turns, limited, server];
    bench.unit(0, &gpu, 0.6, 3);
    let picture = bench.paint(Instant::now());
    assert_eq!((picture.kind.as_str(), picture.ready, picture.why.as_str()), ("p4d.24xlarge", true, ""));
    assert_eq!(picture.dollars_per_hour, Some(32.77));
    let shown = &picture.gpus[0];
    assert_eq!((shown.busy, shown.memory_used, shown.memory, shown.slots), (Some(0.6), 3_072, 40_960, None));
    let told: Vec<_> = shown
        .slices
        .iter()
        .map(|one| (one.pod.as_str(), one.mechanism, one.compute, one.memory, one.compute_used))
        .collect();
    let expected = [
        ("team/limited", Mechanism::Limiter, Some(0.25), Some(8_192), Some(0.2)),
        ("team/server", Mechanism::Mps, Some(0.5), Some(20_480), Some(0.3)),
        ("team/turns", Mechanism::TimeSlicing, None, None, Some(0.1)),
    ];
    assert_eq!(told, expected);
    assert_eq!(shown.slices[0].how, Some(Evidence::Limiter));
    assert_eq!((shown.slices[0].workload.as_str(), shown.slices[0].since), ("Deployment/limited", 1_000));
}

#[test]
fn instances_are_at_their_slots_and_their_use_is_of_the_gpu() {
    let mut bench = Bench::new(&["3g.20gb", "1g.5gb"]);
    let large = bench.node.gpus[1].migs.iter().position(|mig| mig.profile.to_string() == "3g.20gb");
    let large = bench.mig(large.expect("it was cut"));
    bench.rows.containers =
        vec![ContainerRow { part_memory: Some(20 * GIB), ..row("young", &large, "mig", 0.7) }];
    bench.unit(1, &large, 0.7, 1);
    let picture = bench.paint(Instant::now());
    let shown = &picture.gpus[1];
    assert_eq!(shown.slots, Some(8));
    let mut profiles: Vec<_> = shown.instances.iter().map(|one| (one.profile.as_str(), one.size)).collect();
    profiles.sort_unstable();
    assert_eq!(profiles, [("1g.5gb", 1), ("3g.20gb", 4)]);
    assert!(shown.instances.is_sorted_by_key(|one| one.start));
    let slice = &shown.slices[0];
    assert_eq!(slice.instance.as_ref(), Some(&large));
    // Three of seven slices, of which seven tenths are used.
    assert_eq!((slice.compute, slice.compute_used, shown.busy), (Some(0.429), Some(0.3), Some(0.3)));
    assert_eq!(slice.memory, Some(20_480));
    assert!(
        slice.since > 1_700_000_000,
        "nobody tells when it came, so it is when it was seen: {}",
        slice.since
    );
    assert!(picture.gpus[0].slices.is_empty());
}

#[test]
fn what_is_wrong_is_said() {
    let mut bench = Bench::new(&["1g.5gb"]);
    let (gpu, mig) = (bench.whole(), bench.mig(0));
    bench.unit(0, &gpu, 0.5, 0);
    bench.sick.insert(gpu, "XID 79".to_owned());
    bench.cutting.insert(mig.clone());
    let picture = bench.paint(Instant::now());
    assert_eq!((picture.gpus[0].state, picture.gpus[0].why.as_str()), (GpuState::Sick, "XID 79"));
    assert_eq!((picture.gpus[1].state, picture.gpus[1].why.as_str()), (GpuState::Cutting, "being cut anew"));
    bench.sick = [(mig.clone(), "ECC".to_owned())].into();
    (bench.cutting, bench.silent) = (BTreeSet::new(), true);
    let picture = bench.paint(Instant::now());
    assert_eq!(picture.gpus[1].state, GpuState::Ok);
    assert_eq!(picture.gpus[1].why, format!("{mig} is not given out: ECC"));
    assert!(picture.ready && picture.why.contains("driver does not answer"), "{}", picture.why);
    assert_eq!(picture.gpus[0].busy, None, "nobody knows");
    bench.node.gpus[0].lost = true;
    assert_eq!(bench.paint(Instant::now()).gpus[0].state, GpuState::Lost);
}

#[test]
fn who_is_held_back_is_told_by_how_much() {
    let mut bench = Bench::new(&[]);
    let (gpu, start) = (bench.whole(), Instant::now());
    let throttled = |bench: &mut Bench, counted: f64, at: f64| {
        bench.rows.containers =
            vec![ContainerRow { throttled: Some(counted), ..row("a", &gpu, "fraction", 0.5) }];
        bench.paint(start + Duration::from_secs_f64(at)).gpus[0].slices[0].throttled
    };
    assert_eq!(throttled(&mut bench, 100.0, 0.0), 0.0, "what was before it was seen is not of now");
    assert_eq!(throttled(&mut bench, 100.5, 2.0), 0.25);
    assert_eq!(throttled(&mut bench, 100.5, 3.0), 0.25, "counts come every few seconds");
    assert_eq!(throttled(&mut bench, 100.5, 8.0), 0.0);
}

#[test]
fn what_hinders_the_agent_stands_beside_the_picture() {
    let easel = Easel::default();
    assert_eq!(easel.picture(None), None);
    easel.show(NodePicture { ready: true, ..NodePicture::default() });
    assert_eq!(easel.picture(Some("another plugin".to_owned())).expect("a picture").why, "another plugin");
    assert_eq!(easel.picture(None).expect("a picture").why, "");
}
