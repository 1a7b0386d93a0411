//! The poster against a scripted service, over real sockets.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use sensor_bridge::{
    config::ServiceConfig,
    decode::{self, Meta, Reader, Rules},
    delivery::Reply,
    metrics::SourceCounters,
    pipeline::{
        Route, RouteSpec, Routes, Sampler, Settings, count,
        route::Expect,
        sampler::{Outcome, Outgoing, Snapshot},
        schedule::bucket::Budget,
    },
    poster::{
        Ended, Feed, Observer, Poster, Refused,
        client::{Answer, Client, Says},
    },
    source::{
        Received,
        inbox::{Inbox, LANE_MESSAGES, Lane},
    },
};
use serde_json::json;
use service_kit::{Clock, Tasks, Vars};
use tokio::task::JoinHandle;

use crate::{
    service::{Say, Service, TOKEN},
    support::{self, soon, until},
};

const HIGH: f64 = 0.9;
const LOW: f64 = 0.1;

#[tokio::test]
async fn an_observation_is_posted_as_the_service_expects_it() {
    let mut service = Service::start([]).await;
    let bench = Bench::start(&service.url(), Budget::default());
    let at = bench.say("door", HIGH);
    let seen = service.next().await;
    assert_eq!(seen.event["type"], "person.detected");
    assert_eq!(seen.event["source"], "door");
    assert_eq!(seen.event["timestamp"], at.to_string());
    assert_eq!(seen.event["confidence"], HIGH);
    assert_eq!(seen.event["id"].as_str().unwrap().len(), 64);
    bench.stop().await;
}

#[tokio::test]
async fn the_same_bytes_come_again_after_a_limit_and_after_a_fault() {
    let script = [Say::Limited("0"), Say::Status(500), Say::Status(503), Say::NotAccepted];
    let mut service = Service::start(script).await;
    let bench = Bench::start(&service.url(), Budget::default());
    bench.say("door", HIGH);
    let first = service.next().await;
    for _ in 0..3 {
        assert_eq!(service.next().await.bytes, first.bytes);
    }
    let snapshot = bench.stop().await;
    assert_eq!(snapshot.routes[0].attempts, 4);
    assert_eq!(snapshot.routes[0].delivered, 1);
}

#[tokio::test]
async fn a_conflict_is_final_and_so_is_a_redirect() {
    for say in [Say::Status(409), Say::Status(400), Say::Redirect] {
        let mut service = Service::start([say.clone()]).await;
        let bench = Bench::start(&service.url(), Budget::default());
        bench.say("door", HIGH);
        let first = service.next().await;
        bench.say("yard", HIGH);
        assert_ne!(service.next().await.event["id"], first.event["id"], "{say:?}");
        let snapshot = bench.stop().await;
        assert_eq!(service.rest().len(), 0, "{say:?}");
        let dropped: Vec<&str> =
            snapshot.routes[0].dropped.keys().map(|reason| reason.as_str()).collect();
        assert_eq!(dropped, ["rejected"], "{say:?}");
    }
}

#[tokio::test]
async fn a_service_that_starts_later_gets_the_observation() {
    let address = {
        let service = Service::start([]).await;
        service.address
    };
    let bench = Bench::start(&format!("http://{address}"), Budget::default());
    let at = bench.say("door", HIGH);
    let tried = Arc::clone(&bench.observer);
    until("it was refused", || tried.lock().unwrap().unanswered > 0).await;
    let mut service = Service::start_on(address, []).await;
    assert_eq!(service.next().await.event["timestamp"], at.to_string());
    let snapshot = bench.stop().await;
    assert_eq!(snapshot.routes[0].delivered, 1);
}

#[tokio::test]
async fn a_post_that_hangs_holds_up_its_own_stream_only() {
    let mut service = Service::start([Say::Hang]).await;
    let bench = Bench::start(&service.url(), Budget::default());
    bench.say("door", HIGH);
    assert_eq!(service.next().await.event["source"], "door");
    // The break of the door is due at once, but one post of it is under way.
    bench.say("door", LOW);
    bench.say("yard", HIGH);
    assert_eq!(service.next().await.event["source"], "yard");
    service.go_on();
    let low = service.next().await.event;
    assert_eq!((&low["source"], &low["confidence"]), (&json!("door"), &json!(LOW)));
    bench.stop().await;
}

