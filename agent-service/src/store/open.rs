//! Opening the database: settings that durability rests on, the schema, and the configuration.

use std::path::Path;
use std::time::Duration;

use agent_wire::canonical;
use serde_json::Value;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row};

use super::binding;
use super::error::{Error, Result, cause};

/// The schema, a file a version. Numbers are positions in this list, from 1.
const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/0001_state.sql")];

/// How many readers may read at once.
///
/// Reads take microseconds; two more than the cores of a small device keep one long listing from
/// delaying a poll.
const READERS: u32 = 4;

/// Another program that looks into the database, such as a backup, may lock it this long.
const BUSY: Duration = Duration::from_secs(5);

/// The write-ahead log is cut to this size when it is reset, in bytes.
const WAL_LIMIT: &str = "16777216";

pub(super) const READ_FACT: &str = "SELECT value FROM facts WHERE name = ?1";
pub(super) const WRITE_FACT: &str = "INSERT INTO facts (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// The statements of this module, for the test that prepares each.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 2] = [READ_FACT, WRITE_FACT];

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        .busy_timeout(BUSY)
        .disable_statement_logging()
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(sqlx::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Sqlite { doing, path, source: cause(error) }
}

/// Opens the one connection that writes, and brings the schema up to date.
pub(super) async fn writer(path: &Path) -> Result<SqliteConnection> {
    let mut connection = options(path)
        .journal_mode(SqliteJournalMode::Wal)
        // In WAL mode NORMAL may lose the last commits at a power cut; FULL syncs each commit.
        .synchronous(SqliteSynchronous::Full)
        .pragma("journal_size_limit", WAL_LIMIT)
        .connect()
        .await
        .map_err(failed("open the database", path))?;
    let wanted = [("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1")];
    for (pragma, wanted) in wanted {
        let found =
            self::pragma(&mut connection, pragma).await.map_err(failed("read a setting", path))?;
        if found != wanted {
            return Err(Error::Pragma { pragma, wanted, found });
        }
    }
    migrate(&mut connection, path).await?;
    Ok(connection)
}

/// Opens the connections that only read.
pub(super) async fn readers(path: &Path) -> Result<SqlitePool> {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .connect_with(options(path).read_only(true))
        .await
        .map_err(failed("open the database to read", path))
}

/// Reads a setting as text, whatever its type.
async fn pragma(connection: &mut SqliteConnection, name: &'static str) -> sqlx::Result<String> {
    let statement = match name {
        "journal_mode" => "SELECT CAST(journal_mode AS TEXT) FROM pragma_journal_mode",
        "synchronous" => "SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous",
        "foreign_keys" => "SELECT CAST(foreign_keys AS TEXT) FROM pragma_foreign_keys",
        _ => "SELECT CAST(user_version AS TEXT) FROM pragma_user_version",
    };
    sqlx::query(statement).fetch_one(connection).await?.try_get(0)
}

async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<()> {
    let version =
        pragma(connection, "user_version").await.map_err(failed("read the schema", path))?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found: i64 = version.parse().unwrap_or(i64::MAX);
    if found > known {
        return Err(Error::Newer { path: path.to_owned(), found, known });
    }
    let done = usize::try_from(found).unwrap_or_default();
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        let step = format!(
            "BEGIN IMMEDIATE;\n{migration}\nPRAGMA user_version = {};\nCOMMIT;",
            index.saturating_add(1)
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(step))
            .execute(&mut *connection)
            .await
            .map_err(failed("create the schema", path))?;
    }
    Ok(())
}

/// Binds a new directory to its configuration, or checks that it is the same one.
///
/// `configuration` is the effective one without the fields that equal their defaults.
pub(super) async fn bind(
    connection: &mut SqliteConnection,
    dir: &Path,
    path: &Path,
    configuration: &Value,
) -> Result<()> {
    const CONFIGURATION: &str = "configuration";
    const HASH: &str = "configuration_sha256";
    let mut transaction = connection
        .begin_with("BEGIN IMMEDIATE")
        .await
        .map_err(failed("begin a transaction", path))?;
    let stored: Option<String> = sqlx::query(READ_FACT)
        .bind(CONFIGURATION)
        .fetch_optional(&mut *transaction)
        .await
        .and_then(|row| row.map(|row| row.try_get(0)).transpose())
        .map_err(failed("read the configuration that the state belongs to", path))?;
    let Some(stored) = stored else {
        let facts = [
            (CONFIGURATION, canonical::to_string(configuration)),
            (HASH, canonical::Digest::of(configuration).to_hex()),
        ];
        for (name, value) in facts {
            sqlx::query(WRITE_FACT)
                .bind(name)
                .bind(value)
                .execute(&mut *transaction)
                .await
                .map_err(failed("store the configuration", path))?;
        }
        return transaction.commit().await.map_err(failed("store the configuration", path));
    };
    let stored: Value = serde_json::from_str(&stored).map_err(|error| Error::Impossible {
        table: "facts",
        column: "value",
        id: CONFIGURATION.to_owned(),
        why: error.to_string(),
    })?;
    let fields = binding::differences(&stored, configuration);
    if fields.is_empty() {
        Ok(())
    } else {
        Err(Error::OtherConfiguration { dir: dir.to_owned(), fields })
    }
}
