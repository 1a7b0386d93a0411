//! Failed starts by key, and how long each key is not tried again. Pure: the time is passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use service_kit::pace::Backoff;

/// The first wait after a failed start, and the longest. Source: the process protocol, rule 4.
const WAIT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How many keys are remembered; a key can come from outside, so the number is bounded.
const MAX_KEYS: usize = 1024;

/// The keys whose last start failed.
#[derive(Debug)]
pub(super) struct Failures<K> {
    backoff: Option<Backoff>,
    failing: BTreeMap<K, Failing>,
}

#[derive(Debug)]
struct Failing {
    times: u32,
    /// By the service's monotonic clock.
    until: Duration,
    last: String,
}

impl<K: Ord + Clone> Failures<K> {
    pub(super) fn new() -> Self {
        Self { backoff: Backoff::new(WAIT.0, WAIT.1).ok(), failing: BTreeMap::new() }
    }

    /// Why this key is not tried now: its last failure, and how long it still waits.
    pub(super) fn hold(&self, key: &K, uptime: Duration) -> Option<String> {
        let failing = self.failing.get(key).filter(|failing| failing.until > uptime)?;
        let wait = failing.until.saturating_sub(uptime).as_millis();
        Some(format!("{} (not tried again for {wait} ms)", failing.last))
    }

    /// A start of this key failed. The wait doubles with each failure in a row.
    pub(super) fn note(&mut self, key: &K, why: &str, uptime: Duration) {
        let times = self.failing.get(key).map_or(1, |failing| failing.times.saturating_add(1));
        // No jitter: instances of one service need not be kept from failing in step.
        let wait = self.backoff.as_ref().map_or(WAIT.0, |backoff| backoff.delay(times, 0.0));
        // One that was not tried for long after its wait begins anew.
        self.failing.retain(|_, failing| failing.until.saturating_add(WAIT.1) > uptime);
        if self.failing.len() >= MAX_KEYS && !self.failing.contains_key(key) {
            let soonest = self.failing.iter().min_by_key(|(_, failing)| failing.until);
            if let Some(key) = soonest.map(|(key, _)| key.clone()) {
                self.failing.remove(&key);
            }
        }
        let until = uptime.saturating_add(wait);
        self.failing.insert(key.clone(), Failing { times, until, last: why.to_owned() });
    }

    /// This key works.
    pub(super) fn forget(&mut self, key: &K) {
        self.failing.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn waits_double_from_100_ms_to_30_s_and_begin_anew_after_a_success() {
        let mut failures = Failures::new();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..12 {
            failures.note(&"a", "no disk", now);
            let begun = now;
            while failures.hold(&"a", now).is_some() {
                now += ms(100);
            }
            waits.push(now.saturating_sub(begun).as_millis());
        }
        let expected =
            [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000];
        assert_eq!(waits, expected);
        failures.note(&"a", "no disk", now);
        let text = failures.hold(&"a", now).unwrap();
        assert_eq!(text, "no disk (not tried again for 30000 ms)");
        failures.forget(&"a");
        assert_eq!(failures.hold(&"a", now), None);
        failures.note(&"a", "no disk", now);
        assert_eq!(failures.hold(&"a", now + ms(100)), None);
    }

    #[test]
    fn keys_neither_wait_for_each_other_nor_shorten_each_others_waits() {
        let mut failures = Failures::new();
        failures.note(&"a", "x", ms(0));
        assert_eq!(failures.hold(&"b", ms(0)), None);
        failures.note(&"b", "y", ms(150));
        failures.note(&"a", "x", ms(200));
        assert!(failures.hold(&"a", ms(399)).is_some(), "its second failure");
    }

    #[test]
    fn keys_from_outside_fill_no_memory() {
        let mut failures = Failures::new();
        for key in 0..5000 {
            failures.note(&key, "x", Duration::ZERO);
        }
        assert_eq!(failures.failing.len(), MAX_KEYS);
        failures.note(&5000, "x", Duration::from_mins(2));
        assert_eq!(failures.failing.len(), 1, "those of long ago are forgotten");
    }
}
