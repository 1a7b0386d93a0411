//! Reads the time of a message: an absolute time near the present, or a
//! sentence why not.
//!
//! A wrong clock is the commonest fault of a new worker and the hardest to
//! see, since the service only says that the event is stale. So each refusal
//! names the likely cause. Reading takes a [`Unit`]; nothing guesses units.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How far ahead of the clock a time may be.
///
/// Source: CONTRACT.md section 4, the service's own limit.
pub const MAX_AHEAD: SignedDuration = SignedDuration::from_secs(5);

/// From which lead on an operator is told, once per source (BRIDGE.md section 2).
pub const WARN_AHEAD: SignedDuration = SignedDuration::from_millis(250);

/// 2001-01-01T00:00:00Z: no worker that we read is older (BRIDGE.md section 2).
const EARLIEST: i64 = 978_307_200;

/// How near to the present a reading in another unit must be to be named as the cause.
const PLAUSIBLE_SECONDS: f64 = 366.0 * 86_400.0;

/// What a number or text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds since 1970 in UTC, with a fraction that is kept to the microsecond.
    Seconds,
    /// RFC 3339 with an offset.
    Rfc3339,
}

/// Why a time cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TimeFault {
    /// There is none.
    #[error("{field} is missing; every message needs the time at which the frame was seen")]
    Missing {
        /// Where it should be.
        field: &'static str,
    },
    /// Neither number nor text of the wanted kind.
    #[error("{field} must be {expected}")]
    Malformed {
        /// Where it is.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// NaN or an infinity.
    #[error("the time is not a finite number")]
    NotFinite,
    /// Before 2001.
    #[error("the time {given} is before 2001: {cause}")]
    TooOld {
        /// What was given, as read.
        given: String,
        /// The likely cause.
        cause: &'static str,
    },
    /// More than [`MAX_AHEAD`] ahead of the clock.
    #[error("the time {given} is in the future: {cause}")]
    TooNew {
        /// What was given, as read.
        given: String,
        /// The likely cause.
        cause: &'static str,
    },
}

/// Reads the time in `value` and checks it against the receive time.
///
/// A number inside a string is a number. Fractions of a second are rounded
/// to the microsecond, which is what a double holds for present times.
pub fn read(
    value: Option<&Value>,
    field: &'static str,
    unit: Unit,
    received: Timestamp,
) -> Result<Timestamp, TimeFault> {
    let value = match value {
        None | Some(Value::Null) => return Err(TimeFault::Missing { field }),
        Some(value) => value,
    };
    match unit {
        Unit::Seconds => admit(seconds(value, field, received)?, received),
        Unit::Rfc3339 => admit(rfc3339(value, field)?, received),
    }
}

/// Checks a time against the receive time: after 2001, at most [`MAX_AHEAD`] ahead.
pub fn admit(at: Timestamp, received: Timestamp) -> Result<Timestamp, TimeFault> {
    if at.as_second() < EARLIEST {
        let cause = "it looks relative (seconds since the stream or the machine started)";
        return Err(TimeFault::TooOld { given: at.to_string(), cause });
    }
    let ahead = at.duration_since(received);
    if ahead > MAX_AHEAD {
        return Err(TimeFault::TooNew { given: at.to_string(), cause: cause_of_lead(ahead) });
    }
    Ok(at)
}

fn rfc3339(value: &Value, field: &'static str) -> Result<Timestamp, TimeFault> {
    let malformed = TimeFault::Malformed { field, expected: "an RFC 3339 time with an offset" };
    let Value::String(text) = value else { return Err(malformed) };
    // jiff also reads a zone in brackets after the offset, which RFC 3339 lacks.
    if text.ends_with(']') {
        return Err(malformed);
    }
    text.parse().map_err(|_unusable: jiff::Error| malformed)
}

fn seconds(
    value: &Value,
    field: &'static str,
    received: Timestamp,
) -> Result<Timestamp, TimeFault> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let number = number.ok_or(TimeFault::Malformed { field, expected: "seconds since 1970" })?;
    if !number.is_finite() {
        return Err(TimeFault::NotFinite);
    }
    if let Some(cause) = finer_unit(number, received) {
        return Err(TimeFault::TooNew { given: number.to_string(), cause });
    }
    SignedDuration::try_from_secs_f64(number)
        .and_then(|since| {
            let micros = SignedDuration::from_micros(rounded_micros(since));
            Timestamp::from_duration(micros)
        })
        .map_err(|_outside: jiff::Error| {
            let given = number.to_string();
            if number < 0.0 {
                TimeFault::TooOld { given, cause: "it is before all clocks" }
            } else {
                TimeFault::TooNew { given, cause: "it is no number of seconds since 1970" }
            }
        })
}

