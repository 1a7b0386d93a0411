//! The budget: a token bucket whose rate gives way when the service says that it is too much.
//!
//! On 429 the rate falls to 0.7 of itself, once per pause: posts that were under way together are
//! one excess, not several. It recovers by 0.5/s every 10 s up to the budget. Tokens count attempts,
//! because the service looks at each.

use std::time::Duration;

/// What may be sent, for all routes together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Posts a second; 8 by default, of the 10 that the service admits from everyone.
    pub per_second: f64,
    /// Posts at once after a silence; 8 by default.
    pub burst: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { per_second: 8.0, burst: 8 }
    }
}

const CUT: f64 = 0.7;
const RECOVERY: f64 = 0.5;
const RECOVERY_EVERY: Duration = Duration::from_secs(10);
/// The rate never falls below this, or it would not learn that the service is free again.
const LEAST: f64 = 0.5;
/// Sums of floats miss a whole token by less than this.
const ALMOST: f64 = 1e-6;

/// A token bucket with a rate that gives way, and pauses.
#[derive(Clone, Debug)]
pub struct Bucket {
    budget: Budget,
    rate: f64,
    tokens: f64,
    filled: Duration,
    /// When the rate was last cut or raised.
    changed: Duration,
    paused_until: Duration,
}

impl Bucket {
    /// A full bucket. A budget that is no number, or below 0.5 a second, becomes 0.5.
    pub fn new(budget: Budget) -> Self {
        let per_second =
            if budget.per_second.is_finite() { budget.per_second.max(LEAST) } else { LEAST };
        let budget = Budget { per_second, burst: budget.burst.max(1) };
        Self {
            budget,
            rate: per_second,
            tokens: f64::from(budget.burst),
            filled: Duration::ZERO,
            changed: Duration::ZERO,
            paused_until: Duration::ZERO,
        }
    }

    /// Posts a second, now.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Until when nothing may be sent; in the past when nothing holds it back.
    pub fn paused_until(&self) -> Duration {
        self.paused_until
    }

    /// Brings tokens and rate up to date.
    pub fn refill(&mut self, uptime: Duration) {
        let passed = uptime.saturating_sub(self.filled);
        self.filled = self.filled.max(uptime);
        self.tokens =
            (self.tokens + self.rate * passed.as_secs_f64()).min(f64::from(self.budget.burst));
        while self.rate < self.budget.per_second
            && uptime >= self.changed.saturating_add(RECOVERY_EVERY)
        {
            self.rate = (self.rate + RECOVERY).min(self.budget.per_second);
            self.changed = self.changed.saturating_add(RECOVERY_EVERY);
        }
    }

    /// From when on a post may be sent; after [`Bucket::refill`] for the same `uptime`.
    pub fn ready_at(&self, uptime: Duration) -> Duration {
        let missing = 1.0 - ALMOST - self.tokens;
        let wait = if missing > 0.0 {
            // Rounded up, so that the token is there when the time has come.
            Duration::try_from_secs_f64(missing / self.rate)
                .unwrap_or(RECOVERY_EVERY)
                .saturating_add(Duration::from_micros(1))
        } else {
            Duration::ZERO
        };
        self.filled.max(uptime).saturating_add(wait).max(self.paused_until)
    }

    /// Takes the token of one post.
    pub fn take(&mut self) {
        self.tokens = (self.tokens - 1.0).max(0.0);
    }

    /// The service is over its limit: nothing before `wait` has passed, and more slowly from then on.
    pub fn limit(&mut self, uptime: Duration, wait: Duration) {
        if uptime >= self.paused_until {
            self.rate = (self.rate * CUT).max(LEAST);
            self.changed = uptime;
        }
        self.pause(uptime, wait);
    }

    /// Nothing before `wait` has passed.
    pub fn pause(&mut self, uptime: Duration, wait: Duration) {
        self.paused_until = self.paused_until.max(uptime.saturating_add(wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    /// Takes all that is to be had at a time.
    fn drain(bucket: &mut Bucket, uptime: Duration) -> u32 {
        bucket.refill(uptime);
        let mut taken = 0;
        while bucket.ready_at(uptime) <= uptime {
            bucket.take();
            taken += 1;
        }
        taken
    }

    #[test]
    fn gives_a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(Budget::default());
        let cases = [(0, 8), (0, 0), (100, 0), (125, 1), (1125, 8), (60_000, 8)];
        for (ms, expected) in cases {
            assert_eq!(drain(&mut bucket, Duration::from_millis(ms)), expected, "{ms} ms");
        }
    }

    #[test]
    fn says_when_the_next_token_is_there() {
        let mut bucket = Bucket::new(Budget { per_second: 3.0, burst: 1 });
        let mut uptime = S;
        for _ in 0..1000 {
            assert_eq!(drain(&mut bucket, uptime), 1);
            uptime = bucket.ready_at(uptime);
        }
        assert!(uptime < S * 335 && uptime > S * 333, "{uptime:?}");
    }

    #[test]
    fn a_limit_pauses_cuts_once_and_recovers_in_steps() {
        let mut bucket = Bucket::new(Budget::default());
        bucket.refill(S * 100);
        bucket.limit(S * 100, S * 2);
        bucket.limit(S * 101, S * 2);
        assert!(near(bucket.rate(), 5.6), "{}", bucket.rate());
        assert_eq!(bucket.ready_at(S * 101), S * 103);
        let cases = [(109, 5.6), (110, 6.1), (120, 6.6), (139, 7.1), (1000, 8.0)];
        for (seconds, rate) in cases {
            bucket.refill(S * seconds);
            assert!(near(bucket.rate(), rate), "{seconds} s: {}", bucket.rate());
        }
        for step in 0..50 {
            bucket.limit(S * (2000 + step), Duration::ZERO);
        }
        assert!(near(bucket.rate(), LEAST));
    }
}
