use proptest::prelude::*;

use super::*;

const GOLDEN: &str = include_str!("../../fixtures/event.json");

fn error(body: &str) -> String {
    Event::parse(body.as_bytes()).unwrap_err().to_string()
}

/// An event with one member replaced or added.
fn with(name: &str, json: &str) -> String {
    let mut members: Vec<(&str, &str)> = vec![
        ("id", "\"1\""),
        ("type", "\"t\""),
        ("source", "\"s\""),
        ("timestamp", "\"2026-05-01T12:00:00Z\""),
    ];
    members.retain(|(known, _)| *known != name);
    members.push((name, json));
    let members: Vec<_> = members.iter().map(|(n, j)| format!("\"{n}\":{j}")).collect();
    format!("{{{}}}", members.join(","))
}

#[test]
fn reads_the_golden_event_and_prints_it_as_sent() {
    let event = Event::parse(GOLDEN.as_bytes()).unwrap();
    assert_eq!(event.id().as_str(), "frame-1");
    assert_eq!(event.kind().as_str(), "person.detected");
    assert_eq!(event.source().as_str(), "front-camera");
    assert_eq!(event.timestamp(), "2026-05-01T12:00:00.123456789Z".parse().unwrap());
    assert_eq!(event.confidence().map(Confidence::get), Some(0.9));
    assert_eq!(event.data().map(RawValue::get), Some(r#"{"boxes": [1.50], "note": "a\u0062"}"#));
    assert_eq!(
        event.to_json(),
        concat!(
            r#"{"id":"frame-1","type":"person.detected","source":"front-camera","#,
            r#""timestamp":"2026-05-01T14:00:00.123456789+02:00","confidence":0.9,"#,
            r#""data":{"boxes": [1.50], "note": "a\u0062"}}"#
        )
    );
    assert_eq!(Event::parse(event.to_json().as_bytes()).unwrap(), event);
}

#[test]
fn the_digest_is_the_one_that_receipts_of_earlier_versions_hold() {
    let digest = Event::parse(GOLDEN.as_bytes()).unwrap().digest();
    assert_eq!(digest.to_hex(), "318aacec135425a2d2dd146d142f819399b07b6392aac15d0b3505c5c9060b75");
}

#[test]
fn every_fault_names_its_field() {
    let cases = [
        (with("extra", "1"), "unknown field \"extra\""),
        (with("Id", "\"1\""), "unknown field \"Id\""),
        (with("event_id", "\"1\""), "unknown field \"event_id\""),
        (with("id", "7"), "id must be a string; it is a number"),
        (with("id", "null"), "id must be a string; it is null"),
        (with("id", "\"\""), "id must be 1 to 256 bytes long; it is empty"),
        (with("id", "\"\\ud800\""), "id is no valid text"),
        (with("type", "[]"), "type must be a string; it is a list"),
        (with("source", "{}"), "source must be a string; it is an object"),
        (with("timestamp", "1714564800"), "timestamp must be a string; it is a number"),
        (with("timestamp", "\"2026-05-01T12:00:00\""), "timestamp must be an RFC 3339 time"),
        (with("timestamp", "\"2026-02-30T12:00:00Z\""), "timestamp must be a time that exists"),
        (with("confidence", "\"0.9\""), "confidence must be a number from 0 to 1; it is a string"),
        (with("confidence", "null"), "confidence must be a number from 0 to 1; it is null"),
        (with("confidence", "true"), "confidence must be a number from 0 to 1; it is a boolean"),
        (with("confidence", "1.01"), "confidence must be a number from 0 to 1; it is 1.01"),
        (with("confidence", "-1e-9"), "confidence must be a number from 0 to 1; it is -1e-9"),
        (with("confidence", "1e999"), "confidence must be a number from 0 to 1; it is 1e999"),
        (with("data", "1e999"), "data cannot be read"),
        (with("data", "\"\\udc00\""), "data cannot be read"),
        (r#"{"id":"1","id":"1"}"#.to_owned(), "field \"id\" is given twice"),
        (r#"{"\u0069d":"1","id":"1"}"#.to_owned(), "field \"id\" is given twice"),
        (r#"{"data":null,"data":null}"#.to_owned(), "field \"data\" is given twice"),
        ("{}".to_owned(), "field \"id\" is missing"),
        (r#"{"id":"1"}"#.to_owned(), "field \"type\" is missing"),
    ];
    for (body, expected) in cases {
        let message = error(&body);
        assert!(message.starts_with(expected), "{body}: {message}");
    }
}

#[test]
fn the_body_is_exactly_one_object() {
    for body in ["", " ", "null", "[]", "\"x\"", "1", "{", "{} {}", "{}x", "\u{feff}{}", "{\"a\"}"]
    {
        let message = error(body);
        assert!(
            message.starts_with("the event must be exactly one JSON object"),
            "{body:?}: {message}"
        );
    }
    assert!(matches!(Event::parse(b"{\"id\":\"\xff\"}"), Err(EventError::Json(_))));
    assert!(Event::parse(format!(" \r\n\t{} \n", with("data", "1")).as_bytes()).is_ok());
}

#[test]
fn data_has_at_most_16000_bytes_as_sent() {
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let largest = Event::parse(with("data", &text(16_000)).as_bytes()).unwrap();
    assert_eq!(largest.data().unwrap().get().len(), 16_000);
    assert_eq!(
        error(&with("data", &text(16_001))),
        "data must be at most 16000 bytes; it has 16001"
    );
    // Escapes count as they were sent, and so does white space inside.
    let escaped = format!("\"{}\"", "\\u0061".repeat(2_667));
    assert!(error(&with("data", &escaped)).contains("it has 16004"));
    let spaced = format!("[{}]", " ".repeat(15_999));
    assert!(error(&with("data", &spaced)).contains("it has 16001"));
}

#[test]
fn data_is_nested_at_most_127_levels() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(Event::parse(with("data", &nested(127)).as_bytes()).is_ok());
    assert!(error(&with("data", &nested(128))).starts_with("data cannot be read: recursion"));
    assert!(error(&with("data", &nested(8_000))).starts_with("data cannot be read: recursion"));
}

#[test]
fn events_are_equal_when_all_fields_are_equal_as_json_values() {
    let parse = |body: &str| Event::parse(body.as_bytes()).unwrap();
    let digest = |name: &str, json: &str| parse(&with(name, json)).digest();
    assert_eq!(digest("confidence", "0.9"), digest("confidence", "9.0e-1"));
    assert_eq!(digest("data", r#"{"a":1,"b":2}"#), digest("data", r#"{ "b": 2.0, "a": 1 }"#));
    assert_eq!(digest("id", r#""\u0041""#), digest("id", r#""A""#));
    assert_ne!(digest("data", "null"), digest("data", "0"));
    assert_ne!(digest("data", "null"), parse(&with("id", "\"1\"")).digest());
    assert_ne!(digest("confidence", "0"), parse(&with("id", "\"1\"")).digest());
    assert_ne!(
        digest("timestamp", "\"2026-05-01T12:00:00Z\""),
        digest("timestamp", "\"2026-05-01T12:00:00.0Z\""),
    );
}

#[test]
fn the_trace_context_is_no_part_of_the_event() {
    let event = Event::parse(GOLDEN.as_bytes()).unwrap();
    let trace = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let traced = event.clone().with_trace(trace.clone());
    assert_eq!(traced.trace(), trace.as_ref());
    assert_eq!((traced.digest(), traced.to_json()), (event.digest(), event.to_json()));
}

#[test]
fn an_answer_leaves_out_what_is_unset_and_reasons_are_word_for_word() {
    let answers: Vec<_> = Reason::ALL
        .into_iter()
        .map(EventAnswer::refused)
        .chain([EventAnswer::accepted(&crate::value::TaskId::new("task-1").unwrap())])
        .collect();
    let golden = include_str!("../../fixtures/event-answers.jsonl");
    for (answer, line) in answers.iter().zip(golden.lines()) {
        assert_eq!(serde_json::to_string(answer).unwrap(), line);
        assert_eq!(&serde_json::from_str::<EventAnswer>(line).unwrap(), answer);
    }
    assert_eq!(answers.len(), golden.lines().count());
    for reason in Reason::ALL {
        assert_eq!(Reason::from_wire(reason.as_str()), Some(reason));
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
    assert_eq!(Reason::from_wire("Cooldown"), None);
}

proptest! {
    #[test]
    fn an_event_that_was_built_reads_back_equal(
        id in "\\PC{1,20}",
        kind in "[a-z.]{1,20}",
        nanos in 0_i128..4_000_000_000_000_000_000,
        confidence in prop::option::of(0.0..=1.0),
        data in prop::option::of(crate::a2a::testing::any_json()),
    ) {
        let event = Event::new(
            EventId::new(id).unwrap(),
            EventType::new(kind).unwrap(),
            SourceName::new("s").unwrap(),
            Timestamp::from_nanosecond(nanos).unwrap(),
            confidence.map(|c| Confidence::new(c).unwrap()),
            data.as_ref(),
        ).unwrap();
        let again = Event::parse(event.to_json().as_bytes()).unwrap();
        prop_assert_eq!(again.timestamp(), event.timestamp());
        prop_assert_eq!(again.to_json(), event.to_json());
        prop_assert_eq!(again, event);
    }

    #[test]
    fn any_json_is_an_event_or_an_error_that_names_a_field_of_it(value in crate::a2a::testing::any_json()) {
        if let Err(error) = Event::parse(value.to_string().as_bytes()) {
            // A name with quotes or controls is shown escaped.
            let shown = format!("{:?}", error.field());
            prop_assert!(error.to_string().contains(shown.trim_matches('"')));
        }
    }

    #[test]
    fn any_bytes_are_an_event_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert!(Event::parse(&bytes).is_err());
    }
}
