//! Reads a score: finite, inside `0..=scale`, or refused.
//!
//! A score is never guessed and never clamped; the one exception is an
//! overshoot of at most [`OVERSHOOT`], which float arithmetic leaves behind.

use serde_json::Value;

/// How far over its scale a score may be, as a share of the scale.
///
/// Source: BRIDGE.md section 2 ("an overshoot of 1e-6 is clamped").
pub const OVERSHOOT: f64 = 1e-6;

/// Why a score cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfidenceFault {
    /// There is none; `null` is what several workers write for NaN.
    #[error(
        "a detection of {label:?} has no confidence; \
         set `confidence: {{const: N}}` on its route if the worker has none to give"
    )]
    Missing {
        /// Whose score it would be.
        label: String,
    },
    /// Something else than a number.
    #[error("confidence must be a number from 0 to {scale}")]
    NotANumber {
        /// The highest score of this worker.
        scale: f64,
    },
    /// NaN, an infinity, or outside of the scale.
    #[error("confidence {given} is outside of 0 to {scale}")]
    OutOfRange {
        /// What the worker said.
        given: f64,
        /// The highest score of this worker.
        scale: f64,
    },
}

/// Reads the score of one detection, as a share of `scale`.
///
/// A number inside a string is a number. `constant` is what the route says
/// for workers that give no score; a score that is there always wins, also
/// when it is unusable.
pub fn read(
    value: Option<&Value>,
    label: &str,
    scale: f64,
    constant: Option<f64>,
) -> Result<f64, ConfidenceFault> {
    let given = match value {
        None | Some(Value::Null) => {
            return constant.ok_or_else(|| ConfidenceFault::Missing { label: label.to_owned() });
        }
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    let given = given.ok_or(ConfidenceFault::NotANumber { scale })?;
    let share = given / scale;
    if !(0.0..=1.0 + OVERSHOOT).contains(&share) {
        return Err(ConfidenceFault::OutOfRange { given, scale });
    }
    Ok(share.min(1.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_score_is_finite_and_inside_its_scale_or_refused() {
        let cases = [
            ("the lower end", json!(0), 1.0, Some(0.0)),
            ("the upper end", json!(1.0), 1.0, Some(1.0)),
            ("kept to the last digit", json!(0.789_062_5), 1.0, Some(0.789_062_5)),
            ("a number inside a string", json!("0.5"), 1.0, Some(0.5)),
            ("of a hundred", json!(87.5), 100.0, Some(0.875)),
            ("an overshoot of arithmetic", json!(1.000_000_9), 1.0, Some(1.0)),
            ("more than that", json!(1.000_002), 1.0, None),
            ("a percentage read as a share", json!(87.5), 1.0, None),
            ("below nothing", json!(-0.000_000_1), 1.0, None),
            ("NaN in a string", json!("NaN"), 1.0, None),
            ("an infinity in a string", json!("inf"), 1.0, None),
            ("a word", json!("high"), 1.0, None),
            ("a flag", json!(true), 1.0, None),
        ];
        for (name, value, scale, expected) in cases {
            assert_eq!(read(Some(&value), "person", scale, None).ok(), expected, "{name}");
        }
    }

    #[test]
    fn a_missing_score_is_what_the_route_says_and_never_invented() {
        assert_eq!(read(None, "person", 1.0, Some(0.9)), Ok(0.9));
        assert_eq!(read(Some(&Value::Null), "person", 1.0, Some(0.9)), Ok(0.9));
        assert!(matches!(
            read(None, "person", 1.0, None),
            Err(ConfidenceFault::Missing { label }) if label == "person"
        ));
    }

    #[test]
    fn a_constant_does_not_hide_an_unusable_score() {
        assert!(read(Some(&json!(87)), "person", 1.0, Some(0.9)).is_err());
    }
}
