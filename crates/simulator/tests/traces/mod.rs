//! The published traces, read where they lie.

use carve_simulator::arrivals::{self, Sequence};
use carve_simulator::{Trace, openb};
use carve_test_support::{fixture_text, fixtures};
use std::io::Read;

/// The traces of the published experiment.
#[allow(dead_code, reason = "not every test goes through all of them")]
pub(crate) const NAMES: [&str; 17] = [
    "default",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpushare100",
    "multigpu20",
    "multigpu30",
    "multigpu40",
    "multigpu50",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
    "cpu050",
    "cpu100",
    "cpu200",
    "cpu250",
];

/// A trace, or none (said aloud) where there are no fixtures.
pub(crate) fn trace(name: &str) -> Option<Trace> {
    let nodes = openb::nodes(&fixture_text("traces/openb_node_list_gpu_node.csv")?).unwrap();
    let pods = openb::pods(&fixture_text(&format!("traces/openb_pod_list_{name}.csv"))?).unwrap();
    Some(Trace { nodes, pods })
}

/// The text of a packed file.
#[allow(dead_code, reason = "not every test reads packed files")]
pub(crate) fn unpacked(path: &str) -> Option<String> {
    let file = std::fs::File::open(fixtures(path)?).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text)
}

/// The published arrival sequences of a trace.
#[allow(dead_code, reason = "not every test replays the published sequences")]
pub(crate) fn sequences(name: &str, trace: &Trace) -> Option<Vec<Sequence>> {
    let text = unpacked(&format!("traces/sequences/{name}.csv.gz"))?;
    Some(arrivals::read(&text, trace).unwrap())
}
