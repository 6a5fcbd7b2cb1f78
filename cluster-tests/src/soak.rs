//! What a long run leaves: looks at processes and nodes while nothing runs, what differs between them, and the page that says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What a process had at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Which process it was: one that was started again is another.
    pub pid: u32,
    /// Memory that is in RAM, in KiB.
    pub memory: u64,
    /// Open files of every kind.
    pub files: u64,
    /// Sockets among them.
    pub sockets: u64,
    /// Threads.
    pub threads: u64,
}

impl Footprint {
    /// What a process has now, by what the kernel says of it.
    pub fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let links: Vec<String> = open
            .filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.display().to_string()))
            .collect();
        let is_socket = |link: &&String| link.starts_with("socket:");
        Some(Footprint {
            pid,
            memory: field(&status, "VmRSS:")?,
            files: links.len() as u64,
            sockets: links.iter().filter(is_socket).count() as u64,
            threads: field(&status, "Threads:")?,
        })
    }
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A look at everything while nobody has anything.
#[derive(Debug, Clone, Default)]
pub struct Rest {
    /// Minutes since the beginning.
    pub minute: f64,
    /// Processes of carve's, by name.
    pub processes: BTreeMap<String, Footprint>,
    /// What nodes have: files, MIG devices, daemons, mounts; one line each.
    pub things: BTreeSet<String>,
    /// Bytes that agents keep on disk, beside their books.
    pub kept: u64,
    /// What was used by whom, which grows with pods until an hour is old.
    pub books: Books,
}

/// Books of the agents: a file for each node and hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Books {
    /// Hours of which there are any.
    pub hours: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// By how much a process may grow until it counts as one that leaks: what allocators keep comes and goes.
const MEMORY: (u64, u64) = (10, 6 * 1024);
/// Connections to the API server come and go.
const FILES: u64 = 4;
/// What agents write down differs by times and counts in it.
const KEPT: u64 = 64 * 1024;

/// Whatever is not as it was: what nodes have, against the first look; processes, against the first look at the same process.
pub fn leaks(rests: &[Rest]) -> Vec<String> {
    let mut found = Vec::new();
    let Some(first) = rests.first() else { return vec!["nobody has looked".to_owned()] };
    for (number, rest) in rests.iter().enumerate().skip(1) {
        let left = rest.things.difference(&first.things).map(|thing| format!("look {number}: left: {thing}"));
        let lost = first.things.difference(&rest.things).map(|thing| format!("look {number}: lost: {thing}"));
        found.extend(left.chain(lost));
        if rest.kept > first.kept + KEPT {
            found.push(format!("look {number}: agents keep {} bytes, {} at first", rest.kept, first.kept));
        }
    }
    for (number, rest) in rests.iter().enumerate() {
        // The hour in which it began and the one in which it ended count as well.
        let hours = (rest.minute / 60.0) as usize + 2;
        if rest.books.hours > hours {
            found.push(format!("look {number}: books of {} hours, and {hours} can be", rest.books.hours));
        }
    }
    let names: BTreeSet<&String> = rests.iter().flat_map(|rest| rest.processes.keys()).collect();
    for name in names {
        let seen: Vec<Footprint> =
            rests.iter().filter_map(|rest| rest.processes.get(name)).copied().collect();
        let Some(last) = seen.last() else { continue };
        let Some(early) = seen.iter().find(|one| one.pid == last.pid) else { continue };
        let (percent, more) = MEMORY;
        if last.memory > early.memory + early.memory * percent / 100 + more {
            found.push(format!("{name}: {} KiB, {} at first", last.memory, early.memory));
        }
        for (what, now, then) in
            [("files", last.files, early.files), ("threads", last.threads, early.threads)]
        {
            if now > then + FILES {
                found.push(format!("{name}: {now} {what}, {then} at first"));
            }
        }
    }
    found
}

/// What has come and gone.
#[derive(Debug, Clone, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// One more of these.
    pub fn one(&mut self, what: &str) {
        self.more(what, 1);
    }

    /// So many more of these.
    pub fn more(&mut self, what: &str, number: usize) {
        if number > 0 {
            *self.0.entry(what.to_owned()).or_default() += number as u64;
        }
    }

    fn rows(&self) -> String {
        self.0.iter().map(|(what, number)| format!("| {what} | {number} |\n")).collect()
    }
}

