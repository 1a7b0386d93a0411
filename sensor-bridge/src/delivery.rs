//! What to do after a post: a table, without clock, network or chance.
//!
//! | reply | next |
//! |---|---|
//! | 2xx | done |
//! | 429 | nothing to anyone before `Retry-After`, then the same bytes |
//! | 401, 403 | loud; again after 30 s, when a rotated token may be there |
//! | 5xx, no answer | the same bytes after 0.5 s, doubling to 10 s |
//! | anything else (409 too) | dropped for good |
//!
//! A wait that ends when the observation is stale is not begun: it is dropped at once, so that the
//! stream can go on with something newer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::pipeline::count::Reason;

/// The longest that a `Retry-After` is obeyed. Source: BRIDGE, section 4.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// What a 429 without a readable `Retry-After` means: the service's own value.
pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long to wait after a refused token.
pub const UNAUTHORIZED_WAIT: Duration = Duration::from_secs(30);

const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// How a post ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A success, and the trigger took the observation (whatever it made of it).
    Taken,
    /// A success, but the trigger was left untouched: `stale or future event` or
    /// `out-of-order event`. A low that ends so has broken nothing.
    Untouched,
    /// Another status, with what `Retry-After` says, see [`retry_after`].
    Status(u16, Option<Duration>),
    /// No answer: it could not connect, the connection broke, or it took too long. The service may
    /// or may not have it.
    NoAnswer,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The service has it.
    Done,
    /// The same bytes again after this time; other streams go on.
    RetryIn(Duration),
    /// The service is over its limit: nothing to anyone before this time, then the same bytes.
    Limited(Duration),
    /// The token is refused: say so loudly; nothing to anyone before this time, then the same bytes.
    Loud(Duration),
    /// Dropped for good, for this reason.
    Drop(Reason),
}

/// How old an observation is, and how old it may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Its age by the bridge's wall clock; negative when the worker's clock is ahead.
    pub age: SignedDuration,
    /// From when on it is stale: 0.8 of `max_age`.
    pub stale_after: Duration,
}

impl Freshness {
    /// Whether it is too old to be posted once this time has passed.
    pub fn stale_in(self, wait: Duration) -> bool {
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        let limit = SignedDuration::try_from(self.stale_after).unwrap_or(SignedDuration::MAX);
        self.age.saturating_add(wait) > limit
    }
}

/// Decides after the `attempt`-th post, counted from 1. `jitter` is 0 to 1, drawn by the caller: the
/// share of the extra quarter that a limited post waits.
pub fn next(reply: Reply, freshness: Freshness, attempt: u32, jitter: f64) -> Next {
    let unless_stale = |wait, next: fn(Duration) -> Next| {
        if freshness.stale_in(wait) { Next::Drop(Reason::Stale) } else { next(wait) }
    };
    match reply {
        Reply::Taken | Reply::Untouched | Reply::Status(200..=299, _) => Next::Done,
        // A limit holds for every stream, also when this observation does not live to see its end.
        Reply::Status(429, wait) => Next::Limited(limited(wait, jitter)),
        Reply::Status(401 | 403, _) => Next::Loud(UNAUTHORIZED_WAIT),
        Reply::Status(500..=599, _) | Reply::NoAnswer => {
            unless_stale(backoff(attempt), Next::RetryIn)
        }
        Reply::Status(_, _) => Next::Drop(Reason::Rejected),
    }
}

/// 0.5 s, doubled with each attempt, to 10 s.
fn backoff(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(8);
    FIRST_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF)
}

fn limited(wait: Option<Duration>, jitter: f64) -> Duration {
    let wait = wait.unwrap_or(DEFAULT_RETRY_AFTER).min(MAX_RETRY_AFTER);
    let share = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    wait + wait.mul_f64(share / 4.0)
}