#[tokio::test]
async fn receiving_never_waits_for_a_service_that_hangs() {
    let mut service = Service::start([Say::Hang]).await;
    let bench = Bench::start(&service.url(), Budget::default());
    bench.say("door", HIGH);
    service.next().await;
    for _ in 0..20_000 {
        until("there is room", || !bench.lane.is_half_full()).await;
        bench.say("door", HIGH);
    }
    service.go_on();
    let snapshot = bench.stop().await;
    assert_eq!(snapshot.streams, 1);
    assert!(snapshot.routes[0].observations > 1_000, "{:?}", snapshot.routes[0]);
}

#[tokio::test]
async fn after_a_low_was_lost_in_a_full_lane_no_high_follows_the_last_one() {
    let mut service = Service::start([]).await;
    let bench = Bench::start(&service.url(), Budget::default());
    let first = bench.say("door", HIGH);
    service.next().await;
    // The poster has no turn in between: the lane is full, and the low goes.
    let at = |n: usize| first + Duration::from_nanos(u64::try_from(n).unwrap());
    assert_eq!(bench.say_at("door", at(1), LOW), 0);
    let overrun: u64 = (0..LANE_MESSAGES).map(|n| bench.say_at("door", at(n + 2), HIGH)).sum();
    assert_eq!(overrun, 1);
    let snapshot = bench.stop().await;
    assert_eq!(service.rest().len(), 0);
    let counters = &snapshot.routes[0];
    let withheld = u64::try_from(LANE_MESSAGES).unwrap();
    assert_eq!(counters.dropped, [(count::Reason::Broken, withheld)].into());
    assert_eq!((counters.highs, counters.lows), (withheld + 1, 0));
}

#[tokio::test]
async fn at_an_orderly_stop_unsent_lows_go_first() {
    let mut service = Service::start([]).await;
    // One post now, and the next token comes in a second: all that is said meanwhile waits.
    let bench = Bench::start(&service.url(), Budget { per_second: 1.0, burst: 2 });
    bench.say("door", HIGH);
    service.next().await;
    bench.say("attic", HIGH);
    service.next().await;
    bench.say("yard", HIGH);
    bench.say("cellar", HIGH);
    bench.say("door", LOW);
    let snapshot = bench.stop().await;
    let rest = service.rest();
    assert_eq!(rest[0].event["source"], "door", "{rest:?}");
    assert_eq!(rest[0].event["confidence"], LOW);
    assert!(snapshot.routes[0].delivered >= 3);
}

#[tokio::test]
async fn a_rotated_token_is_read_again_after_it_was_refused() {
    let service = Service::start([]).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let vars = Vars::from_iter([("TOKEN_FILE", file.as_os_str())]);
    let client = Client::new(&config(&service.url()), vars).unwrap();
    let rotated = "the-next-token-of-the-service";
    service.rotate(rotated);
    std::fs::write(&file, rotated).unwrap();
    let body = Bytes::from_static(b"{}");
    let refused = client.post(body.clone(), Timestamp::UNIX_EPOCH).await;
    assert_eq!(refused.reply, Reply::Status(401, None));
    assert_eq!(client.post(body, Timestamp::UNIX_EPOCH).await.reply, Reply::Taken);
}

#[tokio::test]
async fn what_is_said_about_a_failed_post_has_no_url_and_no_token() {
    let address = Service::start([]).await.address;
    let vars = Vars::from_iter([("TOKEN", TOKEN)]);
    let client = Client::new(&config(&format!("http://{address}")), vars).unwrap();
    let answer = client.post(Bytes::new(), Timestamp::UNIX_EPOCH).await;
    let Says::Nothing { why } = answer.says else { panic!("{answer:?}") };
    assert!(!why.contains(TOKEN) && !why.contains("/events"), "{why}");
    assert!(!format!("{client:?}").contains(TOKEN));
}

#[tokio::test]
async fn a_private_ca_is_trusted_for_its_own_service_only() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    // The bridge's own TLS listener stands in: a 401 of it proves the handshake.
    let tasks = Tasks::new();
    let certificate = service_kit::tls::ServerCertificate::load(&cert, &key).unwrap();
    let bound = support::listener(Some(certificate)).await;
    let url = format!("https://{}", bound.local_addr().unwrap());
    drop(tasks.spawn(bound.serve(tasks.clone())));
    let vars = || Vars::from_iter([("TOKEN", TOKEN)]);
    let trusting = ServiceConfig { ca_cert: Some(cert), ..config(&url) };
    let client = Client::new(&trusting, vars()).unwrap();
    let answer = client.post(Bytes::new(), Timestamp::UNIX_EPOCH).await;
    assert_eq!(answer.reply, Reply::Status(401, None), "{answer:?}");
    // A machine without any CA certificates has no client for this at all.
    if let Ok(client) = Client::new(&config(&url), vars()) {
        let answer = client.post(Bytes::new(), Timestamp::UNIX_EPOCH).await;
        assert_eq!(answer.reply, Reply::NoAnswer, "{answer:?}");
    }
    tasks.request_soft_stop();
    soon("it stops", tasks.finish()).await;
}

