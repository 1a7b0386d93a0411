//! The one task that writes: it takes changes, commits many in one transaction, and answers each only
//! after its commit.
//!
//! While one commit waits for the disk, the next changes gather, so that throughput grows with load
//! while a lone change waits for one sync only. An error of the database is final: what is not durable
//! is never acknowledged, and every later change is refused, until the process has ended.

use std::sync::Arc;

use agent_core::task::{self, Ending};
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::{Task, TaskState};
use agent_wire::event::Event;
use agent_wire::value::{ContextId, TaskId};
use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};
use uuid::Uuid;

use super::book::{Book, Decision, Effects, EventTaken, Limits, Returned, Taken, Turned};
use super::change::Step;
use super::error::{Doing, Result, chain};
use super::shared::Shared;
use super::tasks::{self, Moment, Place};
use super::triggers;
use crate::refusal::Refusal;

/// How many changes one transaction may hold: enough for all connections, and a bound for the memory
/// and the time that one commit takes.
const MAX_BATCH: usize = 256;

/// How many changes may wait before their callers do. One a connection, and some for the worker.
pub(super) const MAX_WAITING: usize = 600;

/// Where the answer to a change goes.
pub(super) type Reply<T> = oneshot::Sender<Decision<T>>;

/// A change and where its answer goes.
#[derive(Debug)]
pub(super) enum Change {
    /// A message of a client.
    Submit {
        message: Box<Submission>,
        id: TaskId,
        context: ContextId,
        now: Timestamp,
        reply: Reply<Taken>,
    },
    /// An event that the limiter let pass.
    Event { event: Box<Event>, id: TaskId, now: Timestamp, reply: Reply<EventTaken> },
    /// A client's request to cancel.
    Cancel { id: TaskId, now: Timestamp, reply: Reply<Option<Task>> },
    /// The worker has returned from a task, or takes the next one, or both in one commit.
    Turn { returned: Option<Returned>, next: Next, now: Timestamp, reply: Reply<Turned> },
    /// A task ends whose worker has not returned yet; false when it had ended before.
    End { place: Place, ending: Ending, now: Timestamp, reply: Reply<bool> },
    /// The wall clock says that something may have expired.
    Expire { now: Timestamp, reply: Reply<()> },
}

/// Whether the worker takes another task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The one that was submitted first.
    Take,
    /// None: the service stops.
    Leave,
}

/// An answer that waits for the commit.
type Answer = Box<dyn FnOnce() + Send>;

/// The writer: owns the connection, the counts, and nothing else.
pub struct Writer {
    connection: SqliteConnection,
    changes: mpsc::Receiver<Change>,
    limits: Limits,
    book: Book,
    shared: Arc<Shared>,
    guard: FailsWhenDropped,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("book", &self.book).finish_non_exhaustive()
    }
}

impl Writer {
    pub(super) fn new(
        connection: SqliteConnection,
        changes: mpsc::Receiver<Change>,
        limits: Limits,
        book: Book,
        shared: Arc<Shared>,
    ) -> Self {
        let guard = FailsWhenDropped(Some(Arc::clone(&shared)));
        Self { connection, changes, limits, book, shared, guard }
    }

    /// Writes until the last store handle is gone, then closes the database.
    ///
    /// After a failed write it goes on refusing, so that nobody waits for an answer that never comes.
    pub async fn run(mut self) {
        let mut batch = Vec::new();
        while self.changes.recv_many(&mut batch, MAX_BATCH).await > 0 {
            if let Err(error) = self.commit(&mut batch).await {
                error!(
                    error = chain(&error),
                    "the storage failed; the service refuses all work and ends"
                );
                self.shared.failed.send_replace(true);
                if let Some(held) = &self.book.held {
                    held.stop.cancel();
                }
                self.refuse_all(batch).await;
                return;
            }
        }
        self.guard.disarm();
        match self.connection.close().await {
            Ok(()) => info!("the database is closed"),
            Err(error) => {
                error!(error = chain(&error), "cannot close the database");
            }
        }
    }

    async fn refuse_all(mut self, batch: Vec<Change>) {
        batch.into_iter().for_each(refuse);
        while let Some(change) = self.changes.recv().await {
            refuse(change);
        }
    }

    /// Commits a batch and publishes it. On an error the batch holds what was not yet applied; the
    /// answers of what was are dropped, which their callers read as a failure too.
    async fn commit(&mut self, batch: &mut Vec<Change>) -> Result<()> {
        let mut effects = Effects::default();
        let mut answers: Vec<Answer> = Vec::with_capacity(batch.len());
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let mut transaction =
            self.connection.begin_with("BEGIN IMMEDIATE").await.doing("begin a transaction")?;
        let shared = Arc::clone(&self.shared);
        let awaited = move |task: &TaskId| shared.waiters.any(task);
        for change in batch.drain(..) {
            let step = Step {
                connection: &mut transaction,
                limits: &self.limits,
                book: &mut self.book,
                effects: &mut effects,
                awaited: &awaited,
            };
            answers.push(apply(step, change).await?);
        }
        let expiry =
            if effects.expiry { Some(tasks::next_expiry(&mut transaction).await?) } else { None };
        transaction.commit().await.doing("commit")?;
        self.shared.count_commit(count);
        if let Some(expiry) = expiry {
            self.shared.next_expiry.send_replace(expiry);
        }
        self.publish(effects);
        for answer in answers {
            answer();
        }
        Ok(())
    }

