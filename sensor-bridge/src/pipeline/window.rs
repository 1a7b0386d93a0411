//! A summary of the frames that were left out, so that nothing is hidden from the agent.
//!
//! A window spans what lies between two published observations, without either of them.

use serde_json::{Value, json};

/// How many frames were left out, and between which confidences they lay.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Window {
    frames: u64,
    below: u64,
    range: Option<(f64, f64)>,
}

/// On which side of the threshold a frame lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At or over the threshold; over 0 where it is unknown.
    High,
    /// Below the threshold; 0 where it is unknown.
    Low,
}

impl Window {
    /// This window and one frame after it.
    #[must_use]
    pub fn with(self, confidence: f64, side: Side) -> Self {
        let (min, max) = self.range.unwrap_or((confidence, confidence));
        Self {
            frames: self.frames.saturating_add(1),
            below: self.below.saturating_add(u64::from(side == Side::Low)),
            range: Some((min.min(confidence), max.max(confidence))),
        }
    }

    /// This window and the one after it as one.
    #[must_use]
    pub fn join(self, later: Self) -> Self {
        let range = match (self.range, later.range) {
            (Some((min, max)), Some((low, high))) => Some((min.min(low), max.max(high))),
            (one, other) => one.or(other),
        };
        Self {
            frames: self.frames.saturating_add(later.frames),
            below: self.below.saturating_add(later.below),
            range,
        }
    }

    /// How many frames.
    pub fn frames(self) -> u64 {
        self.frames
    }

    /// `{frames, below, min, max}`; without frames, `min` and `max` are not there.
    pub fn to_json(self) -> Value {
        match self.range {
            Some((min, max)) => {
                json!({ "frames": self.frames, "below": self.below, "min": min, "max": max })
            }
            None => json!({ "frames": self.frames, "below": self.below }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_frames_lows_and_the_range_of_confidence() {
        let window = Window::default().with(0.9, Side::High).with(0.2, Side::Low);
        let later = Window::default().with(0.95, Side::High);
        let cases = [
            (Window::default(), json!({"frames": 0, "below": 0})),
            (window, json!({"frames": 2, "below": 1, "min": 0.2, "max": 0.9})),
            (window.join(later), json!({"frames": 3, "below": 1, "min": 0.2, "max": 0.95})),
            (window.join(Window::default()), window.to_json()),
            (Window::default().join(window), window.to_json()),
        ];
        for (window, expected) in cases {
            assert_eq!(window.to_json(), expected);
        }
    }
}
