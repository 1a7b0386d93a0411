//! Why the core turns a call down, and a page of tasks: what `intake` answers and `http` shows.
//!
//! A refusal is a value, not an error: the caller may act on it. Which HTTP status and reason each one
//! gets is decided in `http::error`.

use agent_wire::a2a::list::Cursor;
use agent_wire::a2a::task::Task;

/// Seconds after which a client may try again when the service stops. Source: CONTRACT, section 2.
pub const STOPPING_RETRY_AFTER_SECONDS: u32 = 5;

/// Why a call was turned down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such task is retained.
    #[error("no such task")]
    TaskNotFound,
    /// The task has ended otherwise than by a cancel.
    #[error("the task has ended and cannot be cancelled")]
    NotCancelable,
    /// The identifier stands for other content, or for a task that is no longer retained.
    #[error("{0}")]
    AlreadyExists(String),
    /// A limit is reached: pending tasks, retained tasks, or events a second.
    #[error("{message}")]
    Exhausted {
        /// Which limit, for the client.
        message: String,
        /// When to try again.
        retry_after_seconds: u32,
    },
    /// The service is stopping.
    #[error("the service is stopping")]
    Unavailable {
        /// When to try again: [`STOPPING_RETRY_AFTER_SECONDS`].
        retry_after_seconds: u32,
    },
    /// The storage failed; it stays so until the process ends. The cause is in the log.
    #[error("the service failed")]
    Internal,
}

impl Refusal {
    /// The refusal of a service that stops.
    pub const STOPPING: Self =
        Self::Unavailable { retry_after_seconds: STOPPING_RETRY_AFTER_SECONDS };
}

/// One page of a listing, as the store reads it. How many of its tasks fit into an answer is decided
/// in `http`, which makes the page token from the cursor of the last one that does.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPage {
    /// At most `page_size` tasks, newest status first.
    pub tasks: Vec<Listed>,
    /// Whether there are more tasks after the last of these.
    pub more: bool,
    /// How many tasks match the filters on all pages, whatever the cursor.
    pub total: u64,
}

/// A task and its place in the listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The task, whole: `http` leaves out what was not asked for.
    pub task: Task,
    /// Where the next page goes on when this is the last task of a page.
    pub cursor: Cursor,
}
