//! No text makes the readers of traces panic, and what they accept can be made a fleet of and filled.
#![no_main]

use carve_placement::Policy;
use carve_simulator::arrivals::{self, Sequence};
use carve_simulator::{filling, readers};

/// A fleet of a text is filled only where that is quick; counts make long traces of short texts.
const FEW: usize = 200;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let nodes = readers::nodes(text);
    let Ok(mut trace) = readers::trace(text) else { return };
    if let (true, Ok(nodes)) = (trace.nodes.is_empty(), nodes) {
        trace.nodes = nodes;
    }
    if trace.nodes.len() > FEW || trace.pods.len() > FEW {
        return;
    }
    let _ = arrivals::read(text, &trace);
    let pods = (0..trace.pods.len()).filter(|pod| trace.pods[*pod].node.is_none()).collect();
    let sequence = Sequence { seed: 1, pods, nodes: (0..trace.nodes.len()).collect() };
    if let Ok(filled) = filling::fill(&trace, &sequence, Policy::Fgd) {
        assert!(filled.decisions.last().is_none_or(|last| last.used <= filled.capacity));
    }
});
