//! The state directory: its modes, its owner, and its place under a state root.
//!
//! The directory is 0700 and its files are 0600, whatever the umask says. `service.lock` is locked for
//! as long as the process lives; the system releases it however that ends, so no stale lock is possible.
//! A child that was being started when its service was killed shares the lock until it becomes the agent's
//! program, milliseconds later: who finds the lock taken therefore looks again for a moment.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use agent_wire::canonical::Digest;

use super::error::{Error, Result};

/// The database's file name.
pub(super) const DATABASE: &str = "state.db";

/// What SQLite keeps beside it; left by a process that died.
const JOURNALS: [&str; 2] = ["state.db-wal", "state.db-shm"];

const LOCK: &str = "service.lock";

/// How long and how often a lock that is taken is looked at again: a process between fork and exec holds
/// it for milliseconds, a service for as long as it lives.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LOOKS: u32 = 50;

const MEMORY: &str = "memory";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A state directory that this process owns.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Held, not read: closing it gives the directory up.
    _lock: File,
}

impl Directory {
    /// Creates the directory if need be, corrects its modes, and takes its lock.
    ///
    /// # Errors
    /// When another process has it, or the file system refuses.
    pub(super) fn open(path: &Path) -> Result<Self> {
        folder(path)?;
        let lock_path = path.join(LOCK);
        let lock = file(&lock_path)?;
        match take(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => {
                return Err(Error::File { doing: "lock", path: lock_path, source });
            }
        }
        folder(&path.join(MEMORY))?;
        // SQLite gives its journal files the mode of the database, so it has to exist before.
        file(&path.join(DATABASE))?;
        for journal in JOURNALS {
            let journal = path.join(journal);
            if journal.exists() {
                file(&journal)?;
            }
        }
        sync(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The database in it.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }
}

/// The directory of a configuration under `--state-root`: `ROOT/<agent>/<first 12 hex of its hash>`.
pub fn under_root(root: &Path, agent: &str, configuration: Digest) -> PathBuf {
    let hash = configuration.to_hex();
    root.join(agent).join(hash.get(..12).unwrap_or(&hash))
}

/// The directories of the same agent that other configurations left, in order.
///
/// They are never touched; an operator is told where they are.
pub fn left_beside(directory: &Path) -> Vec<PathBuf> {
    let Some(parent) = directory.parent() else { return Vec::new() };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut left: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path != directory && path.join(DATABASE).exists())
        .collect();
    left.sort();
    left
}

/// Takes a lock, and looks again for a moment when it is taken.
fn take(lock: &File) -> std::result::Result<(), TryLockError> {
    for _ in 1..LOOKS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(LOOK_AGAIN),
            taken_or_failed => return taken_or_failed,
        }
    }
    lock.try_lock()
}

/// Makes a folder with mode 0700, or corrects the mode of one that is there.
///
/// The names of new folders are on stable storage when it returns: a power cut must not take the
/// directory away around the state in it.
fn folder(path: &Path) -> Result<()> {
    let failed = |doing| move |source| Error::File { doing, path: path.to_owned(), source };
    let new: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
        .map_err(failed("create the directory"))?;
    set_mode(path, FOLDER_MODE).map_err(failed("set the mode of"))?;
    for parent in new.iter().filter_map(|folder| folder.parent()) {
        // The parent of a relative name is empty.
        sync(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
    }
    Ok(())
}

/// Opens a file with mode 0600, or corrects the mode of one that is there.
fn file(path: &Path) -> Result<File> {
    let failed = |doing| move |source| Error::File { doing, path: path.to_owned(), source };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(failed("open"))?;
    set_mode(path, FILE_MODE).map_err(failed("set the mode of"))?;
    Ok(file)
}

/// Sets a mode only where it differs: on a read-only file system a right one is no reason to fail.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & 0o7777 == mode {
        return Ok(());
    }
    permissions.set_mode(mode);
    fs::set_permissions(path, permissions)
}

/// Makes the names in a folder survive a power cut.
fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|source| Error::File {
        doing: "sync",
        path: path.to_owned(),
        source,
    })
}
