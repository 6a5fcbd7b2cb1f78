//! One picture of what objects say, what agents answer, and what was booked; pure.

use super::answers::{Answers, Known};
use super::objects::Objects;
use carve_bookings::Book;
use carve_fleet_picture::{Mechanism, NodePicture, Picture, Slice};
use k8s_openapi::jiff::Timestamp;

/// The picture of a moment.
pub(super) fn compose(at: i64, objects: &mut Objects, answers: &Answers, book: &Book) -> Picture {
    let mut picture = Picture { at, waiting: objects.waiting(), ..Picture::default() };
    let agents = objects.agents();
    for (name, base) in &objects.nodes {
        let known = answers.of(name);
        let shown = match known.and_then(|known| Some((known, known.last.as_ref()?))) {
            Some((known, (said, when))) => match known.silent() {
                None => measured(base, said),
                Some((_, why)) => remembered(base, said, *when, why),
            },
            None => written(name, base, known, agents.contains_key(name), book),
        };
        picture.nodes.insert(name.clone(), shown);
    }
    // An agent may see GPUs before anybody has labelled its node.
    for (name, known) in answers.nodes().filter(|(name, _)| !objects.nodes.contains_key(*name)) {
        if let (Some((said, _)), None) = (&known.last, known.silent())
            && !said.gpus.is_empty()
        {
            picture.nodes.insert(name.clone(), said.clone());
        }
    }
    picture.happenings = objects.happenings.shown();
    picture
}

fn joined(words: &[&str]) -> String {
    words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join("; ")
}

/// A node whose agent answers.
fn measured(base: &NodePicture, said: &NodePicture) -> NodePicture {
    NodePicture {
        kind: if base.kind.is_empty() { said.kind.clone() } else { base.kind.clone() },
        ready: base.ready && said.ready,
        why: joined(&[&base.why, &said.why]),
        ..said.clone()
    }
}

/// A node whose agent does not answer any more: what it said last, without what it measured.
fn remembered(base: &NodePicture, said: &NodePicture, when: i64, why: &str) -> NodePicture {
    let mut shown = measured(base, said);
    for gpu in &mut shown.gpus {
        (gpu.busy, gpu.memory_used) = (None, 0);
        for slice in &mut gpu.slices {
            (slice.compute_used, slice.how, slice.memory_used, slice.throttled) = (None, None, 0, 0.0);
        }
    }
    let moment = Timestamp::from_second(when).map_or_else(|_| when.to_string(), |moment| moment.to_string());
    let words = format!("its agent does not answer: {why}; this is as of {moment}");
    NodePicture { ready: false, why: joined(&[&base.why, &words]), ..shown }
}

/// A node of which no agent has said anything: what is written in its object, and what was booked on it.
fn written(
    name: &str,
    base: &NodePicture,
    known: Option<&Known>,
    has_agent: bool,
    book: &Book,
) -> NodePicture {
    let mut shown = base.clone();
    for (_, booking) in book.on(name) {
        for gpu in &mut shown.gpus {
            let Some((_, held)) = booking.held.iter().find(|(uuid, _)| uuid.0 == gpu.uuid) else { continue };
            let whole = held.compute.0 >= 1000;
            gpu.slices.push(Slice {
                pod: booking.pod.clone(),
                mechanism: if whole { Mechanism::Exclusive } else { Mechanism::Limiter },
                compute: (held.compute.0 > 0).then(|| f64::from(held.compute.0) / 1000.0),
                memory: Some(held.memory.0),
                ..Slice::default()
            });
        }
    }
    for slice in shown.gpus.iter_mut().flat_map(|gpu| &mut gpu.slices) {
        let pod = slice.pod.split_once('/').map_or(slice.pod.as_str(), |(_, pod)| pod);
        slice.workload = format!("Pod/{pod}");
    }
    let silent = known.and_then(Known::silent);
    let words = match (silent, has_agent) {
        (Some((_, why)), _) => format!("its agent does not answer: {why}"),
        (None, true) => "its agent was not heard yet".to_owned(),
        (None, false) => "no agent of carve runs here".to_owned(),
    };
    NodePicture { ready: base.ready && silent.is_none(), why: joined(&[&base.why, &words]), ..shown }
}

#[cfg(test)]
#[path = "compose_tests.rs"]
mod tests;
