//! A running median over the last frames of a stream, for sources that flicker.
//!
//! A declared loss of truth that the operator chose: a single low frame disappears in it. It starts
//! again after a gap over `max_gap`, because a median over minutes says nothing about now. Of an even
//! number of frames the lower of the two middle ones is taken, so that it never rounds up.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The last confidences of one stream.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Median {
    last: VecDeque<f64>,
    at: Option<Timestamp>,
}

impl Median {
    /// Takes one frame and returns the median of the last `frames`.
    ///
    /// A frame at the time of the one before takes its place.
    pub(crate) fn push(
        &mut self,
        frames: usize,
        max_gap: Duration,
        at: Timestamp,
        confidence: f64,
    ) -> f64 {
        if frames <= 1 {
            return confidence;
        }
        let gap = self.at.map(|last| at.duration_since(last));
        if gap.is_some_and(|gap| gap.is_zero()) {
            self.last.pop_back();
        } else if gap.is_some_and(|gap| over(gap, max_gap)) {
            self.last.clear();
        }
        self.at = Some(at);
        self.last.push_back(confidence);
        while self.last.len() > frames {
            self.last.pop_front();
        }
        let mut sorted: Vec<f64> = self.last.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get((sorted.len() - 1) / 2).copied().unwrap_or(confidence)
    }
}

/// Whether a signed time is over an unsigned one.
pub(crate) fn over(time: SignedDuration, limit: Duration) -> bool {
    SignedDuration::try_from(limit).is_ok_and(|limit| time > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medians(frames: usize, steps: &[(i64, f64)]) -> Vec<f64> {
        let mut median = Median::default();
        let push = |&(ms, confidence): &(i64, f64)| {
            let at = Timestamp::from_millisecond(ms).unwrap();
            median.push(frames, Duration::from_secs(2), at, confidence)
        };
        steps.iter().map(push).collect()
    }

    #[test]
    fn a_single_frame_disappears_in_the_median_of_three() {
        let cases: [(&str, usize, &[(i64, f64)], &[f64]); 6] = [
            ("off", 1, &[(0, 0.9), (1, 0.0)], &[0.9, 0.0]),
            (
                "drop-out",
                3,
                &[(0, 0.9), (1, 0.9), (2, 0.0), (3, 0.8), (4, 0.0)],
                &[0.9, 0.9, 0.9, 0.8, 0.0],
            ),
            ("ghost", 3, &[(0, 0.0), (1, 0.9), (2, 0.0)], &[0.0, 0.0, 0.0]),
            ("an even number takes the lower", 3, &[(0, 0.5), (1, 0.9)], &[0.5, 0.5]),
            ("a gap starts again", 3, &[(0, 0.1), (1, 0.1), (2002, 0.9)], &[0.1, 0.1, 0.9]),
            ("equal time replaces", 3, &[(0, 0.1), (0, 0.9)], &[0.1, 0.9]),
        ];
        for (name, frames, steps, expected) in cases {
            assert_eq!(medians(frames, steps), expected, "{name}");
        }
    }
}
