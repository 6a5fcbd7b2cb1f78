//! What has happened lately: events of carve's agents and controllers, and what the dashboard itself has noticed; pure.

use crate::repartition::read;
use carve_fleet_picture::{Happening, Tone};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// The most that are shown.
const MOST: usize = 200;
/// Events are remembered for so many seconds after they have happened; API servers forget them long before.
const REMEMBERED: i64 = 86_400;

/// All of them, with numbers that grow.
#[derive(Debug, Default)]
pub(super) struct Happenings {
    /// How often each event was told and when it last happened, by its uid: lists are read again when a watch is lost.
    told: BTreeMap<String, (u64, i64)>,
    /// Those that have no number yet.
    new: Vec<Happening>,
    shown: VecDeque<Happening>,
    last: u64,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn uid(event: &Value) -> String {
    text(&event["metadata"]["uid"]).to_owned()
}

impl Happenings {
    /// An event is there, or has happened again.
    pub(super) fn event(&mut self, event: &Value) {
        let times = event["series"]["count"].as_u64().or_else(|| event["count"].as_u64()).unwrap_or(1);
        let about = &event["involvedObject"];
        let kind = text(&about["kind"]).to_lowercase();
        let name = text(&about["name"]);
        let about = match text(&about["namespace"]) {
            // Events about nodes are kept in a namespace, but nodes are not.
            namespace if !namespace.is_empty() && kind != "node" => format!("{kind}/{namespace}/{name}"),
            _ => format!("{kind}/{name}"),
        };
        let moments = [
            &event["series"]["lastObservedTime"],
            &event["lastTimestamp"],
            &event["eventTime"],
            &event["metadata"]["creationTimestamp"],
        ];
        let at = moments.into_iter().find_map(|moment| read(moment.as_str()?));
        let at = at.map_or(0, |at| i64::try_from(at.0).unwrap_or(i64::MAX));
        if self.told.insert(uid(event), (times, at)).is_some_and(|(before, _)| before >= times) {
            return;
        }
        self.new.push(Happening {
            number: 0,
            at,
            tone: if event["type"] == "Warning" { Tone::Warning } else { Tone::Normal },
            about,
            reason: text(&event["reason"]).to_owned(),
            words: text(&event["message"]).to_owned(),
        });
    }

    /// An event was forgotten by the API server; what happened has happened all the same.
    pub(super) fn event_gone(&mut self, event: &Value) {
        self.told.remove(&uid(event));
    }

    /// Something was noticed here.
    pub(super) fn noticed(&mut self, at: i64, tone: Tone, about: String, reason: &str, words: String) {
        self.new.push(Happening { number: 0, at, tone, about, reason: reason.to_owned(), words });
    }

    /// Those that are shown, the newest last. Lists come in no order, so what came since the last time is put into the order of time.
    pub(super) fn shown(&mut self) -> Vec<Happening> {
        self.new.sort_by_key(|one| one.at);
        if let Some(newest) = self.new.last() {
            let oldest = newest.at - REMEMBERED;
            self.told.retain(|_, (_, at)| *at >= oldest);
        }
        for happening in self.new.drain(..) {
            self.last += 1;
            self.shown.push_back(Happening { number: self.last, ..happening });
        }
        let much = self.shown.len().saturating_sub(MOST);
        self.shown.drain(..much);
        self.shown.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Happenings;
    use carve_fleet_picture::Tone;
    use serde_json::{Value, json};

    fn event(uid: &str, minute: u32, count: u64) -> Value {
        json!({
            "metadata": {"uid": uid, "creationTimestamp": "1970-01-01T00:00:00Z"}, "count": count, "type": "Warning", "reason": "Xid",
            "lastTimestamp": format!("1970-01-01T00:{minute:02}:00Z"), "message": uid,
            "involvedObject": {"kind": "Node", "namespace": "default", "name": "a"},
        })
    }

    #[test]
    fn events_have_growing_numbers_and_are_told_once_each_time() {
        let mut happenings = Happenings::default();
        happenings.event(&event("later", 9, 1));
        happenings.event(&event("sooner", 3, 1));
        let first = happenings.shown();
        let told = |all: &[carve_fleet_picture::Happening]| -> Vec<(u64, i64, String)> {
            all.iter().map(|one| (one.number, one.at, one.words.clone())).collect()
        };
        assert_eq!(told(&first), [(1, 180, "sooner".to_owned()), (2, 540, "later".to_owned())]);
        assert_eq!((first[0].about.as_str(), first[0].tone), ("node/a", Tone::Warning));
        // A list that is read again tells nothing new.
        happenings.event(&event("later", 9, 1));
        assert_eq!(happenings.shown().len(), 2);
        happenings.event(&event("later", 10, 2));
        happenings.noticed(700, Tone::Normal, "node/b".to_owned(), "AgentAnswers", "again".to_owned());
        assert_eq!(
            told(&happenings.shown())[2..],
            [(3, 600, "later".to_owned()), (4, 700, "again".to_owned())]
        );
        for minute in 0..300 {
            happenings.noticed(minute, Tone::Normal, String::new(), "", String::new());
        }
        let all = happenings.shown();
        assert_eq!((all.len(), all.last().map(|one| one.number)), (200, Some(304)));
    }
}
