//! The one task that writes: it takes changes, commits many in one transaction, and answers each only
//! after its commit.
//!
//! While one commit waits for the disk, the next changes gather, so that throughput grows with load
//! while a lone change waits for one sync only. An error of the database is final: what is not durable
//! is never acknowledged, and every later change is refused, until the process has ended.

use std::sync::Arc;

use agent_core::task::Ending;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::Task;
use agent_wire::event::Event;
use agent_wire::value::{ContextId, TaskId};
use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};
use uuid::Uuid;

use super::change::{Book, Decision, Effects, EventTaken, Limits, Step, Taken};
use super::error::{Doing, Result, chain};
use super::row::Claimed;
use super::shared::{Running, Shared};
use super::tasks::{self, Place};
use crate::refusal::Refusal;

/// How many changes one transaction may hold: enough for all connections, and a bound for the memory
/// and the time that one commit takes.
const MAX_BATCH: usize = 256;

/// How many changes may wait before their callers do. One a connection, and some for the worker.
pub(super) const MAX_WAITING: usize = 600;

/// Where the answer to a change goes.
pub(super) type Reply<T> = oneshot::Sender<Decision<T>>;

/// A task that was handed to the worker.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) place: Place,
    pub(super) claimed: Claimed,
    /// Cancelled when the task was cancelled, or when the storage failed.
    pub(super) stop: CancellationToken,
}

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
    /// The worker asks for the next task.
    Claim { now: Timestamp, reply: Reply<Option<Box<Handed>>> },
    /// The worker says how a task ended; false when it had ended before.
    End { place: Place, ending: Ending, now: Timestamp, reply: Reply<bool> },
    /// The worker has returned from a task.
    Release { place: Place, reply: Reply<()> },
    /// The wall clock says that something may have expired.
    Expire { now: Timestamp, reply: Reply<()> },
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
        Self { connection, changes, limits, book, shared }
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
                self.shared.fail();
                self.refuse_all(batch).await;
                return;
            }
        }
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
            answers.push(apply(step, change, &self.shared).await?);
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
        let wake = !effects.queued.is_empty() || effects.released;
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
        for task in &effects.stop {
            self.shared.stop(task);
        }
        if wake {
            self.shared.wake.notify_one();
        }
    }
}

/// Applies one change inside the transaction; the answer is to be given after the commit.
async fn apply(mut step: Step<'_>, change: Change, shared: &Arc<Shared>) -> Result<Answer> {
    let new_id = || Uuid::new_v4().to_string();
    Ok(match change {
        Change::Submit { message, id, context, now, reply } => {
            later(reply, step.submit(&message, id, &context, now).await?)
        }
        Change::Event { event, id, now, reply } => later(reply, step.event(&event, id, now).await?),
        Change::Cancel { id, now, reply } => later(reply, step.cancel(&id, &new_id(), now).await?),
        Change::Claim { now, reply } => {
            let shared = Arc::clone(shared);
            let handed = step.claim(new_id, now).await?.map(|(place, claimed)| {
                Box::new(Handed { place, claimed, stop: CancellationToken::new() })
            });
            // Known before the worker is: a cancel in the next transaction must find it.
            let running = handed
                .as_ref()
                .map(|handed| Running { task: handed.place.id.clone(), stop: handed.stop.clone() });
            Box::new(move || {
                if running.is_some() {
                    shared.set_running(running);
                }
                give(reply, Ok(handed));
            })
        }
        Change::End { place, ending, now, reply } => {
            later(reply, Ok(step.end(&place, &ending, &new_id(), now).await?))
        }
        Change::Release { place, reply } => {
            step.release(&place);
            later(reply, Ok(()))
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
        Change::Claim { reply, .. } => give(reply, Err(Refusal::Internal)),
        Change::End { reply, .. } => give(reply, Err(Refusal::Internal)),
        Change::Release { reply, .. } | Change::Expire { reply, .. } => {
            give(reply, Err(Refusal::Internal));
        }
    }
}

/// Reads the counts, and ends what was working when the process before died.
pub(super) async fn recover(connection: &mut SqliteConnection, now: Timestamp) -> Result<Book> {
    let mut transaction =
        connection.begin_with("BEGIN IMMEDIATE").await.doing("begin a transaction")?;
    for place in tasks::working(&mut transaction).await? {
        let id = Uuid::new_v4().to_string();
        tasks::end(&mut transaction, place.sequence, &Ending::interrupted(), &id, now).await?;
        info!(task.id = %place.id, "a task that was working when the service stopped is failed");
    }
    let (pending, retained) = tasks::counts(&mut transaction).await?;
    transaction.commit().await.doing("commit")?;
    Ok(Book { pending, retained, receipts: 0, held: None })
}

/// The error of a writer that has gone.
pub(super) fn gone<T>(_: T) -> Refusal {
    Refusal::Internal
}
