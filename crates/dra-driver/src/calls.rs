//! One piece of work for each claim, however often kubelet asks for it.
//!
//! ```text
//!   asked ──▶ nothing under way ─────────────▶ the driver works, in a task of its own
//!         ──▶ the same is under way ─────────▶ its outcome is waited for
//!         ──▶ the opposite is under way ─────▶ the driver works once that is done
//! ```
//! Kubelet gives up after 45 s and asks again. So a call is answered before that, for those claims that are not done with an error
//! that says so, and their work goes on: when kubelet asks again, it finds it further or done. A claim is thus never prepared and
//! unprepared at the same time, and what was asked for last happens last.

use crate::server::Driver;
use carve_kubelet_api::dra::{Claim, Device};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout_at};

/// What is to be done with claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Prepare,
    Unprepare,
}

/// What became of a claim; an unprepared one has no devices.
type Outcome = Result<Vec<Device>, String>;
/// Becomes some when the work is done; its sender is dropped without that only if something is badly wrong.
type Awaited = watch::Receiver<Option<Outcome>>;

/// The latest work on a claim that is not done.
#[derive(Debug)]
struct UnderWay {
    verb: Verb,
    number: u64,
    outcome: Awaited,
}

#[derive(Debug, Default)]
struct Works {
    begun: u64,
    /// By uid of the claim.
    latest: BTreeMap<String, UnderWay>,
}

/// A claim that a piece of work has to answer for.
struct Owed {
    uid: String,
    number: u64,
    outcome: watch::Sender<Option<Outcome>>,
}

/// The calls of kubelet to a driver.
#[derive(Debug)]
pub(crate) struct Calls<D> {
    driver: Arc<D>,
    /// How long a call may take.
    within: Duration,
    works: Arc<Mutex<Works>>,
    /// How many pieces of work are under way.
    working: watch::Sender<usize>,
}

fn lock(works: &Mutex<Works>) -> MutexGuard<'_, Works> {
    works.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Driver> Calls<D> {
    /// Calls to a driver, each answered within a time.
    pub(crate) fn new(driver: Arc<D>, within: Duration) -> Self {
        Calls { driver, within, works: Arc::default(), working: watch::Sender::default() }
    }

    /// Waits until no work is under way.
    pub(crate) async fn idle(&self) {
        // The sender is here, so the wait has no other end.
        let _ = self.working.subscribe().wait_for(|working| *working == 0).await;
    }

    /// Answers for every claim, in time.
    pub(crate) async fn answer(&self, verb: Verb, claims: Vec<Claim>) -> BTreeMap<String, Outcome> {
        let deadline = Instant::now() + self.within;
        let mut answers = BTreeMap::new();
        for (uid, mut awaited) in self.begin(verb, claims) {
            let outcome = match timeout_at(deadline, awaited.wait_for(Option::is_some)).await {
                Ok(Ok(outcome)) => outcome.clone().unwrap_or_else(|| Err(forgotten(verb))),
                Ok(Err(_)) => Err(forgotten(verb)),
                Err(_) => Err(still(verb, self.within)),
            };
            answers.insert(uid, outcome);
        }
        answers
    }

    /// What to wait for, by uid; what is not under way is begun, all of it together.
    fn begin(&self, verb: Verb, claims: Vec<Claim>) -> BTreeMap<String, Awaited> {
        let (mut awaited, mut before) = (BTreeMap::new(), Vec::new());
        let (mut owed, mut begun) = (Vec::new(), Vec::new());
        let mut works = lock(&self.works);
        for claim in claims {
            let uid = claim.uid.clone();
            let earlier = works.latest.get(&uid).map(|work| (work.verb, work.outcome.clone()));
            let outcome = match earlier {
                Some((same, outcome)) if same == verb => outcome,
                opposite => {
                    before.extend(opposite.map(|(_, outcome)| outcome));
                    let (sender, outcome) = watch::channel(None);
                    works.begun += 1;
                    let number = works.begun;
                    works.latest.insert(uid.clone(), UnderWay { verb, number, outcome: outcome.clone() });
                    owed.push(Owed { uid: uid.clone(), number, outcome: sender });
                    begun.push(claim);
                    outcome
                }
            };
            awaited.insert(uid, outcome);
        }
        drop(works);
        if !begun.is_empty() {
            self.work(verb, begun, owed, before);
        }
        awaited
    }

    /// Has the driver work in a task of its own, so that neither a call that is given up nor a panic takes others with it.
    fn work(&self, verb: Verb, claims: Vec<Claim>, owed: Vec<Owed>, before: Vec<Awaited>) {
        let (driver, works, working) =
            (Arc::clone(&self.driver), Arc::clone(&self.works), self.working.clone());
        working.send_modify(|working| *working += 1);
        tokio::spawn(async move {
            for mut earlier in before {
                // An error means that it ended without an outcome; it has ended.
                let _ = earlier.wait_for(Option::is_some).await;
            }
            let mut outcomes = attempt(&driver, verb, claims).await;
            for Owed { uid, number, outcome } in owed {
                let answer = outcomes.remove(&uid).unwrap_or_else(|| Err(forgotten(verb)));
                let mut works = lock(&works);
                if works.latest.get(&uid).is_some_and(|work| work.number == number) {
                    works.latest.remove(&uid);
                }
                // Within the lock: whoever asks next either finds this outcome or begins anew.
                outcome.send_replace(Some(answer));
            }
            working.send_modify(|working| *working -= 1);
        });
    }
}

