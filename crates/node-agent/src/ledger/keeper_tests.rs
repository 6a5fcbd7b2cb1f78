//! Books that sum up to price times time, through comings and goings, kills, hours and clocks.

use super::{Keeper, Moment, Priced};
use crate::ledger::desk::Desk;
use crate::ledger::interval::{GpuNow, gpus_now};
use crate::ledger::store::HOUR;
use crate::usage::{ContainerRow, UsageRows};
use carve_economics::{By, CostReport, Covered, Price, Rate, Window, replica};
use carve_gpu_host::{Machine, SimulatedHost};
use carve_slicing::{Holder, MigMinors, NodeGpus};
use carve_usage::Evidence;
use std::path::Path;
use std::sync::Arc;

/// Noon.
const NOON: i64 = 1_794_830_400;
const ALWAYS: Window = Window { from: 0, until: i64::MAX };

struct Bench {
    node: NodeGpus,
    keeper: Keeper,
    desk: Arc<Desk>,
    priced: Priced,
    millis: u64,
    wall: i64,
    up: i64,
}

impl Bench {
    fn new(folder: &Path) -> Self {
        let host = SimulatedHost::new(Machine::named("t4:1").expect("a machine"));
        let node = NodeGpus::read(&host, &MigMinors::default()).expect("GPUs");
        let desk = Arc::new(Desk::new(folder));
        let keeper = Keeper::new("node-1".to_owned(), Arc::clone(&desk));
        let price = Some(Price { per_hour: Rate::from_micros(752_000), source: "list".to_owned() });
        let priced = Priced { instance_type: "g4dn.2xlarge".to_owned(), price };
        Bench { node, keeper, desk, priced, millis: 0, wall: NOON, up: 1_000_000 }
    }

    fn gpus(&self, pods: &[(&str, f64)]) -> Vec<GpuNow> {
        let row = |(pod, seconds): &(&str, f64)| ContainerRow {
            holder: Holder {
                namespace: "team".to_owned(),
                pod: (*pod).to_owned(),
                container: "main".to_owned(),
            },
            uuid: self.node.gpus[0].gpu.uuid.0.clone(),
            mechanism: "time-slicing",
            seconds: vec![(Evidence::Equal, *seconds)],
            now: Some(0.0),
            how: Some(Evidence::Equal),
            memory: 0,
            memory_limit: None,
            part_memory: None,
            shares: Some(replica(4)),
            promised: None,
            throttled: None,
            denied: None,
        };
        let rows = UsageRows { containers: pods.iter().map(row).collect(), ..UsageRows::default() };
        gpus_now(&rows, &self.node, &Default::default(), |holder| format!("Pod/{}", holder.pod))
    }

    /// So many seconds later these pods are there, and have used so many seconds.
    fn look(&mut self, later: u64, pods: &[(&str, f64)]) {
        self.millis += later * 1000;
        self.wall += i64::try_from(later).expect("soon");
        let at = Moment { millis: self.millis, wall: self.wall, up: self.up };
        self.keeper.look(self.gpus(pods), self.priced.clone(), at);
    }

    fn report(&self) -> CostReport {
        let mut covered = Covered::default();
        for hour in self.desk.hours(ALWAYS) {
            covered.take(&hour).expect("a ledger");
        }
        assert!(covered.ledger.unbalanced().is_empty());
        CostReport::of(&covered, By::Pod)
    }

    fn told(&self) -> Vec<(String, String)> {
        let row = |row: &carve_economics::CostRow| {
            let name = row.name.clone().unwrap_or_else(|| "nobody".to_owned());
            (name, format!("{:.6}", row.total))
        };
        self.report().rows.iter().map(row).collect()
    }
}

fn cost(seconds: f64, weight: f64) -> String {
    format!("{:.6}", 0.752 / 3600.0 * seconds * weight)
}

