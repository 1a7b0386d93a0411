//! From observations to a task: the steps of a trigger, in their order.
//!
//! A trigger keeps one sequence for its (type, source): how many good observations came in a row, when
//! the last one was seen by its source's clock, and when it last fired by the service's clock. [`step`]
//! folds one observation into it. Steps 1 to 4 (shape, receipt, limiter, no such trigger) come before
//! and need no sequence.
//!
//! Both clocks may be wrong. A `last` that lies ahead of the service's clock is forgotten, or every
//! honest observation would be out of order until that moment comes; a firing time in the future
//! becomes now, so that a cooldown starts again but never grows.

use agent_wire::event::Reason;
use agent_wire::value::{Confidence, EventType, SourceName};
use jiff::{SignedDuration, Timestamp};

#[cfg(test)]
mod tests;

/// How far a source's clock may be ahead of the service's. Source: CONTRACT, section 4, step 5.
pub const MAX_AHEAD: SignedDuration = SignedDuration::from_secs(5);

/// The most triggers that one agent may have. Source: CONTRACT, section 5.
pub const MAX_TRIGGERS: usize = 32;

/// What a trigger waits for, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The type of its events.
    pub kind: EventType,
    /// The source of its events.
    pub source: SourceName,
    /// What the agent is told; 1 to 16,000 bytes.
    pub prompt: String,
    /// What an observation must reach, 0 to 1; at 0 one without a confidence is good as well.
    pub min_confidence: Confidence,
    /// How many good observations in a row fire, 1 to 1000.
    pub consecutive: u32,
    /// A longer gap between two observations starts the sequence again, 1 to 3600 s.
    pub max_gap: SignedDuration,
    /// How long it stays quiet after it fired, 0 to 86,400 s.
    pub cooldown: SignedDuration,
    /// How old an observation may be, and how long its task may be queued, 1 to 3600 s.
    pub max_age: SignedDuration,
}

impl Spec {
    /// When a task made of an observation is no longer worth running.
    ///
    /// At the end of time it saturates: a task that cannot expire is better than a panic.
    pub fn expires_at(&self, observed_at: Timestamp) -> Timestamp {
        observed_at.saturating_add(self.max_age).unwrap_or(Timestamp::MAX)
    }
}

/// What a trigger remembers, also over a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// Good observations in a row.
    pub sequence: u32,
    /// When the last observation in time was seen, by its source's clock, to the nanosecond.
    pub last: Option<Timestamp>,
    /// When the trigger last fired, by the service's clock.
    pub fired: Option<Timestamp>,
}

impl State {
    /// The state as the service's clock allows it.
    ///
    /// A clock that was set back would else leave a `last` that nothing can follow, or a cooldown that
    /// ends far in the future.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        let ahead = |time: Timestamp| time.duration_since(now) > MAX_AHEAD;
        let (sequence, last) = match self.last {
            Some(last) if ahead(last) => (0, None),
            last => (self.sequence, last),
        };
        Self { sequence, last, fired: self.fired.map(|fired| fired.min(now)) }
    }

    /// How long the trigger still stays quiet; zero when it may fire.
    pub fn cooldown_left(self, spec: &Spec, now: Timestamp) -> SignedDuration {
        self.fired.map_or(SignedDuration::ZERO, |fired| {
            spec.cooldown.saturating_sub(now.duration_since(fired)).max(SignedDuration::ZERO)
        })
    }
}

/// What an observation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A task is to be queued. The state counts only if that succeeds.
    Fire,
    /// No task, for this reason.
    Wait(Reason),
}

/// Folds one observation into a trigger's state: steps 5 to 9 of CONTRACT, section 4.
///
/// `now` is the service's wall clock. The returned state is to be stored even when the verdict is to
/// wait, and is the old one where the contract leaves the trigger untouched.
pub fn step(
    spec: &Spec,
    state: State,
    observed_at: Timestamp,
    confidence: Option<Confidence>,
    now: Timestamp,
) -> (State, Verdict) {
    let state = state.at(now);
    let age = now.duration_since(observed_at);
    if age > spec.max_age || age < -MAX_AHEAD {
        return (state, Verdict::Wait(Reason::StaleOrFuture));
    }
    let mut next = state;
    if let Some(last) = state.last {
        if observed_at <= last {
            return (state, Verdict::Wait(Reason::OutOfOrder));
        }
        if observed_at.duration_since(last) > spec.max_gap {
            next.sequence = 0;
        }
    }
    next.last = Some(observed_at);

    let good = match confidence {
        Some(confidence) => confidence >= spec.min_confidence,
        None => spec.min_confidence == Confidence::ZERO,
    };
    if !good {
        next.sequence = 0;
        return (next, Verdict::Wait(Reason::BelowThreshold));
    }

    // It grows during the cooldown too, so that the first good observation after it fires at once.
    next.sequence = next.sequence.saturating_add(1);
    if next.cooldown_left(spec, now) > SignedDuration::ZERO {
        return (next, Verdict::Wait(Reason::Cooldown));
    }
    if next.sequence < spec.consecutive {
        return (next, Verdict::Wait(Reason::WaitingForConsecutive));
    }
    (State { sequence: 0, last: next.last, fired: Some(now) }, Verdict::Fire)
}
