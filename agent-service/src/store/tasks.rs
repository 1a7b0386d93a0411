//! The statements that change tasks. Each is one indexed look-up or write.

use agent_core::task::Ending;
use agent_wire::a2a::request::Submission;
use agent_wire::a2a::task::TaskState;
use agent_wire::event::Event;
use agent_wire::value::{ContextId, TaskId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::error::{Doing, Result};
use super::row::{self, Claimed, get};

const INSERT: &str = "INSERT INTO tasks \
  (id, context_id, state, status_millis, created_millis, expires_millis, origin, depth, traceparent, \
  change) VALUES (?1, ?2, 1, ?3, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING sequence";
const INSERT_INPUT: &str = "INSERT INTO inputs \
  (sequence, message_id, parts, metadata, event, instructions) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const COUNT_PENDING: &str = "SELECT (SELECT count(*) FROM tasks WHERE state = 1) \
  + (SELECT count(*) FROM tasks WHERE state = 2)";
const COUNT: &str = "SELECT count(*) FROM tasks";
const LAST_CHANGE: &str = "SELECT coalesce(max(change), 0) FROM tasks";
const FIND: &str = "SELECT sequence, state FROM tasks WHERE id = ?1";
const NEXT: &str = "SELECT t.sequence, t.id, t.context_id, t.depth, t.traceparent, \
  i.message_id, i.parts, i.metadata, i.event, i.instructions \
  FROM tasks t JOIN inputs i USING (sequence) WHERE t.state = 1 ORDER BY t.sequence LIMIT 1";
const WORKING: &str = "SELECT sequence, id FROM tasks WHERE state = 2 ORDER BY sequence";
const DUE: &str = "SELECT sequence, id FROM tasks \
  WHERE state = 1 AND expires_millis <= ?1 ORDER BY expires_millis LIMIT 64";
const NEXT_EXPIRY: &str = "SELECT min(expires_millis) AS millis FROM tasks \
  WHERE state = 1 AND expires_millis IS NOT NULL";
const OLDEST_ENDED: &str = "SELECT sequence, id FROM tasks \
  WHERE state IN (3, 4, 5, 7) AND sequence <> ?1 ORDER BY sequence LIMIT 1";
const CLAIM: &str = "UPDATE tasks SET state = 2, status_millis = ?2, change = ?3, \
  generation = generation + 1 WHERE sequence = ?1 AND state = 1";
const END: &str = "UPDATE tasks SET state = ?2, status_millis = ?3, change = ?4, \
  generation = generation + 1 WHERE sequence = ?1 AND state IN (1, 2)";
const INSERT_RESULT: &str = "INSERT INTO results (sequence, id, text) VALUES (?1, ?2, ?3)";
const DELETE: &str = "DELETE FROM tasks WHERE sequence = ?1";

/// The statements of this module, for the test that prepares each.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 15] = [
    INSERT,
    INSERT_INPUT,
    COUNT_PENDING,
    COUNT,
    LAST_CHANGE,
    FIND,
    NEXT,
    WORKING,
    DUE,
    NEXT_EXPIRY,
    OLDEST_ENDED,
    CLAIM,
    END,
    INSERT_RESULT,
    DELETE,
];

/// A task's place in the order of submission, and its name outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sequence: i64,
    pub(super) id: TaskId,
}

/// A change of status: when, and its place among all of them.
///
/// Listings are ordered by the place: a wall clock that was set back must not bring a task twice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    pub(super) change: i64,
}

/// What a new task is made of.
pub(super) enum New<'a> {
    /// A message of an A2A client.
    Message(&'a Submission),
    /// An observation that fired a trigger.
    Event { event: &'a Event, instructions: &'a str, expires_at: Timestamp },
}

/// Queues a task.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    id: &TaskId,
    context: &ContextId,
    new: &New<'_>,
    at: Moment,
) -> Result<i64> {
    let (origin, depth, trace, expires) = match new {
        New::Message(message) => ("message", message.depth.get(), message.trace.as_ref(), None),
        New::Event { event, expires_at, .. } => {
            ("event", 0, event.trace(), Some(expires_at.as_millisecond()))
        }
    };
    let row = sqlx::query(INSERT)
        .bind(id.as_str())
        .bind(context.as_str())
        .bind(at.now.as_millisecond())
        .bind(expires)
        .bind(origin)
        .bind(i64::from(depth))
        .bind(trace.map(agent_wire::value::TraceParent::as_str))
        .bind(at.change)
        .fetch_one(&mut *connection)
        .await
        .doing("queue a task")?;
    let sequence: i64 = get(&row, "sequence")?;
    let json = |value: sqlx::Result<String>| value.doing("write a message as JSON");
    let query = sqlx::query(INSERT_INPUT).bind(sequence);
    let query = match new {
        New::Message(message) => {
            let encode = |error: serde_json::Error| sqlx::Error::Encode(Box::new(error));
            let parts = json(serde_json::to_string(&message.parts).map_err(encode))?;
            let metadata = message.metadata.as_ref().map(serde_json::to_string).transpose();
            let metadata = metadata.map_err(encode).doing("write metadata as JSON")?;
            query
                .bind(message.message_id.as_str())
                .bind(Some(parts))
                .bind(metadata)
                .bind(None::<String>)
                .bind(None::<&str>)
        }
        New::Event { event, instructions, .. } => query
            .bind(event.id().as_str())
            .bind(None::<String>)
            .bind(None::<String>)
            .bind(Some(event.to_json()))
            .bind(Some(*instructions)),
    };
    query.execute(connection).await.doing("store what a task was asked")?;
    Ok(sequence)
}

