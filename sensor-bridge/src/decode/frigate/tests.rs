use serde_json::json;

use super::*;
use crate::decode::{Meta, Reader, Reason, Rules};

const LIFECYCLE: &str = include_str!("../../../fixtures/frigate-events-lifecycle.jsonl");
const NEW: &str = include_str!("../../../fixtures/frigate-events-new.json");
const COUNTS: &str = include_str!("../../../fixtures/frigate-object-count.jsonl");

#[test]
fn a_new_object_is_read_from_after_with_its_frame_time_to_the_microsecond() {
    let decoded = reader().read(NEW.as_bytes(), &Meta::default(), at("2026-09-16T10:00:00.55Z"));
    let data = json!({"track_id": "1789552799.412037-k3v9qa", "state": "new",
        "zones": ["driveway"], "box": [311, 140, 402, 377]});
    let Value::Object(data) = data else { panic!("an object") };
    let detection = Detection { label: "person".to_owned(), confidence: 0.789_062_5, data };
    let expected = Message {
        source: "front_door".to_owned(),
        at: at("2026-09-16T10:00:00.418712Z"),
        message_id: Some("1789552799.412037-k3v9qa".to_owned()),
        evidence: Evidence::Object(detection),
    };
    assert_eq!(decoded, Decoded { messages: vec![expected], refused: vec![] });
}

#[test]
fn a_track_is_seen_until_its_end_which_is_absence_at_its_end_time() {
    let mut reader = reader();
    let seen: Vec<(String, Option<f64>)> = LIFECYCLE
        .lines()
        .flat_map(|line| {
            let received = envelope_time(line);
            reader.read(line.as_bytes(), &Meta::default(), received).messages
        })
        .map(|message| (message.at.to_string(), confidence_of(&message.evidence)))
        .collect();
    let expected = [
        ("2026-09-16T10:00:00.4Z", Some(0.79)),
        ("2026-09-16T10:00:06.6Z", Some(0.91)),
        ("2026-09-16T10:00:12.8Z", Some(0.47)),
        ("2026-09-16T10:00:19Z", Some(0.93)),
        ("2026-09-16T10:00:24.2Z", None),
    ]
    .map(|(at, confidence)| (at.to_owned(), confidence));
    assert_eq!(seen, expected);
}

#[test]
fn an_end_is_absence_only_when_no_other_track_of_label_and_camera_is_open() {
    let mut frigate = Frigate::default();
    send(&mut frigate, "new", "a", "door", "person", 0);
    send(&mut frigate, "new", "b", "door", "person", 1);
    send(&mut frigate, "new", "c", "yard", "person", 1);
    send(&mut frigate, "new", "d", "door", "car", 1);
    assert_eq!(send(&mut frigate, "end", "a", "door", "person", 2), Decoded::default());
    let last = send(&mut frigate, "end", "b", "door", "person", 3);
    assert!(matches!(last.messages[0].evidence, Evidence::Absent { .. }), "{last:?}");
}

#[test]
fn a_track_whose_end_was_lost_does_not_hide_absence_for_ever() {
    let mut frigate = Frigate::default();
    send(&mut frigate, "new", "lost", "door", "person", 0);
    send(&mut frigate, "new", "b", "door", "person", 100);
    assert_eq!(send(&mut frigate, "end", "b", "door", "person", 180), Decoded::default());
    send(&mut frigate, "new", "c", "door", "person", 181);
    assert_eq!(send(&mut frigate, "end", "c", "door", "person", 181).messages.len(), 1);
}

#[test]
fn after_a_loss_no_track_from_before_hides_absence() {
    let mut frigate = Frigate::default();
    send(&mut frigate, "new", "a", "door", "person", 0);
    send(&mut frigate, "new", "b", "door", "person", 1);
    frigate.lost();
    assert_eq!(send(&mut frigate, "end", "b", "door", "person", 2).messages.len(), 1);
    send(&mut frigate, "update", "a", "door", "person", 3);
    send(&mut frigate, "new", "c", "door", "person", 4);
    assert_eq!(send(&mut frigate, "end", "c", "door", "person", 5), Decoded::default());
}

