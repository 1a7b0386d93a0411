//! The durable state: one SQLite database in a directory that one process owns.
//!
//! ```text
//!  intake, worker ──Change──▶ Writer (one connection, group commit) ──after commit──▶ Shared
//!        └───────── reads ──▶ read-only connections                     mirror, waiters, wake-ups
//! ```
//!
//! sqlx does not leave this module. Decisions are made by `agent_core`; here they are read and written.

mod binding;
mod book;
mod change;
mod directory;
mod error;
mod fresh;
mod open;
mod read;
mod receipts;
mod row;
mod shared;
mod tasks;
mod triggers;
mod writer;

use std::path::Path;
use std::sync::Arc;

use agent_core::receipt::{Answer, Key, Seen};
use agent_core::task::Ending;
use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::Task;
use agent_wire::event::{Event, EventAnswer};
use agent_wire::value::{ContextId, TaskId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::sqlite::SqlitePool;
use tokio::sync::{mpsc, oneshot, watch};

pub use self::book::Limits;
pub use self::directory::{left_beside, under_root};
pub use self::error::Error;
pub use self::writer::Writer;

use self::book::{Handed, Returned, Taken, Turned, answer_of, refusal};
use self::directory::Directory;
use self::shared::{Mirror, Shared};
use self::writer::{Change, Next, Reply};
use crate::refusal::{Refusal, TaskPage};
use crate::waiters::Told;

/// What a state directory is opened with.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The state directory.
    pub directory: &'a Path,
    /// The effective agent configuration without the fields that equal their defaults.
    pub configuration: &'a Value,
    /// What the writer has to know of it.
    pub limits: Limits,
    /// The service's wall clock.
    pub now: Timestamp,
}

/// A handle on the state. Cloning it is cheap; the writer ends when the last one is gone.
#[derive(Debug, Clone)]
pub struct Store {
    readers: SqlitePool,
    changes: mpsc::Sender<Change>,
    shared: Arc<Shared>,
    /// Held until the last handle is gone: it owns the lock.
    directory: Arc<Directory>,
}

/// A task that the worker claimed, and how it is told to stop.
#[derive(Debug)]
pub(crate) struct Claim(Box<Handed>);

impl Claim {
    pub(crate) fn task(&self) -> &TaskId {
        &self.0.place.id
    }

    /// Cancelled when a client cancelled the task, or when the storage failed.
    pub(crate) fn stop(&self) -> tokio_util::sync::CancellationToken {
        self.0.stop.clone()
    }

    /// What is asked.
    pub(crate) fn job(&self, deadline: tokio::time::Instant) -> crate::runner::Job {
        let claimed = &self.0.claimed;
        crate::runner::Job {
            task: claimed.task.clone(),
            context: claimed.context.clone(),
            origin: claimed.origin.clone(),
            prompt: claimed.prompt.clone(),
            depth: claimed.depth,
            deadline,
            trace: claimed.trace.clone(),
        }
    }
}

impl Store {
    /// Opens a state directory, and makes it right: modes, lock, schema, configuration, and the tasks
    /// that were working when the process before died.
    ///
    /// The returned writer has to run for as long as a store handle lives.
    ///
    /// # Errors
    /// When another process owns the directory, it belongs to another configuration, a later version
    /// wrote it, or the file system refuses.
    pub async fn open(opening: Opening<'_>) -> Result<(Self, Writer), Error> {
        let directory = Directory::open(opening.directory)?;
        let path = directory.database();
        let mut connection = open::writer(&path).await?;
        open::bind(&mut connection, directory.path(), &path, opening.configuration).await?;
        let mut book = writer::recover(&mut connection, opening.now).await?;
        let receipts = receipts::all(&mut connection).await?;
        book.receipts = receipts.len();
        let next_expiry = tasks::next_expiry(&mut connection).await?;
        let readers = open::readers(&path).await?;
        let retained = read::ids(&readers).await?;
        let mirror = Mirror {
            receipts: receipts.into_iter().collect(),
            retained: retained.into_iter().collect(),
        };
        let shared = Arc::new(Shared::new(mirror, next_expiry));
        let (changes, waiting) = mpsc::channel(writer::MAX_WAITING);
        let writer = Writer::new(connection, waiting, opening.limits, book, Arc::clone(&shared));
        Ok((Self { readers, changes, shared, directory: Arc::new(directory) }, writer))
    }

    /// The state directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Commits and changes since the start: a change is a submission, an event, a claim, an end.
    pub fn counted(&self) -> (u64, u64) {
        self.shared.counted()
    }

    /// Waits until a write has failed; never returns otherwise.
    pub async fn failed(&self) {
        let mut failed = self.shared.failed.subscribe();
        if failed.wait_for(|failed| *failed).await.is_err() {
            // The sender lives in `self`; to wait for ever is what a store that is well does.
            std::future::pending::<()>().await;
        }
    }

    /// Whether a write has failed.
    pub fn has_failed(&self) -> bool {
        *self.shared.failed.borrow()
    }

    /// What a message is, by what is committed.
    pub(crate) fn seen_message(&self, message: &Submission) -> Result<Option<TaskId>, Refusal> {
        match self.shared.seen(&Key::message(&message.message_id), message.digest()) {
            // A message's receipt always names a task.
            Seen::Never | Seen::Before(Answer::Refused(_)) => Ok(None),
            Seen::Before(Answer::Task(task)) => Ok(Some(task)),
            Seen::Conflict(conflict) => Err(refusal(conflict, "messageId")),
        }
    }

