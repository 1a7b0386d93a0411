//! CONTRACT section 4: the nine steps in their order, and the six reasons word for word.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use service_kit::Clock;
use system_tests::client::{fresh_id, message, words};
use system_tests::events::{ago, event, event_with, now, trigger, trigger_with};
use system_tests::home::Home;
use system_tests::process::Service;
use system_tests::wait;

const NO_TRIGGER: &str = "no matching trigger";
const STALE: &str = "stale or future event";
pub(super) const OUT_OF_ORDER: &str = "out-of-order event";
const BELOW: &str = "confidence below threshold";
pub(super) const COOLDOWN: &str = "cooldown";
pub(super) const WAITING: &str = "waiting for consecutive observations";

pub(super) fn milliseconds(count: i64) -> SignedDuration {
    SignedDuration::from_millis(count)
}

/// A service with one trigger that differs from the simplest one in these fields.
pub(super) fn with_trigger(fields: &Value) -> (Home, Service) {
    let home = Home::with(|config| config.trigger(trigger_with(fields)));
    let service = home.start();
    (home, service)
}

#[track_caller]
pub(super) fn refuses(service: &Service, event: &Value, reason: &str) {
    assert_eq!(service.observe(event), json!({"accepted": false, "reason": reason}), "{event}");
}

// Step 1: shape.

#[test]
fn an_event_of_a_wrong_shape_is_400_names_the_field_and_its_id_stays_free() {
    let (_home, service) = with_trigger(&json!({}));
    let long = "x".repeat(257);
    let cases = [
        ("id", json!("")),
        ("id", json!(long)),
        ("id", json!("é".repeat(129))),
        ("id", json!(5)),
        ("id", json!(null)),
        ("type", json!("")),
        ("type", json!(long)),
        ("source", json!("")),
        ("source", json!(long)),
        ("timestamp", json!("yesterday")),
        ("timestamp", json!("2026-09-16T10:00:00")),
        ("timestamp", json!("2026-09-16")),
        ("timestamp", json!(1_700_000_000)),
        ("timestamp", json!("2026-02-30T10:00:00Z")),
        ("confidence", json!(1.01)),
        ("confidence", json!(-0.01)),
        ("confidence", json!("0.9")),
        ("confidence", json!(true)),
    ];
    for (field, value) in cases {
        let mut bad = event("free", now());
        bad[field] = value.clone();
        let error = service.event(&bad).error(400, "INVALID_PARAMS");
        assert!(error.to_string().contains(field), "{field} = {value}: {error}");
    }
    for field in ["id", "type", "source", "timestamp"] {
        let missing = event_with("free", now(), &json!({field: null}));
        let error = service.event(&missing).error(400, "INVALID_PARAMS");
        assert!(error.to_string().contains(field), "{error}");
    }
    service.fire(&event("free", now()));
}

#[test]
fn bounds_are_inclusive() {
    let long = "x".repeat(256);
    let home = Home::with(|config| {
        config.trigger(json!({"type": long, "source": long, "prompt": "look"}))
    });
    let service = home.start();
    let event = json!({
        "id": long, "type": long, "source": long, "timestamp": now().to_string(), "confidence": 1,
    });
    service.fire(&event);
}

#[test]
fn data_is_any_json_of_at_most_16000_bytes_as_sent() {
    let (_home, service) = with_trigger(&json!({}));
    let post = |id: &str, data: &str| {
        let body = format!(
            r#"{{"id":"{id}","type":"person.detected","source":"front-camera","timestamp":"{}","data":{data}}}"#,
            now()
        );
        service.call("POST", "/events").body(body).send()
    };
    let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
    post("a", &text(16_000)).success();
    post("b", &text(16_001)).error(400, "INVALID_PARAMS");
    // Blanks inside of it count: they are sent.
    post("c", &format!("[{}1]", " ".repeat(15_997))).success();
    post("d", &format!("[{}1]", " ".repeat(15_998))).error(400, "INVALID_PARAMS");
    for (id, data) in [("e", "{}"), ("f", "[1, null]"), ("g", "\"x\""), ("h", "false"), ("i", "0")]
    {
        post(id, data).success();
    }
}

