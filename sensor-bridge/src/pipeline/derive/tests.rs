use super::*;
use crate::pipeline::frame::Detection;
use crate::pipeline::route::{Route, RouteSpec};

const MS: Duration = Duration::from_millis(1);

fn route(from: &str, labels: &[&str], kind: &str) -> RouteSpec {
    RouteSpec {
        from: from.to_owned(),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        kind: kind.to_owned(),
        ..RouteSpec::default()
    }
}

fn deriver(routes: Vec<RouteSpec>) -> Deriver {
    let routes = routes.into_iter().map(|spec| Route::new(spec).unwrap()).collect();
    Deriver::new(Arc::new(Routes::new(routes).unwrap()), MS * 50, 4)
}

fn persons() -> Deriver {
    deriver(vec![route("house", &["person"], "person.detected")])
}

fn saw(label: &str, confidence: f64, data: &Value) -> Detection {
    Detection { label: label.to_owned(), confidence, data: data.as_object().unwrap().clone() }
}

fn person(confidence: f64) -> Detection {
    saw("person", confidence, &json!({}))
}

fn message(source: &str, ms: i64, evidence: Evidence) -> Message {
    let at = Timestamp::from_millisecond(1_789_552_800_000 + ms).unwrap();
    Message { source: source.to_owned(), at, message_id: None, evidence }
}

/// Lines of `replay --derived`, shortened to milliseconds, type, confidence and data.
fn lines(deriver: &Deriver, batch: &Batch) -> Vec<Value> {
    let line = |derived: &Derived| {
        let full = deriver.line(derived);
        let ms = derived.observation.at.as_millisecond() - 1_789_552_800_000;
        json!([ms, full["type"], full["source"], full["confidence"], full["data"]])
    };
    batch.derived.iter().map(line).collect()
}

fn reasons(batch: &Batch) -> Vec<Reason> {
    batch.refused.iter().map(|refusal| refusal.reason).collect()
}

fn push(deriver: &mut Deriver, messages: &[Message]) -> Batch {
    let mut batch = Batch::default();
    for message in messages {
        deriver.push("house", message, Duration::ZERO, &mut batch);
    }
    batch
}

#[test]
fn a_frame_speaks_for_every_label_that_a_route_watches() {
    let mut deriver = deriver(vec![
        route("house", &["person"], "person.detected"),
        route("house", &["car"], "car.detected"),
        route("house", &["dog", "cat"], "pet.detected"),
        route("elsewhere", &["person"], "person.seen"),
    ]);
    let frame = Evidence::Frame(vec![
        saw("person", 0.6, &json!({"track_id": "1"})),
        saw("person", 0.9, &json!({"track_id": "2"})),
        saw("cat", 0.4, &json!({})),
        saw("bird", 0.99, &json!({})),
    ]);
    let batch = push(&mut deriver, &[message("cam", 0, frame)]);
    assert_eq!(
        lines(&deriver, &batch),
        [
            json!([0, "person.detected", "cam", 0.9, {"track_id": "2", "objects": 2}]),
            json!([0, "car.detected", "cam", 0.0, {"absent": true}]),
            json!([0, "pet.detected", "cam", 0.4, {"label": "cat"}]),
        ]
    );
}

#[test]
fn an_object_event_speaks_for_its_label_only() {
    let mut deriver = deriver(vec![
        route("house", &["person"], "person.detected"),
        route("house", &["car"], "car.detected"),
    ]);
    let gone = Evidence::Absent {
        label: "person".to_owned(),
        data: json!({"state": "end"}).as_object().unwrap().clone(),
    };
    let batch = push(
        &mut deriver,
        &[
            message("cam", 0, Evidence::Object(person(0.8))),
            message("cam", 10, Evidence::Object(saw("bird", 0.8, &json!({})))),
            message("cam", 20, gone),
        ],
    );
    assert_eq!(
        lines(&deriver, &batch),
        [
            json!([0, "person.detected", "cam", 0.8, {}]),
            json!([20, "person.detected", "cam", 0.0, {"state": "end", "absent": true}]),
        ]
    );
}

