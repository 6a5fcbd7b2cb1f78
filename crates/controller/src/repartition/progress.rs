//! How far a plan is, by what its agent says and by the time that has passed.

use super::objects::{NodeSeen, PlanSeen};
use super::{facts, read, written};
use carve_repartition::{Order, OrderState, Seconds};
use carve_slice_policy::{LastRecut, Phase, SlicePlanStatus};

/// How long an agent may take. It is a matter of seconds, unless pods are asked to go: for those it waits five minutes.
const PATIENCE: u64 = 420;

/// What is to be done about a plan that is being carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Its agent was not told, or nobody knows whether it was.
    Tell(Order),
    /// It is over; what is to be said of it, and an order in place of one that nobody answers.
    Over { status: SlicePlanStatus, instead: Option<Order> },
    /// Its agent is at it.
    Wait,
}

/// What is to be done about a plan that is being carried out.
pub(super) fn next(plan: &PlanSeen, node: &NodeSeen, now: Seconds) -> Next {
    let generation = plan.spec.generation;
    let told = node.order.as_ref().is_some_and(|order| order.generation >= generation);
    if let Some(name) = node.report.as_ref().and_then(|report| report.manual.as_ref()) {
        let why = format!("a person asks for MIG config '{name}' by label, which wins");
        return Next::Over { status: failed(plan, now, why), instead: told.then(|| nothing(generation)) };
    }
    let answer = node.report.as_ref().and_then(|report| report.order.as_ref());
    if let Some(answer) = answer.filter(|answer| answer.generation >= generation) {
        let status = match answer.state {
            OrderState::Pending => return Next::Wait,
            _ if answer.generation > generation => {
                failed(plan, now, format!("the agent has carried out plan {} since", answer.generation))
            }
            OrderState::Done => done(plan, now, &answer.message),
            OrderState::Failed => failed(plan, now, answer.message.clone()),
        };
        return Next::Over { status, instead: None };
    }
    let started = plan.status.started.as_deref().and_then(read).unwrap_or(now);
    if now.0 > started.0 + PATIENCE {
        let why = format!(
            "the agent has not answered for {} s; see the pod of the agent on this node",
            now.0 - started.0
        );
        return Next::Over { status: failed(plan, now, why), instead: told.then(|| nothing(generation)) };
    }
    if told { Next::Wait } else { Next::Tell(facts::order_of(&plan.spec)) }
}

/// An order that asks for nothing, so that the one before is not carried out when nobody expects it any more.
fn nothing(generation: u64) -> Order {
    Order { generation: generation + 1, gpus: Default::default(), evict: Vec::new() }
}

fn done(plan: &PlanSeen, now: Seconds, message: &str) -> SlicePlanStatus {
    let cut = |uuid: &str| plan.spec.gpus.iter().any(|gpu| gpu.uuid == uuid);
    let before = plan.status.recuts.iter().filter(|one| !cut(&one.uuid)).cloned();
    let new = plan.spec.gpus.iter().map(|gpu| LastRecut { uuid: gpu.uuid.clone(), at: written(now) });
    SlicePlanStatus {
        phase: Phase::Done,
        observed_generation: plan.spec.generation,
        message: message.to_owned(),
        finished: Some(written(now)),
        failures: 0,
        recuts: before.chain(new).collect(),
        ..plan.status.clone()
    }
}

fn failed(plan: &PlanSeen, now: Seconds, message: String) -> SlicePlanStatus {
    SlicePlanStatus {
        phase: Phase::Failed,
        observed_generation: plan.spec.generation,
        message,
        finished: Some(written(now)),
        failures: plan.status.failures + 1,
        ..plan.status.clone()
    }
}
