//! Takes a message out of the line it came in.
//!
//! Recordings and log tools wrap what a broker delivered as
//! `{recv, topic, qos, retain, payload}`; transports without topics deliver
//! such lines as they are. A line counts as an envelope when it has `topic`
//! and a `payload`, which no document of a preset has together. A payload
//! that is text is parsed as what it would have been on the wire; one in
//! `payload_base64` is no text and so no document.

use jiff::Timestamp;
use serde_json::Value;

use super::{Refusal, time};

/// What a transport, or an envelope, says about a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The topic, where there are topics.
    pub topic: Option<String>,
    /// The broker delivered a stored copy.
    pub retain: bool,
}

/// Parses one message.
pub fn parse(bytes: &[u8]) -> Result<Value, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_no_text| Refusal::InvalidUtf8)?;
    serde_json::from_str(text)
        .map_err(|error| Refusal::InvalidJson { line: error.line(), column: error.column() })
}

/// Takes the document out of its envelope, if it has one.
///
/// `meta` is what the transport said; an envelope's own words win.
pub fn open(line: Value, meta: &Meta) -> Result<(Value, Meta), Refusal> {
    let Value::Object(mut fields) = line else { return Ok((line, meta.clone())) };
    let wrapped = fields.contains_key("payload") || fields.contains_key("payload_base64");
    if !wrapped || !fields.contains_key("topic") {
        return Ok((Value::Object(fields), meta.clone()));
    }
    if fields.get("retain") == Some(&Value::Bool(true)) {
        return Err(Refusal::Retained);
    }
    let topic = fields.get("topic").and_then(Value::as_str).map(str::to_owned);
    let document = match fields.remove("payload") {
        Some(Value::String(text)) => parse(text.as_bytes())?,
        Some(document) => document,
        None => return Err(Refusal::InvalidUtf8),
    };
    Ok((document, Meta { topic, retain: false }))
}

/// The time at which a recorded line was received, if it says so.
///
/// A time that no clock of today can have written is as good as none.
pub fn recorded_at(line: &Value) -> Option<Timestamp> {
    let at: Timestamp = line.get("recv")?.as_str()?.parse().ok()?;
    time::admit(at, at).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_envelope_is_opened_and_its_topic_kept() {
        let line = json!({"recv": "2026-09-16T10:00:00Z", "topic": "a/events", "qos": 0,
            "retain": false, "payload": {"type": "new"}});
        let meta = Meta { topic: Some("a/events".to_owned()), retain: false };
        assert_eq!(open(line, &Meta::default()), Ok((json!({"type": "new"}), meta)));
    }

    #[test]
    fn a_text_payload_is_parsed_as_it_was_on_the_wire() {
        let line = json!({"topic": "a/count", "payload": "2"});
        assert_eq!(open(line, &Meta::default()).map(|(document, _)| document), Ok(json!(2)));
    }

    #[test]
    fn a_retained_line_is_old_news_whatever_is_in_it() {
        let line = json!({"topic": "a/b", "retain": true, "payload_base64": "/9j/"});
        assert_eq!(open(line, &Meta::default()), Err(Refusal::Retained));
    }

    #[test]
    fn bytes_that_are_no_text_are_no_document() {
        let line = json!({"topic": "a/b", "retain": false, "payload_base64": "/9j/"});
        assert_eq!(open(line, &Meta::default()), Err(Refusal::InvalidUtf8));
        assert_eq!(parse(b"{\"a\": \"\xff\"}"), Err(Refusal::InvalidUtf8));
    }

    #[test]
    fn a_document_that_only_has_a_payload_field_is_no_envelope() {
        let line = json!({"payload": 5, "label": "person"});
        let meta = Meta { topic: Some("from/the/transport".to_owned()), retain: false };
        assert_eq!(open(line.clone(), &meta), Ok((line, meta)));
    }

    #[test]
    fn the_receive_time_of_a_recorded_line_is_read_or_nothing() {
        let at = |recv: &str| recorded_at(&json!({"recv": recv})).map(|at| at.to_string());
        assert_eq!(at("2026-09-16T10:00:00.55Z"), Some("2026-09-16T10:00:00.55Z".to_owned()));
        assert_eq!(at("yesterday"), None);
        assert_eq!(at("1970-01-01T00:00:05Z"), None);
    }
}
