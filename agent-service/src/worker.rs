//! The worker: one task at a time, in the order of submission.
//!
//! ```text
//! wait ─▶ claim ─▶ run ─▶ returned: end, give back and claim the next in one commit
//!                   ├─ cancelled    the end is recorded; stop, wait for the runner, go on
//!                   ├─ timeout      end FAILED; stop, wait for the runner, go on
//!                   └─ grace over   end FAILED "inspect"; stop, wait for the runner, leave
//! ```
//!
//! An end is recorded at once; the next task is claimed only after the runner has returned, so that two
//! tasks never act at the same time. Queued tasks of events expire by the wall clock beside all this.

use std::sync::Arc;
use std::time::Duration;

use agent_core::task::Ending;
use service_kit::{Clock, Tasks};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info, info_span, warn};

use crate::refusal::Refusal;
use crate::runner::{Outcome, Runner};
use crate::store::{Claim, Store};

/// How often the wall clock is looked at while something may expire.
///
/// A wall clock may be set at any time, so no timer tells when it says a given hour. Expiry is promised
/// within a second.
const EXPIRY_CHECK: Duration = Duration::from_millis(250);

/// How long a runner that was told to stop may still take after a hard stop.
const HARD_STOP_WAIT: Duration = Duration::from_secs(2);

/// Runs tasks until the program stops.
pub struct Worker {
    /// The queue.
    pub store: Store,
    /// Who runs a task.
    pub runner: Arc<dyn Runner>,
    /// The service's clocks.
    pub clock: Clock,
    /// The program's tasks: a soft stop begins the grace, a hard stop ends it.
    pub tasks: Tasks,
    /// How long one task may run, 1 to 3600 s.
    pub task_timeout: Duration,
    /// How long the running task may still run after a soft stop, 0 to 25 s.
    pub grace: Duration,
    /// Cancelled by the worker when no task will end any more, so that nobody waits for one.
    pub closed: CancellationToken,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("task_timeout", &self.task_timeout).finish_non_exhaustive()
    }
}

/// Why a runner is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// A client cancelled the task, or the storage failed; the end is recorded, or cannot be.
    Told,
    /// It outlived its timeout.
    Timeout,
    /// The service stops.
    Stopping,
}

impl Worker {
    /// Runs tasks until a stop is requested, and the one that runs then to its end or to the end of
    /// its grace; closes the runner. Returns early when the storage fails: nothing can be claimed then.
    ///
    /// It must not be dropped half-way but with the process.
    pub async fn run(self) {
        let queue = async {
            self.queue().await;
            self.closed.cancel();
        };
        tokio::join!(queue, expire(&self.store, &self.clock, &self.closed));
        self.runner.close().await;
    }

    async fn queue(&self) {
        let mut next = None;
        loop {
            let claim = match next.take() {
                Some(claim) => claim,
                None => match self.wait_for_task().await {
                    Some(claim) => claim,
                    None => return,
                },
            };
            let span = info_span!("task", task.id = %claim.task());
            match self.work(claim).instrument(span).await {
                Ok(claim) => next = claim,
                Err(refusal) => {
                    debug!(%refusal, "the worker ends");
                    return;
                }
            }
        }
    }

    /// The next task; none when the service stops or the storage has failed.
    async fn wait_for_task(&self) -> Option<Claim> {
        while !self.tasks.soft_stop().is_cancelled() {
            match self.store.claim(self.clock.now()).await {
                Ok(Some(claim)) => return Some(claim),
                Ok(None) => tokio::select! {
                    // A wake-up that came after the claim is kept, so none is lost.
                    () = self.store.woken() => {}
                    () = self.tasks.soft_stop().cancelled() => {}
                    () = self.store.failed() => return None,
                },
                Err(refusal) => {
                    debug!(%refusal, "the worker ends");
                    return None;
                }
            }
        }
        None
    }

