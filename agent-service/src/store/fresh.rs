//! A task as it is the moment after it was queued, without reading it back.

use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::{Message, Task, TaskState, TaskStatus};
use agent_wire::value::{ContextId, TaskId};
use jiff::Timestamp;

/// The task that a message made.
pub(super) fn of_message(
    message: &Submission,
    id: TaskId,
    context: &ContextId,
    now: Timestamp,
) -> Task {
    let said = Message {
        message_id: message.message_id.as_str().to_owned(),
        context_id: Some(context.as_str().to_owned()),
        task_id: Some(id.as_str().to_owned()),
        role: message.role,
        parts: message.parts.clone(),
        metadata: message.metadata.clone(),
    };
    let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(now) };
    Task {
        id,
        context_id: context.as_str().to_owned(),
        status,
        artifacts: Vec::new(),
        history: vec![said],
        metadata: None,
    }
}