/// Reads a `Retry-After`: seconds or an HTTP date, at most 60 s; `None` when it is neither.
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds are a very long time.
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    }
    let at = Timestamp::try_from(httpdate::parse_http_date(value).ok()?).ok()?;
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn aged(seconds: i64) -> Freshness {
        Freshness { age: SignedDuration::from_secs(seconds), stale_after: S * 24 }
    }

    #[test]
    fn retries_what_may_succeed_and_drops_the_rest() {
        let half = S / 2;
        let cases = [
            ("taken", Reply::Taken, 0, 1, Next::Done),
            ("untouched", Reply::Untouched, 0, 1, Next::Done),
            ("another success", Reply::Status(204, None), 99, 1, Next::Done),
            ("limited, as told", Reply::Status(429, Some(S * 3)), 0, 1, Next::Limited(S * 3)),
            ("limited, not told", Reply::Status(429, None), 0, 1, Next::Limited(S)),
            (
                "limited, stale by then",
                Reply::Status(429, Some(S * 3)),
                23,
                1,
                Next::Limited(S * 3),
            ),
            (
                "limited, told nonsense",
                Reply::Status(429, Some(S * 999)),
                0,
                1,
                Next::Limited(S * 60),
            ),
            ("token", Reply::Status(401, None), 0, 1, Next::Loud(S * 30)),
            ("forbidden", Reply::Status(403, None), 0, 9, Next::Loud(S * 30)),
            ("conflict", Reply::Status(409, None), 0, 1, Next::Drop(Reason::Rejected)),
            ("bad request", Reply::Status(400, None), 0, 1, Next::Drop(Reason::Rejected)),
            ("redirect", Reply::Status(302, None), 0, 1, Next::Drop(Reason::Rejected)),
            ("server fault", Reply::Status(500, None), 0, 1, Next::RetryIn(half)),
            ("stopping", Reply::Status(503, Some(S * 5)), 0, 2, Next::RetryIn(S)),
            ("no answer", Reply::NoAnswer, 0, 3, Next::RetryIn(S * 2)),
            ("no answer", Reply::NoAnswer, 0, 5, Next::RetryIn(S * 8)),
            ("no answer, longest", Reply::NoAnswer, 0, 6, Next::RetryIn(S * 10)),
            ("no answer, longest", Reply::NoAnswer, 0, 999, Next::RetryIn(S * 10)),
            ("stale exactly then", Reply::NoAnswer, 22, 3, Next::RetryIn(S * 2)),
            ("stale by then", Reply::NoAnswer, 23, 3, Next::Drop(Reason::Stale)),
            ("a clock ahead", Reply::NoAnswer, -5, 6, Next::RetryIn(S * 10)),
        ];
        for (name, reply, age, attempt, expected) in cases {
            assert_eq!(next(reply, aged(age), attempt, 0.0), expected, "{name}");
        }
    }

    #[test]
    fn a_limit_grows_by_up_to_a_quarter() {
        let wait = |jitter| next(Reply::Status(429, Some(S * 4)), aged(0), 1, jitter);
        let cases = [(0.0, 4.0), (0.5, 4.5), (1.0, 5.0), (7.0, 5.0), (-1.0, 4.0), (f64::NAN, 4.0)];
        for (jitter, seconds) in cases {
            assert_eq!(wait(jitter), Next::Limited(Duration::from_secs_f64(seconds)), "{jitter}");
        }
    }

    #[test]
    fn reads_seconds_and_dates_up_to_a_minute() {
        let now = "2026-05-01T12:00:00Z".parse().unwrap();
        let cases = [
            ("3", Some(3)),
            (" 0 ", Some(0)),
            ("61", Some(60)),
            ("99999999999999999999999", Some(60)),
            ("Fri, 01 May 2026 12:00:07 GMT", Some(7)),
            ("Fri, 01 May 2026 11:59:00 GMT", Some(0)),
            ("Fri, 01 May 2026 13:00:00 GMT", Some(60)),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("soon", None),
        ];
        for (value, expected) in cases {
            assert_eq!(retry_after(value, now), expected.map(Duration::from_secs), "{value:?}");
        }
    }
}