    fn publish(&self, effects: Effects) {
        let wake = !effects.queued.is_empty();
        {
            let mut mirror =
                self.shared.mirror.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            mirror.receipts.extend(effects.filed);
            for key in &effects.forgotten {
                mirror.receipts.remove(key);
            }
            mirror.retained.extend(effects.queued);
            for task in &effects.removed {
                mirror.retained.remove(task);
            }
        }
        for (id, task) in &effects.ended {
            self.shared.waiters.ended(id, task.as_ref());
        }
        for stop in &effects.stop {
            stop.cancel();
        }
        if wake {
            self.shared.wake.notify_one();
        }
    }
}

/// Marks the storage as failed when the writer ends without having closed the database, as by a panic:
/// a service that cannot write must not stay up and look well.
struct FailsWhenDropped(Option<Arc<Shared>>);

impl FailsWhenDropped {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for FailsWhenDropped {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.failed.send_replace(true);
        }
    }
}

/// Applies one change inside the transaction; the answer is to be given after the commit.
async fn apply(mut step: Step<'_>, change: Change) -> Result<Answer> {
    let new_id = || Uuid::new_v4().to_string();
    Ok(match change {
        Change::Submit { message, id, context, now, reply } => {
            later(reply, step.submit(&message, id, &context, now).await?)
        }
        Change::Event { event, id, now, reply } => later(reply, step.event(&event, id, now).await?),
        Change::Cancel { id, now, reply } => later(reply, step.cancel(&id, &new_id(), now).await?),
        Change::Turn { returned, next, now, reply } => {
            let recorded = match &returned {
                Some(returned) => step.take_back(returned, &new_id(), now).await?,
                None => false,
            };
            let next = match next {
                Next::Take => step.hand_out(new_id, now).await?,
                Next::Leave => None,
            };
            later(reply, Ok(Turned { recorded, next }))
        }
        Change::End { place, ending, now, reply } => {
            later(reply, Ok(step.end(&place, &ending, &new_id(), now).await?))
        }
        Change::Expire { now, reply } => {
            let more = step.expire(new_id, now).await?;
            // The expiry is looked up again even if nothing was due, lest a stale one spin.
            step.effects.expiry |= !more;
            later(reply, Ok(()))
        }
    })
}

fn later<T: Send + 'static>(reply: Reply<T>, decision: Decision<T>) -> Answer {
    Box::new(move || give(reply, decision))
}

/// Gives an answer; a caller that has gone away needs none.
fn give<T>(reply: Reply<T>, decision: Decision<T>) {
    drop(reply.send(decision));
}

fn refuse(change: Change) {
    match change {
        Change::Submit { reply, .. } => give(reply, Err(Refusal::Internal)),
        Change::Event { reply, .. } => give(reply, Err(Refusal::Internal)),
        Change::Cancel { reply, .. } => give(reply, Err(Refusal::Internal)),
        Change::Turn { reply, .. } => give(reply, Err(Refusal::Internal)),
        Change::End { reply, .. } => give(reply, Err(Refusal::Internal)),
        Change::Expire { reply, .. } => give(reply, Err(Refusal::Internal)),
    }
}

/// Reads the counts, ends what was working when the process before died, and sets the triggers right
/// that a clock ahead of this one has left.
pub(super) async fn recover(connection: &mut SqliteConnection, now: Timestamp) -> Result<Book> {
    let mut transaction =
        connection.begin_with("BEGIN IMMEDIATE").await.doing("begin a transaction")?;
    let mut last_change = tasks::last_change(&mut transaction).await?;
    for place in tasks::working(&mut transaction).await? {
        let Some(ending) = task::after_restart(TaskState::Working) else { continue };
        let id = Uuid::new_v4().to_string();
        last_change = last_change.saturating_add(1);
        let at = Moment { now, change: last_change };
        tasks::end(&mut transaction, place.sequence, &ending, &id, at).await?;
        info!(task.id = %place.id, "a task that was working when the service stopped is failed");
    }
    triggers::correct(&mut transaction, now).await?;
    let (pending, retained) = tasks::counts(&mut transaction).await?;
    transaction.commit().await.doing("commit")?;
    Ok(Book { pending, retained, receipts: 0, last_change, held: None })
}

/// The error of a writer that has gone.
pub(super) fn gone<T>(_: T) -> Refusal {
    Refusal::Internal
}