/// Whole microseconds, the nearest. A time outside of `i64` is outside of any clock, too.
fn rounded_micros(since: SignedDuration) -> i64 {
    let half = if since.is_negative() { -500 } else { 500 };
    let nanos = since.as_nanos().saturating_add(half);
    i64::try_from(nanos / 1_000).unwrap_or(i64::MAX)
}

/// A number that is near the present in a finer unit than seconds.
fn finer_unit(number: f64, received: Timestamp) -> Option<&'static str> {
    let now = received.as_duration().as_secs_f64();
    [
        (1e3, "milliseconds read as seconds"),
        (1e6, "microseconds read as seconds"),
        (1e9, "nanoseconds read as seconds"),
    ]
    .into_iter()
    .find(|(per_second, _)| (number / per_second - now).abs() < PLAUSIBLE_SECONDS)
    .map(|(_, cause)| cause)
}

/// A lead of whole quarters of an hour, up to fourteen hours, is a time zone.
fn cause_of_lead(ahead: SignedDuration) -> &'static str {
    const QUARTER: i64 = 900;
    /// Room for a late message and a clock that is a little off.
    const SLACK: i64 = 60;
    let seconds = ahead.as_secs();
    let off = seconds % QUARTER;
    let near = off <= SLACK || off >= QUARTER - SLACK;
    if near && (QUARTER - SLACK..=14 * 3600 + SLACK).contains(&seconds) {
        "local time read as UTC? it is ahead by whole quarters of an hour"
    } else {
        "the worker's clock is ahead of ours; compare both with a time server"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-09-16T10:00:00.5Z";

    #[test]
    fn times_near_the_present_are_read_to_the_microsecond() {
        let cases = [
            (
                "float seconds",
                json!(1_789_552_800.418_712),
                Unit::Seconds,
                "2026-09-16T10:00:00.418712Z",
            ),
            (
                "a number inside a string",
                json!("1789552800.4"),
                Unit::Seconds,
                "2026-09-16T10:00:00.4Z",
            ),
            ("whole seconds", json!(1_789_552_800), Unit::Seconds, "2026-09-16T10:00:00Z"),
            (
                "text",
                json!("2026-09-16T12:00:00.25+02:00"),
                Unit::Rfc3339,
                "2026-09-16T10:00:00.25Z",
            ),
            (
                "exactly 5 s ahead",
                json!("2026-09-16T10:00:05.5Z"),
                Unit::Rfc3339,
                "2026-09-16T10:00:05.5Z",
            ),
        ];
        for (name, value, unit, expected) in cases {
            let read = read(Some(&value), "timestamp", unit, now()).map(|at| at.to_string());
            assert_eq!(read, Ok(expected.to_owned()), "{name}");
        }
    }

    #[test]
    fn every_refusal_names_the_likely_cause() {
        let cases = [
            ("stream time", json!(67.133), Unit::Seconds, "it looks relative"),
            (
                "milliseconds",
                json!(1_789_552_800_418_i64),
                Unit::Seconds,
                "milliseconds read as seconds",
            ),
            (
                "microseconds",
                json!(1_789_552_800_418_000_i64),
                Unit::Seconds,
                "microseconds read as seconds",
            ),
            (
                "nanoseconds",
                json!(1.789_552_800_418e18),
                Unit::Seconds,
                "nanoseconds read as seconds",
            ),
            (
                "local time as UTC",
                json!("2026-09-16T12:00:00.4Z"),
                Unit::Rfc3339,
                "local time read as UTC",
            ),
            (
                "a clock that runs ahead",
                json!("2026-09-16T10:00:05.6Z"),
                Unit::Rfc3339,
                "clock is ahead",
            ),
            ("no offset", json!("2026-09-16T12:00:00"), Unit::Rfc3339, "with an offset"),
            (
                "a zone in brackets",
                json!("2026-09-16T12:00:00+02:00[Europe/Berlin]"),
                Unit::Rfc3339,
                "with an offset",
            ),
            ("a number where text belongs", json!(5), Unit::Rfc3339, "with an offset"),
            ("text where a number belongs", json!("noon"), Unit::Seconds, "seconds since 1970"),
            ("NaN in a string", json!("NaN"), Unit::Seconds, "finite"),
            ("beyond all calendars", json!(1e300), Unit::Seconds, "no number of seconds"),
            ("long ago", json!("2000-12-31T23:59:59Z"), Unit::Rfc3339, "before 2001"),
            ("null", Value::Null, Unit::Seconds, "timestamp is missing"),
        ];
        for (name, value, unit, cause) in cases {
            let fault = read(Some(&value), "timestamp", unit, now()).unwrap_err().to_string();
            assert!(fault.contains(cause), "{name}: {fault}");
        }
    }

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }
}
