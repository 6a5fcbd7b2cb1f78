//! What was used lately, as the series that agents tell: advice is made of it, and whoever scrapes gets it.

use crate::live::Live;
use carve_fleet_picture::{Evidence, Picture, Slice};
use carve_formats::prometheus::{Point, Series};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it is looked, as agents do: whoever asks every two seconds must find something new each time.
const STEP: Duration = Duration::from_secs(1);
/// Of so many looks one is kept.
const KEEP: u64 = 5;
/// Looks that are kept: an hour.
const KEPT: usize = 720;

/// A container's part of a GPU or MIG device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Whose {
    namespace: String,
    pod: String,
    container: String,
    node: String,
    uuid: String,
    mechanism: &'static str,
    source: &'static str,
}

#[derive(Debug, Default)]
struct Seen {
    /// Seconds of the part so far.
    seconds: f64,
    /// Bytes now.
    memory: f64,
    /// Milliseconds since 1970, seconds so far, bytes.
    points: VecDeque<(i64, f64, f64)>,
}

/// The record; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(Arc<Mutex<BTreeMap<Whose, Seen>>>);

fn source(how: Option<Evidence>) -> &'static str {
    match how {
        Some(Evidence::Limiter) => "limiter",
        Some(Evidence::Quota) => "quota",
        Some(Evidence::Equal) => "equal",
        _ => "measured",
    }
}

fn mechanism(slice: &Slice) -> &'static str {
    use carve_fleet_picture::Mechanism;
    match slice.mechanism {
        Mechanism::Exclusive => "whole",
        Mechanism::TimeSlicing => "time-slicing",
        Mechanism::Mps => "mps",
        Mechanism::Mig => "mig",
        Mechanism::Limiter => "fraction",
    }
}

