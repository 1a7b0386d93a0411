//! Times as text: RFC 3339 in, UTC milliseconds out.
//!
//! Stricter than the parser below it, which also takes ISO 8601 and zone annotations. A leap second
//! (`:60`) is read as the last second before it, `:59`, since the clocks that it is compared with have
//! none; that this is so is part of the contract of [`parse`].

use jiff::{SignedDuration, Timestamp};

/// Why a text is no RFC 3339 time with an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// The text does not have the form.
    #[error("must be an RFC 3339 time with an offset, such as 2026-05-01T12:00:00.250Z")]
    Form,
    /// More digits of a second than nanoseconds.
    #[error("must have at most 9 digits of a second")]
    Digits,
    /// The form is right, and there is no such day or hour.
    #[error("must be a time that exists")]
    Range,
}

/// Reads an RFC 3339 time with an offset, to the nanosecond.
///
/// `T` and `Z` may be small, as RFC 3339 says. Second 60 counts as 59 with its fraction.
///
/// # Errors
/// When the form is another, the offset is missing, or there is no such time.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    let form = Form { rest: text.as_bytes() };
    let leap = form.check()?;
    let upper = text.to_ascii_uppercase();
    if !leap {
        return upper.parse().map_err(|_unspecific: jiff::Error| TimeError::Range);
    }
    // The form was checked, so the seconds stand at bytes 17 and 18.
    let (head, tail) = upper.split_at_checked(17).ok_or(TimeError::Form)?;
    let tail = tail.strip_prefix("60").ok_or(TimeError::Form)?;
    format!("{head}59{tail}").parse().map_err(|_unspecific: jiff::Error| TimeError::Range)
}

/// A time as A2A wants it: UTC, three digits of a second, `Z`. What is finer is cut off.
pub fn format_millis(at: Timestamp) -> String {
    // Round down, also before 1970, so that a time never moves into the future.
    let nanos = at.as_nanosecond().rem_euclid(1_000_000);
    let nanos = i64::try_from(nanos).unwrap_or(0);
    let floor = at.checked_sub(SignedDuration::from_nanos(nanos)).unwrap_or(at);
    format!("{floor:.3}")
}

/// Walks over the text once and says whether its second is 60.
struct Form<'a> {
    rest: &'a [u8],
}

impl Form<'_> {
    fn check(mut self) -> Result<bool, TimeError> {
        self.digits(4)?;
        self.one(b"-")?;
        self.digits(2)?;
        self.one(b"-")?;
        self.digits(2)?;
        self.one(b"Tt")?;
        self.digits(2)?;
        self.one(b":")?;
        self.digits(2)?;
        self.one(b":")?;
        let second = self.digits(2)?;
        if second > 60 {
            return Err(TimeError::Range);
        }
        if self.rest.first() == Some(&b'.') {
            self.one(b".")?;
            let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
            match digits {
                0 => return Err(TimeError::Form),
                1..=9 => self.rest = self.rest.get(digits..).unwrap_or_default(),
                _ => return Err(TimeError::Digits),
            }
        }
        if self.one(b"Zz").is_err() {
            self.one(b"+-")?;
            if self.digits(2)? > 23 {
                return Err(TimeError::Range);
            }
            self.one(b":")?;
            if self.digits(2)? > 59 {
                return Err(TimeError::Range);
            }
        }
        if self.rest.is_empty() { Ok(second == 60) } else { Err(TimeError::Form) }
    }

    fn one(&mut self, of: &[u8]) -> Result<(), TimeError> {
        let (first, rest) = self.rest.split_first().ok_or(TimeError::Form)?;
        if !of.contains(first) {
            return Err(TimeError::Form);
        }
        self.rest = rest;
        Ok(())
    }

    fn digits(&mut self, count: usize) -> Result<u32, TimeError> {
        let (digits, rest) = self.rest.split_at_checked(count).ok_or(TimeError::Form)?;
        let mut number = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return Err(TimeError::Form);
            }
            number = number * 10 + u32::from(digit - b'0');
        }
        self.rest = rest;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rfc_3339_with_an_offset_and_nothing_else() {
        let noon = Ok("2026-05-01T12:00:00Z");
        let cases = [
            ("2026-05-01T12:00:00Z", noon),
            ("2026-05-01t12:00:00z", noon),
            ("2026-05-01T12:00:00.000000000Z", noon),
            ("2026-05-01T14:00:00+02:00", noon),
            ("2026-05-01T12:00:00-00:00", noon),
            ("2026-05-01T12:00:00.123456789Z", Ok("2026-05-01T12:00:00.123456789Z")),
            ("2026-05-01T12:00:00.1234567890Z", Err(TimeError::Digits)),
            ("2016-12-31T23:59:60Z", Ok("2016-12-31T23:59:59Z")),
            ("2016-12-31T23:59:60.5Z", Ok("2016-12-31T23:59:59.5Z")),
            ("2016-12-31T23:59:61Z", Err(TimeError::Range)),
            ("2026-02-29T12:00:00Z", Err(TimeError::Range)),
            ("2026-05-01T24:00:00Z", Err(TimeError::Range)),
            ("2026-05-01T12:00:00+24:00", Err(TimeError::Range)),
            ("2026-05-01T12:00:00+00:60", Err(TimeError::Range)),
            ("2026-05-01T12:00:00", Err(TimeError::Form)),
            ("2026-05-01 12:00:00Z", Err(TimeError::Form)),
            ("2026-05-01T12:00Z", Err(TimeError::Form)),
            ("2026-05-01T12:00:00.Z", Err(TimeError::Form)),
            ("2026-05-01T12:00:00,5Z", Err(TimeError::Form)),
            ("2026-05-01T12:00:00+0200", Err(TimeError::Form)),
            ("2026-05-01T12:00:00+02", Err(TimeError::Form)),
            ("2026-05-01T12:00:00+02:00[Europe/Berlin]", Err(TimeError::Form)),
            ("20260501T120000Z", Err(TimeError::Form)),
            ("+002026-05-01T12:00:00Z", Err(TimeError::Form)),
            ("", Err(TimeError::Form)),
            ("２026-05-01T12:00:00Z", Err(TimeError::Form)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected.map(|t| t.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn prints_utc_milliseconds_and_never_a_later_time() {
        let cases = [
            ("2026-05-01T12:00:00Z", "2026-05-01T12:00:00.000Z"),
            ("2026-05-01T12:00:00.1239999Z", "2026-05-01T12:00:00.123Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
            ("2026-05-01T14:00:00+02:00", "2026-05-01T12:00:00.000Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(format_millis(parse(text).unwrap()), expected);
        }
    }
}
