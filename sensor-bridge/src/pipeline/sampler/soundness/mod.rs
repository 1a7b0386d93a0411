//! The sampling rule as a property, for random frames over a random network.
//!
//! A model of the service (its trigger, its receipts) stands at the other end. Whatever is lost, in
//! front of the sampler or behind it, limited, refused, answered late or delivered after it was given
//! up: between two consecutive highs that the service took there is no raw low, unless its sequence
//! started again in between by the gap; and no run that fired has a raw low inside. Without a
//! threshold both hold for every one.

use std::collections::BTreeMap;
use std::time::Duration;

use agent_wire::event::Event;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::Map;

use super::{Outgoing, Sampler, Settings};
use crate::delivery::Reply;
use crate::pipeline::derive::StreamId;
use crate::pipeline::frame::{Detection, Evidence, Message};
use crate::pipeline::route::{Route, RouteSpec, Routes};
use crate::pipeline::simulate::trigger::{Firing, Trigger};

mod scenario;

use scenario::{Fate, Frame, LEVELS, MS, Scenario, scenario};

/// The service's side of one stream.
struct Service {
    triggers: Vec<(f64, Trigger)>,
    firings: Vec<(f64, Firing)>,
    /// What it took, in its order.
    taken: Vec<(Timestamp, f64)>,
    receipts: BTreeMap<String, Reply>,
}

impl Service {
    fn take(&mut self, outgoing: &Outgoing, now: Timestamp) -> Reply {
        let event = Event::parse(&outgoing.body).unwrap();
        if let Some(known) = self.receipts.get(event.id().as_str()) {
            return *known;
        }
        let at = event.timestamp();
        let confidence = event.confidence().unwrap().get();
        let mut reply = Reply::Taken;
        for (threshold, trigger) in &mut self.triggers {
            let (answer, firing) = trigger.take(at, confidence, now);
            self.firings.extend(firing.map(|firing| (*threshold, firing)));
            reply = answer;
        }
        if reply == Reply::Taken {
            self.taken.push((at, confidence));
        }
        self.receipts.insert(event.id().as_str().to_owned(), reply);
        reply
    }
}

struct World {
    scenario: Scenario,
    start: Timestamp,
    uptime: Duration,
    sampler: Sampler,
    services: BTreeMap<String, Service>,
    raw: BTreeMap<String, BTreeMap<Timestamp, f64>>,
    bodies: BTreeMap<String, bytes::Bytes>,
    arrivals: BTreeMap<(Duration, usize), Outgoing>,
    replies: BTreeMap<(Duration, StreamId), Reply>,
    on_arrival: BTreeMap<usize, Duration>,
    posts: usize,
    paused_until: Duration,
    /// Whether the sampler is told of a loss, as it should be.
    tells: bool,
    /// Frames were lost since the last one that the sampler saw.
    lost: bool,
}

impl World {
    fn new(scenario: Scenario) -> Self {
        let route = Route::new(RouteSpec {
            from: "house".to_owned(),
            labels: vec!["person".to_owned()],
            kind: "person.detected".to_owned(),
            expect: Some(scenario.expect()),
            window: scenario.consecutive == 2,
            ..RouteSpec::default()
        });
        let routes = Routes::new(vec![route.unwrap()]).unwrap();
        let settings = Settings { budget: scenario.budget, ..Settings::default() };
        Self {
            start: "2026-09-16T10:00:00Z".parse().unwrap(),
            uptime: Duration::ZERO,
            sampler: Sampler::new(routes, settings),
            services: BTreeMap::new(),
            raw: BTreeMap::new(),
            bodies: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            replies: BTreeMap::new(),
            on_arrival: BTreeMap::new(),
            posts: 0,
            paused_until: Duration::ZERO,
            tells: true,
            lost: false,
            scenario,
        }
    }

    fn now(&self) -> Timestamp {
        self.start.saturating_add(self.uptime).unwrap()
    }