    /// Runs one task, and claims the next.
    async fn work(&self, claim: Claim) -> Result<Option<Claim>, Refusal> {
        let started = self.clock.uptime();
        let deadline = Instant::now() + self.task_timeout;
        info!("task started");
        let told = claim.stop();
        let stop = told.child_token();
        let mut run = self.start(&claim, deadline, stop.clone());
        let outcome = tokio::select! {
            biased;
            outcome = &mut run => Ok(outcome),
            () = told.cancelled() => Err(Stop::Told),
            () = sleep_until(deadline) => Err(Stop::Timeout),
            () = self.grace_over() => Err(Stop::Stopping),
        };
        let ending = match outcome {
            Ok(outcome) => Some(ending(outcome)),
            Err(why) => {
                stop.cancel();
                // Its late result is dropped; only its return counts.
                let (recorded, ()) = tokio::join!(self.record(&claim, why), self.returned(run));
                recorded?;
                None
            }
        };
        let ran = self.clock.uptime().saturating_sub(started);
        let duration_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
        info!(duration_ms, "the runner returned");
        self.go_on(&claim, ending).await
    }

    /// Runs the task beside the worker, which so survives a panic in it.
    fn start(
        &self,
        claim: &Claim,
        deadline: Instant,
        stop: CancellationToken,
    ) -> JoinHandle<Outcome> {
        let runner = Arc::clone(&self.runner);
        let job = claim.job(deadline);
        self.tasks.spawn(async move { runner.run(job, stop).await })
    }

    async fn grace_over(&self) {
        self.tasks.soft_stop().cancelled().await;
        tokio::select! {
            () = sleep(self.grace) => {}
            () = self.tasks.hard_stop().cancelled() => {}
        }
    }

    /// Records the end of a task whose runner has not returned.
    async fn record(&self, claim: &Claim, why: Stop) -> Result<(), Refusal> {
        let ending = match why {
            Stop::Told => return Ok(()),
            Stop::Timeout => Ending::timed_out(self.task_timeout.as_secs()),
            Stop::Stopping => Ending::interrupted(),
        };
        let state = ending.state();
        let recorded = self.store.end(claim, ending, self.clock.now()).await?;
        log_end(state, recorded);
        if why == Stop::Stopping {
            self.closed.cancel();
        }
        Ok(())
    }

    /// Waits until nothing of a task acts any more.
    async fn returned(&self, mut run: JoinHandle<Outcome>) {
        let too_long = async {
            self.tasks.hard_stop().cancelled().await;
            sleep(HARD_STOP_WAIT).await;
        };
        tokio::select! {
            late = &mut run => drop(late),
            () = too_long => {
                warn!("the runner is left behind: it did not return after a hard stop");
                run.abort();
            }
        }
    }

    async fn go_on(&self, claim: &Claim, ending: Option<Ending>) -> Result<Option<Claim>, Refusal> {
        let state = ending.as_ref().map(Ending::state);
        let now = self.clock.now();
        let (recorded, next) = if self.tasks.soft_stop().is_cancelled() {
            (self.store.give_back(claim, ending, now).await?, None)
        } else {
            self.store.go_on(claim, ending, now).await?
        };
        if let Some(state) = state {
            log_end(state, recorded);
        }
        Ok(next)
    }
}

fn ending(returned: Result<Outcome, tokio::task::JoinError>) -> Ending {
    match returned {
        Ok(Ok(text)) => Ending::Completed(text),
        Ok(Err(failure)) => Ending::Failed(failure.text),
        Err(error) => {
            error!(%error, "the runner broke off");
            Ending::broken_off()
        }
    }
}

fn log_end(state: agent_wire::a2a::task::TaskState, recorded: bool) {
    if recorded {
        info!(task.state = %state, "task ended");
    } else {
        info!(task.state = %state, "a late result is dropped: the task had ended before");
    }
}

/// Ends queued tasks whose observations have become stale, until `closed`.
///
/// It runs beside the queue: a long task must not keep a stale one in it.
async fn expire(store: &Store, clock: &Clock, closed: &CancellationToken) {
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
            () = closed.cancelled() => return,
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
