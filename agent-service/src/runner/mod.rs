//! Who runs a task: the seam between the queue and the agents.
//!
//! A runner gets one [`Job`] at a time and returns when nothing of it acts any more. When `stop` is
//! cancelled it has to end soon, but may take the time that its processes need to go: the worker has
//! recorded the task's end by then, and only waits to begin the next one.

pub mod child;

use std::pin::Pin;

use agent_wire::event::Event;
use agent_wire::value::{ContextId, DelegationDepth, MessageId, TaskId, TraceParent};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A task as its runner sees it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The task.
    pub task: TaskId,
    /// The group of tasks that it belongs to.
    pub context: ContextId,
    /// Who asked for it.
    pub origin: Origin,
    /// What is asked, in words; an event stands in it as untrusted data.
    pub prompt: String,
    /// How many agents stand between a person and this task.
    pub depth: DelegationDepth,
    /// When the task times out.
    pub deadline: Instant,
    /// The trace of the call that brought it.
    pub trace: Option<TraceParent>,
}

/// Who asked for a task.
#[derive(Debug, Clone)]
pub enum Origin {
    /// An A2A client.
    Message {
        /// The message that made the task.
        id: MessageId,
        /// The message's metadata.
        metadata: Option<Map<String, Value>>,
    },
    /// A sensor, through a trigger.
    Event {
        /// The observation.
        event: Box<Event>,
        /// The trigger's prompt, without the observation.
        instructions: String,
    },
}

/// What came of a job: the answer, or why there is none.
pub type Outcome = Result<String, Failure>;

/// Why a job has no answer; the text becomes the task's status message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// For the one who asked: what went wrong, and what to do.
    pub text: String,
}

impl Failure {
    /// A failure in these words.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// The future of a run.
pub type Run<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// Something that runs tasks.
pub trait Runner: Send + Sync {
    /// Runs one job to its end.
    ///
    /// Returns only when nothing of it acts any more, also after `stop`. Dropping the future is for
    /// the end of the process only.
    fn run(&self, job: Job, stop: CancellationToken) -> Run<'_>;

    /// Ends everything that is kept warm between jobs; called once, at the end of the service.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
