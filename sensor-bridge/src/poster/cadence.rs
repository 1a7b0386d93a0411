//! Says once per route that its worker is too slow for the trigger.
//!
//! A worker that speaks every six seconds can never give three observations
//! within gaps of two; nothing is wrong then, and nothing ever happens. The
//! gaps are those of the worker's own times within one appearance: an absence
//! ends it, since the time until the next visitor says nothing about cadence.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::pipeline::{
    frame::{Evidence, Message},
    route::{Route, RouteId, Routes},
};

/// Gaps in a row that are too long before it is said.
const PROOF: u32 = 3;

/// Event sources that are watched at once, per route.
const MAX_SOURCES: usize = 1024;

/// What is known about the cadence of each route's workers.
#[derive(Debug, Default)]
pub struct Cadence {
    routes: BTreeMap<RouteId, Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    warned: bool,
    sources: BTreeMap<String, Gaps>,
}

#[derive(Debug)]
struct Gaps {
    last: Timestamp,
    too_long: u32,
    longest: Duration,
}

/// A route whose worker is too slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooSlow {
    /// The event source that showed it.
    pub source: String,
    /// The longest gap that was seen.
    pub gap: Duration,
    /// `max_gap_seconds` that would work.
    pub max_gap_seconds: u64,
}

impl Cadence {
    /// Takes one message; says of which routes it proves that their trigger cannot fire.
    pub fn heard(
        &mut self,
        routes: &Routes,
        source_name: &str,
        message: &Message,
    ) -> Vec<(RouteId, TooSlow)> {
        let of_source = routes.of(source_name).iter().copied();
        of_source
            .filter_map(|id| {
                let route = routes.get(id)?;
                let heard = self.routes.entry(id).or_default();
                Some((id, heard.message(route, message)?))
            })
            .collect()
    }
}

impl Heard {
    fn message(&mut self, route: &Route, message: &Message) -> Option<TooSlow> {
        // A single observation has no gaps.
        if self.warned || route.expect().consecutive < 2 {
            return None;
        }
        match &message.evidence {
            Evidence::Absent { label, .. } if route.labels().contains(label) => {
                self.sources.remove(&message.source);
                return None;
            }
            Evidence::Object(detection) if route.labels().contains(&detection.label) => {}
            Evidence::Frame(_) | Evidence::Part(_) => {}
            Evidence::Absent { .. } | Evidence::Object(_) => return None,
        }
        let limit = route.expect().max_gap;
        let Some(gaps) = self.sources.get_mut(&message.source) else {
            if self.sources.len() < MAX_SOURCES {
                let gaps = Gaps { last: message.at, too_long: 0, longest: Duration::ZERO };
                self.sources.insert(message.source.clone(), gaps);
            }
            return None;
        };
        let gap = Duration::try_from(message.at.duration_since(gaps.last)).unwrap_or_default();
        gaps.last = gaps.last.max(message.at);
        // Equal times are one frame, and older ones say nothing about the next.
        if gap.is_zero() {
            return None;
        }
        if gap <= limit {
            gaps.too_long = 0;
            gaps.longest = Duration::ZERO;
            return None;
        }
        gaps.too_long += 1;
        gaps.longest = gaps.longest.max(gap);
        if gaps.too_long < PROOF {
            return None;
        }
        let gap = gaps.longest;
        self.warned = true;
        self.sources.clear();
        // Half as much again, for a gap that is longer than those so far; at most what the service takes.
        let max_gap_seconds = (gap.as_secs() + 1 + gap.as_secs() / 2).min(3600);
        Some(TooSlow { source: message.source.clone(), gap, max_gap_seconds })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::pipeline::{
        frame::Detection,
        route::{Expect, RouteSpec},
    };

    #[test]
    fn a_worker_that_speaks_too_seldom_is_told_once_with_numbers_that_would_work() {
        // The times of Frigate about one standing person.
        let told = tell(3, 2, &[seen(0.4), seen(6.6), seen(12.8), seen(19.0), seen(25.2)]);
        let expected = TooSlow {
            source: "door".to_owned(),
            gap: Duration::from_millis(6200),
            max_gap_seconds: 10,
        };
        assert_eq!(told, [(3, expected)]);
    }

    #[test]
    fn a_worker_that_can_fire_the_trigger_is_left_alone() {
        let cases: [(&str, u32, u64, &[Message]); 5] = [
            ("it is fast enough", 3, 7, &[seen(0.0), seen(6.2), seen(12.4), seen(18.6)]),
            ("one is enough", 1, 2, &[seen(0.0), seen(6.2), seen(12.4), seen(18.6)]),
            (
                "it speaks up now and then",
                3,
                2,
                &[seen(0.0), seen(6.0), seen(12.0), seen(13.0), seen(19.0), seen(25.0)],
            ),
            (
                "visitors are rare",
                3,
                2,
                &[
                    seen(0.0),
                    gone(1.0),
                    seen(60.0),
                    gone(61.0),
                    seen(120.0),
                    gone(121.0),
                    seen(180.0),
                ],
            ),
            ("several objects at one time", 3, 2, &[seen(0.0), seen(0.0), seen(0.0), seen(0.0)]),
        ];
        for (name, consecutive, max_gap, messages) in cases {
            assert_eq!(tell(consecutive, max_gap, messages), [], "{name}");
        }
    }

    fn tell(consecutive: u32, max_gap: u64, messages: &[Message]) -> Vec<(usize, TooSlow)> {
        let max_gap = Duration::from_secs(max_gap);
        let expect = Expect { consecutive, max_gap, ..Expect::default() };
        let spec = RouteSpec {
            from: "house".to_owned(),
            labels: vec!["person".to_owned()],
            kind: "person.detected".to_owned(),
            expect: Some(expect),
            ..RouteSpec::default()
        };
        let routes = Routes::new(vec![Route::new(spec).unwrap()]).unwrap();
        let mut cadence = Cadence::default();
        messages
            .iter()
            .enumerate()
            .flat_map(|(place, message)| {
                let told = cadence.heard(&routes, "house", message);
                told.into_iter().map(move |(_, too_slow)| (place, too_slow))
            })
            .collect()
    }

    fn seen(at: f64) -> Message {
        let label = "person".to_owned();
        message(at, Evidence::Object(Detection { label, confidence: 0.9, data: Map::new() }))
    }

    fn gone(at: f64) -> Message {
        message(at, Evidence::Absent { label: "person".to_owned(), data: Map::new() })
    }

    fn message(at: f64, evidence: Evidence) -> Message {
        let at = Timestamp::UNIX_EPOCH + Duration::from_secs_f64(at);
        Message { source: "door".to_owned(), at, message_id: None, evidence }
    }
}
