//! What each trigger remembers, in the database.

use agent_core::trigger::State;
use agent_wire::value::{EventType, SourceName};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::error::{Doing, Result};
use super::row::{get, impossible};

const READ: &str =
    "SELECT sequence, last_nanos, fired_nanos FROM triggers WHERE source = ?1 AND type = ?2";
const WRITE: &str = "INSERT INTO triggers (source, type, sequence, last_nanos, fired_nanos) \
  VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (source, type) DO UPDATE SET \
  sequence = excluded.sequence, last_nanos = excluded.last_nanos, fired_nanos = excluded.fired_nanos";

/// The statements of this module, for the test that prepares each.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 2] = [READ, WRITE];

/// Reads the state of one trigger; a trigger that never saw anything has the default.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    source: &SourceName,
    kind: &EventType,
) -> Result<State> {
    let row = sqlx::query(READ)
        .bind(source.as_str())
        .bind(kind.as_str())
        .fetch_optional(connection)
        .await
        .doing("read a trigger's state")?;
    let Some(row) = row else { return Ok(State::default()) };
    let sequence: i64 = get(&row, "sequence")?;
    let sequence = u32::try_from(sequence)
        .map_err(|error| impossible("triggers", "sequence", source, error))?;
    let time = |column| -> Result<Option<Timestamp>> {
        let nanos: Option<i64> = get(&row, column)?;
        nanos
            .map(|nanos| {
                Timestamp::from_nanosecond(i128::from(nanos))
                    .map_err(|error| impossible("triggers", column, source, error))
            })
            .transpose()
    };
    Ok(State { sequence, last: time("last_nanos")?, fired: time("fired_nanos")? })
}

/// Writes the state of one trigger.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    source: &SourceName,
    kind: &EventType,
    state: State,
) -> Result<()> {
    // 64 bits of nanoseconds reach to the year 2262; a later one is stored as that.
    let nanos = |time: Option<Timestamp>| {
        time.map(|time| i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX))
    };
    sqlx::query(WRITE)
        .bind(source.as_str())
        .bind(kind.as_str())
        .bind(i64::from(state.sequence))
        .bind(nanos(state.last))
        .bind(nanos(state.fired))
        .execute(connection)
        .await
        .doing("write a trigger's state")?;
    Ok(())
}