    fn run(&mut self) {
        let mut at = Duration::ZERO;
        for frame in self.scenario.frames.clone() {
            at += if frame.repeat { Duration::ZERO } else { MS * frame.wait_ms };
            self.until(at);
            self.see(&frame);
        }
        self.until(at + Duration::from_secs(1));
        self.sampler.stop(self.uptime);
        self.until(at + Duration::from_mins(2));
        assert!(self.sampler.is_drained(), "{:?}", self.sampler.snapshot());
    }

    fn see(&mut self, frame: &Frame) {
        let camera = format!("camera-{}", frame.camera);
        let confidence = LEVELS[frame.level];
        let detection = Detection { label: "person".to_owned(), confidence, data: Map::new() };
        let at = self.now();
        let best = self.raw.entry(camera.clone()).or_default().entry(at).or_insert(confidence);
        *best = best.max(confidence);
        if frame.lost {
            self.lost = true;
            return;
        }
        if std::mem::take(&mut self.lost) && self.tells {
            self.sampler.on_lost("house", self.uptime);
        }
        let evidence = Evidence::Frame(vec![detection]);
        let message = Message { source: camera, at, message_id: None, evidence };
        self.sampler.on_message("house", &message, self.uptime);
    }

    /// Lets time pass, with all that happens on the way.
    fn until(&mut self, end: Duration) {
        loop {
            self.network();
            while let Some(outgoing) = self.sampler.next(self.now(), self.uptime) {
                self.post(outgoing);
            }
            let deadline = self.sampler.next_deadline(self.uptime);
            assert!(deadline.is_none_or(|at| at > self.uptime), "it would spin: {deadline:?}");
            let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
            let reply = self.replies.keys().next().map(|(at, _)| *at);
            match [deadline, arrival, reply].into_iter().flatten().min() {
                Some(next) if next <= end => self.uptime = self.uptime.max(next),
                Some(_) | None => break,
            }
        }
        self.uptime = self.uptime.max(end);
        self.network();
    }

    fn post(&mut self, outgoing: Outgoing) {
        assert!(self.uptime >= self.paused_until, "posted before Retry-After");
        let age = self.now().duration_since(outgoing.at);
        let stale =
            SignedDuration::from_millis(i64::try_from(self.scenario.max_age).unwrap() * 800);
        assert!(age <= stale, "posted at an age of {age:?}");
        let known =
            self.bodies.entry(outgoing.id.to_string()).or_insert_with(|| outgoing.body.clone());
        assert_eq!(*known, outgoing.body, "one id, other bytes");
        let (stream, here) = (outgoing.stream, self.uptime);
        assert!(self.replies.keys().all(|(_, other)| *other != stream), "two posts of one stream");
        let fate = self.scenario.fates[self.posts % self.scenario.fates.len()];
        self.posts += 1;
        let number = self.posts;
        let mut reply = |after: u32, reply| {
            self.replies.insert((here + MS * after, stream), reply);
        };
        match fate {
            Fate::Answered(after) => {
                // The answer is what the service says; it is put in when the post arrives.
                self.on_arrival.insert(number, here + MS * after);
                reply(after, Reply::Taken);
                self.arrivals.insert((here, number), outgoing);
            }
            Fate::AnswerLost => {
                reply(1000, Reply::NoAnswer);
                self.arrivals.insert((here + MS, number), outgoing);
            }
            Fate::Late(after) => {
                reply(1000, Reply::NoAnswer);
                self.arrivals.insert((here + MS * after, number), outgoing);
            }
            Fate::Lost => reply(1000, Reply::NoAnswer),
            Fate::Limited(wait) => {
                reply(1, Reply::Status(429, Some(Duration::from_secs(wait))));
            }
            Fate::Status(status) => reply(1, Reply::Status(status, None)),
        }
    }

