//! How fast, and when again: a token bucket and an exponential backoff.
//!
//! Both are pure: the time since start and the random spread are parameters. They count in whole
//! nanoseconds, so nothing drifts over a long run.

use std::time::Duration;

/// Lets `burst` through at once and then one each `interval`.
///
/// The state is one number: when the bucket will be full again. It starts full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBucket {
    interval: Duration,
    capacity: Duration,
    full_at: Duration,
}

impl TokenBucket {
    /// A full bucket that holds `burst` tokens and gets one each `interval`.
    ///
    /// With a `burst` of 0 nothing passes; with an `interval` of zero everything does.
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, capacity: interval.saturating_mul(burst), full_at: Duration::ZERO }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// There is none: how long until there is one. The bucket is unchanged.
    pub fn take(&mut self, uptime: Duration) -> Result<(), Duration> {
        let full_at = self.full_at.max(uptime).saturating_add(self.interval);
        let missing = full_at.saturating_sub(uptime);
        if missing > self.capacity {
            return Err(missing.saturating_sub(self.capacity));
        }
        self.full_at = full_at;
        Ok(())
    }

    /// Gives a token back: what it was taken for did not happen. Never more than `burst` are held.
    pub fn refund(&mut self) {
        self.full_at = self.full_at.saturating_sub(self.interval);
    }

    /// How long until [`take`](Self::take) would succeed; zero when it would now.
    pub fn wait(&self, uptime: Duration) -> Duration {
        self.clone().take(uptime).err().unwrap_or(Duration::ZERO)
    }
}

/// Waits that double from `base` up to `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

/// A backoff that would not wait, or not grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a backoff needs a first wait over 0 and a longest wait of at least that; got {base:?} and {cap:?}"
)]
pub struct BadBackoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// A backoff whose first wait is `base` and whose longest is `cap`.
    ///
    /// # Errors
    /// `base` is zero, or `cap` is below it.
    pub fn new(base: Duration, cap: Duration) -> Result<Self, BadBackoff> {
        if base.is_zero() || cap < base {
            return Err(BadBackoff { base, cap });
        }
        Ok(Self { base, cap })
    }

    /// How long to wait after `failures` failures in a row, of which the first is number 1.
    ///
    /// `jitter` in `0.0..=1.0` is a random number of the caller; it takes off up to half of the wait,
    /// so that many clients do not come back together. 0 leaves it whole; outside values are clamped.
    /// The answer is never below half of `base` nor above `cap`. No failures: no wait.
    pub fn delay(&self, failures: u32, jitter: f64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let whole = self.base.saturating_mul(factor).min(self.cap);
        // NaN fails both comparisons of `clamp`, and would panic in `mul_f64`.
        let jitter = if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
        whole.saturating_sub((whole / 2).mul_f64(jitter))
    }
}

#[cfg(test)]
mod tests;