/// The place of the last change of status; 0 when there was none.
pub(super) async fn last_change(connection: &mut SqliteConnection) -> Result<i64> {
    sqlx::query_scalar(LAST_CHANGE).fetch_one(connection).await.doing("find the last change")
}

/// How many tasks are pending, and how many are retained in all.
pub(super) async fn counts(connection: &mut SqliteConnection) -> Result<(u32, u32)> {
    let count = async |statement, connection: &mut SqliteConnection| -> Result<u32> {
        let number: i64 =
            sqlx::query_scalar(statement).fetch_one(connection).await.doing("count the tasks")?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    };
    Ok((count(COUNT_PENDING, &mut *connection).await?, count(COUNT, connection).await?))
}

/// Finds a task by its identifier.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    id: &TaskId,
) -> Result<Option<(i64, TaskState)>> {
    let row = sqlx::query(FIND)
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .doing("find a task")?;
    row.map(|row| Ok((get(&row, "sequence")?, row::state(&row)?))).transpose()
}

/// The queued task that came first, and what it is asked.
pub(super) async fn next(connection: &mut SqliteConnection) -> Result<Option<(i64, Claimed)>> {
    let row = sqlx::query(NEXT).fetch_optional(connection).await.doing("find the next task")?;
    row.map(|row| Ok((get(&row, "sequence")?, row::claimed(&row)?))).transpose()
}

/// The tasks that are working; at most one, but a database is read as it is.
pub(super) async fn working(connection: &mut SqliteConnection) -> Result<Vec<Place>> {
    let rows = sqlx::query(WORKING).fetch_all(connection).await.doing("find what was working")?;
    rows.iter().map(place).collect()
}

/// The queued tasks whose observations are too old by now.
pub(super) async fn due(connection: &mut SqliteConnection, now: Timestamp) -> Result<Vec<Place>> {
    let rows = sqlx::query(DUE)
        .bind(now.as_millisecond())
        .fetch_all(connection)
        .await
        .doing("find expired tasks")?;
    rows.iter().map(place).collect()
}

/// When the next queued task expires.
pub(super) async fn next_expiry(connection: &mut SqliteConnection) -> Result<Option<Timestamp>> {
    let row = sqlx::query(NEXT_EXPIRY).fetch_one(connection).await.doing("find the next expiry")?;
    let millis: Option<i64> = get(&row, "millis")?;
    Ok(millis.and_then(|millis| Timestamp::from_millisecond(millis).ok()))
}

/// The oldest terminal task other than the one that a worker still holds.
pub(super) async fn oldest_ended(
    connection: &mut SqliteConnection,
    held: Option<i64>,
) -> Result<Option<Place>> {
    let row = sqlx::query(OLDEST_ENDED)
        // Sequences begin at 1.
        .bind(held.unwrap_or(0))
        .fetch_optional(connection)
        .await
        .doing("find the oldest terminal task")?;
    row.as_ref().map(place).transpose()
}

/// Marks a queued task as working.
pub(super) async fn claim(
    connection: &mut SqliteConnection,
    sequence: i64,
    at: Moment,
) -> Result<()> {
    sqlx::query(CLAIM)
        .bind(sequence)
        .bind(at.now.as_millisecond())
        .bind(at.change)
        .execute(connection)
        .await
        .doing("claim a task")?;
    Ok(())
}

/// Ends a task; false when it had ended before, and then nothing changes.
pub(super) async fn end(
    connection: &mut SqliteConnection,
    sequence: i64,
    ending: &Ending,
    result_id: &str,
    at: Moment,
) -> Result<bool> {
    let changed = sqlx::query(END)
        .bind(sequence)
        .bind(row::number(ending))
        .bind(at.now.as_millisecond())
        .bind(at.change)
        .execute(&mut *connection)
        .await
        .doing("end a task")?
        .rows_affected();
    if changed == 0 {
        return Ok(false);
    }
    sqlx::query(INSERT_RESULT)
        .bind(sequence)
        .bind(result_id)
        .bind(ending.text())
        .execute(connection)
        .await
        .doing("store a result")?;
    Ok(true)
}

/// Removes a task with all that belongs to it.
pub(super) async fn delete(connection: &mut SqliteConnection, sequence: i64) -> Result<()> {
    sqlx::query(DELETE).bind(sequence).execute(connection).await.doing("remove a task")?;
    Ok(())
}

fn place(row: &sqlx::sqlite::SqliteRow) -> Result<Place> {
    Ok(Place { sequence: get(row, "sequence")?, id: row::task_id(row)? })
}