#[test]
fn times_of_a_stream_strictly_increase() {
    let mut deriver = persons();
    let frame = |ms, confidence| message("cam", ms, Evidence::Frame(vec![person(confidence)]));
    let batch = push(
        &mut deriver,
        &[
            frame(10, 0.5),
            frame(9, 0.9),
            frame(10, 0.5),
            frame(10, 0.4),
            frame(10, 0.7),
            frame(11, 0.1),
        ],
    );
    let derived: Vec<_> =
        batch.derived.iter().map(|d| (d.observation.confidence, d.repeat)).collect();
    assert_eq!(derived, [(0.5, false), (0.7, true), (0.1, false)]);
    assert_eq!(reasons(&batch), [Reason::OutOfOrder, Reason::Duplicate, Reason::Duplicate]);
    let other = push(&mut deriver, &[message("other", 0, Evidence::Object(person(0.9)))]);
    assert_eq!(other.derived.len(), 1, "another event source has an order of its own");
}

#[test]
fn parts_of_a_frame_are_one_frame_until_a_later_time() {
    let mut deriver = deriver(vec![
        route("house", &["person"], "person.detected"),
        route("house", &["car"], "car.detected"),
    ]);
    let part = |ms, label: &str, confidence, id: &str| {
        let mut message =
            message("cam", ms, Evidence::Part(vec![saw(label, confidence, &json!({"id": id}))]));
        message.message_id = Some(id.to_owned());
        message
    };
    let batch = push(
        &mut deriver,
        &[
            part(0, "person", 0.5, "b"),
            part(0, "person", 0.9, "c"),
            part(0, "person", 0.9, "a"),
            part(0, "bird", 0.9, "d"),
            part(100, "car", 0.8, "e"),
            part(0, "person", 1.0, "f"),
        ],
    );
    assert_eq!(
        lines(&deriver, &batch),
        [
            json!([0, "person.detected", "cam", 0.9, {"id": "a", "objects": 3}]),
            json!([0, "car.detected", "cam", 0.0, {"absent": true}]),
        ]
    );
    assert_eq!(batch.derived[0].observation.message_id.as_deref(), Some("a"));
    assert_eq!(reasons(&batch), [Reason::Late]);
    let mut rest = Batch::default();
    deriver.close_all(&mut rest);
    assert_eq!(rest.derived.len(), 2);
    assert_eq!(lines(&deriver, &rest)[1], json!([100, "car.detected", "cam", 0.8, {"id": "e"}]));
}

#[test]
fn a_frame_is_closed_a_while_after_its_last_part() {
    let mut deriver = persons();
    let mut batch = Batch::default();
    let part = |confidence| message("cam", 0, Evidence::Part(vec![person(confidence)]));
    deriver.push("house", &part(0.5), MS * 1000, &mut batch);
    deriver.push("house", &part(0.7), MS * 1040, &mut batch);
    assert_eq!(deriver.next_deadline(), Some(MS * 1090));
    deriver.close_due(MS * 1089, &mut batch);
    assert_eq!(batch.derived, []);
    deriver.close_due(MS * 1090, &mut batch);
    assert_eq!(batch.derived.len(), 1);
    assert_eq!(deriver.next_deadline(), None);
    deriver.push("house", &part(0.9), MS * 1091, &mut batch);
    assert_eq!((batch.derived.len(), reasons(&batch)), (1, vec![Reason::Late]));
}

