//! The seeded simulation behind the table in the README: cameras in front of which somebody stands.
//!
//! Parameters as in BRIDGE.md, section 3: 15 frames a second, one in ten drops out to 0.0, highs
//! uniform from 0.86 to 0.99, a presence of 20 s, all within 2 s of each other; trigger 0.85, three in
//! a row, gaps of 2 s, cooldown 30 s, age 10 s; budget 8 a second, burst 8. A post takes
//! [`LATENCY`] to the service and as long back. A presence is found when the trigger fires before it
//! ends. A firing is unsound when a low frame lies inside its run: of the smoothed frames where
//! smoothing is on.
//!
//! `examples/sampling-table.rs` includes this file; the tests of the library run it as well.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sensor_bridge::delivery::Reply;
use sensor_bridge::pipeline::frame::{Detection, Evidence, Message};
use sensor_bridge::pipeline::schedule::bucket::Budget;
use sensor_bridge::pipeline::{
    Expect, Outgoing, Route, RouteError, RouteSpec, Routes, Sampler, Settings, StreamId,
};
use serde_json::Map;

pub(crate) mod trigger;

use trigger::{Firing, Trigger};

const THRESHOLD: f64 = 0.85;
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 15);
const PRESENCE: Duration = Duration::from_secs(20);
const SPREAD: Duration = Duration::from_secs(2);
/// Empty frames before the first and after the last presence.
const MARGIN: Duration = Duration::from_secs(2);
const LATENCY: Duration = Duration::from_millis(5);

/// One cell of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// Cameras at once.
    pub(crate) streams: u32,
    /// Frames of the running median; `None` is strict.
    pub(crate) smooth: Option<usize>,
    /// The seed of its first round; each further round takes the next.
    pub(crate) seed: u64,
}

/// The cells for which BRIDGE.md names figures.
pub(crate) const CELLS: [Cell; 4] = [
    Cell { streams: 1, smooth: None, seed: 1_000 },
    Cell { streams: 4, smooth: None, seed: 4_000 },
    Cell { streams: 8, smooth: None, seed: 8_000 },
    Cell { streams: 16, smooth: Some(3), seed: 16_000 },
];

/// What a cell came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Result {
    pub(crate) presences: usize,
    /// Delays of the presences that were found, sorted.
    pub(crate) delays: Vec<SignedDuration>,
    pub(crate) unsound: usize,
    pub(crate) firings: usize,
    pub(crate) posts: u64,
    pub(crate) frames: u64,
}

impl Result {
    /// A share of the sorted delays, in thousandths; `None` when nothing was found.
    pub(crate) fn delay(&self, per_mille: usize) -> Option<SignedDuration> {
        let at = self.delays.len().saturating_sub(1) * per_mille / 1000;
        self.delays.get(at).copied()
    }

    /// Presences found of each 1,000, rounded down.
    pub(crate) fn found_per_mille(&self) -> usize {
        self.delays.len() * 1000 / self.presences.max(1)
    }
}

/// Runs a cell until it has at least so many presences.
///
/// # Errors
/// When the route of the simulation is refused, which a test would show at once.
pub(crate) fn run(cell: Cell, presences: usize) -> std::result::Result<Result, RouteError> {
    let mut result = Result::default();
    let mut seed = cell.seed;
    while result.presences < presences {
        Round::new(cell, seed)?.run(&mut result);
        seed += 1;
    }
    result.delays.sort_unstable();
    Ok(result)
}

fn expect() -> Expect {
    Expect {
        min_confidence: Some(THRESHOLD),
        consecutive: 3,
        max_gap: Duration::from_secs(2),
        cooldown: Duration::from_secs(30),
        max_age: Duration::from_secs(10),
    }
}

/// A small generator of known quality (`SplitMix64`), so that a seed means the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..1`.
    pub(crate) fn share(&mut self) -> f64 {
        let high = u32::try_from(self.next() >> 32).unwrap_or(u32::MAX);
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }
}

struct Camera {
    name: String,
    from: Duration,
    next_frame: Duration,
    first_high: Option<Timestamp>,
    trigger: Trigger,
    found: bool,
    /// What the trigger should have seen at best: all frames, smoothed where that is on.
    raw: Vec<(Timestamp, f64)>,
    last: Vec<f64>,
}

struct Round {
    cell: Cell,
    start: Timestamp,
    random: Random,
    cameras: Vec<Camera>,
    sampler: Sampler,
    /// Posts on their way to the service, and answers on their way back.
    posts: BTreeMap<(Duration, StreamId), Outgoing>,
    replies: BTreeMap<(Duration, StreamId), Reply>,
}

impl Round {
    fn new(cell: Cell, seed: u64) -> std::result::Result<Self, RouteError> {
        let route = Route::new(RouteSpec {
            from: "cameras".to_owned(),
            labels: vec!["person".to_owned()],
            kind: "person.detected".to_owned(),
            expect: Some(expect()),
            smooth: cell.smooth,
            ..RouteSpec::default()
        })?;
        let budget = Budget { per_second: 8.0, burst: 8 };
        let settings = Settings { budget, ..Settings::default() };
        let mut random = Random(seed);
        let camera = |number: u32| Camera {
            name: format!("camera-{number}"),
            from: MARGIN + SPREAD.mul_f64(random.share()),
            next_frame: FRAME.mul_f64(random.share()),
            first_high: None,
            trigger: Trigger::new(THRESHOLD, expect()),
            found: false,
            raw: Vec::new(),
            last: Vec::new(),
        };
        let cameras = (0..cell.streams).map(camera).collect();
        Ok(Self {
            cell,
            start: Timestamp::from_second(1_789_552_800).unwrap_or(Timestamp::UNIX_EPOCH),
            random,
            cameras,
            sampler: Sampler::new(Routes::new(vec![route])?, settings),
            posts: BTreeMap::new(),
            replies: BTreeMap::new(),
        })
    }

