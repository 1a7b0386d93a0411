//! The changes that can be asked of the writer, and what each does inside a transaction.
//!
//! Every change reads, decides by a rule of `agent_core`, and only then writes: a refusal leaves nothing
//! behind. What the world may know is collected in [`Effects`] and published after the commit.

use agent_core::prompt;
use agent_core::queue::{self, Admission, Load};
use agent_core::receipt::{self, Answer, Key, Receipt, Seen};
use agent_core::task::{self, Cancel, Ending};
use agent_core::trigger::{self, Verdict};
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::Task;
use agent_wire::canonical::Digest;
use agent_wire::event::{Event, Reason};
use agent_wire::value::{ContextId, TaskId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use tokio_util::sync::CancellationToken;

use super::book::{
    Book, Decision, Effects, EventTaken, Handed, Held, Limits, Returned, Taken, answer_of, refusal,
};
use super::error::Result;
use super::tasks::{self, New, Place};
use super::{read, receipts, triggers};
use crate::refusal::Refusal;

/// One transaction: the connection, the counts, and what will be public.
pub(super) struct Step<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) limits: &'a Limits,
    pub(super) book: &'a mut Book,
    pub(super) effects: &'a mut Effects,
    /// Whether somebody waits for this task, and wants to see it ended.
    pub(super) awaited: &'a (dyn Fn(&TaskId) -> bool + Sync),
}