    fn network(&mut self) {
        while let Some(entry) = self.arrivals.first_entry().filter(|e| e.key().0 <= self.uptime) {
            let ((_, number), outgoing) = entry.remove_entry();
            let now = self.now();
            let event = Event::parse(&outgoing.body).unwrap();
            let scenario = &self.scenario;
            let new = || Service {
                triggers: scenario
                    .thresholds()
                    .into_iter()
                    .map(|threshold| (threshold, Trigger::new(threshold, scenario.expect())))
                    .collect(),
                firings: Vec::new(),
                taken: Vec::new(),
                receipts: BTreeMap::new(),
            };
            let source = event.source().as_str().to_owned();
            let reply = self.services.entry(source).or_insert_with(new).take(&outgoing, now);
            if let Some(at) = self.on_arrival.remove(&number) {
                self.replies.insert((at, outgoing.stream), reply);
            }
        }
        while let Some(entry) = self.replies.first_entry().filter(|e| e.key().0 <= self.uptime) {
            let ((at, stream), reply) = entry.remove_entry();
            if let Reply::Status(429, Some(wait)) = reply {
                self.paused_until = self.paused_until.max(at + wait);
            }
            self.sampler.on_reply(stream, reply, 0.0, self.now(), self.uptime).unwrap();
        }
    }

    fn check(&self) {
        assert_eq!(self.left_out(), None);
        let snapshot = self.sampler.snapshot();
        let counters = &snapshot.routes[0];
        let dropped: u64 = counters.dropped.values().sum();
        let ended = counters.silent + counters.superseded + counters.delivered + dropped;
        assert_eq!(counters.observations, ended, "{counters:?}");
        assert_eq!(counters.observations, counters.highs + counters.lows);
        assert_eq!(counters.attempts, u64::try_from(self.posts).unwrap());
    }

    /// A low that was left out where none may be.
    fn left_out(&self) -> Option<String> {
        let max_gap = SignedDuration::from_secs(i64::try_from(self.scenario.max_gap).unwrap());
        for (camera, service) in &self.services {
            let raw = &self.raw[camera];
            let low = |from: Timestamp, to: Timestamp, threshold: f64| {
                raw.range(from..=to).find(|(_, confidence)| **confidence < threshold)
            };
            for (threshold, firing) in &service.firings {
                if let Some(inside) = low(firing.first, firing.last, *threshold) {
                    return Some(format!("{inside:?} inside a run that fired at {threshold}"));
                }
            }
            for threshold in self.scenario.thresholds() {
                for pair in service.taken.windows(2) {
                    let [(from, first), (to, second)] = pair else { continue };
                    let highs = *first >= threshold && *second >= threshold;
                    let near = to.duration_since(*from) <= max_gap;
                    if highs
                        && near
                        && let Some(inside) = low(*from, *to, threshold)
                    {
                        return Some(format!("{inside:?} between {from} and {to} at {threshold}"));
                    }
                }
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_low_is_left_out_between_two_published_highs(scenario in scenario()) {
        let mut world = World::new(scenario);
        world.run();
        world.check();
    }
}

#[test]
fn the_property_sees_firings_and_lost_lows() {
    // A property that never sees a firing, or never a broken stream, would prove nothing.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut firings, mut broken, mut limited) = (0, 0, 0);
    for _ in 0..60 {
        let scenario = scenario().new_tree(&mut runner).unwrap().current();
        let mut world = World::new(scenario);
        world.run();
        firings += world.services.values().map(|service| service.firings.len()).sum::<usize>();
        let counters = &world.sampler.snapshot().routes[0];
        broken += counters.dropped.get(&super::Reason::Broken).copied().unwrap_or_default();
        limited += usize::from(world.paused_until > Duration::ZERO);
    }
    assert!(firings > 50 && broken > 20 && limited > 20, "{firings} {broken} {limited}");
}

#[test]
fn the_property_fails_when_the_sampler_is_not_told_of_losses_in_front_of_it() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut told, mut untold) = (0, 0);
    for _ in 0..200 {
        let scenario = scenario().new_tree(&mut runner).unwrap().current();
        for (tells, faults) in [(true, &mut told), (false, &mut untold)] {
            let mut world = World { tells, ..World::new(scenario.clone()) };
            world.run();
            *faults += u32::from(world.left_out().is_some());
        }
    }
    assert!(told == 0 && untold > 3, "{told} {untold}");
}
