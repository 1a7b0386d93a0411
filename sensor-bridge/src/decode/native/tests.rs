use serde_json::json;

use super::*;
use crate::decode::{Reason, Rules};

const T: &str = "2026-09-16T10:00:00Z";

#[test]
fn a_detection_is_evidence_for_its_label_alone() {
    let document = json!({"label": "person", "confidence": 0.9, "timestamp": T, "source": "yard",
        "track_id": 7, "data": {"box": [1, 2, 3, 4]}});
    let data = json!({"track_id": 7, "box": [1, 2, 3, 4]});
    let expected = message("yard", Evidence::Object(detection_of("person", 0.9, data)));
    assert_eq!(decode(&document), Decoded { messages: vec![expected], refused: vec![] });
}

#[test]
fn an_array_is_a_whole_frame_per_source_and_time() {
    let document = json!([
        {"label": "person", "confidence": 0.9, "timestamp": T},
        {"label": "car", "confidence": 0.4, "timestamp": T},
        {"label": "person", "confidence": 0.5, "timestamp": T, "source": "yard"},
    ]);
    let own = vec![plain("person", 0.9), plain("car", 0.4)];
    let yard = vec![plain("person", 0.5)];
    let expected =
        vec![message("cam", Evidence::Frame(own)), message("yard", Evidence::Frame(yard))];
    assert_eq!(decode(&document), Decoded { messages: expected, refused: vec![] });
}

#[test]
fn an_empty_frame_says_that_nothing_was_there() {
    let document = json!({"timestamp": T, "source": "yard", "detections": []});
    let expected = vec![message("yard", Evidence::Frame(vec![]))];
    assert_eq!(decode(&document), Decoded { messages: expected, refused: vec![] });
}

#[test]
fn an_empty_array_has_no_time_and_is_refused() {
    assert_eq!(reasons(&decode(&json!([]))), [Reason::NoTime]);
}

#[test]
fn the_header_of_a_recording_is_skipped_in_silence() {
    assert_eq!(decode(&json!({"recording": {"seed": 7}})), Decoded::default());
}

#[test]
fn an_unusable_detection_makes_its_label_unknown_and_not_absent() {
    let document = json!({"timestamp": T, "detections": [
        {"label": "person", "confidence": 87},
        {"label": "car", "confidence": 0.4},
        {"label": "car", "confidence": 0.6},
    ]});
    let decoded = decode(&document);
    assert_eq!(reasons(&decoded), [Reason::InvalidConfidence]);
    // `dog` is watched, too: the frame still says that no dog was there.
    let expected = vec![
        message("cam", Evidence::Object(plain("car", 0.6))),
        message("cam", Evidence::Absent { label: "dog".to_owned(), data: Map::new() }),
    ];
    assert_eq!(decoded.messages, expected);
}

#[test]
fn a_label_that_shares_its_route_with_an_unknown_one_is_not_said_to_be_absent() {
    let group = |labels: [&str; 2]| labels.map(str::to_owned).into();
    let watched = vec![group(["person", "dog"]), group(["car", "truck"])];
    let rules = Rules { watched, ..rules() };
    let document = json!({"timestamp": T, "detections": [{"label": "person"}]});
    let absent: Vec<Evidence> =
        decode_by(&document, &rules).messages.into_iter().map(|message| message.evidence).collect();
    let expected = ["car", "truck"]
        .map(|label| Evidence::Absent { label: label.to_owned(), data: Map::new() });
    assert_eq!(absent, expected);
}

#[test]
fn a_known_score_of_a_label_stands_beside_an_unusable_one() {
    let document = json!({"timestamp": T, "detections": [
        {"label": "person", "confidence": 0.7}, {"label": "person"},
    ]});
    let decoded = decode(&document);
    assert_eq!(reasons(&decoded), [Reason::NoConfidence]);
    assert_eq!(decoded.messages[0], message("cam", Evidence::Object(plain("person", 0.7))));
}

#[test]
fn class_numbers_are_named_and_missing_scores_are_what_the_route_says() {
    let rules = Rules {
        labels: [("0".to_owned(), "person".to_owned())].into(),
        constants: [("person".to_owned(), 0.95)].into(),
        ..rules()
    };
    let document = json!({"label": 0, "timestamp": T});
    let expected = vec![message("cam", Evidence::Object(plain("person", 0.95)))];
    assert_eq!(decode_by(&document, &rules).messages, expected);
}

#[test]
fn a_configured_source_wins_over_the_message() {
    let rules = Rules { fixed_source: Some("door".to_owned()), ..rules() };
    let document = json!({"timestamp": T, "source": "yard", "detections": []});
    assert_eq!(decode_by(&document, &rules).messages[0].source, "door");
}

#[test]
fn other_shapes_are_refused_with_the_field_and_what_would_be_right() {
    let cases = [
        (json!(7), "the message must be a detection"),
        (
            json!({"label": "person", "confidence": 1, "timestamp": T, "data": 5}),
            "data must be an object",
        ),
        (json!({"confidence": 1, "timestamp": T}), "label must be a text or a class number"),
        (json!({"label": "person", "confidence": 1}), "timestamp is missing"),
        (
            json!([{"label": "person", "confidence": 1, "timestamp": T}, 5]),
            "each detection must be an object",
        ),
        (json!({"timestamp": T, "detections": {}}), "detections must be an array"),
        (json!({"timestamp": T, "source": 5, "detections": []}), "source must be a text"),
        (
            json!({"timestamp": T, "detections": [{"label": "a", "confidence": 1, "timestamp": "2026-09-16T10:00:01Z"}]}),
            "timestamp must be absent in a detection of a frame",
        ),
        (json!({"timestamp": "2026-09-16T12:00:00Z", "detections": []}), "local time read as UTC"),
    ];
    for (document, expected) in cases {
        let decoded = decode(&document);
        assert_eq!(decoded.messages, [], "{document}");
        assert!(decoded.refused[0].to_string().contains(expected), "{document}: {decoded:?}");
    }
}

fn rules() -> Rules {
    let watched = ["person", "car", "dog"].map(|label| [label.to_owned()].into()).into();
    Rules { name: "cam".to_owned(), watched, ..Rules::default() }
}

fn decode(document: &Value) -> Decoded {
    decode_by(document, &rules())
}

fn decode_by(document: &Value, rules: &Rules) -> Decoded {
    let received = "2026-09-16T10:00:00.1Z".parse().unwrap();
    Native.decode(document, &Context { topic: None, received, rules })
}

fn reasons(decoded: &Decoded) -> Vec<Reason> {
    decoded.refused.iter().map(Refusal::reason).collect()
}

fn message(source: &str, evidence: Evidence) -> Message {
    Message { source: source.to_owned(), at: T.parse().unwrap(), message_id: None, evidence }
}

fn plain(label: &str, confidence: f64) -> Detection {
    detection_of(label, confidence, json!({}))
}

fn detection_of(label: &str, confidence: f64, data: Value) -> Detection {
    let Value::Object(data) = data else { panic!("data is an object") };
    Detection { label: label.to_owned(), confidence, data }
}