#[test]
fn who_comes_and_goes_pays_for_the_time_between() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::new(folder.path());
    bench.look(0, &[]);
    for _ in 0..5 {
        bench.look(1, &[]);
    }
    // It is seen a second after it came at the latest, and pays from the look before.
    bench.look(1, &[("a", 0.0)]);
    for second in 1..=20 {
        bench.look(1, &[("a", 0.125 * f64::from(second))]);
    }
    bench.look(1, &[]);
    bench.look(10, &[]);
    let of = |name: &str, amount: String| (name.to_owned(), amount);
    assert_eq!(
        bench.told(),
        [
            of("team/a", cost(21.0, 0.25)),
            of("nobody", format!("{:.6}", 0.752 / 3600.0 * (37.0 - 21.0 * 0.25)))
        ]
    );
    let report = bench.report();
    assert!((report.total.total - 0.752 / 3600.0 * 37.0).abs() < 1e-9, "all of it");
    let row = &report.rows[0];
    assert!(
        (row.used / row.allocated - 0.5 * 20.0 / 21.0).abs() < 0.01,
        "an eighth of the time is half of a quarter: {row:?}"
    );
    // Series are of those who are there; the machine's are of everything.
    let rows = bench.keeper.rows();
    assert!(rows.present.is_empty());
    assert!((rows.total.total().dollars() - report.total.total).abs() < 1e-12);
}

#[test]
fn a_killed_agent_loses_nothing_of_the_sum() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::new(folder.path());
    bench.look(0, &[("a", 0.0)]);
    for second in 1..=95 {
        bench.look(1, &[("a", f64::from(second))]);
    }
    let (wall, up) = (bench.wall, bench.up);
    drop(bench);
    // Forty seconds later there is another one. What was not saved was not watched.
    let mut bench = Bench::new(folder.path());
    (bench.wall, bench.up) = (wall + 40, up + 135);
    bench.look(0, &[("a", 0.0)]);
    bench.look(10, &[("a", 5.0)]);
    let told = bench.told();
    assert_eq!(told[0], ("team/a".to_owned(), cost(100.0, 0.25)), "ninety were saved, and ten came");
    let report = bench.report();
    assert!((report.total.total - 0.752 / 3600.0 * 145.0).abs() < 1e-9, "{}", report.total.total);
    assert!((report.total.overhead - 0.752 / 3600.0 * 45.0).abs() < 1e-9, "nobody watched for so long");
}

#[test]
fn a_machine_that_was_off_cost_nothing_and_one_that_was_on_did() {
    for (up, unwatched) in [(1_000_000, 3 * HOUR), (600, 600)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bench = Bench::new(folder.path());
        bench.look(0, &[]);
        bench.look(60, &[]);
        let wall = bench.wall;
        drop(bench);
        let mut bench = Bench::new(folder.path());
        (bench.wall, bench.up) = (wall + 3 * HOUR, up);
        bench.look(0, &[]);
        let overhead = bench.report().total.overhead;
        assert!((overhead - 0.752 / 3600.0 * unwatched as f64).abs() < 1e-9, "{up}: {overhead}");
    }
}

#[test]
fn every_hour_has_its_page_and_a_clock_that_is_set_back_spoils_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::new(folder.path());
    bench.look(0, &[("a", 0.0)]);
    for _ in 0..(2 * HOUR / 10) {
        bench.look(10, &[("a", 0.0)]);
    }
    let hours: Vec<i64> = bench.desk.hours(ALWAYS).iter().map(|hour| hour.from).collect();
    assert_eq!(hours, [NOON, NOON + HOUR, NOON + 2 * HOUR]);
    let before = bench.report().total.total;
    assert!((before - 2.0 * 0.752).abs() < 1e-9, "{before}");
    bench.wall -= HOUR;
    bench.look(10, &[("a", 0.0)]);
    bench.look(10, &[("a", 0.0)]);
    let after = bench.report().total.total;
    assert!((after - before - 0.752 / 3600.0 * 20.0).abs() < 1e-9, "{after}");
}

#[test]
fn prices_count_from_when_they_are_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::new(folder.path());
    let price = bench.priced.price.take();
    bench.look(0, &[("a", 0.0)]);
    bench.look(10, &[("a", 0.0)]);
    assert!((bench.report().unpriced_hours - 10.0 / 3600.0).abs() < 1e-12);
    bench.priced.price = price;
    bench.look(10, &[("a", 0.0)]);
    bench.look(10, &[("a", 0.0)]);
    let report = bench.report();
    assert!(
        (report.total.total - 0.752 / 3600.0 * 10.0).abs() < 1e-9,
        "the second ten seconds began without a price"
    );
    assert!((report.rows[0].gpu_hours - 0.25 * 30.0 / 3600.0).abs() < 1e-6, "time is counted all the same");
}
