//! What the HTTP layer needs of the core, and nothing more.
//!
//! `intake` implements it for the service; the tests of this layer use a scripted one. Every future may
//! be dropped at any point, because a client may hang up at any point: a call that was acknowledged
//! stays, and a task that was made runs on.

use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::Task;
use agent_wire::event::{Event, EventAnswer};
use agent_wire::value::TaskId;

use crate::refusal::{Refusal, TaskPage};

/// The core as HTTP sees it.
pub trait Backend: Send + Sync + 'static {
    /// Makes a task of a message, or finds the one that the same message made before. It is on stable
    /// storage when this returns.
    fn submit(&self, message: Submission) -> impl Future<Output = Result<Task, Refusal>> + Send;

    /// Takes an event through the checks of CONTRACT section 4, from step 2 on.
    fn event(&self, event: Event) -> impl Future<Output = Result<EventAnswer, Refusal>> + Send;

    /// The task, if it is retained.
    fn get(&self, id: &TaskId) -> impl Future<Output = Result<Option<Task>, Refusal>> + Send;

    /// One page of tasks.
    fn list(&self, query: &ListTasks) -> impl Future<Output = Result<TaskPage, Refusal>> + Send;

    /// Cancels a task; a cancelled one again is no error.
    fn cancel(&self, id: &TaskId) -> impl Future<Output = Result<Task, Refusal>> + Send;

    /// Waits until the task has ended. [`Refusal::Unavailable`] when the service stops before.
    fn ended(&self, id: &TaskId) -> impl Future<Output = Result<Task, Refusal>> + Send;

    /// Whether new work is taken; else why not, in words that anybody may read.
    fn ready(&self) -> Result<(), &'static str>;

    /// Whether the storage has failed. It stays so, and every authenticated call then is an error.
    fn failed(&self) -> bool;
}
