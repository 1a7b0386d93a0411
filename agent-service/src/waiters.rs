//! Who waits for which task to end.
//!
//! A caller registers *before* it looks at the task, so that an end between the two is not missed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use agent_wire::a2a::task::Task;
use agent_wire::value::TaskId;
use tokio::sync::oneshot;

/// What a waiter is told: the ended task, or nothing when nobody had it at hand.
pub(crate) type Told = Option<Box<Task>>;

/// The callers that wait, by task.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    // Never held over an await; its size is bounded by the open connections.
    by_task: Mutex<BTreeMap<TaskId, Vec<oneshot::Sender<Told>>>>,
}

impl Waiters {
    /// Registers for the end of a task. Dropping the receiver gives the place up.
    pub(crate) fn register(&self, task: &TaskId) -> oneshot::Receiver<Told> {
        let (sender, receiver) = oneshot::channel();
        let mut by_task = self.by_task.lock().unwrap_or_else(PoisonError::into_inner);
        // Clients that come and go while one task runs must not pile up.
        by_task.retain(|_, waiting| {
            waiting.retain(|waiter| !waiter.is_closed());
            !waiting.is_empty()
        });
        by_task.entry(task.clone()).or_default().push(sender);
        receiver
    }

    /// Whether somebody waits for this task.
    pub(crate) fn any(&self, task: &TaskId) -> bool {
        self.by_task.lock().unwrap_or_else(PoisonError::into_inner).contains_key(task)
    }

    /// Tells all who wait for this task that it has ended.
    pub(crate) fn ended(&self, id: &TaskId, task: Option<&Task>) {
        let waiting = self.by_task.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        for waiter in waiting.into_iter().flatten() {
            // A caller that has gone away misses nothing: the task is in the store.
            drop(waiter.send(task.cloned().map(Box::new)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_who_waits_for_a_task_is_told_once() {
        let waiters = Waiters::default();
        let (this, other) = (TaskId::new("this").unwrap(), TaskId::new("other").unwrap());
        let (one, two) = (waiters.register(&this), waiters.register(&this));
        let mut elsewhere = waiters.register(&other);
        waiters.ended(&this, None);
        assert_eq!((one.await, two.await), (Ok(None), Ok(None)));
        assert!(elsewhere.try_recv().is_err());
        assert!(!waiters.any(&this) && waiters.any(&other));
    }

    #[test]
    fn a_caller_that_went_away_leaves_nothing_behind() {
        let waiters = Waiters::default();
        let this = TaskId::new("this").unwrap();
        for _ in 0..100 {
            drop(waiters.register(&this));
        }
        let _kept = waiters.register(&TaskId::new("other").unwrap());
        assert!(!waiters.any(&this));
    }
}