    /// What an event is, by what is committed.
    pub(crate) fn seen_event(&self, event: &Event) -> Result<Option<EventAnswer>, Refusal> {
        match self.shared.seen(&Key::event(event.source(), event.id()), event.digest()) {
            Seen::Never => Ok(None),
            Seen::Before(answer) => Ok(Some(answer_of(answer))),
            Seen::Conflict(conflict) => Err(refusal(conflict, "event id")),
        }
    }

    /// Queues the task of a message; an equal message that came before gives its task.
    pub(crate) async fn submit(
        &self,
        message: Submission,
        id: TaskId,
        context: ContextId,
        now: Timestamp,
    ) -> Result<Submitted, Refusal> {
        let message = Box::new(message);
        let taken =
            self.change(|reply| Change::Submit { message, id, context, now, reply }).await?;
        match taken {
            Taken::New(task) => Ok(Submitted::New(task)),
            Taken::Before(Answer::Task(task)) => Ok(Submitted::Before(task)),
            Taken::Before(Answer::Refused(_)) => Err(Refusal::Internal),
        }
    }

    /// Takes an event that the limiter let pass; true with an answer that was recorded before.
    pub(crate) async fn event(
        &self,
        event: Event,
        id: TaskId,
        now: Timestamp,
    ) -> Result<(EventAnswer, bool), Refusal> {
        let event = Box::new(event);
        let taken = self.change(|reply| Change::Event { event, id, now, reply }).await?;
        Ok((taken.answer, taken.repeated))
    }

    /// Cancels a task, and returns it.
    pub(crate) async fn cancel(&self, id: TaskId, now: Timestamp) -> Result<Task, Refusal> {
        let task = self.change(|reply| Change::Cancel { id, now, reply }).await?;
        task.ok_or(Refusal::TaskNotFound)
    }

    /// Hands out the next task.
    pub(crate) async fn claim(&self, now: Timestamp) -> Result<Option<Claim>, Refusal> {
        Ok(self.turn(None, Next::Take, now).await?.next.map(Claim))
    }

    /// Takes a task back whose runner has returned: nothing of it acts any more.
    ///
    /// `ending` is how it ended, or none when that is recorded already. False when it had ended before.
    pub(crate) async fn give_back(
        &self,
        claim: &Claim,
        ending: Option<Ending>,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        Ok(self.turn(Some((claim, ending)), Next::Leave, now).await?.recorded)
    }

    /// Takes a task back and hands out the next one, in one commit.
    pub(crate) async fn go_on(
        &self,
        claim: &Claim,
        ending: Option<Ending>,
        now: Timestamp,
    ) -> Result<(bool, Option<Claim>), Refusal> {
        let Turned { recorded, next } = self.turn(Some((claim, ending)), Next::Take, now).await?;
        Ok((recorded, next.map(Claim)))
    }

    async fn turn(
        &self,
        returned: Option<(&Claim, Option<Ending>)>,
        next: Next,
        now: Timestamp,
    ) -> Result<Turned, Refusal> {
        let returned =
            returned.map(|(claim, ending)| Returned { place: claim.0.place.clone(), ending });
        self.change(|reply| Change::Turn { returned, next, now, reply }).await
    }

    /// Ends a claimed task whose runner has not returned yet; false when it had ended before, and then
    /// nothing changes.
    pub(crate) async fn end(
        &self,
        claim: &Claim,
        ending: Ending,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        let place = claim.0.place.clone();
        self.change(|reply| Change::End { place, ending, now, reply }).await
    }

    /// Ends the queued tasks whose observations are too old by now.
    pub(crate) async fn expire(&self, now: Timestamp) -> Result<(), Refusal> {
        self.change(|reply| Change::Expire { now, reply }).await
    }

    /// When the next queued task expires, by the wall clock; changes are seen.
    pub(crate) fn next_expiry(&self) -> watch::Receiver<Option<Timestamp>> {
        self.shared.next_expiry.subscribe()
    }

    /// Completes when a task may be there to claim. One permit is kept for who comes late.
    pub(crate) async fn woken(&self) {
        self.shared.wake.notified().await;
    }

    /// Registers for the end of a task; look at the task after that.
    pub(crate) fn await_end(&self, id: &TaskId) -> oneshot::Receiver<Told> {
        self.shared.waiters.register(id)
    }

    /// Reads one task.
    pub(crate) async fn task(&self, id: &TaskId) -> Result<Option<Task>, Refusal> {
        read::task(&self.readers, id).await.map_err(|error| unreadable(&error))
    }

    /// Reads a page of tasks.
    pub(crate) async fn page(&self, list: &ListTasks) -> Result<TaskPage, Refusal> {
        read::page(&self.readers, list).await.map_err(|error| unreadable(&error))
    }

    /// Closes the readers. The writer closes the database when the last handle is gone.
    pub async fn close(self) {
        self.readers.close().await;
    }

    async fn change<T>(&self, make: impl FnOnce(Reply<T>) -> Change) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.changes.send(make(reply)).await.map_err(writer::gone)?;
        // A dropped reply is a write that failed.
        answer.await.map_err(writer::gone)?
    }
}

/// A message's task: new, or known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Submitted {
    /// As it was queued.
    New(Box<Task>),
    /// Made by an equal message before.
    Before(TaskId),
}

fn unreadable(error: &Error) -> Refusal {
    tracing::error!(error = error::chain(error), "cannot read the state");
    Refusal::Internal
}

#[cfg(test)]
mod tests;
