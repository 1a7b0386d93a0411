//! The time, from one place.
//!
//! Rules take `now` (wall clock) or `uptime` (monotonic) as parameters; the shells around them ask a
//! [`Clock`] once per message and pass the answer down. Deadlines, limiters and grace periods use
//! `uptime`, since the wall clock may jump; what is compared with a time from outside uses `now`.
//!
//! Sleeping is not done here: `tokio::time` does it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A handle on a clock; clones share it.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System { start: Instant },
    Manual(Arc<Mutex<Reading>>),
    Tokio { start: Instant, at_start: Timestamp },
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    now: Timestamp,
    uptime: Duration,
}

impl Clock {
    /// The clocks of the machine; `uptime` counts from this call.
    pub fn system() -> Self {
        Self(Source::System { start: Instant::now() })
    }

    /// A wall clock that reads `now` at this call and then goes with tokio's time.
    ///
    /// For tests with paused time, so that sleeps and timestamps agree. Not with a database: tokio
    /// takes a runtime that waits for a database thread for idle, and jumps to the next timeout.
    pub fn following_tokio(now: Timestamp) -> Self {
        Self(Source::Tokio { start: Instant::now(), at_start: now })
    }

    /// The wall clock. It may jump in either direction.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } => system_now(),
            Source::Manual(reading) => read(reading).now,
            Source::Tokio { start, at_start } => after(*at_start, start.elapsed()),
        }
    }

    /// Time since the clock was made; never goes back.
    pub fn uptime(&self) -> Duration {
        match &self.0 {
            Source::System { start } | Source::Tokio { start, .. } => start.elapsed(),
            Source::Manual(reading) => read(reading).uptime,
        }
    }
}

/// A clock that a test moves by hand.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Reading>>);

impl ManualClock {
    /// A clock that stands at `now`, with an uptime of zero.
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Reading { now, uptime: Duration::ZERO })))
    }

    /// The handle for what is tested.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(Arc::clone(&self.0)))
    }

    /// Time passes: both clocks go on.
    pub fn advance(&self, by: Duration) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reading.now = after(reading.now, by);
        reading.uptime = reading.uptime.saturating_add(by);
    }

    /// The wall clock jumps, as after a correction; the uptime stays.
    pub fn set_wall(&self, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now = now;
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn system_now() -> Timestamp {
    Timestamp::now()
}

fn read(reading: &Mutex<Reading>) -> Reading {
    // A panic of another test thread leaves two plain numbers, which are right in any case.
    *reading.lock().unwrap_or_else(PoisonError::into_inner)
}

fn after(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn noon() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let manual = ManualClock::new(noon());
        let clock = manual.clock();
        assert_eq!((clock.now(), clock.uptime()), (noon(), Duration::ZERO));
        manual.advance(SECOND);
        assert_eq!((clock.now(), clock.uptime()), (after(noon(), SECOND), SECOND));
    }

    #[test]
    fn a_jump_of_the_wall_clock_leaves_the_uptime_alone() {
        let manual = ManualClock::new(noon());
        manual.advance(SECOND);
        manual.set_wall(Timestamp::UNIX_EPOCH);
        assert_eq!(manual.clock().now(), Timestamp::UNIX_EPOCH);
        assert_eq!(manual.clock().uptime(), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_follows_tokio_agrees_with_its_sleeps() {
        let clock = Clock::following_tokio(noon());
        tokio::time::sleep(SECOND * 90).await;
        assert_eq!(clock.now(), after(noon(), SECOND * 90));
        assert_eq!(clock.uptime(), SECOND * 90);
    }

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = Clock::system();
        let (first, second) = (clock.uptime(), clock.uptime());
        assert!(first <= second);
        assert!(clock.now() > noon());
    }
}
