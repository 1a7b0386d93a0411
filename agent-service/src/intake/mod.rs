//! The one door to the core: messages and events in, tasks out.
//!
//! The order of the checks is the contract's: the stop, then the receipt, which is looked up before
//! every limit, then the limiter of events, then the writer, which looks again inside its transaction
//! (two equal posts may arrive together). The commit is the acknowledgement.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::Task;
use agent_wire::event::{Event, EventAnswer};
use agent_wire::value::{ContextId, TaskId};
use service_kit::clock::Clock;
use service_kit::pace::TokenBucket;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::http::Backend;
use crate::refusal::{Refusal, TaskPage};
use crate::store::{Store, Submitted};

/// One new event each 100 ms in the long run. Source: CONTRACT, section 4, step 3.
const EVENT_INTERVAL: Duration = Duration::from_millis(100);

/// How many new events may come at once. Source: CONTRACT, section 4, step 3.
const EVENT_BURST: u32 = 10;

/// What a producer that is too fast is told to wait, in seconds. Source: CONTRACT, section 4, step 3.
const EVENT_RETRY_AFTER_SECONDS: u32 = 1;

/// The door. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Intake {
    store: Store,
    clock: Clock,
    /// Never held over an await.
    limiter: Arc<Mutex<TokenBucket>>,
    stopping: CancellationToken,
    closed: CancellationToken,
}

impl Intake {
    /// Opens the door.
    ///
    /// From `stopping` on nothing new is taken; from `closed` on, which the worker cancels after the
    /// last end that it records, nobody waits for a task any more.
    pub fn new(
        store: Store,
        clock: Clock,
        stopping: CancellationToken,
        closed: CancellationToken,
    ) -> Self {
        let limiter = Arc::new(Mutex::new(TokenBucket::new(EVENT_INTERVAL, EVENT_BURST)));
        Self { store, clock, limiter, stopping, closed }
    }

    /// A storage that failed answers nothing any more, not even what it could still read.
    fn well(&self) -> Result<(), Refusal> {
        if self.store.has_failed() { Err(Refusal::Internal) } else { Ok(()) }
    }

    /// Whether anything new is taken.
    ///
    /// Once the service stops, a repeated submission is turned down as well: its task may not end here,
    /// and the same submission finds it after the restart.
    fn open(&self) -> Result<(), Refusal> {
        self.well()?;
        if self.stopping.is_cancelled() { Err(Refusal::STOPPING) } else { Ok(()) }
    }

    fn limiter(&self) -> std::sync::MutexGuard<'_, TokenBucket> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task that an equal message made before.
    async fn known(&self, id: &TaskId) -> Result<Task, Refusal> {
        // It can go between the two look-ups only by eviction.
        let gone = "this messageId was used before, and the task that it made is no longer retained; use a new one";
        self.store.task(id).await?.ok_or_else(|| Refusal::AlreadyExists(gone.to_owned()))
    }
}

fn new_id() -> String {
    Uuid::new_v4().to_string()
}

fn task_id() -> Result<TaskId, Refusal> {
    TaskId::new(new_id()).map_err(|_too_long| Refusal::Internal)
}

impl Backend for Intake {
    async fn submit(&self, message: Submission) -> Result<Task, Refusal> {
        self.open()?;
        if let Some(task) = self.store.seen_message(&message)? {
            return self.known(&task).await;
        }
        let context = match &message.context_id {
            Some(context) => context.clone(),
            None => ContextId::new(new_id()).map_err(|_too_long| Refusal::Internal)?,
        };
        match self.store.submit(message, task_id()?, context, self.clock.now()).await? {
            Submitted::New(task) => Ok(*task),
            Submitted::Before(task) => self.known(&task).await,
        }
    }

    async fn event(&self, event: Event) -> Result<EventAnswer, Refusal> {
        self.open()?;
        if let Some(answer) = self.store.seen_event(&event)? {
            return Ok(answer);
        }
        self.limiter().take(self.clock.uptime()).map_err(|_wait| Refusal::Exhausted {
            message: "at most 10 new events a second are taken, from all sources together"
                .to_owned(),
            retry_after_seconds: EVENT_RETRY_AFTER_SECONDS,
        })?;
        let (answer, repeated) = self.store.event(event, task_id()?, self.clock.now()).await?;
        if repeated {
            // Two equal posts came together; the second is a repetition, and costs nothing.
            self.limiter().refund();
        }
        Ok(answer)
    }

    async fn get(&self, id: &TaskId) -> Result<Option<Task>, Refusal> {
        self.well()?;
        self.store.task(id).await
    }

    async fn list(&self, query: &ListTasks) -> Result<TaskPage, Refusal> {
        self.well()?;
        self.store.page(query).await
    }

    async fn cancel(&self, id: &TaskId) -> Result<Task, Refusal> {
        self.well()?;
        self.store.cancel(id.clone(), self.clock.now()).await
    }

    async fn ended(&self, id: &TaskId) -> Result<Task, Refusal> {
        self.well()?;
        // Registered before the look, so that an end between the two is not missed.
        let end = self.store.await_end(id);
        let task = self.store.task(id).await?.ok_or(Refusal::TaskNotFound)?;
        if task.status.state.is_terminal() {
            return Ok(task);
        }
        tokio::select! {
            biased;
            told = end => match told {
                Ok(Some(task)) => Ok(*task),
                Ok(None) => self.store.task(id).await?.ok_or(Refusal::TaskNotFound),
                Err(_gone) => Err(Refusal::STOPPING),
            },
            () = self.store.failed() => Err(Refusal::Internal),
            () = self.closed.cancelled() => {
                // What ended last may have been this one.
                match self.store.task(id).await? {
                    Some(task) if task.status.state.is_terminal() => Ok(task),
                    Some(_) | None => Err(Refusal::STOPPING),
                }
            }
        }
    }

    fn ready(&self) -> Result<(), &'static str> {
        match self.open() {
            Ok(()) => Ok(()),
            Err(Refusal::Unavailable { .. }) => Err("stopping"),
            Err(
                Refusal::Internal
                | Refusal::TaskNotFound
                | Refusal::NotCancelable
                | Refusal::AlreadyExists(_)
                | Refusal::Exhausted { .. },
            ) => Err("the storage failed"),
        }
    }

    fn failed(&self) -> bool {
        self.store.has_failed()
    }
}