#[test]
fn a_loss_closes_the_open_frames_of_its_source_and_starts_their_medians_again() {
    let smooth = |from, kind| RouteSpec { smooth: Some(3), ..route(from, &["person"], kind) };
    let mut deriver = deriver(vec![smooth("house", "seen"), smooth("yard", "seen.outside")]);
    let mut batch = Batch::default();
    let say = |deriver: &mut Deriver, from, ms, confidence, batch: &mut Batch| {
        let part = Evidence::Part(vec![person(confidence)]);
        deriver.push(from, &message("cam", ms, part), MS * 1000, batch);
    };
    for ms in 0..3 {
        say(&mut deriver, "house", ms, 0.0, &mut batch);
        say(&mut deriver, "yard", ms, 0.0, &mut batch);
    }
    assert_eq!(batch.derived.len(), 4, "both have a frame open");
    deriver.lost("house", &mut batch);
    assert_eq!(batch.derived.len(), 5);
    say(&mut deriver, "house", 2, 0.9, &mut batch);
    assert_eq!(reasons(&batch), [Reason::Late]);
    say(&mut deriver, "house", 3, 0.9, &mut batch);
    say(&mut deriver, "yard", 3, 0.9, &mut batch);
    deriver.close_all(&mut batch);
    let of = |stream: StreamId| {
        let derived = batch.derived.iter().filter(|derived| derived.stream == stream);
        derived.map(|derived| derived.observation.confidence).collect::<Vec<_>>()
    };
    let [house] = deriver.of("house")[..] else { panic!("{:?}", deriver.of("house")) };
    let [yard] = deriver.of("yard")[..] else { panic!("{:?}", deriver.of("yard")) };
    assert_eq!(of(house), [0.0, 0.0, 0.0, 0.9]);
    assert_eq!(of(yard), [0.0; 4]);
    assert_eq!(deriver.of("nobody"), []);
}

#[test]
fn a_smoothed_frame_says_absent_only_when_it_is() {
    let mut spec = route("house", &["person"], "person.detected");
    spec.smooth = Some(3);
    let mut deriver = deriver(vec![spec]);
    let frame = |ms, seen: Option<f64>| {
        message("cam", ms, Evidence::Frame(seen.map(person).into_iter().collect()))
    };
    let batch = push(
        &mut deriver,
        &[
            frame(0, Some(0.9)),
            frame(1, Some(0.9)),
            frame(2, None),
            frame(3, None),
            frame(4, Some(0.9)),
            frame(5, None),
        ],
    );
    let derived: Vec<_> = batch
        .derived
        .iter()
        .map(|d| (d.observation.confidence, d.observation.data.contains_key("absent")))
        .collect();
    let (seen, gone, odd) = ((0.9, false), (0.0, true), (0.0, false));
    assert_eq!(derived, [seen, seen, seen, gone, odd, gone]);
}

#[test]
fn streams_are_bounded_and_keep_their_route() {
    let mut deriver = deriver(vec![
        route("house", &["person"], "person.detected"),
        route("shed", &["person"], "person.detected"),
    ]);
    let seen = |source: &str| message(source, 0, Evidence::Object(person(0.9)));
    let mut batch = Batch::default();
    for source in ["a", "b", "c", "d", "e", "", "a"] {
        deriver.push("house", &seen(source), Duration::ZERO, &mut batch);
    }
    deriver.push("shed", &seen("a"), Duration::ZERO, &mut batch);
    deriver.push("unknown", &seen("a"), Duration::ZERO, &mut batch);
    assert_eq!((deriver.len(), batch.derived.len()), (4, 4));
    assert_eq!(
        reasons(&batch),
        [Reason::TooManyStreams, Reason::BadSource, Reason::Duplicate, Reason::OtherRoute]
    );
}

#[test]
fn a_fixed_source_stands_for_all_that_messages_name() {
    let mut spec = route("house", &["person"], "person.detected");
    spec.source = Some("yard".to_owned());
    let mut deriver = deriver(vec![spec]);
    let seen = |source: &str, ms| message(source, ms, Evidence::Object(person(0.9)));
    let batch = push(&mut deriver, &[seen("a", 0), seen("b", 1)]);
    assert_eq!(lines(&deriver, &batch)[1], json!([1, "person.detected", "yard", 0.9, {}]));
    assert_eq!(deriver.len(), 1);
}
