//! How a program ends: which tasks it still waits for, and what a signal does.
//!
//! ```text
//!   running --SIGTERM or SIGINT--> soft stop --a second signal, or the caller's deadline--> hard stop
//! ```
//!
//! A soft stop asks: take nothing new, finish what runs. A hard stop tells: end now. Every task is
//! spawned through [`Tasks`], so that [`Tasks::finish`] can wait for all of them; a lint bans
//! `tokio::spawn` elsewhere.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// The tasks of a program and its two stop signals; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    soft: CancellationToken,
    hard: CancellationToken,
    /// The task that waits for signals ends last, so it is not among those that are waited for.
    listener: TaskTracker,
    ended: CancellationToken,
}

impl Tasks {
    /// No tasks, no stop.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns a task that [`finish`](Self::finish) waits for.
    ///
    /// The span of the caller goes with it. Dropping the handle leaves the task running.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(future.in_current_span())
    }

    /// Runs blocking code on a thread for such code; [`finish`](Self::finish) waits for it.
    pub fn spawn_blocking<F, T>(&self, run: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn_blocking(run)
    }

    /// Cancelled when the program should take nothing new and finish.
    pub fn soft_stop(&self) -> &CancellationToken {
        &self.soft
    }

    /// Cancelled when everything has to end at once; the soft stop is cancelled by then too.
    pub fn hard_stop(&self) -> &CancellationToken {
        &self.hard
    }

    /// Asks the program to stop, as the first signal does.
    pub fn request_soft_stop(&self) {
        self.soft.cancel();
    }

    /// Tells the program to stop at once, as the second signal does.
    pub fn request_hard_stop(&self) {
        self.soft.cancel();
        self.hard.cancel();
    }

    /// From now on SIGTERM and SIGINT stop the program in order instead of killing it: the first one
    /// softly, the second one hard.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn stop_on_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let tasks = self.clone();
        let wait = async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                    () = tasks.ended.cancelled() => return,
                };
                if tasks.soft.is_cancelled() {
                    tracing::warn!(signal = name, "second signal: stopping at once");
                    tasks.request_hard_stop();
                } else {
                    tracing::info!(signal = name, "stopping");
                    tasks.request_soft_stop();
                }
            }
        };
        self.listener.spawn(wait);
        Ok(())
    }

    /// Waits until every task has ended. Call it after a stop was requested, else it may wait forever;
    /// a bound on the wait is the caller's, who then requests the hard stop.
    ///
    /// Dropping it half-way is safe; it can be called again.
    pub async fn finish(&self) {
        self.tracker.close();
        self.tracker.wait().await;
        self.ended.cancel();
        self.listener.close();
        self.listener.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[tokio::test]
    async fn finishing_waits_for_every_task_also_for_those_of_tasks() {
        let tasks = Tasks::new();
        let done = Arc::new(AtomicBool::new(false));
        let (inner, flag) = (tasks.clone(), Arc::clone(&done));
        tasks.spawn(async move {
            inner.clone().spawn(async move {
                inner.soft_stop().cancelled().await;
                tokio::task::yield_now().await;
                flag.store(true, Ordering::SeqCst);
            });
        });
        tasks.request_soft_stop();
        tasks.finish().await;
        assert!(done.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn the_first_signal_asks_and_the_second_tells() {
        let tasks = Tasks::new();
        tasks.stop_on_signals().unwrap();
        raise(Signal::SIGTERM).unwrap();
        tasks.soft_stop().cancelled().await;
        assert!(!tasks.hard_stop().is_cancelled());
        raise(Signal::SIGINT).unwrap();
        tasks.hard_stop().cancelled().await;
        tasks.finish().await;
    }

    #[tokio::test]
    async fn a_program_that_got_no_signal_ends_too() {
        let tasks = Tasks::new();
        tasks.stop_on_signals().unwrap();
        tasks.finish().await;
        assert!(!tasks.soft_stop().is_cancelled());
    }

    #[tokio::test]
    async fn a_hard_stop_is_a_soft_stop_as_well() {
        let tasks = Tasks::new();
        tasks.request_hard_stop();
        assert!(tasks.soft_stop().is_cancelled() && tasks.hard_stop().is_cancelled());
    }

    #[tokio::test]
    async fn a_task_that_panics_is_no_task_that_is_waited_for() {
        let tasks = Tasks::new();
        let handle = tasks.spawn(async { panic!("of this test") });
        tasks.finish().await;
        assert!(handle.await.unwrap_err().is_panic());
    }
}
