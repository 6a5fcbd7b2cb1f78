//! The agent killed after every step and at every change of a GPU, in every way of using one: nothing is lost, nothing stays behind.

mod node;

use carve_dra::Claim;
use carve_dra_driver::Steps;
use carve_gpu_host::{
    FaultInjectingHost, FaultPlan, FaultReaction, FaultWhen, HostFailure, InjectedFault, Machine,
    SimulatedHost, Verb,
};
use node::{Node, claim, every_way, files, result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MACHINE: &str = "h200-141gb:2";

fn die(verb: Verb) -> HostFailure {
    std::panic::panic_any(format!("killed at {verb}"))
}

/// Where the kill comes.
#[derive(Debug, Clone, Copy)]
enum Kill {
    AfterStep(u64),
    AtVerb(u64, FaultWhen),
}

/// Prepares and takes back a claim until the kill comes; false when it did not come.
fn live_and_die(node: &mut Node, claim: &Claim, kill: Kill) -> bool {
    let spare = SimulatedHost::new(Machine::named(MACHINE).unwrap());
    let real = std::mem::replace(&mut node.host, spare);
    let (nth_step, plan) = match kill {
        Kill::AfterStep(nth) => (nth, FaultPlan::default()),
        Kill::AtVerb(nth, when) => {
            let fault = InjectedFault { verb: None, nth, when, reaction: FaultReaction::Die };
            (u64::MAX, FaultPlan::new(vec![fault]))
        }
    };
    let mut host = FaultInjectingHost::new(real, plan, die);
    let seen = Arc::new(AtomicU64::new(0));
    let preparer = node.preparer_told(Steps::told(move |step| {
        if seen.fetch_add(1, Ordering::Relaxed) + 1 == nth_step {
            std::panic::panic_any(format!("killed after {step}"));
        }
    }));
    let life = catch_unwind(AssertUnwindSafe(|| {
        preparer.begin(&mut host, claim).unwrap();
        preparer.finish(&claim.uid, &files()).unwrap();
        assert!(preparer.release(&claim.uid).unwrap());
        preparer.end(&mut host, &claim.uid).unwrap();
    }));
    node.host = host.into_inner();
    match life {
        Ok(()) => false,
        Err(death) => {
            let said = death.downcast_ref::<String>().map(String::as_str).unwrap_or("another panic");
            assert!(said.starts_with("killed"), "{said}");
            true
        }
    }
}

/// What happens after the kill.
#[derive(Debug, Clone, Copy)]
enum Then {
    KubeletAsksAgain,
    KubeletTakesBack,
    TheClaimIsGone,
}

fn go_on(node: &mut Node, claim: &Claim, then: Then) {
    match then {
        Then::KubeletAsksAgain => {
            node.prepare(claim).unwrap();
            assert_eq!(node.preparer().records().unwrap().claims.len(), 1);
            node.unprepare(&claim.uid).unwrap();
        }
        Then::KubeletTakesBack => node.unprepare(&claim.uid).unwrap(),
        Then::TheClaimIsGone => {
            let swept = node.preparer().sweep(&mut node.host, &[]).unwrap();
            for uid in swept.gone {
                node.unprepare(&uid).unwrap();
            }
        }
    }
    node.preparer().sweep(&mut node.host, &[]).unwrap();
}

#[test]
fn killed_anywhere_the_next_agent_goes_on_or_clears_away() {
    std::panic::set_hook(Box::new(|panic| {
        if !panic.payload().downcast_ref::<String>().is_some_and(|text| text.starts_with("killed")) {
            eprintln!("{panic}");
        }
    }));
    let mut kills = 0;
    let limiters = [None, Some(PathBuf::from("/host/libcarve_limiter.so"))];
    let cases = limiters.iter().flat_map(|limiter| every_way().into_iter().map(move |way| (limiter, way)));
    for (limiter, (way, claim)) in cases {
        let ways_to_die = |nth: u64| {
            [Kill::AfterStep(nth), Kill::AtVerb(nth, FaultWhen::Before), Kill::AtVerb(nth, FaultWhen::After)]
        };
        for kind in 0..3 {
            for nth in 1.. {
                let kill = ways_to_die(nth)[kind];
                let mut came = false;
                for then in [Then::KubeletAsksAgain, Then::KubeletTakesBack, Then::TheClaimIsGone] {
                    let mut node = Node::new(MACHINE);
                    node.limiter.clone_from(limiter);
                    came = live_and_die(&mut node, &claim, kill);
                    go_on(&mut node, &claim, then);
                    assert_eq!(node.is_clean(), Ok(()), "{way}, {limiter:?}, {kill:?}, {then:?}");
                }
                if !came {
                    break;
                }
                kills += 1;
            }
        }
    }
    assert!(kills > 160, "only {kills} kills");
}

#[test]
fn a_killed_preparation_keeps_others_out_until_it_is_taken_back() {
    std::panic::set_hook(Box::new(|_| {}));
    let mig = claim("a", vec![result("r", "gpu-0-mig-1g18gb-19-6", None, &[])]);
    for nth in 1..=4 {
        let mut node = Node::new(MACHINE);
        assert!(live_and_die(&mut node, &mig, Kill::AfterStep(nth)));
        let other = claim("b", vec![result("r", "gpu-0", None, &[])]);
        let refused = node.prepare(&other).unwrap_err().to_string();
        assert!(refused.contains("team/claim-a"), "{refused}");
        node.unprepare("a").unwrap();
        node.prepare(&other).unwrap();
    }
}

#[test]
fn a_lost_record_is_not_an_orphan_while_its_claim_lives() {
    let mut node = Node::new(MACHINE);
    let mig = claim("a", vec![result("r", "gpu-0-mig-1g18gb-19-6", None, &[])]);
    node.prepare(&mig).unwrap();
    std::fs::write(node.path("state/claims/a.json"), "{").unwrap();
    let swept = node.preparer().sweep(&mut node.host, std::slice::from_ref(&mig)).unwrap();
    assert!(swept.kept.iter().any(|text| text.contains("does not read")), "{swept:?}");
    assert!(swept.cleared.is_empty(), "{swept:?}");
    // kubelet asks again, and the instance that was there is the one that is given.
    node.prepare(&mig).unwrap();
    node.unprepare("a").unwrap();
    std::fs::remove_file(node.path("state/claims/a.corrupt")).unwrap();
    node.preparer().sweep(&mut node.host, &[]).unwrap();
    assert_eq!(node.is_clean(), Ok(()));

    // Gone together with its claim, it is one.
    node.prepare(&mig).unwrap();
    std::fs::remove_file(node.path("state/claims/a.json")).unwrap();
    let swept = node.preparer().sweep(&mut node.host, &[]).unwrap();
    assert!(swept.cleared.iter().any(|text| text.contains("instance 1g18gb at slot 6")), "{swept:?}");
    assert_eq!(node.is_clean(), Ok(()));
}

#[test]
fn a_thousand_claims_leave_nothing() {
    let mut node = Node::new(MACHINE);
    let ways = every_way();
    for round in 0..1_000 {
        let (_, mut claim) = ways[round % ways.len()].clone();
        claim.uid = format!("claim-{round}");
        node.prepare(&claim).unwrap();
        node.unprepare(&claim.uid).unwrap();
    }
    node.preparer().sweep(&mut node.host, &[]).unwrap();
    assert_eq!(node.is_clean(), Ok(()));
}