/// A poster that runs, and the worker at its other end.
struct Bench {
    lane: Lane,
    clock: Clock,
    tasks: Tasks,
    observer: Arc<std::sync::Mutex<Tally>>,
    poster: JoinHandle<Ended<Shared>>,
    last: std::sync::Mutex<Timestamp>,
}

/// Counts what the poster says.
#[derive(Debug, Default)]
struct Tally {
    unanswered: u64,
}

struct Shared(Arc<std::sync::Mutex<Tally>>);

impl Observer for Shared {
    fn refused(&mut self, refused: Refused<'_>, _now: Timestamp) {
        // In a flood several frames may have one time.
        assert_eq!(refused.reason, "duplicate", "{refused:?}");
    }

    fn posting(&mut self, _outgoing: &Outgoing) {}

    fn answered(&mut self, _outgoing: &Outgoing, answer: &Answer, _outcome: Outcome) {
        if answer.reply == Reply::NoAnswer {
            self.0.lock().unwrap().unanswered += 1;
        }
    }
}

impl Bench {
    fn start(url: &str, budget: Budget) -> Self {
        let expect = Expect {
            min_confidence: Some(0.85),
            consecutive: 3,
            max_gap: Duration::from_secs(2),
            ..Expect::default()
        };
        let spec = RouteSpec {
            from: "cams".to_owned(),
            labels: vec!["person".to_owned()],
            kind: "person.detected".to_owned(),
            expect: Some(expect),
            ..RouteSpec::default()
        };
        let routes = Routes::new(vec![Route::new(spec).unwrap()]).unwrap();
        let sampler = Sampler::new(routes, Settings { budget, ..Settings::default() });
        let (inbox, mut lanes) = Inbox::new(1);
        let rules = Rules { name: "cams".to_owned(), ..Rules::default() };
        let reader = Reader::new(rules, decode::preset("native").unwrap());
        let feed = Feed::new(reader, Arc::new(SourceCounters::default()));
        let vars = Vars::from_iter([("TOKEN", TOKEN)]);
        let client = Arc::new(Client::new(&config(url), vars).unwrap());
        let (clock, tasks) = (Clock::system(), Tasks::new());
        let observer = Arc::default();
        let seen = Shared(Arc::clone(&observer));
        let poster = Poster::new(sampler, inbox, vec![feed], client, clock.clone(), seen);
        let stop = tasks.clone();
        let poster = tasks.spawn(async move { poster.run(&stop).await });
        let last = std::sync::Mutex::new(Timestamp::UNIX_EPOCH);
        Self { lane: lanes.remove(0), clock, tasks, observer, poster, last }
    }

    /// Says that a person was seen by `camera` just now; gives the frame's time.
    fn say(&self, camera: &str, confidence: f64) -> Timestamp {
        let mut last = self.last.lock().unwrap();
        let at = self.clock.now().max(*last + Duration::from_nanos(1));
        *last = at;
        assert_eq!(self.say_at(camera, at, confidence), 0);
        at
    }

    /// Says what was seen at `at`; gives how many older messages had to go.
    fn say_at(&self, camera: &str, at: Timestamp, confidence: f64) -> u64 {
        let detection = json!({"label": "person", "confidence": confidence});
        let frame =
            json!({"timestamp": at.to_string(), "source": camera, "detections": [detection]});
        let bytes = Bytes::from(frame.to_string());
        self.lane.send(Received { at, meta: Meta::default(), bytes }).overrun
    }

    /// Stops it in order.
    async fn stop(self) -> Snapshot {
        self.tasks.request_soft_stop();
        let ended = soon("the poster ends", self.poster).await.unwrap();
        soon("all tasks end", self.tasks.finish()).await;
        ended.snapshot
    }
}

fn config(url: &str) -> ServiceConfig {
    ServiceConfig { url: url.parse().unwrap(), token_env: "TOKEN".to_owned(), ca_cert: None }
}
