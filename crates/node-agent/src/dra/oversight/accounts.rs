//! One look at everything: shares are read, counters go on, and processes that the driver shows are held against those that are counted.

use super::escapes::{Escapes, Judged, OnPart, Standing};
use super::meter::Meter;
use super::processes::{Identity, Processes};
use super::series::{self, Reading, Recorded};
use super::words;
use crate::holders::ClaimHeld;
use crate::metrics::ShareSeries;
use carve_dra_driver::{ClaimRecord, Stage};
use carve_gpu_host::GpuProcess;
use carve_limiter_host::{Limits, Overhead, Owner, Share, ShareError, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// So many processes are told of one by one at a look: one that starts others without end must not drown what else there is to say.
const MOST_TOLD: usize = 10;

/// What the agent keeps of shares from look to look.
#[derive(Debug)]
pub(super) struct Accounts {
    driver: String,
    /// Where shares are.
    root: PathBuf,
    processes: Processes,
    /// Whether the agent is the first process of a pid namespace, and so sees none but its own; the driver's numbers mean nothing then.
    pub(super) alone: bool,
    /// Whether processes of other namespaces were ever seen. The agent stays in its own, so it sees them for good.
    sighted: bool,
    /// None until they were read from the file of an earlier agent.
    meters: Option<BTreeMap<String, Meter>>,
    kept: BTreeMap<String, Kept>,
    escapes: Escapes,
    said_blind: bool,
    /// Whether shares are charged what their processes have beyond what they count; not where contexts are to be beside them.
    pub(super) charges: bool,
}

/// A share that could be read.
#[derive(Debug)]
struct Kept {
    limits: Limits,
    /// Looks in a row at which it could not be read.
    failures: u32,
    /// Kinds of trouble that were told.
    told: BTreeSet<u64>,
    overhead: Overhead,
}

/// What comes of a look.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) shares: Vec<ShareSeries>,
    pub(super) escaped: BTreeMap<String, u64>,
    /// Warnings: reason and message.
    pub(super) warnings: Vec<(&'static str, String)>,
}

/// A share at this moment.
struct Seen {
    share: Share,
    limits: Limits,
    snapshot: Snapshot,
}

/// Which share counts which process, by part.
type Counted = BTreeMap<(String, u64, u64), String>;

impl Accounts {
    pub(super) fn new(driver: String, root: PathBuf, proc: PathBuf, own_pod: Option<String>) -> Self {
        Accounts {
            driver,
            root,
            processes: Processes::new(proc, own_pod),
            alone: std::process::id() == 1,
            sighted: false,
            meters: None,
            kept: BTreeMap::new(),
            escapes: Escapes::default(),
            said_blind: false,
            charges: true,
        }
    }

    /// Looks at all shares on record. `shown` is what the driver shows on parts that it could be asked about.
    pub(super) fn look(
        &mut self,
        now: u64,
        records: &BTreeMap<String, ClaimRecord>,
        held: &[ClaimHeld],
        shown: &BTreeMap<String, Vec<GpuProcess>>,
    ) -> Told {
        let nothing = BTreeMap::new();
        let shown = if self.alone { &nothing } else { shown };
        let shares = series::shares(records);
        let mut warnings = Vec::new();
        let mut seen = self.read(&shares, &mut warnings);
        let namespaces = |seen: &Seen| seen.snapshot.owners().into_iter().map(|(_, namespace)| namespace);
        let census = self.processes.census(&seen.values().flat_map(namespaces).collect(), self.sighted);
        self.sighted = census.sees_others;
        for one in seen.values_mut() {
            one.snapshot.forget_the_dead(|owner, namespace| census.may_live(owner, namespace));
        }
        let (standings, shown_bytes) = self.stand(&shares, &seen, shown);
        let judged = self.escapes.judge(&standings, |pid, start| self.processes.lives(pid, start));
        self.tell(&judged, shares.iter().any(Recorded::needs_limiter), &mut warnings);
        self.charge(&shares, &seen, &shown_bytes);
        self.go_on(now, &shares, &seen);
        let readings = self.readings(&shares, &seen, &shown_bytes);
        let shares = series::series(&shares, &readings, held, &self.driver);
        Told { shares, escaped: judged.escaped, warnings }
    }

    /// Reads every share that is there.
    fn read(
        &mut self,
        shares: &[Recorded<'_>],
        warnings: &mut Vec<(&'static str, String)>,
    ) -> BTreeMap<String, Seen> {
        let there: BTreeSet<String> = shares.iter().map(Recorded::name).collect();
        self.kept.retain(|name, _| there.contains(name));
        let mut seen = BTreeMap::new();
        for share in shares {
            let name = share.name();
            match self.open(share) {
                Ok(one) => {
                    let fresh = || Kept {
                        limits: one.limits,
                        failures: 0,
                        told: BTreeSet::new(),
                        overhead: Overhead::default(),
                    };
                    let kept = self.kept.entry(name.clone()).or_insert_with(fresh);
                    (kept.limits, kept.failures) = (one.limits, 0);
                    // Before the dead are forgotten: what kept the limiter from its work in one of them counts, too.
                    if let Some(trouble) = one.snapshot.counters().trouble
                        && kept.told.insert(words::kind(trouble))
                    {
                        warnings.push((words::TROUBLE, words::trouble(share.claim, share.part, trouble)));
                    }
                    seen.insert(name, one);
                }
                Err(error) => {
                    // One that never was there may still be made, and one that is gone at the first look may be on its way out.
                    let Some(kept) = self.kept.get_mut(&name) else { continue };
                    kept.failures += 1;
                    if kept.failures == 2 && share.claim.stage == Stage::Ready {
                        let message = words::unreadable(share.claim, share.part, &error);
                        warnings.push((words::TROUBLE, message));
                    }
                }
            }
        }
        seen
    }

    fn open(&self, share: &Recorded<'_>) -> Result<Seen, ShareError> {
        let folder = self.root.join(&share.claim.uid);
        let opened = Share::open(&folder, share.part, share.device.share_name())?;
        Ok(Seen { limits: *opened.limits(), snapshot: opened.snapshot()?, share: opened })
    }

    /// What each process that the driver shows is to the shares of its part, where the limiter alone holds them, and what it shows for
    /// each share.
    fn stand(
        &self,
        shares: &[Recorded<'_>],
        seen: &BTreeMap<String, Seen>,
        shown: &BTreeMap<String, Vec<GpuProcess>>,
    ) -> (BTreeMap<String, Vec<OnPart>>, BTreeMap<String, u64>) {
        let mut counted = Counted::new();
        let mut watched: BTreeMap<&str, bool> = BTreeMap::new();
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for share in shares {
            let name = share.name();
            let Some(one) = seen.get(&name) else { continue };
            watched.insert(share.part, share.needs_limiter());
            if shown.contains_key(share.part) {
                bytes.insert(name.clone(), 0);
            }
            for (owner, namespace) in one.snapshot.owners() {
                counted.insert((share.part.to_owned(), namespace, owner.to_bits()), name.clone());
            }
        }
        let mut standings = BTreeMap::new();
        for (part, processes) in shown {
            let Some(needs_limiter) = watched.get(part.as_str()) else { continue };
            let on_part: Vec<OnPart> = processes
                .iter()
                .map(|process| {
                    let memory = process.memory.map(|bytes| bytes.0);
                    let standing = match self.processes.identify(process.pid) {
                        None if self.processes.knows(process.pid) => Standing::Ending,
                        None => Standing::Unseen,
                        Some(found) => match share_of(&counted, part, &found) {
                            Some(name) => {
                                match (bytes.get_mut(name), memory) {
                                    (Some(sum), Some(memory)) => *sum = sum.saturating_add(memory),
                                    // Of one of them nothing is told, so nothing is known of all.
                                    _ => {
                                        bytes.remove(name);
                                    }
                                }
                                Standing::Known
                            }
                            None if self.processes.is_ours(process.pid) => Standing::Ours,
                            None => Standing::Stranger(found.start),
                        },
                    };
                    OnPart { pid: process.pid, standing, bytes: memory }
                })
                .collect();
            if *needs_limiter {
                standings.insert(part.clone(), on_part);
            }
        }
        (standings, bytes)
    }

    /// Charges shares what their processes have beyond what they count. Where MPS holds a share, its daemon does that.
    fn charge(
        &mut self,
        shares: &[Recorded<'_>],
        seen: &BTreeMap<String, Seen>,
        shown_bytes: &BTreeMap<String, u64>,
    ) {
        for share in shares.iter().filter(|share| self.charges && share.needs_limiter()) {
            let name = share.name();
            let (Some(one), Some(kept)) = (seen.get(&name), self.kept.get_mut(&name)) else { continue };
            let counted = one.snapshot.counters().memory;
            if let Some(overhead) = kept.overhead.look(shown_bytes.get(&name).copied(), counted)
                && overhead != one.share.overhead()
            {
                one.share.charge(overhead);
            }
        }
    }

    fn tell(&mut self, judged: &Judged, watches: bool, warnings: &mut Vec<(&'static str, String)>) {
        for escape in judged.new.iter().take(MOST_TOLD) {
            let (name, pod) = (self.processes.name(escape.pid), self.processes.pod(escape.pid));
            warnings.push((words::ESCAPED, words::escaped(escape, &name, pod.as_deref())));
        }
        if judged.new.len() > MOST_TOLD {
            warnings.push((words::ESCAPED, words::escaped_too(judged.new.len() - MOST_TOLD)));
        }
        if !self.said_blind && watches && (self.alone || judged.unseen.is_some()) {
            self.said_blind = true;
            warnings.push((words::BLIND, words::blind(judged.unseen)));
        }
    }

    /// Lets counters go on, and writes down how far they are for the next agent.
    fn go_on(&mut self, now: u64, shares: &[Recorded<'_>], seen: &BTreeMap<String, Seen>) {
        let file = self.root.join("metered.json");
        let meters = self.meters.get_or_insert_with(|| {
            let text = fs::read_to_string(&file).unwrap_or_default();
            serde_json::from_str(&text).unwrap_or_default()
        });
        let there: BTreeSet<String> = shares.iter().map(Recorded::name).collect();
        let before = meters.len();
        meters.retain(|name, _| there.contains(name));
        for (name, one) in seen {
            let meter = meters.entry(name.clone()).or_insert_with(|| Meter::new(now));
            meter.read(now, (&one.snapshot.counters()).into());
        }
        if meters.is_empty() && before == 0 {
            return;
        }
        let new = self.root.join(".metered.json.new");
        let text = serde_json::to_string(meters).unwrap_or_default();
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &file));
        if let Err(error) = written {
            tracing::debug!(%error, file = %file.display(), "the next agent will not know how far counters were");
        }
    }

    fn readings(
        &self,
        shares: &[Recorded<'_>],
        seen: &BTreeMap<String, Seen>,
        shown_bytes: &BTreeMap<String, u64>,
    ) -> BTreeMap<String, Reading> {
        let read = shares.iter().filter_map(|share| {
            let name = share.name();
            let kept = self.kept.get(&name)?;
            let told = self.meters.as_ref()?.get(&name)?.told();
            let counters = seen.get(&name).map(|one| one.snapshot.counters());
            let now = counters.map(|counters| (counters.memory, counters.processes));
            let beside = shown_bytes.get(&name).zip(counters);
            let beside = beside.map(|(shown, counters)| shown.saturating_sub(counters.memory));
            let overhead = seen.get(&name).map(|one| one.share.overhead());
            Some((name, Reading { limits: kept.limits, told, now, beside, overhead }))
        });
        read.collect()
    }
}

/// The share in which a process is counted. One that can not read `/proc` knows neither its namespace nor when it began.
fn share_of<'a>(counted: &'a Counted, part: &str, found: &Identity) -> Option<&'a String> {
    let exact = (part.to_owned(), found.namespace, found.owner.to_bits());
    let number_alone = (part.to_owned(), 0, Owner::new(found.owner.pid(), 0).to_bits());
    counted.get(&exact).or_else(|| counted.get(&number_alone))
}