/// The page.
pub fn page(told: &str, tally: &Tally, rests: &[Rest], found: &[String]) -> String {
    let mut text = format!("# A soak\n\n{told}\n\n## What came\n\n| | |\n|---|---:|\n{}\n", tally.rows());
    text.push_str("## What was left, each time nobody had anything\n\n");
    text.push_str("| look | minute | files, devices, daemons, mounts | more than at first | fewer | bytes kept | hours, bytes of books |\n|---:|---:|---:|---:|---:|---:|---:|\n");
    let first = rests.first().cloned().unwrap_or_default();
    for (number, rest) in rests.iter().enumerate() {
        let left = rest.things.difference(&first.things).count();
        let lost = first.things.difference(&rest.things).count();
        let (minute, things, kept) = (rest.minute, rest.things.len(), rest.kept);
        let Books { hours, bytes } = rest.books;
        let _ = writeln!(
            text,
            "| {number} | {minute:.0} | {things} | {left} | {lost} | {kept} | {hours}, {bytes} |"
        );
    }
    text.push_str("\n## Processes\n\nAt each look: memory in MiB, open files (sockets among them), threads. A process that was killed in between is another one, marked •.\n\n");
    let looks: String = (0..rests.len()).map(|number| format!(" look {number} |")).collect();
    let _ = writeln!(text, "| |{looks}\n|---|{}", "---|".repeat(rests.len()));
    let names: BTreeSet<&String> = rests.iter().flat_map(|rest| rest.processes.keys()).collect();
    for name in names {
        let mut before = None;
        let cells: String = rests
            .iter()
            .map(|rest| match rest.processes.get(name) {
                Some(one) => {
                    let mark =
                        if before.replace(one.pid).is_some_and(|pid| pid != one.pid) { "• " } else { "" };
                    let memory = one.memory as f64 / 1024.0;
                    format!(" {mark}{memory:.1}; {} ({}); {} |", one.files, one.sockets, one.threads)
                }
                None => " – |".to_owned(),
            })
            .collect();
        let _ = writeln!(text, "| {name} |{cells}");
    }
    text.push_str("\n## Verdict\n\n");
    if found.is_empty() {
        text.push_str("No leak, nothing lost, nothing given twice.\n");
    }
    for line in found {
        let _ = writeln!(text, "- {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Books, Footprint, Rest, Tally, leaks, page};
    use std::collections::{BTreeMap, BTreeSet};

    fn rest(pid: u32, memory: u64, files: u64, things: &[&str]) -> Rest {
        let footprint = Footprint { pid, memory, files, sockets: 3, threads: 4 };
        Rest {
            minute: 1.0,
            processes: BTreeMap::from([("agent".to_owned(), footprint)]),
            things: things.iter().map(|thing| (*thing).to_owned()).collect::<BTreeSet<_>>(),
            kept: 100,
            books: Books { hours: 2, bytes: 1000 },
        }
    }

    #[test]
    fn what_stays_is_found() {
        let rests = [rest(1, 40_000, 20, &["a"]), rest(1, 41_000, 21, &["a", "b"]), rest(1, 40_500, 20, &[])];
        assert_eq!(leaks(&rests), ["look 1: left: b", "look 2: lost: a"]);
    }

    #[test]
    fn books_that_nobody_closes_are_found() {
        let mut rests = [rest(1, 40_000, 20, &[]), rest(1, 40_000, 20, &[])];
        rests[1].books = Books { hours: 3, bytes: 900_000 };
        assert_eq!(leaks(&rests), ["look 1: books of 3 hours, and 2 can be"]);
        rests[1].minute = 61.0;
        assert_eq!(leaks(&rests), Vec::<String>::new(), "they grow with what happened");
    }

    #[test]
    fn a_process_that_grows_is_found() {
        let rests = [rest(1, 40_000, 20, &[]), rest(1, 60_000, 20, &[]), rest(1, 51_000, 25, &[])];
        assert_eq!(leaks(&rests), ["agent: 51000 KiB, 40000 at first", "agent: 25 files, 20 at first"]);
    }

    #[test]
    fn a_process_that_was_started_again_is_another() {
        let rests = [rest(1, 10_000, 5, &[]), rest(2, 40_000, 20, &[]), rest(2, 40_500, 20, &[])];
        assert_eq!(leaks(&rests), Vec::<String>::new());
        assert_eq!(leaks(&[]).len(), 1, "no look proves nothing");
    }

    #[test]
    fn this_process_has_a_footprint() {
        let own = Footprint::of(std::process::id()).expect("it runs");
        assert!(own.memory > 500 && own.files >= 3 && own.threads >= 1, "{own:?}");
        assert_eq!(Footprint::of(u32::MAX), None);
    }

    #[test]
    fn the_page_says_what_was_found() {
        let mut tally = Tally::default();
        tally.more("pods", 3);
        let rests = [rest(1, 10_240, 5, &[]), rest(2, 40_960, 20, &["left"])];
        let text = page("Told.", &tally, &rests, &leaks(&rests));
        for line in ["| pods | 3 |", "| agent | 10.0; 5 (3); 4 | • 40.0; 20 (3); 4 |", "- look 1: left: left"]
        {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("No leak"));
    }
}