impl Step<'_> {
    /// Takes a message.
    pub(super) async fn submit(
        &mut self,
        message: &Submission,
        id: TaskId,
        context: &ContextId,
        now: Timestamp,
    ) -> Result<Decision<Taken>> {
        let key = Key::message(&message.message_id);
        let content = message.digest();
        match self.seen(&key, content).await? {
            Seen::Never => {}
            Seen::Before(answer) => return Ok(Ok(Taken::Before(answer))),
            Seen::Conflict(conflict) => return Ok(Err(refusal(conflict, "messageId"))),
        }
        if let Err(refusal) = self.make_room().await? {
            return Ok(Err(refusal));
        }
        self.queue(&id, context, &New::Message(message), now).await?;
        self.file(key, Receipt { content, answer: Answer::Task(id.clone()) }).await?;
        let task = super::fresh::of_message(message, id, context, now);
        Ok(Ok(Taken::New(Box::new(task))))
    }

    /// Takes an event that the limiter let pass: steps 2 and 4 to 9 of CONTRACT, section 4.
    pub(super) async fn event(
        &mut self,
        event: &Event,
        id: TaskId,
        now: Timestamp,
    ) -> Result<Decision<EventTaken>> {
        let key = Key::event(event.source(), event.id());
        let content = event.digest();
        match self.seen(&key, content).await? {
            Seen::Never => {}
            Seen::Before(answer) => return Ok(Ok(EventTaken::before(answer))),
            Seen::Conflict(conflict) => return Ok(Err(refusal(conflict, "event id"))),
        }
        let answer = match self.limits.trigger(event) {
            None => Answer::Refused(Reason::NoMatchingTrigger),
            Some(spec) => match self.trigger(spec, event, id, now).await? {
                Ok(answer) => answer,
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        self.file(key, Receipt { content, answer: answer.clone() }).await?;
        Ok(Ok(EventTaken { answer: answer_of(answer), repeated: false }))
    }

    async fn trigger(
        &mut self,
        spec: &trigger::Spec,
        event: &Event,
        id: TaskId,
        now: Timestamp,
    ) -> Result<Decision<Answer>> {
        let before = triggers::read(self.connection, &spec.source, &spec.kind).await?;
        let (after, verdict) =
            trigger::step(spec, before, event.timestamp(), event.confidence(), now);
        let answer = match verdict {
            Verdict::Wait(reason) => Answer::Refused(reason),
            Verdict::Fire => {
                // A full queue leaves the trigger as it was, so that the same event fires when it comes again.
                if let Err(refusal) = self.make_room().await? {
                    return Ok(Err(refusal));
                }
                let context = context(spec)?;
                let new = New::Event {
                    event,
                    instructions: &spec.prompt,
                    expires_at: spec.expires_at(event.timestamp()),
                };
                self.queue(&id, &context, &new, now).await?;
                self.effects.expiry = true;
                Answer::Task(id)
            }
        };
        if after != before {
            triggers::write(self.connection, &spec.source, &spec.kind, after).await?;
        }
        Ok(Ok(answer))
    }

    /// Cancels a task.
    pub(super) async fn cancel(
        &mut self,
        id: &TaskId,
        message_id: &str,
        now: Timestamp,
    ) -> Result<Decision<Option<Task>>> {
        let Some((sequence, state)) = tasks::find(self.connection, id).await? else {
            return Ok(Err(Refusal::TaskNotFound));
        };
        match task::cancel(state) {
            Cancel::TooLate => return Ok(Err(Refusal::NotCancelable)),
            Cancel::Already => {}
            Cancel::Now => {
                let place = Place { sequence, id: id.clone() };
                self.end(&place, &Ending::Canceled, message_id, now).await?;
                self.effects.stop.extend(self.book.stop_of(sequence));
            }
        }
        Ok(Ok(read::task_inside(self.connection, id).await?))
    }

    /// Takes a task back from the worker, and records how it ended; true unless it had ended before.
    pub(super) async fn take_back(
        &mut self,
        returned: &Returned,
        result_id: &str,
        now: Timestamp,
    ) -> Result<bool> {
        if self.book.stop_of(returned.place.sequence).is_some() {
            self.book.held = None;
        }
        match &returned.ending {
            Some(ending) => self.end(&returned.place, ending, result_id, now).await,
            None => Ok(false),
        }
    }

    /// Hands the next task to the worker; ends those first that have expired.
    pub(super) async fn hand_out(
        &mut self,
        mut new_id: impl FnMut() -> String,
        now: Timestamp,
    ) -> Result<Option<Box<Handed>>> {
        while self.expire(&mut new_id, now).await? {}
        let Some((sequence, claimed)) = tasks::next(self.connection).await? else {
            return Ok(None);
        };
        tasks::claim(self.connection, sequence, self.book.moment(now)).await?;
        self.effects.expiry = true;
        // Known here before the worker has it: a cancel in the same transaction must reach it.
        let stop = CancellationToken::new();
        self.book.held = Some(Held { sequence, stop: stop.clone() });
        let place = Place { sequence, id: claimed.task.clone() };
        Ok(Some(Box::new(Handed { place, claimed, stop })))
    }

    /// Ends the queued tasks that have expired; true when there may be more.
    pub(super) async fn expire(
        &mut self,
        mut new_id: impl FnMut() -> String,
        now: Timestamp,
    ) -> Result<bool> {
        let due = tasks::due(self.connection, now).await?;
        for place in &due {
            self.end(place, &Ending::Rejected, &new_id(), now).await?;
        }
        Ok(!due.is_empty())
    }

    /// Ends a task; false when it had ended before, and then nothing changes.
    pub(super) async fn end(
        &mut self,
        place: &Place,
        ending: &Ending,
        result_id: &str,
        now: Timestamp,
    ) -> Result<bool> {
        let at = self.book.moment(now);
        if !tasks::end(self.connection, place.sequence, ending, result_id, at).await? {
            return Ok(false);
        }
        self.book.pending = self.book.pending.saturating_sub(1);
        let shown = if (self.awaited)(&place.id) {
            read::task_inside(self.connection, &place.id).await?
        } else {
            None
        };
        self.effects.ended.push((place.id.clone(), shown));
        self.effects.expiry = true;
        Ok(true)
    }

    async fn seen(&mut self, key: &Key, content: Digest) -> Result<Seen> {
        let filed = receipts::find(self.connection, key).await?;
        let retained = match filed.as_ref().map(|receipt| &receipt.answer) {
            Some(Answer::Task(task)) => tasks::find(self.connection, task).await?.is_some(),
            Some(Answer::Refused(_)) | None => false,
        };
        Ok(receipt::judge(filed.as_ref(), content, |_| retained))
    }

    async fn make_room(&mut self) -> Result<Decision<()>> {
        let Book { pending, retained, .. } = *self.book;
        let held = self.book.held.as_ref().map(|held| held.sequence);
        // Only a full store asks for the oldest: the usual path needs no look-up.
        let oldest = if retained < self.limits.max_tasks {
            None
        } else {
            tasks::oldest_ended(self.connection, held).await?
        };
        let load = Load { pending, retained, evictable: oldest.is_some() };
        match queue::admit(load, self.limits.max_tasks) {
            Admission::Full(full) => Ok(Err(Refusal::Exhausted {
                message: full.message(self.limits.max_tasks),
                retry_after_seconds: queue::RETRY_AFTER_SECONDS,
            })),
            Admission::Admit => Ok(Ok(())),
            Admission::Evict => {
                if let Some(oldest) = oldest {
                    tasks::delete(self.connection, oldest.sequence).await?;
                    self.book.retained = self.book.retained.saturating_sub(1);
                    self.effects.removed.push(oldest.id);
                }
                Ok(Ok(()))
            }
        }
    }

    async fn queue(
        &mut self,
        id: &TaskId,
        context: &ContextId,
        new: &New<'_>,
        now: Timestamp,
    ) -> Result<()> {
        let at = self.book.moment(now);
        tasks::insert(self.connection, id, context, new, at).await?;
        self.book.pending = self.book.pending.saturating_add(1);
        self.book.retained = self.book.retained.saturating_add(1);
        self.effects.queued.push(id.clone());
        Ok(())
    }

    async fn file(&mut self, key: Key, receipt: Receipt) -> Result<()> {
        receipts::insert(self.connection, &key, &receipt).await?;
        self.book.receipts = self.book.receipts.saturating_add(1);
        self.effects.filed.push((key, receipt));
        while self.book.receipts > receipt::WINDOW {
            self.book.receipts = self.book.receipts.saturating_sub(1);
            self.effects.forgotten.extend(receipts::delete_oldest(self.connection).await?);
        }
        Ok(())
    }
}

fn context(spec: &trigger::Spec) -> Result<ContextId> {
    prompt::context_of_event(&spec.source, &spec.kind)
        .map_err(|error| super::row::impossible("tasks", "context_id", &spec.source, error))
}
