//! What each trigger remembers, in the database.

use agent_core::trigger::State;
use agent_wire::value::{EventType, SourceName};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::error::{Doing, Result};
use super::row::{get, impossible};

const READ: &str =
    "SELECT sequence, last_nanos, fired_nanos FROM triggers WHERE source = ?1 AND type = ?2";
const WRITE: &str = "INSERT INTO triggers (source, type, sequence, last_nanos, fired_nanos) \
  VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (source, type) DO UPDATE SET \
  sequence = excluded.sequence, last_nanos = excluded.last_nanos, fired_nanos = excluded.fired_nanos";

const ALL: &str = "SELECT source, type, sequence, last_nanos, fired_nanos FROM triggers";

/// The statements of this module, for the test that prepares each.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 3] = [READ, WRITE, ALL];

/// Brings the states to what the service's clock allows, as at a start.
///
/// A cooldown that a wrong clock put into the future starts again now, not when the next event comes.
pub(super) async fn correct(connection: &mut SqliteConnection, now: Timestamp) -> Result<()> {
    let rows =
        sqlx::query(ALL).fetch_all(&mut *connection).await.doing("read the triggers' states")?;
    for row in rows {
        let (source, kind): (String, String) = (get(&row, "source")?, get(&row, "type")?);
        let name = source.clone();
        let source = SourceName::new(source)
            .map_err(|error| impossible("triggers", "source", &name, error))?;
        let kind =
            EventType::new(kind).map_err(|error| impossible("triggers", "type", &name, error))?;
        let before = state(&row, &source)?;
        let after = before.at(now);
        if after != before {
            write(connection, &source, &kind, after).await?;
        }
    }
    Ok(())
}

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
    row.map_or_else(|| Ok(State::default()), |row| state(&row, source))
}

fn state(row: &SqliteRow, source: &SourceName) -> Result<State> {
    let sequence: i64 = get(row, "sequence")?;
    let sequence = u32::try_from(sequence)
        .map_err(|error| impossible("triggers", "sequence", source, error))?;
    let time = |column| -> Result<Option<Timestamp>> {
        let nanos: Option<i64> = get(row, column)?;
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
