//! The five operations of A2A that are served.

use agent_wire::a2a::list::{ListTasks, history_length};
use agent_wire::a2a::request::{Submission, object};
use agent_wire::a2a::task::SendResponse;
use agent_wire::value::{TaskId, TraceParent};

use super::backend::Backend;
use super::error::Error;
use super::page;
use super::reply::{Reply, success, success_json};
use crate::refusal::Refusal;

/// `message:send`: the task at once, or when it has ended.
///
/// Dropping it (the client hung up) leaves a task that was made running.
pub(super) async fn send<B: Backend>(
    backend: &B,
    body: &[u8],
    trace: Option<TraceParent>,
) -> Result<Reply, Error> {
    let message = Submission { trace, ..Submission::parse(body)? };
    if let Some(id) = &message.task_id {
        return Err(match backend.get(id).await? {
            Some(_) => Error::Unsupported("continuing a task"),
            None => Error::Refused(Refusal::TaskNotFound),
        });
    }
    let (wait, length) = (!message.return_immediately, message.history_length);
    let mut task = backend.submit(message).await?;
    if wait && !task.status.state.is_terminal() {
        task = backend.ended(&task.id).await?;
    }
    task.cut_history(length);
    success(&SendResponse { task })
}

/// `GET /tasks/{id}`.
pub(super) async fn get<B: Backend>(backend: &B, id: &str, query: &str) -> Result<Reply, Error> {
    let length = history_length(query)?;
    let mut task = backend.get(&task_id(id)?).await?.ok_or(Refusal::TaskNotFound)?;
    task.cut_history(length);
    success(&task)
}

/// `GET /tasks`.
pub(super) async fn list<B: Backend>(backend: &B, query: &str) -> Result<Reply, Error> {
    let query = ListTasks::parse(query)?;
    let page = backend.list(&query).await?;
    Ok(success_json(page::print(&query, page)?))
}

/// `POST /tasks/{id}:cancel`; what an object in the body says does not matter.
pub(super) async fn cancel<B: Backend>(backend: &B, id: &str, body: &[u8]) -> Result<Reply, Error> {
    if !body.is_empty() {
        object(body)?;
    }
    success(&backend.cancel(&task_id(id)?).await?)
}

/// What cannot be the id of a task is the id of no task.
fn task_id(id: &str) -> Result<TaskId, Error> {
    TaskId::new(id).map_err(|_never_made| Error::Refused(Refusal::TaskNotFound))
}