impl Record {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Whose, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks again and again, for as long as somebody has the record.
    pub(crate) fn follow(&self, live: Live) {
        let record = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(STEP);
            for number in 0_u64.. {
                tick.tick().await;
                let Some(record) = record.upgrade() else { return };
                let now = crate::api::now() * 1000;
                let kept = number.is_multiple_of(KEEP).then_some(now);
                Record(record).look(&live.picture(), kept, STEP.as_secs_f64());
            }
        });
    }

    /// Counts what is used now, for so many seconds, and keeps it as of a moment where one is given.
    fn look(&self, picture: &Picture, kept: Option<i64>, seconds: f64) {
        let mut all = self.all();
        let mut there = std::collections::BTreeSet::new();
        for (node, pictured) in &picture.nodes {
            for gpu in &pictured.gpus {
                for slice in &gpu.slices {
                    let Some(used) = slice.compute_used else { continue };
                    let (namespace, pod) = slice.pod.split_once('/').unwrap_or(("", &slice.pod));
                    let whose = Whose {
                        namespace: namespace.to_owned(),
                        pod: pod.to_owned(),
                        container: slice.container.clone(),
                        node: node.clone(),
                        uuid: slice.instance.clone().unwrap_or_else(|| gpu.uuid.clone()),
                        mechanism: mechanism(slice),
                        source: source(slice.how),
                    };
                    // Agents count the time of the part itself; a MIG device's is more than that of its GPU.
                    let part = match (&slice.instance, slice.compute) {
                        (Some(_), Some(compute)) if compute > 0.0 => used / compute,
                        _ => used,
                    };
                    let seen = all.entry(whose.clone()).or_default();
                    seen.seconds += part.min(1.0) * seconds;
                    seen.memory = (slice.memory_used << 20) as f64;
                    seen.points.extend(kept.map(|now| (now, seen.seconds, seen.memory)));
                    while seen.points.len() > KEPT {
                        seen.points.pop_front();
                    }
                    there.insert(whose);
                }
            }
        }
        all.retain(|whose, _| there.contains(whose));
    }

    fn labels(whose: &Whose) -> BTreeMap<String, String> {
        let pairs = [
            ("namespace", whose.namespace.as_str()),
            ("pod", &whose.pod),
            ("container", &whose.container),
            ("node", &whose.node),
            ("uuid", &whose.uuid),
            ("mechanism", whose.mechanism),
            ("source", whose.source),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The last hour as series.
    pub(crate) fn series(&self) -> Vec<Series> {
        let mut series = Vec::new();
        for (whose, seen) in self.all().iter() {
            let points = |value: fn(&(i64, f64, f64)) -> f64| {
                seen.points.iter().map(|point| Point { millis: Some(point.0), value: value(point) }).collect()
            };
            let labels = Self::labels(whose);
            let named = |name: &str, points| Series { name: name.to_owned(), labels: labels.clone(), points };
            series.push(named("carve_container_gpu_seconds_total", points(|point| point.1)));
            series.push(named("carve_container_memory_used_bytes", points(|point| point.2)));
        }
        series
    }

    /// A page for whoever scrapes.
    pub(crate) fn page(&self, picture: &Picture) -> String {
        let mut page = String::new();
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let mut told = |name: &str, help: &str, kind: &str, lines: &[(BTreeMap<String, String>, f64)]| {
            page.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
            for (labels, value) in lines {
                let labels: Vec<String> =
                    labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
                page.push_str(&format!("{name}{{{}}} {value}\n", labels.join(",")));
            }
        };
        let all = self.all();
        let lines = |value: fn(&Seen) -> f64| -> Vec<(BTreeMap<String, String>, f64)> {
            all.iter().map(|(whose, seen)| (Self::labels(whose), value(seen))).collect()
        };
        let help = "Time of a GPU or MIG device that a container used";
        told("carve_container_gpu_seconds_total", help, "counter", &lines(|seen| seen.seconds));
        let help = "Memory that a container uses";
        told("carve_container_memory_used_bytes", help, "gauge", &lines(|seen| seen.memory));
        let sum = picture.summary();
        let none = BTreeMap::new;
        told("carve_fleet_gpus", "GPUs of all machines", "gauge", &[(none(), sum.gpus as f64)]);
        let help = "Pods that ask for GPUs and have no node";
        told("carve_fleet_pods_waiting", help, "gauge", &[(none(), sum.waiting as f64)]);
        let help = "What all machines cost";
        told("carve_fleet_dollars_per_hour", help, "gauge", &[(none(), sum.money.per_hour)]);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::Record;
    use carve_fleet_picture::{GpuPicture, Mechanism, NodePicture, Picture, Slice};
    use carve_test_support::reference::{check_section, series_table};

    #[test]
    fn series_are_those_of_the_reference() {
        let slice = Slice { pod: "team/a".to_owned(), compute_used: Some(0.5), ..Slice::default() };
        let gpu = GpuPicture { slices: vec![slice], ..GpuPicture::default() };
        let node = NodePicture { gpus: vec![gpu], ..NodePicture::default() };
        let picture = Picture { nodes: [("n".to_owned(), node)].into(), ..Picture::default() };
        let record = Record::default();
        record.look(&picture, Some(5_000), 5.0);
        let page = record.page(&picture);
        assert!(page.contains("carve_container_gpu_seconds_total{"), "{page}");
        check_section("metrics.md", "carve up", &series_table(&page, |_| true));
    }

    #[test]
    fn use_is_counted_while_a_pod_is_there() {
        let slice = Slice {
            pod: "team/a".to_owned(),
            mechanism: Mechanism::Mig,
            instance: Some("MIG-1".to_owned()),
            compute: Some(0.25),
            compute_used: Some(0.125),
            memory_used: 10,
            ..Slice::default()
        };
        let gpu = GpuPicture { slices: vec![slice], ..GpuPicture::default() };
        let node = NodePicture { gpus: vec![gpu], ..NodePicture::default() };
        let picture = Picture { nodes: [("n".to_owned(), node)].into(), ..Picture::default() };
        let record = Record::default();
        for look in 1..=4 {
            record.look(&picture, Some(look * 5_000), 5.0);
        }
        let series = record.series();
        assert_eq!(
            series[0].points.iter().map(|point| point.value).collect::<Vec<_>>(),
            [2.5, 5.0, 7.5, 10.0]
        );
        assert_eq!(series[1].points.last().map(|point| point.value), Some(10_485_760.0));
        // A look that is not kept counts all the same.
        record.look(&picture, None, 1.0);
        assert_eq!(record.series()[0].points.len(), 4);
        let page = record.page(&picture);
        assert!(page.contains("pod=\"a\"") && page.contains("} 10.5\n"), "{page}");
        record.look(&Picture::default(), None, 5.0);
        assert!(record.series().is_empty(), "who is gone has no series");
    }
}
