//! What agents tell while they are watched.

use super::args::AdviseArgs;
use crate::args::MachineArgs;
use crate::failure::Failure;
use carve_advisor::{BUSY_SERIES, MEMORY_SERIES};
use carve_formats::prometheus::{Point, Series, parse};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Agents look once a second; asked a little less often they have something new each time.
const STEP: Duration = Duration::from_secs(2);

/// Every series that tells something, for so many seconds from now on.
pub(super) fn series(machine: &MachineArgs, args: &AdviseArgs, seconds: i64) -> Result<Vec<Series>, Failure> {
    let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let hint = "or give --agent URL, --prometheus URL, or --metrics FILE";
    let (begin, mut found, mut silent) = (Instant::now(), BTreeMap::new(), BTreeMap::new());
    eprintln!("watching for {seconds} s …");
    loop {
        for (from, answer) in args.agents.ask(&args.asked, machine, "/metrics", hint)? {
            let taken = answer.and_then(|page| take(&mut found, &page).map_err(|error| error.to_string()));
            if let Err(why) = taken {
                silent.insert(from, why);
            }
        }
        let left = time.saturating_sub(begin.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(STEP));
    }
    for (from, why) in silent {
        eprintln!("warning: {from} did not tell everything: {why}");
    }
    let series = |((name, labels), points)| Series { name, labels, points };
    Ok(found.into_iter().map(series).collect())
}

type Found = BTreeMap<(String, BTreeMap<String, String>), Vec<Point>>;

/// Takes from a page what tells something, as of now.
fn take(found: &mut Found, page: &str) -> Result<(), carve_formats::prometheus::SamplesError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let millis = i64::try_from(now).ok();
    let wanted = |line: &&str| BUSY_SERIES.iter().chain(&MEMORY_SERIES).any(|name| line.starts_with(name));
    let lines: Vec<&str> = page.lines().filter(wanted).collect();
    for series in parse(&lines.join("\n"))? {
        let points = found.entry((series.name, series.labels)).or_default();
        points.extend(series.points.iter().map(|point| Point { millis, value: point.value }));
    }
    Ok(())
}