/// Has the driver work on claims; if it panics over several, on each alone, so that only the one that is to blame fails.
async fn attempt<D: Driver>(driver: &Arc<D>, verb: Verb, claims: Vec<Claim>) -> BTreeMap<String, Outcome> {
    let mut panic = match ask(driver, verb, claims.clone()).await {
        Ok(outcomes) => return outcomes,
        Err(panic) => panicked(verb, panic),
    };
    let alone = claims.len() == 1;
    let mut outcomes = BTreeMap::new();
    for claim in claims {
        let uid = claim.uid.clone();
        if !alone {
            match ask(driver, verb, vec![claim]).await {
                Ok(outcome) => {
                    outcomes.extend(outcome);
                    continue;
                }
                Err(again) => panic = panicked(verb, again),
            }
        }
        outcomes.insert(uid, Err(panic.clone()));
    }
    outcomes
}

/// Has the driver work in a task of its own, which may panic.
async fn ask<D: Driver>(
    driver: &Arc<D>,
    verb: Verb,
    claims: Vec<Claim>,
) -> Result<BTreeMap<String, Outcome>, JoinError> {
    let driver = Arc::clone(driver);
    let work = tokio::spawn(async move {
        match verb {
            Verb::Prepare => driver.prepare(claims).await,
            Verb::Unprepare => {
                let outcomes = driver.unprepare(claims).await;
                outcomes.into_iter().map(|(uid, done)| (uid, done.map(|()| Vec::new()))).collect()
            }
        }
    });
    work.await
}

fn words(verb: Verb) -> &'static str {
    match verb {
        Verb::Prepare => "prepared",
        Verb::Unprepare => "unprepared",
    }
}

fn still(verb: Verb, within: Duration) -> String {
    format!("still being {} after {} s; kubelet asks again", words(verb), within.as_secs())
}

fn forgotten(verb: Verb) -> String {
    format!("the driver did not say whether the claim was {}; kubelet asks again", words(verb))
}

fn panicked(verb: Verb, error: JoinError) -> String {
    let said = match error.try_into_panic() {
        Ok(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(said), _) => (*said).to_owned(),
            (_, Some(said)) => said.clone(),
            _ => "a panic without words".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    tracing::error!("the driver failed while claims were being {}: {said}", words(verb));
    format!(
        "the driver failed while the claim was being {}: {said}; kubelet asks again, and this is a defect worth reporting",
        words(verb)
    )
}
