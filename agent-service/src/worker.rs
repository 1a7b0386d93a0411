//! The worker: one task at a time, in the order of submission.
//!
//! ```text
//! wait ─▶ claim ─▶ run ─▶ end ─▶ release ─┐
//!   ▲                 ├─ timeout ── end FAILED, stop, wait for the runner ─┤
//!   │                 ├─ cancel ─── (ended by the writer) stop, wait ──────┤
//!   │                 └─ grace over  end FAILED "inspect", stop, wait ─────┤
//!   └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! An end is recorded at once; the next task is claimed only after the runner has returned, so that two
//! tasks never act at the same time. Queued tasks of events expire by the wall clock beside all this.

use std::sync::Arc;
use std::time::Duration;

use agent_core::task::Ending;
use service_kit::clock::Clock;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info, info_span, warn};

use crate::refusal::Refusal;
use crate::runner::{Outcome, Runner};
use crate::store::{Claim, Store};

/// How often the wall clock is looked at while something may expire.
///
/// A wall clock may be set at any time, so no timer tells when it says a given hour. Expiry is promised
/// within a second.
const EXPIRY_CHECK: Duration = Duration::from_millis(250);

/// Runs tasks until it is told to stop.
pub struct Worker {
    /// The queue.
    pub store: Store,
    /// Who runs a task.
    pub runner: Arc<dyn Runner>,
    /// The service's clocks.
    pub clock: Clock,
    /// How long one task may run, 1 to 3600 s.
    pub task_timeout: Duration,
    /// No task is claimed after this.
    pub stopping: CancellationToken,
    /// The running task has had its grace: it is recorded as interrupted, and stopped.
    pub grace_over: CancellationToken,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("task_timeout", &self.task_timeout).finish_non_exhaustive()
    }
}

/// Why a runner was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// A client cancelled the task, or the storage failed; the end is recorded, or cannot be.
    Told,
    /// It outlived its timeout.
    Timeout,
    /// The service stops.
    Grace,
}

impl Worker {
    /// Runs tasks until `stopping`, and the one that runs then to its end or to the end of the grace.
    ///
    /// Returns early when the storage fails: nothing can be claimed then.
    pub async fn run(self) {
        while !self.stopping.is_cancelled() {
            match self.store.claim(self.clock.now()).await {
                Ok(Some(claim)) => {
                    let span = info_span!("task", task.id = %claim.task());
                    if self.work(claim).instrument(span).await.is_err() {
                        return;
                    }
                }
                Ok(None) => tokio::select! {
                    // A wake-up that came after the claim is kept, so none is lost.
                    () = self.store.woken() => {}
                    () = self.stopping.cancelled() => {}
                    () = self.store.failed() => return,
                },
                Err(refusal) => {
                    debug!(%refusal, "the worker ends");
                    return;
                }
            }
        }
    }

    async fn work(&self, claim: Claim) -> Result<(), Refusal> {
        let started = self.clock.uptime();
        let deadline = Instant::now() + self.task_timeout;
        info!("task started");
        let stop = CancellationToken::new();
        let mut run = self.runner.run(claim.job(deadline), stop.clone());
        let told = claim.stop();
        let outcome: Result<Outcome, Stop> = tokio::select! {
            biased;
            () = told.cancelled() => Err(Stop::Told),
            outcome = &mut run => Ok(outcome),
            () = sleep_until(deadline) => Err(Stop::Timeout),
            () = self.grace_over.cancelled() => Err(Stop::Grace),
        };
        let ended = match outcome {
            Ok(outcome) => self.end(&claim, ending(outcome)).await,
            Err(why) => {
                stop.cancel();
                let ended = match why {
                    Stop::Told => Ok(()),
                    Stop::Timeout => {
                        let timeout = Ending::timed_out(self.task_timeout.as_secs());
                        self.end(&claim, timeout).await
                    }
                    Stop::Grace => self.end(&claim, Ending::interrupted()).await,
                };
                // Its late result is dropped; only its return counts.
                drop(run.await);
                ended
            }
        };
        let duration_ms = u64::try_from(self.clock.uptime().saturating_sub(started).as_millis())
            .unwrap_or(u64::MAX);
        info!(duration_ms, "the runner returned");
        self.store.release(&claim).await?;
        ended
    }

    async fn end(&self, claim: &Claim, ending: Ending) -> Result<(), Refusal> {
        let state = ending.state();
        if self.store.end(claim, ending, self.clock.now()).await? {
            info!(task.state = %state, "task ended");
        } else {
            info!(task.state = %state, "a late result is dropped: the task had ended before");
        }
        Ok(())
    }
}

fn ending(outcome: Outcome) -> Ending {
    match outcome {
        Ok(text) => Ending::Completed(text),
        Err(failure) => Ending::Failed(failure.text),
    }
}

/// Ends queued tasks whose observations have become stale, until `stopping`.
///
/// It runs beside the worker: a long task must not keep a stale one in the queue.
pub async fn expire(store: Store, clock: Clock, stopping: CancellationToken) {
    let mut next = store.next_expiry();
    loop {
        let due = *next.borrow_and_update();
        let wait = async {
            match due {
                Some(at) if at <= clock.now() => {}
                Some(_) => sleep(EXPIRY_CHECK).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stopping.cancelled() => return,
            () = store.failed() => return,
            changed = next.changed() => if changed.is_err() { return },
            () = wait => if due.is_some_and(|at| at <= clock.now())
                && let Err(refusal) = store.expire(clock.now()).await
            {
                warn!(%refusal, "cannot end expired tasks");
                return;
            }
        }
    }
}
