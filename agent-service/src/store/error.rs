//! What can go wrong with the state directory, in words for an operator.

use std::path::PathBuf;

/// An error of the storage.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process uses the directory.
    #[error(
        "the state directory {} is in use by another agent-service; one process hosts one agent, so stop the other one or name another directory",
        .0.display()
    )]
    InUse(PathBuf),
    /// SQLite refused.
    #[error("cannot {doing} in {}", path.display())]
    Sqlite {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: Cause,
    },
    /// A statement failed on the open database.
    #[error("cannot {doing} in the database")]
    Statement {
        /// What was tried, as a verb.
        doing: &'static str,
        /// What SQLite said.
        source: Cause,
    },
    /// A row that this program cannot have written.
    #[error("the database holds an impossible value: {table}.{column} of {id}: {why}")]
    Impossible {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// SQLite did not take a setting that durability rests on.
    #[error("SQLite answers {found:?} to PRAGMA {pragma}, and {wanted:?} is needed")]
    Pragma {
        /// The setting.
        pragma: &'static str,
        /// What it has to be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
    /// A later version wrote the database.
    #[error(
        "{} was written by a later version (schema {found}, this one knows {known}); run that version, or name a new state directory",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The directory belongs to another configuration.
    #[error(
        "the state in {} was created by another configuration ({} differ{}); queued work must not change its meaning, so name a new state directory or restore the configuration",
        dir.display(), fields.join(", "), if fields.len() == 1 { "s" } else { "" }
    )]
    OtherConfiguration {
        /// The directory.
        dir: PathBuf,
        /// The fields that differ.
        fields: Vec<String>,
    },
}

/// What SQLite or its driver said.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Takes SQLite's own words out of the driver's error, which would say them twice.
pub(super) fn cause(error: sqlx::Error) -> Cause {
    if let sqlx::Error::Database(said) = error { said.into_error() } else { Box::new(error) }
}

/// A result of the storage.
pub(super) type Result<T> = std::result::Result<T, Error>;

/// Says what a statement was for.
pub(super) trait Doing<T> {
    /// Turns a driver's error into ours.
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for sqlx::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|error| Error::Statement { doing, source: cause(error) })
    }
}

/// An error and its sources in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