    fn wall(&self, uptime: Duration) -> Timestamp {
        self.start.saturating_add(uptime).unwrap_or(self.start)
    }

    fn run(mut self, result: &mut Result) {
        let end = MARGIN + SPREAD + PRESENCE + MARGIN;
        let mut uptime = Duration::ZERO;
        while uptime < end {
            self.frames(uptime, result);
            self.arrive(uptime, result);
            self.answer(uptime);
            let now = self.wall(uptime);
            while let Some(outgoing) = self.sampler.next(now, uptime) {
                result.posts += 1;
                self.posts.insert((uptime + LATENCY, outgoing.stream), outgoing);
            }
            let frame = self.cameras.iter().map(|camera| camera.next_frame).min();
            let post = self.posts.keys().next().map(|(at, _)| *at);
            let reply = self.replies.keys().next().map(|(at, _)| *at);
            let deadline = self.sampler.next_deadline(uptime);
            let next = [frame, post, reply, deadline].into_iter().flatten().min();
            // Time always goes on, also if the sampler named a moment that has passed.
            uptime = next.unwrap_or(end).max(uptime + Duration::from_nanos(1));
        }
        result.presences += self.cameras.len();
    }

    fn frames(&mut self, uptime: Duration, result: &mut Result) {
        let now = self.wall(uptime);
        for camera in &mut self.cameras {
            if camera.next_frame > uptime {
                continue;
            }
            camera.next_frame += FRAME;
            let there = uptime >= camera.from && uptime < camera.from + PRESENCE;
            let confidence = match (there, self.random.share() < 0.1) {
                (true, false) => Some(0.86 + 0.13 * self.random.share()),
                (true, true) | (false, _) => None,
            };
            if confidence.is_some() {
                camera.first_high.get_or_insert(now);
            }
            let detection = confidence.map(|confidence| Detection {
                label: "person".to_owned(),
                confidence,
                data: Map::new(),
            });
            let message = Message {
                source: camera.name.clone(),
                at: now,
                message_id: None,
                evidence: Evidence::Frame(detection.into_iter().collect()),
            };
            camera.see(now, confidence.unwrap_or(0.0), self.cell.smooth.unwrap_or(1));
            self.sampler.on_message("cameras", &message, uptime);
            result.frames += 1;
        }
    }

    /// Posts reach the service.
    fn arrive(&mut self, uptime: Duration, result: &mut Result) {
        while let Some(post) = self.posts.first_entry().filter(|post| post.key().0 <= uptime) {
            let (_, outgoing) = post.remove_entry();
            let now = self.wall(uptime);
            let camera = self.cameras.iter_mut().find(|camera| from(&outgoing, &camera.name));
            let Some(camera) = camera else { continue };
            let (reply, firing) = camera.trigger.take(outgoing.at, outgoing.confidence, now);
            self.replies.insert((uptime + LATENCY, outgoing.stream), reply);
            let Some(firing) = firing else { continue };
            result.firings += 1;
            result.unsound += usize::from(camera.unsound(firing));
            let until = self.start.saturating_add(camera.from + PRESENCE);
            let in_time = until.is_ok_and(|until| now <= until);
            if let Some(first) = camera.first_high.filter(|_| in_time && !camera.found) {
                camera.found = true;
                result.delays.push(now.duration_since(first));
            }
        }
    }

    fn answer(&mut self, uptime: Duration) {
        while let Some(reply) = self.replies.first_entry().filter(|entry| entry.key().0 <= uptime) {
            let ((_, stream), reply) = reply.remove_entry();
            let now = self.wall(uptime);
            self.sampler.on_reply(stream, reply, 0.0, now, uptime);
        }
    }
}

impl Camera {
    /// Keeps the raw frame as the rule means it, with a median of its own.
    fn see(&mut self, at: Timestamp, confidence: f64, frames: usize) {
        self.last.push(confidence);
        if self.last.len() > frames {
            self.last.remove(0);
        }
        let mut sorted = self.last.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get((sorted.len() - 1) / 2).copied().unwrap_or(confidence);
        self.raw.push((at, median));
    }

    /// Whether a low frame lies inside a run.
    fn unsound(&self, firing: Firing) -> bool {
        self.raw.iter().any(|(at, confidence)| {
            *at >= firing.first && *at <= firing.last && *confidence < THRESHOLD
        })
    }
}

/// Whether a post is of this camera, by its bytes: the model sees what the service sees.
fn from(outgoing: &Outgoing, camera: &str) -> bool {
    let event = agent_wire::event::Event::parse(&outgoing.body);
    event.is_ok_and(|event| event.source().as_str() == camera)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fewer presences than in the table, because this runs without optimisation; the table itself
    // is made by `cargo run --release --example sampling-table`.
    fn reaches(cell: Cell, seconds: f64) {
        let result = run(cell, 48).unwrap();
        assert_eq!(result.unsound, 0);
        assert!(result.firings >= result.delays.len());
        assert_eq!(result.found_per_mille(), 1000);
        let delay = result.delay(500).unwrap().as_secs_f64();
        assert!(delay < seconds, "{delay}");
    }

    #[test]
    fn one_presence_at_once_is_found_within_a_second() {
        reaches(CELLS[0], 1.0);
    }

    #[test]
    fn four_presences_at_once_are_found_within_one_and_a_half_seconds() {
        reaches(CELLS[1], 1.5);
    }

    #[test]
    fn eight_presences_at_once_are_found_within_six_seconds() {
        reaches(CELLS[2], 6.0);
    }

    #[test]
    fn sixteen_presences_at_once_are_found_when_smoothed() {
        reaches(CELLS[3], 6.0);
    }
}
