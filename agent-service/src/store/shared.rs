//! What the writer publishes after each commit, for everybody else to look at.
//!
//! The mirror answers repeated submissions without a transaction: a retry costs a look-up in memory.
//! It holds committed facts only, so that nothing is answered that is not durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use agent_core::receipt::{self, Key, Receipt, Seen};
use agent_wire::canonical::Digest;
use agent_wire::value::TaskId;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use crate::waiters::Waiters;

/// Committed receipts and retained tasks.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    pub(super) receipts: BTreeMap<Key, Receipt>,
    pub(super) retained: BTreeSet<TaskId>,
}

/// Counters since the start, for tests and metrics.
#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    changes: AtomicU64,
}

/// What the writer and its callers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) mirror: Mutex<Mirror>,
    pub(super) waiters: Waiters,
    /// A task was queued.
    pub(super) wake: Notify,
    /// When the next queued task expires, by the wall clock.
    pub(super) next_expiry: watch::Sender<Option<Timestamp>>,
    /// Sticky: a write failed.
    pub(super) failed: watch::Sender<bool>,
    counters: Counters,
}

impl Shared {
    pub(super) fn new(mirror: Mirror, next_expiry: Option<Timestamp>) -> Self {
        Self {
            mirror: Mutex::new(mirror),
            waiters: Waiters::default(),
            wake: Notify::new(),
            next_expiry: watch::Sender::new(next_expiry),
            failed: watch::Sender::new(false),
            counters: Counters::default(),
        }
    }

    /// What a submission with this key is, by what is committed.
    pub(super) fn seen(&self, key: &Key, content: Digest) -> Seen {
        let mirror = self.mirror.lock().unwrap_or_else(PoisonError::into_inner);
        receipt::judge(mirror.receipts.get(key), content, |task| mirror.retained.contains(task))
    }

    pub(super) fn count_commit(&self, changes: u64) {
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.counters.changes.fetch_add(changes, Ordering::Relaxed);
    }

    pub(super) fn counted(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.counters.commits), read(&self.counters.changes))
    }
}
