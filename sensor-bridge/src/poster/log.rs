//! What an operator reads about posts and slow workers.

use jiff::Timestamp;

use super::{
    cadence,
    client::{Answer, Says},
};
use crate::{
    delivery::Next,
    metrics::Throttle,
    pipeline::{
        Refusal,
        route::{RouteId, Routes},
        sampler::{Outcome, Outgoing},
    },
};

/// Says what came of a post; trouble at most once a minute per kind.
pub(super) fn answer(
    trouble: &mut Throttle<&'static str>,
    outgoing: &Outgoing,
    answer: &Answer,
    outcome: Outcome,
    now: Timestamp,
) {
    let (event, attempt) = (outgoing.id.as_str(), outgoing.attempt);
    match &answer.says {
        Says::Accepted { task_id } => {
            tracing::info!(event.id = event, task.id = &**task_id, "the trigger fired");
        }
        Says::NotAccepted { reason } => {
            tracing::debug!(event.id = event, reason = &**reason, "posted");
        }
        Says::Refused { status, message } => {
            let (kind, count) = match outcome.next {
                Next::Loud(_) => ("token", trouble.admit("token", now)),
                Next::Limited(_) => ("limit", trouble.admit("limit", now)),
                Next::Drop(_) => ("rejected", trouble.admit("rejected", now)),
                Next::RetryIn(_) | Next::Done => ("fault", trouble.admit("fault", now)),
            };
            let Some(count) = count else { return };
            let message = &**message;
            if kind == "token" {
                tracing::error!(
                    status,
                    count,
                    "the service refuses the token: {message}; it is read and tried again every 30 s"
                );
            } else {
                tracing::warn!(
                    event.id = event,
                    status,
                    attempt,
                    count,
                    kind,
                    "the service refused an event: {message}"
                );
            }
        }
        Says::Nothing { why } => {
            if let Some(count) = trouble.admit("no_answer", now) {
                tracing::warn!(attempt, count, "the service did not answer: {why}");
            }
        }
    }
}

/// Says that a source is faster than it is read, at most once a minute.
pub(super) fn lost(trouble: &mut Throttle<&'static str>, source: &str, now: Timestamp) {
    if let Some(count) = trouble.admit("overrun", now) {
        tracing::warn!(
            source,
            count,
            "messages came faster than they are read and the oldest went; \
             highs are withheld until a low is delivered or max_gap has passed"
        );
    }
}

/// Why a whole message was left out after it was read.
pub fn sentence(refusal: &Refusal) -> String {
    format!("the message of {} at {} was left out", refusal.source, refusal.at)
}

/// Tells an operator that a trigger can never fire, and with which numbers it could.
pub fn too_slow(routes: &Routes, route: RouteId, slow: &cadence::TooSlow) {
    let Some(route) = routes.get(route) else { return };
    let expect = route.expect();
    tracing::warn!(
        route = route.kind().as_str(),
        event.source = &*slow.source,
        gap_seconds = slow.gap.as_secs_f64(),
        "the trigger can never fire: the worker speaks every {:.1} s, but `consecutive: {}` needs gaps of at \
         most {} s; `consecutive: 2` with `max_gap_seconds: {}` in trigger and route would work",
        slow.gap.as_secs_f64(),
        expect.consecutive,
        expect.max_gap.as_secs(),
        slow.max_gap_seconds,
    );
}