#[test]
fn a_timestamp_has_any_offset_and_precision() {
    let (_home, service) = with_trigger(&json!({}));
    let start = ago(2000);
    let zone = start + SignedDuration::from_hours(5);
    let at = |id: &str, timestamp: &str| {
        let mut event = event(id, start);
        event["timestamp"] = json!(timestamp);
        service.observe(&event)["accepted"].clone()
    };
    assert_eq!(at("a", &zone.strftime("%Y-%m-%dT%H:%M:%S%.9f+05:00").to_string()), true);
    // Precise to the nanosecond: the same moment in another zone is not after itself.
    assert_eq!(at("b", &start.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").to_string()), false);
    let next = start + SignedDuration::from_nanos(1);
    assert_eq!(at("c", &next.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").to_string()), true);
    let later = start + milliseconds(1100);
    assert_eq!(at("d", &later.strftime("%Y-%m-%dt%H:%M:%Sz").to_string()), true);
}

// Step 2: the receipt.

#[test]
fn a_known_event_gets_the_recorded_answer_again_whatever_it_was() {
    let (_home, service) = with_trigger(&json!({
        "min_confidence": 0.5, "consecutive": 2, "cooldown_seconds": 3600, "max_gap_seconds": 3600,
    }));
    let t = ago(5000);
    let at = |id: &str, ms: i64, confidence: f64| {
        event_with(id, t + milliseconds(ms), &json!({"confidence": confidence}))
    };
    let events = [
        event_with("none", t, &json!({"type": "other"})),
        at("stale", -60_000, 0.9),
        at("below", 0, 0.4),
        at("waiting", 1, 0.9),
        at("fires", 2, 0.9),
        at("order", 2, 0.9),
        at("cooldown", 3, 0.9),
    ];
    let answers: Vec<Value> = events.iter().map(|event| service.observe(event)).collect();
    let reasons: Vec<Option<&str>> = answers.iter().map(|a| a["reason"].as_str()).collect();
    assert_eq!(
        reasons,
        [
            Some(NO_TRIGGER),
            Some(STALE),
            Some(BELOW),
            Some(WAITING),
            None,
            Some(OUT_OF_ORDER),
            Some(COOLDOWN)
        ]
    );
    for _ in 0..2 {
        let again: Vec<Value> = events.iter().map(|event| service.observe(event)).collect();
        assert_eq!(again, answers);
    }
    assert_eq!(service.list("").len(), 1);
}

#[test]
fn the_six_reasons_and_their_answers_are_word_for_word() {
    let (_home, service) = with_trigger(&json!({"consecutive": 2, "cooldown_seconds": 60}));
    let t = ago(3000);
    refuses(&service, &event_with("1", t, &json!({"source": "elsewhere"})), NO_TRIGGER);
    refuses(&service, &event("2", t - milliseconds(60_000)), STALE);
    refuses(&service, &event("3", t), WAITING);
    refuses(&service, &event("4", t), OUT_OF_ORDER);
    let fired = service.observe(&event("5", t + milliseconds(1)));
    assert_eq!(fired.as_object().unwrap().keys().collect::<Vec<_>>(), ["accepted", "task_id"]);
    refuses(&service, &event("6", t + milliseconds(2)), COOLDOWN);
    let (_home, service) = with_trigger(&json!({"min_confidence": 0.5}));
    refuses(&service, &event("7", t), BELOW);
}

#[test]
fn the_same_id_with_other_content_is_409_and_from_another_source_another_event() {
    let (_home, service) = with_trigger(&json!({"consecutive": 10}));
    let base = event_with("one", now(), &json!({"confidence": 0.5, "data": {"a": 1, "b": [1, 2]}}));
    refuses(&service, &base, WAITING);
    let others = [
        json!({"timestamp": (now() + milliseconds(1)).to_string()}),
        json!({"confidence": 0.6}),
        json!({"confidence": null}),
        json!({"data": {"a": 1, "b": [2, 1]}}),
        json!({"data": {"a": "1", "b": [1, 2]}}),
        json!({"data": null}),
        json!({"type": "other"}),
    ];
    for fields in others {
        let mut other = base.clone();
        for (name, value) in fields.as_object().unwrap() {
            if value.is_null() {
                other.as_object_mut().unwrap().remove(name);
            } else {
                other[name] = value.clone();
            }
        }
        let reply = service.event(&other);
        assert_eq!(reply.status, 409, "{fields}: {}", reply.text());
        reply.error(409, "ALREADY_EXISTS");
    }
    refuses(&service, &event_with("one", now(), &json!({"source": "elsewhere"})), NO_TRIGGER);
}

#[test]
fn contents_are_compared_as_json_values() {
    let (_home, service) = with_trigger(&json!({"consecutive": 10}));
    let time = now();
    let post = |body: String| service.call("POST", "/events").body(body).send();
    let first = format!(
        r#"{{"id":"e","type":"person.detected","source":"front-camera","timestamp":"{time}","confidence":1,"data":{{"a":1,"b":"é"}}}}"#
    );
    let same = format!(
        r#" {{"data": {{"b":"\u00e9", "a":1.0}}, "confidence":1.0,
            "timestamp":"{time}", "source":"front-camera", "type":"person.detected", "id":"e"}} "#
    );
    let answer = post(first).success();
    assert_eq!(post(same).success(), answer);
}

#[test]
fn an_event_whose_task_is_no_longer_retained_is_409() {
    let home = Home::with(|config| config.with("max_tasks", 1).trigger(trigger()));
    let service = home.start();
    let event = event("e", now());
    let id = service.fire(&event);
    service.ended(&id);
    wait::until("the task makes room", || {
        let reply =
            service.send_message(&message(&fresh_id(), "x"), &json!({"returnImmediately": true}));
        (reply.status == 200).then_some(())
    });
    service.event(&event).error(409, "ALREADY_EXISTS");
}

// Step 3: the limiter.

#[test]
fn ten_new_events_at_once_then_429_with_retry_after_1_and_nothing_written() {
    let (_home, service) = with_trigger(&json!({"consecutive": 1000}));
    let mut refused = None;
    // A busy machine may refill the bucket meanwhile: more than ten may pass, a hundred cannot.
    for n in 0..100 {
        let event = event_with(&format!("n{n}"), now(), &json!({"source": format!("s{}", n % 3)}));
        let reply = service.event(&event);
        if reply.status == 429 {
            assert!(n >= 10, "the burst is 10: {n}");
            refused = Some((event, reply));
            break;
        }
        refuses_with(&reply, NO_TRIGGER);
    }
    let (event, reply) = refused.expect("one of a hundred events at once is refused");
    let error = reply.error(429, "RESOURCE_EXHAUSTED");
    assert!(!words(&error).is_empty());
    assert_eq!(reply.retry_after(), 1);
    // A second later it is new: there was no receipt, not even for its ID with other content.
    let mut other = event;
    other["confidence"] = json!(0.25);
    wait::until("the bucket refills", || {
        let reply = service.event(&other);
        (reply.status != 429).then(|| refuses_with(&reply, NO_TRIGGER))
    });
}

#[test]
fn the_limiter_admits_10_events_a_second() {
    let (_home, service) = with_trigger(&json!({"consecutive": 1000}));
    let clock = Clock::system();
    let mut admitted = 0_u32;
    let mut n = 0;
    while clock.uptime() < Duration::from_millis(2500) {
        n += 1;
        let other = event_with(&format!("n{n}"), now(), &json!({"source": "elsewhere"}));
        admitted += u32::from(service.event(&other).status == 200);
    }
    let limit = 11 + u32::try_from(clock.uptime().as_millis() / 100).unwrap();
    assert!(admitted <= limit, "{admitted} of {n} within {:?}", clock.uptime());
    assert!(admitted > 15, "it refills: {admitted} of {n}");
}

#[test]
fn a_repetition_costs_no_token_and_the_bucket_is_full_again_after_a_start() {
    let (home, service) = with_trigger(&json!({"consecutive": 1000}));
    let known = event_with("known", now(), &json!({"source": "elsewhere"}));
    let answer = service.observe(&known);
    for _ in 0..40 {
        assert_eq!(service.observe(&known), answer);
    }
    exhaust(&service);
    assert_eq!(service.observe(&known), answer);
    service.kill();
    let service = home.start();
    for n in 0..10 {
        service.observe(&event_with(&format!("after {n}"), now(), &json!({"source": "elsewhere"})));
    }
}

#[test]
fn a_wrong_shape_costs_no_token() {
    let (_home, service) = with_trigger(&json!({}));
    for _ in 0..40 {
        service.event(&json!({"id": "x"})).error(400, "INVALID_PARAMS");
    }
    service.fire(&event("e", now()));
}

// Step 4: the trigger.

#[test]
fn type_and_source_must_both_match_exactly() {
    let (_home, service) = with_trigger(&json!({}));
    for fields in [
        json!({"type": "person"}),
        json!({"type": "Person.detected"}),
        json!({"source": "front-camera "}),
        json!({"type": "front-camera", "source": "person.detected"}),
    ] {
        refuses(&service, &event_with(&fresh_id(), now(), &fields), NO_TRIGGER);
    }
    // Recorded before any other step: stale and below alike.
    let stale = event_with("old", ago(3_600_000), &json!({"type": "other"}));
    refuses(&service, &stale, NO_TRIGGER);
}

// Step 5: stale and future.

#[test]
fn over_5_s_ahead_or_older_than_max_age_is_stale_and_leaves_the_trigger_alone() {
    let (_home, service) =
        with_trigger(&json!({"max_age_seconds": 20, "consecutive": 2, "max_gap_seconds": 3600}));
    refuses(&service, &event("1", ago(19_000)), WAITING);
    refuses(&service, &event("2", now() + milliseconds(9000)), STALE);
    refuses(&service, &event("3", ago(21_000)), STALE);
    // Neither counted, and neither moved the last timestamp: the next one is the second.
    service.fire(&event("4", ago(18_000)));
    // A little ahead is fine.
    let (_home, service) = with_trigger(&json!({}));
    service.fire(&event("5", now() + milliseconds(4000)));
}

// Step 6: order.

#[test]
fn a_timestamp_not_after_the_last_is_out_of_order_and_leaves_the_trigger_alone() {
    let (_home, service) = with_trigger(&json!({"consecutive": 3}));
    let t = ago(5000);
    refuses(&service, &event("1", t), WAITING);
    refuses(&service, &event("2", t), OUT_OF_ORDER);
    refuses(&service, &event("3", t - milliseconds(1)), OUT_OF_ORDER);
    refuses(&service, &event("4", t + milliseconds(1)), WAITING);
    service.fire(&event("5", t + milliseconds(2)));
}

// Step 7: the gap.

#[test]
fn a_gap_over_max_gap_starts_the_sequence_again() {
    let (_home, service) = with_trigger(&json!({"consecutive": 2, "max_gap_seconds": 2}));
    let t = ago(20_000);
    refuses(&service, &event("1", t), WAITING);
    refuses(&service, &event("2", t + milliseconds(2001)), WAITING);
    // Exactly the gap is none.
    service.fire(&event("3", t + milliseconds(4001)));
}

#[test]
fn every_observation_in_order_moves_the_last_timestamp_low_ones_too() {
    let (_home, service) =
        with_trigger(&json!({"consecutive": 2, "max_gap_seconds": 2, "min_confidence": 0.5}));
    let t = ago(20_000);
    let at = |id: &str, ms: i64, confidence: f64| {
        event_with(id, t + milliseconds(ms), &json!({"confidence": confidence}))
    };
    refuses(&service, &at("1", 0, 0.9), WAITING);
    refuses(&service, &at("2", 1500, 0.1), BELOW);
    refuses(&service, &at("3", 1400, 0.9), OUT_OF_ORDER);
    refuses(&service, &at("4", 3000, 0.9), WAITING);
    service.fire(&at("5", 4500, 0.9));
}

// Step 8: confidence.

#[test]
fn below_min_confidence_or_without_one_the_sequence_is_back_at_0() {
    let (_home, service) = with_trigger(&json!({"consecutive": 2, "min_confidence": 0.85}));
    let t = ago(5000);
    let at = |id: &str, ms: i64, confidence: Value| {
        event_with(id, t + milliseconds(ms), &json!({"confidence": confidence}))
    };
    refuses(&service, &at("1", 1, json!(0.85)), WAITING);
    refuses(&service, &at("2", 2, json!(0.849)), BELOW);
    refuses(&service, &at("3", 3, json!(0.9)), WAITING);
    refuses(&service, &at("4", 4, json!(null)), BELOW);
    refuses(&service, &at("5", 5, json!(1)), WAITING);
    service.fire(&at("6", 6, json!(0.85)));
}

#[test]
fn without_a_min_confidence_an_absent_one_counts() {
    let (_home, service) = with_trigger(&json!({}));
    service.fire(&event("1", now()));
    service.fire(&event_with("2", now(), &json!({"confidence": 0})));
}

// Step 9: firing.

#[test]
fn the_task_comes_with_the_last_of_consecutive_observations_and_the_sequence_starts_at_0() {
    let (_home, service) = with_trigger(&json!({"consecutive": 3}));
    let t = ago(5000);
    for round in 0..2 {
        for n in 0..2 {
            let id = format!("{round}-{n}");
            refuses(&service, &event(&id, t + milliseconds(round * 10 + n)), WAITING);
        }
        service.fire(&event(&format!("{round}-2"), t + milliseconds(round * 10 + 2)));
    }
}

#[test]
fn within_the_cooldown_the_sequence_keeps_growing() {
    let (_home, service) = with_trigger(&json!({"consecutive": 2, "cooldown_seconds": 2}));
    let start = now();
    let at = |id: &str, ms: i64| event(id, start + milliseconds(ms));
    refuses(&service, &at("1", 0), WAITING);
    service.fire(&at("2", 1));
    let fired = now();
    refuses(&service, &at("3", 2), COOLDOWN);
    refuses(&service, &at("4", 3), COOLDOWN);
    wait::until("the cooldown is over", || (now() > fired + milliseconds(2050)).then_some(()));
    // Two were counted meanwhile: one more is enough.
    service.fire(&at("5", 2500));
}

#[test]
fn the_cooldown_is_told_before_the_missing_observations() {
    let (_home, service) = with_trigger(&json!({"consecutive": 2, "cooldown_seconds": 3600}));
    let t = ago(5000);
    refuses(&service, &event("1", t), WAITING);
    service.fire(&event("2", t + milliseconds(1)));
    refuses(&service, &event("3", t + milliseconds(2)), COOLDOWN);
}

#[test]
fn triggers_keep_apart_by_type_and_source() {
    let home = Home::with(|config| {
        config
            .trigger(trigger_with(&json!({"consecutive": 2, "cooldown_seconds": 60})))
            .trigger(trigger_with(&json!({"consecutive": 2, "source": "back-camera"})))
    });
    let service = home.start();
    let back = |id: &str, t: Timestamp| event_with(id, t, &json!({"source": "back-camera"}));
    let t = ago(5000);
    refuses(&service, &event("1", t), WAITING);
    refuses(&service, &back("1", t), WAITING);
    service.fire(&event("2", t + milliseconds(1)));
    service.fire(&back("2", t + milliseconds(1)));
}

#[track_caller]
fn refuses_with(reply: &system_tests::wire::Reply, reason: &str) {
    assert_eq!(reply.success(), json!({"accepted": false, "reason": reason}));
}

fn exhaust(service: &Service) {
    for n in 0..100 {
        let event = event_with(&format!("x{n}"), now(), &json!({"source": "elsewhere"}));
        if service.event(&event).status == 429 {
            return;
        }
    }
    panic!("a hundred events at once were admitted");
}
