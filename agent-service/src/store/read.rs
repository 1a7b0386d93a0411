//! Reading tasks, on connections of their own: a reader never waits for the writer.

use agent_wire::a2a::list::{Cursor, ListTasks};
use agent_wire::a2a::task::Task;
use agent_wire::value::TaskId;
use sqlx::sqlite::SqlitePool;
use sqlx::{SqliteConnection, SqliteExecutor};

use super::error::{Doing, Result};
use super::row::{self, get};
use crate::refusal::{Listed, TaskPage};

const ONE: &str = "SELECT t.id, t.context_id, t.state, t.status_millis, \
  i.message_id, i.parts, i.metadata, i.event, i.instructions, \
  r.id AS result_id, r.text AS result_text \
  FROM tasks t JOIN inputs i USING (sequence) LEFT JOIN results r USING (sequence) WHERE t.id = ?1";

/// Columns that an answer does not show are not read: a page of artifacts is megabytes.
const PAGE: &str = "SELECT t.change, t.id, t.context_id, t.state, t.status_millis, \
  iif(?6, i.message_id, NULL) AS message_id, iif(?6, i.parts, NULL) AS parts, \
  iif(?6, i.metadata, NULL) AS metadata, iif(?6, i.event, NULL) AS event, \
  iif(?6, i.instructions, NULL) AS instructions, \
  r.id AS result_id, iif(?7 OR t.state <> 3, r.text, NULL) AS result_text \
  FROM tasks t JOIN inputs i USING (sequence) LEFT JOIN results r USING (sequence) \
  WHERE (?1 IS NULL OR t.context_id = ?1) AND (?2 IS NULL OR t.state = ?2) \
  AND (?3 IS NULL OR t.status_millis >= ?3) \
  AND (?4 IS NULL OR t.change < ?4) ORDER BY t.change DESC LIMIT ?5";

const TOTAL: &str = "SELECT count(*) FROM tasks t \
  WHERE (?1 IS NULL OR t.context_id = ?1) AND (?2 IS NULL OR t.state = ?2) \
  AND (?3 IS NULL OR t.status_millis >= ?3)";

const IDS: &str = "SELECT id FROM tasks";

/// The statements of this module, for the test that prepares each.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 4] = [ONE, PAGE, TOTAL, IDS];

/// Reads one task, whole.
pub(super) async fn task(pool: &SqlitePool, id: &TaskId) -> Result<Option<Task>> {
    one(pool, id).await
}

/// Reads one task inside the writer's transaction.
pub(super) async fn task_inside(
    connection: &mut SqliteConnection,
    id: &TaskId,
) -> Result<Option<Task>> {
    one(connection, id).await
}

async fn one<'c>(executor: impl SqliteExecutor<'c>, id: &TaskId) -> Result<Option<Task>> {
    let row =
        sqlx::query(ONE).bind(id.as_str()).fetch_optional(executor).await.doing("read a task")?;
    row.as_ref().map(row::task).transpose()
}

/// Reads a page of tasks, newest status first, and how many match in all.
///
/// Both come from one snapshot.
pub(super) async fn page(pool: &SqlitePool, list: &ListTasks) -> Result<TaskPage> {
    let mut snapshot = pool.begin().await.doing("begin to read")?;
    let status = list.status.map(agent_wire::a2a::task::TaskState::number);
    let after = list.status_after_millis();
    let with_history = list.history_length != Some(0);
    // One more than asked for tells whether there is a next page.
    let limit = i64::from(list.page_size).saturating_add(1);
    let rows = sqlx::query(PAGE)
        .bind(list.context_id.as_deref())
        .bind(status)
        .bind(after)
        .bind(list.after.map(|cursor| cursor.change))
        .bind(limit)
        .bind(with_history)
        .bind(list.include_artifacts)
        .fetch_all(&mut *snapshot)
        .await
        .doing("list the tasks")?;
    let total: i64 = sqlx::query_scalar(TOTAL)
        .bind(list.context_id.as_deref())
        .bind(status)
        .bind(after)
        .fetch_one(&mut *snapshot)
        .await
        .doing("count the tasks")?;
    snapshot.commit().await.doing("end reading")?;
    let size = usize::try_from(list.page_size).unwrap_or(usize::MAX);
    let tasks = rows.iter().take(size).map(listed).collect::<Result<Vec<_>>>()?;
    let more = rows.len() > size;
    Ok(TaskPage { tasks, more, total: u64::try_from(total).unwrap_or_default() })
}

fn listed(row: &sqlx::sqlite::SqliteRow) -> Result<Listed> {
    let cursor = Cursor { change: get(row, "change")? };
    Ok(Listed { task: row::task(row)?, cursor })
}

/// The identifiers of all retained tasks.
pub(super) async fn ids(pool: &SqlitePool) -> Result<Vec<TaskId>> {
    let rows = sqlx::query(IDS).fetch_all(pool).await.doing("read the tasks' identifiers")?;
    rows.iter().map(row::task_id).collect()
}