#[test]
fn the_table_of_open_tracks_is_bounded_and_the_longest_silent_goes_first() {
    let mut frigate = Frigate::default();
    for (track, second) in (0..MAX_TRACKS + 5).zip(0..) {
        send(&mut frigate, "new", &track.to_string(), "door", "person", second);
    }
    assert_eq!(frigate.open.len(), MAX_TRACKS);
    assert!(!frigate.open.contains_key("4"));
    assert!(frigate.open.contains_key("5"));
}

#[test]
fn a_false_positive_is_counted_and_no_evidence() {
    let mut document = event("new", "a", "door", "person", 0);
    document["after"]["false_positive"] = json!(true);
    let decoded = decode(&mut Frigate::default(), &document, 0);
    assert_eq!(decoded.messages, []);
    assert_eq!(decoded.refused[0].reason(), Reason::FalsePositive);
}

#[test]
fn counts_snapshots_and_availability_produce_nothing_and_are_counted() {
    let mut reader = reader();
    let reasons: Vec<Reason> = COUNTS
        .lines()
        .flat_map(|line| {
            let decoded = reader.read(line.as_bytes(), &Meta::default(), envelope_time(line));
            assert_eq!(decoded.messages, [], "{line}");
            decoded.refused
        })
        .map(|refusal| refusal.reason())
        .collect();
    let expected = [vec![Reason::OtherTopic; 3], vec![Reason::Retained; 2]].concat();
    assert_eq!(reasons, expected);
}

#[test]
fn what_is_no_event_is_refused_with_the_field() {
    let cases = [
        (json!([]), "the message must be an object"),
        (json!({"type": "seen", "after": {}}), "type must be new, update or end"),
        (json!({"type": "new"}), "after must be an object"),
        (json!({"type": "new", "after": {"id": "a", "camera": "door"}}), "after.label must be"),
        (
            json!({"type": "end", "after": {"id": "a", "camera": "door", "label": "person"}}),
            "after.end_time is missing",
        ),
        (
            json!({"type": "new", "after": {"id": "a", "camera": "door", "label": "person",
            "frame_time": 1_789_552_800.0}}),
            "has no confidence",
        ),
    ];
    for (document, expected) in cases {
        let decoded = decode(&mut Frigate::default(), &document, 0);
        assert!(decoded.refused[0].to_string().contains(expected), "{document}: {decoded:?}");
    }
}

fn reader() -> Reader {
    Reader::new(rules(), Box::new(Frigate::default()))
}

fn rules() -> Rules {
    Rules { name: "house".to_owned(), ..Rules::default() }
}

fn send(
    frigate: &mut Frigate,
    state: &str,
    track: &str,
    camera: &str,
    label: &str,
    second: i64,
) -> Decoded {
    decode(frigate, &event(state, track, camera, label, second), second)
}

fn event(state: &str, track: &str, camera: &str, label: &str, second: i64) -> Value {
    let time = 1_789_552_800 + second;
    json!({"type": state, "before": {}, "after": {"id": track, "camera": camera, "label": label,
        "frame_time": time, "score": 0.9, "end_time": time, "false_positive": false}})
}

fn decode(frigate: &mut Frigate, document: &Value, second: i64) -> Decoded {
    let received = Timestamp::from_second(1_789_552_800 + second).unwrap();
    frigate.decode(document, &Context { topic: None, received, rules: &rules() })
}

fn envelope_time(line: &str) -> Timestamp {
    crate::decode::envelope::recorded_at(&serde_json::from_str(line).unwrap()).unwrap()
}

fn confidence_of(evidence: &Evidence) -> Option<f64> {
    match evidence {
        Evidence::Object(detection) => Some(detection.confidence),
        Evidence::Frame(_) | Evidence::Part(_) | Evidence::Absent { .. } => None,
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}
