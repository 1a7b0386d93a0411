//! From rows to the values of the contract. A row that cannot be one is an error that names it.

use agent_core::{prompt, task};
use agent_wire::a2a::task::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use agent_wire::event::Event;
use agent_wire::value::{ContextId, DelegationDepth, MessageId, TaskId, TraceParent};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::error::{Doing, Error, Result};
use crate::runner::Origin;

/// Reads a column.
pub(super) fn get<'r, T>(row: &'r SqliteRow, column: &'static str) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column).doing("read a column")
}

/// The error of a value that this program cannot have written.
pub(super) fn impossible(
    table: &'static str,
    column: &'static str,
    id: impl std::fmt::Display,
    why: impl std::fmt::Display,
) -> Error {
    Error::Impossible { table, column, id: id.to_string(), why: why.to_string() }
}

/// A state by its number in the proto.
pub(super) fn state(row: &SqliteRow) -> Result<TaskState> {
    let number: i64 = get(row, "state")?;
    TaskState::from_number(number)
        .ok_or_else(|| impossible("tasks", "state", number, "no such state"))
}

/// A task's identifier.
pub(super) fn task_id(row: &SqliteRow) -> Result<TaskId> {
    let text: String = get(row, "id")?;
    TaskId::new(text.as_str()).map_err(|error| impossible("tasks", "id", text, error))
}

fn json<T: DeserializeOwned>(column: &'static str, id: &TaskId, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| impossible("inputs", column, id, error))
}

/// What was asked, as it is stored.
struct Input {
    message: MessageId,
    prompt: String,
    parts: Vec<Part>,
    origin: Origin,
}

fn input(row: &SqliteRow, id: &TaskId) -> Result<Input> {
    let message: String = get(row, "message_id")?;
    let message =
        MessageId::new(message).map_err(|error| impossible("inputs", "message_id", id, error))?;
    let event: Option<String> = get(row, "event")?;
    let Some(event) = event else {
        let parts: Option<String> = get(row, "parts")?;
        let parts: Vec<Part> = json("parts", id, parts.as_deref().unwrap_or_default())?;
        let metadata: Option<String> = get(row, "metadata")?;
        let metadata = metadata.map(|text| json("metadata", id, &text)).transpose()?;
        let texts: Vec<&str> = parts.iter().filter_map(Part::text).collect();
        let prompt = texts.join("\n");
        let origin = Origin::Message { id: message.clone(), metadata };
        return Ok(Input { message, prompt, parts, origin });
    };
    let event =
        Event::parse(event.as_bytes()).map_err(|error| impossible("inputs", "event", id, error))?;
    let instructions: Option<String> = get(row, "instructions")?;
    let instructions = instructions.unwrap_or_default();
    let prompt = prompt::of_event(&instructions, &event);
    let parts = vec![Part::from_text(prompt.clone())];
    Ok(Input {
        message,
        prompt,
        parts,
        origin: Origin::Event { event: Box::new(event), instructions },
    })
}

/// A job, as the worker claims it; see `NEXT` in [`super::tasks`] for the columns.
#[derive(Debug)]
pub(super) struct Claimed {
    /// The task.
    pub(super) task: TaskId,
    /// Its context.
    pub(super) context: ContextId,
    /// What is asked, in words.
    pub(super) prompt: String,
    /// Who asked.
    pub(super) origin: Origin,
    /// How many agents stand before it.
    pub(super) depth: DelegationDepth,
    /// The trace of the call that brought it.
    pub(super) trace: Option<TraceParent>,
}

pub(super) fn claimed(row: &SqliteRow) -> Result<Claimed> {
    let task = task_id(row)?;
    let context: String = get(row, "context_id")?;
    let context =
        ContextId::new(context).map_err(|error| impossible("tasks", "context_id", &task, error))?;
    let depth: i64 = get(row, "depth")?;
    let depth = u64::try_from(depth)
        .ok()
        .and_then(|depth| DelegationDepth::new(depth).ok())
        .ok_or_else(|| impossible("tasks", "depth", &task, depth))?;
    let trace: Option<String> = get(row, "traceparent")?;
    let Input { prompt, origin, .. } = input(row, &task)?;
    let trace = trace.as_deref().and_then(TraceParent::parse);
    Ok(Claimed { task, context, prompt, origin, depth, trace })
}

/// A whole task; see [`super::read`] for the columns.
///
/// A column that a listing left out is null, and the task then lacks that part.
pub(super) fn task(row: &SqliteRow) -> Result<Task> {
    let id = task_id(row)?;
    let context_id: String = get(row, "context_id")?;
    let state = state(row)?;
    let millis: i64 = get(row, "status_millis")?;
    let timestamp = Timestamp::from_millisecond(millis)
        .map_err(|error| impossible("tasks", "status_millis", &id, error))?;

    let with_input: bool = get::<Option<String>>(row, "message_id")?.is_some();
    let history = if with_input {
        let Input { message, parts, origin, .. } = input(row, &id)?;
        let metadata = match origin {
            Origin::Message { metadata, .. } => metadata,
            Origin::Event { .. } => None,
        };
        let said = said(Role::User, message.into_string(), &id, &context_id, parts, metadata);
        vec![said]
    } else {
        Vec::new()
    };

    let result: Option<(String, String)> =
        get::<Option<String>>(row, "result_id")?.zip(get::<Option<String>>(row, "result_text")?);
    let (artifacts, message) = match result {
        Some((artifact_id, text)) if state == TaskState::Completed => {
            let parts = vec![Part::from_text(text)];
            let name = Some("result".to_owned());
            let artifact = Artifact { artifact_id, name, description: None, parts, metadata: None };
            (vec![artifact], None)
        }
        Some((message_id, text)) => {
            let parts = vec![Part::from_text(text)];
            (Vec::new(), Some(said(Role::Agent, message_id, &id, &context_id, parts, None)))
        }
        None => (Vec::new(), None),
    };
    let status = TaskStatus { state, message, timestamp: Some(timestamp) };
    Ok(Task { id, context_id, status, artifacts, history, metadata: None })
}

fn said(
    role: Role,
    message_id: String,
    task: &TaskId,
    context: &str,
    parts: Vec<Part>,
    metadata: Option<serde_json::Map<String, serde_json::Value>>,
) -> Message {
    Message {
        message_id,
        context_id: Some(context.to_owned()),
        task_id: Some(task.as_str().to_owned()),
        role,
        parts,
        metadata,
    }
}

/// The number of a state, for the database.
pub(super) fn number(ending: &task::Ending) -> i64 {
    ending.state().number()
}
