//! What goes into the writer's transactions and comes out of them: limits, counts, answers, effects.

use agent_core::receipt::{Answer, Conflict, Key, Receipt};
use agent_core::task::Ending;
use agent_core::trigger;
use agent_wire::a2a::task::Task;
use agent_wire::event::{Event, EventAnswer};
use agent_wire::value::TaskId;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::row::Claimed;
use super::tasks::{Moment, Place};
use crate::refusal::Refusal;

/// What the writer has to know of the configuration.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How many tasks are retained, 1 to 1000.
    pub max_tasks: u32,
    /// At most 32, unique by source and type.
    pub triggers: Vec<trigger::Spec>,
}

impl Limits {
    pub(super) fn trigger(&self, event: &Event) -> Option<&trigger::Spec> {
        self.triggers
            .iter()
            .find(|spec| spec.source == *event.source() && spec.kind == *event.kind())
    }
}

/// What the writer counts, so that no change has to.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) pending: u32,
    pub(super) retained: u32,
    pub(super) receipts: usize,
    /// The place of the last change of status.
    pub(super) last_change: i64,
    pub(super) held: Option<Held>,
}

impl Book {
    /// A new change of status.
    pub(super) fn moment(&mut self, now: Timestamp) -> Moment {
        self.last_change = self.last_change.saturating_add(1);
        Moment { now, change: self.last_change }
    }

    /// The stop of a task, if a worker holds it.
    pub(super) fn stop_of(&self, sequence: i64) -> Option<CancellationToken> {
        let held = self.held.as_ref().filter(|held| held.sequence == sequence);
        held.map(|held| held.stop.clone())
    }
}

/// The task that a worker holds: its row stays until the worker has returned.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) sequence: i64,
    pub(super) stop: CancellationToken,
}

/// A task that was handed to the worker.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) place: Place,
    pub(super) claimed: Claimed,
    /// Cancelled when the task was cancelled, or when the storage failed.
    pub(super) stop: CancellationToken,
}

/// A task whose worker has returned.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) place: Place,
    /// How it ended; none when that is recorded already.
    pub(super) ending: Option<Ending>,
}

/// What a turn of the worker came to.
#[derive(Debug)]
pub(super) struct Turned {
    /// Whether the ending of the task before was recorded; false when it had ended before.
    pub(super) recorded: bool,
    pub(super) next: Option<Box<Handed>>,
}

/// What becomes public when the transaction is committed.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) filed: Vec<(Key, Receipt)>,
    pub(super) forgotten: Vec<Key>,
    pub(super) queued: Vec<TaskId>,
    pub(super) removed: Vec<TaskId>,
    pub(super) ended: Vec<(TaskId, Option<Task>)>,
    pub(super) stop: Vec<CancellationToken>,
    /// Whether the next expiry may have moved.
    pub(super) expiry: bool,
}

/// How a submission was taken.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Taken {
    /// It made this task.
    New(Box<Task>),
    /// It is known, with this answer.
    Before(Answer),
}

/// A refusal, or an answer that is public after the commit.
pub(super) type Decision<T> = Result<T, Refusal>;

/// What an event was answered, and whether that was a repetition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EventTaken {
    pub(super) answer: EventAnswer,
    pub(super) repeated: bool,
}

impl EventTaken {
    pub(super) fn before(answer: Answer) -> Self {
        Self { answer: answer_of(answer), repeated: true }
    }
}

/// An answer as it goes to the producer.
pub(super) fn answer_of(answer: Answer) -> EventAnswer {
    match answer {
        Answer::Task(task) => EventAnswer::accepted(&task),
        Answer::Refused(reason) => EventAnswer::refused(reason),
    }
}

/// A conflict as it goes to the client.
pub(super) fn refusal(conflict: Conflict, what: &str) -> Refusal {
    Refusal::AlreadyExists(match conflict {
        Conflict::OtherContent => {
            format!("this {what} was used before with other content; use a new one")
        }
        Conflict::TaskGone => {
            format!(
                "this {what} was used before, and the task that it made is no longer retained; use a new one"
            )
        }
    })
}
