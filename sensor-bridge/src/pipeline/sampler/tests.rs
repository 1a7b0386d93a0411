use jiff::SignedDuration;
use serde_json::{Map, json};

use super::*;
use crate::delivery::Reply;
use crate::pipeline::frame::{Detection, Evidence};
use crate::pipeline::route::{Expect, Route, RouteSpec};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A sampler with a clock that is moved by hand; 0.85, three in a row, gaps of 2 s, age 10 s.
struct Bench {
    sampler: Sampler,
    uptime: Duration,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let spec = RouteSpec {
            from: "house".to_owned(),
            labels: vec!["person".to_owned()],
            kind: "person.detected".to_owned(),
            expect: Some(Expect {
                min_confidence: Some(0.85),
                consecutive: 3,
                max_gap: S * 2,
                cooldown: S * 30,
                max_age: S * 10,
            }),
            ..RouteSpec::default()
        };
        let routes = Routes::new(vec![Route::new(spec).unwrap()]).unwrap();
        Self { sampler: Sampler::new(routes, settings), uptime: S * 1000 }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_789_552_800).unwrap().saturating_add(self.uptime).unwrap()
    }

    fn see(&mut self, camera: &str, confidence: f64) {
        self.see_at(camera, confidence, SignedDuration::ZERO);
    }

    fn see_at(&mut self, camera: &str, confidence: f64, age: SignedDuration) {
        let data = json!({"track_id": "7"}).as_object().cloned().unwrap_or_default();
        let detection = Detection { label: "person".to_owned(), confidence, data };
        let message = Message {
            source: camera.to_owned(),
            at: self.now().saturating_sub(age).unwrap(),
            message_id: None,
            evidence: Evidence::Frame(vec![detection]),
        };
        assert_eq!(self.sampler.on_message("house", &message, self.uptime), []);
    }

    fn next(&mut self) -> Option<Outgoing> {
        self.sampler.next(self.now(), self.uptime)
    }

    fn reply(&mut self, outgoing: &Outgoing, reply: Reply) -> Outcome {
        self.sampler.on_reply(outgoing.stream, reply, 0.0, self.now(), self.uptime).unwrap()
    }

    /// Posts all that is due, each answered at once; the confidences.
    fn post(&mut self) -> Vec<f64> {
        let mut posted = Vec::new();
        while let Some(outgoing) = self.next() {
            self.reply(&outgoing, Reply::Taken);
            posted.push(outgoing.confidence);
        }
        posted
    }

    fn dropped(&self, reason: Reason) -> u64 {
        self.sampler.snapshot().routes[0].dropped.get(&reason).copied().unwrap_or_default()
    }
}

fn bench() -> Bench {
    Bench::new(Settings::default())
}

#[test]
fn a_turn_gives_four_highs_at_full_spacing_and_then_rests() {
    let mut bench = bench();
    let start = bench.uptime;
    let mut posted = Vec::new();
    while bench.uptime < start + S * 12 {
        bench.see("cam", 0.9);
        if !bench.post().is_empty() {
            posted.push(bench.uptime.abs_diff(start).as_millis());
        }
        bench.uptime += MS * 50;
    }
    assert_eq!(posted, [0, 250, 500, 750, 10_750, 11_000, 11_250, 11_500]);
}

#[test]
fn the_same_bytes_go_out_again_after_no_answer() {
    let mut bench = bench();
    bench.see("cam", 0.9);
    let first = bench.next().unwrap();
    assert_eq!((first.attempt, first.class, first.confidence), (1, Class::Fresh, 0.9));
    let outcome = bench.reply(&first, Reply::NoAnswer);
    assert_eq!(outcome, Outcome { next: Next::RetryIn(MS * 500), dropped: None });
    assert_eq!(bench.next(), None);
    assert_eq!(bench.sampler.next_deadline(bench.uptime), Some(bench.uptime + MS * 500));
    bench.uptime += MS * 500;
    let second = bench.next().unwrap();
    assert_eq!((second.attempt, &second.body, &second.id), (2, &first.body, &first.id));
    bench.reply(&second, Reply::Taken);
    assert!(bench.sampler.is_drained());
    let again = bench.sampler.on_reply(first.stream, Reply::Taken, 0.0, bench.now(), bench.uptime);
    assert_eq!(again, None, "nothing is under way");
}

#[test]
fn a_limit_holds_everything_back_and_slows_down() {
    let mut bench = bench();
    bench.see("one", 0.9);
    bench.see("two", 0.9);
    let one = bench.next().unwrap();
    let two = bench.next().unwrap();
    let limited = Reply::Status(429, Some(S * 2));
    assert_eq!(bench.reply(&one, limited).next, Next::Limited(S * 2));
    bench.reply(&two, limited);
    let rate = bench.sampler.snapshot().rate;
    assert!((rate - 5.6).abs() < 1e-9, "cut once: {rate}");
    bench.uptime += S;
    bench.see("three", 0.9);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.sampler.next_deadline(bench.uptime), Some(bench.uptime + S));
    bench.uptime += S;
    assert_eq!(bench.next().unwrap().body, one.body);
}

#[test]
fn a_refused_token_is_loud_and_tried_again_while_fresh() {
    let mut bench = bench();
    bench.see("cam", 0.9);
    let outgoing = bench.next().unwrap();
    let outcome = bench.reply(&outgoing, Reply::Status(401, None));
    let stale = Some(Reason::Stale);
    assert_eq!(outcome, Outcome { next: Next::Loud(S * 30), dropped: stale }, "too old by then");
    bench.uptime += S * 29;
    bench.see("cam", 0.9);
    assert_eq!(bench.next(), None);
    bench.uptime += S;
    bench.see("cam", 0.9);
    assert!(bench.next().is_some());
}

