//! Receipts in the database: one a submission ID, the last [`agent_core::receipt::WINDOW`].

use agent_core::receipt::{Answer, Key, Receipt};
use agent_wire::canonical::Digest;
use agent_wire::event::Reason;
use agent_wire::value::TaskId;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::error::{Doing, Result};
use super::row::{get, impossible};

const INSERT: &str = "INSERT INTO receipts (key, content, task_id, reason) VALUES (?1, ?2, ?3, ?4)";
const ALL: &str = "SELECT key, content, task_id, reason FROM receipts ORDER BY position";
const FIND: &str = "SELECT key, content, task_id, reason FROM receipts WHERE key = ?1";
const DELETE_OLDEST: &str = "DELETE FROM receipts \
  WHERE position = (SELECT min(position) FROM receipts) RETURNING key";

/// The statements of this module, for the test that prepares each.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 4] = [INSERT, ALL, FIND, DELETE_OLDEST];

/// Files a receipt.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    key: &Key,
    receipt: &Receipt,
) -> Result<()> {
    let (task, reason) = match &receipt.answer {
        Answer::Task(task) => (Some(task.as_str()), None),
        Answer::Refused(reason) => (None, Some(reason.as_str())),
    };
    sqlx::query(INSERT)
        .bind(key.as_str())
        .bind(receipt.content.as_bytes().as_slice())
        .bind(task)
        .bind(reason)
        .execute(connection)
        .await
        .doing("file a receipt")?;
    Ok(())
}

/// Removes the oldest receipt.
pub(super) async fn delete_oldest(connection: &mut SqliteConnection) -> Result<Option<Key>> {
    let row = sqlx::query(DELETE_OLDEST)
        .fetch_optional(connection)
        .await
        .doing("remove the oldest receipt")?;
    row.map(|row| Ok(Key::from_stored(get(&row, "key")?))).transpose()
}

/// Looks a receipt up.
pub(super) async fn find(connection: &mut SqliteConnection, key: &Key) -> Result<Option<Receipt>> {
    let row = sqlx::query(FIND)
        .bind(key.as_str())
        .fetch_optional(connection)
        .await
        .doing("look up a receipt")?;
    row.map(|row| read(&row).map(|(_, receipt)| receipt)).transpose()
}

/// All receipts, the oldest first.
pub(super) async fn all(connection: &mut SqliteConnection) -> Result<Vec<(Key, Receipt)>> {
    let rows = sqlx::query(ALL).fetch_all(connection).await.doing("read the receipts")?;
    rows.iter().map(read).collect()
}

fn read(row: &SqliteRow) -> Result<(Key, Receipt)> {
    let key: String = get(row, "key")?;
    let content: &[u8] = get(row, "content")?;
    let content = <[u8; 32]>::try_from(content)
        .map(Digest::from_bytes)
        .map_err(|_length| impossible("receipts", "content", &key, "no SHA-256"))?;
    let task: Option<String> = get(row, "task_id")?;
    let reason: Option<String> = get(row, "reason")?;
    let answer = match (task, reason) {
        (Some(task), _) => Answer::Task(
            TaskId::new(task).map_err(|error| impossible("receipts", "task_id", &key, error))?,
        ),
        (None, reason) => Answer::Refused(
            reason
                .as_deref()
                .and_then(|text| Reason::ALL.into_iter().find(|reason| reason.as_str() == text))
                .ok_or_else(|| impossible("receipts", "reason", &key, "no such reason"))?,
        ),
    };
    Ok((Key::from_stored(key), Receipt { content, answer }))
}