#[test]
fn what_is_older_than_most_of_the_age_is_never_posted() {
    let mut bench = bench();
    bench.see_at("old", 0.9, SignedDuration::from_millis(8_001));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.dropped(Reason::Stale), 1);
    bench.see_at("fresh", 0.9, SignedDuration::from_millis(8_000));
    let outgoing = bench.next().unwrap();
    bench.uptime += MS * 600;
    bench.reply(&outgoing, Reply::NoAnswer);
    assert_eq!(bench.dropped(Reason::Stale), 2);
}

#[test]
fn breaks_come_before_everything_else() {
    let mut bench = Bench::new(Settings {
        budget: Budget { per_second: 1.0, burst: 2 },
        ..Settings::default()
    });
    bench.see("one", 0.9);
    assert_eq!(bench.post(), [0.9]);
    bench.see("two", 0.9);
    bench.uptime += MS * 10;
    bench.see("one", 0.1);
    bench.uptime += MS * 10;
    bench.see("one", 0.95);
    bench.see("three", 0.99);
    assert_eq!(bench.post(), [0.1], "the last token");
}

#[test]
fn a_stream_without_a_turn_sends_no_highs_but_its_breaks() {
    let mut bench = bench();
    for camera in ["a", "b", "c"] {
        bench.see(camera, 0.9);
    }
    assert_eq!(bench.post().len(), 2, "two turns at 8 a second and 0.25 s");
    assert_eq!(bench.sampler.snapshot().turns, 2);
    bench.uptime += MS * 250;
    for camera in ["a", "b", "c"] {
        bench.see(camera, 0.91);
    }
    assert_eq!(bench.post(), [0.91, 0.91]);
    bench.uptime += MS * 10;
    for camera in ["a", "b", "c"] {
        bench.see(camera, 0.2);
    }
    assert_eq!(bench.post(), [0.2, 0.2], "c has published no high");
}

#[test]
fn a_stop_sends_lows_first_and_then_the_rest_without_waiting() {
    let mut bench = bench();
    for camera in ["a", "b", "c"] {
        bench.see(camera, 0.9);
    }
    assert_eq!(bench.post().len(), 2);
    bench.uptime += MS * 10;
    bench.see("a", 0.95);
    bench.see("b", 0.2);
    let uptime = bench.uptime;
    bench.sampler.stop(uptime);
    assert!(!bench.sampler.is_drained());
    assert_eq!(bench.post(), [0.2, 0.95, 0.9]);
    assert!(bench.sampler.is_drained());
    assert_eq!(bench.sampler.next_deadline(uptime), None);
}

#[test]
fn a_stop_closes_open_frames() {
    let mut bench = bench();
    let detection = Detection { label: "person".to_owned(), confidence: 0.9, data: Map::new() };
    let message = Message {
        source: "cam".to_owned(),
        at: bench.now(),
        message_id: None,
        evidence: Evidence::Part(vec![detection]),
    };
    bench.sampler.on_message("house", &message, bench.uptime);
    assert_eq!(bench.next(), None);
    assert_eq!(bench.sampler.next_deadline(bench.uptime), Some(bench.uptime + MS * 50));
    bench.sampler.stop(bench.uptime);
    assert_eq!(bench.post(), [0.9]);
}

#[test]
fn refusals_are_counted_by_route_and_by_source() {
    let mut bench = bench();
    let at = bench.now();
    let message = |ms: i64, evidence| Message {
        source: "cam".to_owned(),
        at: at.saturating_add(SignedDuration::from_millis(ms)).unwrap(),
        message_id: None,
        evidence,
    };
    let later = message(2, Evidence::Part(Vec::new()));
    let late = message(1, Evidence::Part(Vec::new()));
    let older = message(0, Evidence::Frame(Vec::new()));
    assert_eq!(bench.sampler.on_message("house", &later, bench.uptime), []);
    let refused = bench.sampler.on_message("house", &late, bench.uptime);
    assert_eq!(refused.first().map(|refusal| refusal.reason), Some(Reason::Late));
    bench.sampler.stop(bench.uptime);
    bench.sampler.on_message("house", &older, bench.uptime);
    let snapshot = bench.sampler.snapshot();
    assert_eq!(snapshot.sources["house"], ByReason::from([(Reason::Late, 1)]));
    assert_eq!(snapshot.routes[0].refused, ByReason::from([(Reason::OutOfOrder, 1)]));
}

#[test]
fn memory_is_bounded_by_streams_and_not_by_input() {
    let mut bench = Bench::new(Settings { max_streams: 2, ..Settings::default() });
    for step in 0_u32..2_000 {
        bench.uptime += MS;
        let camera = if step % 2 == 0 { "a" } else { "b" };
        bench.see(camera, if step % 7 < 3 { 0.2 } else { 0.9 });
        assert!(bench.sampler.snapshot().pending <= 4, "two a stream");
    }
    let other = Message {
        source: "c".to_owned(),
        at: bench.now(),
        message_id: None,
        evidence: Evidence::Frame(Vec::new()),
    };
    let refused = bench.sampler.on_message("house", &other, bench.uptime);
    assert_eq!(refused.first().map(|refusal| refusal.reason), Some(Reason::TooManyStreams));
}
