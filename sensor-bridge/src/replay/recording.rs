//! Reads a recording: which messages, and when each was received.
//!
//! A file is one JSON document or JSON lines, with or without the envelope
//! `{recv, topic, qos, retain, payload}`. The receive time of a line is:
//!
//! - its frame's time, when the file begins with a recording's header;
//! - else its `recv`;
//! - else the file's start plus 1/15 s a line, but never before its own time,
//!   since no frame is received before it is seen. The file's start is the
//!   first time in it, else now.

use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    decode::{Meta, Reader, envelope},
    source::lines::{Line, Splitter},
};

/// The distance of lines that have no time: fifteen frames a second.
const LINES_PER_SECOND: i64 = 15;

/// A recording, in the order of its lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recording {
    pub(super) entries: Vec<Entry>,
    /// The time of the first frame; the first receive time where no message has one.
    pub(super) first: Timestamp,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// When it was received; never before the line above.
    pub(super) received: Timestamp,
    /// The line, or `None` for one over the limit.
    pub(super) bytes: Option<Bytes>,
}

/// Reads the recording at `path`. `probe` finds the frames' times and is used up.
///
/// # Errors
/// The file cannot be read, or has nothing in it.
pub(super) fn read(
    path: &Path,
    limit: usize,
    probe: Reader,
    now: Timestamp,
) -> anyhow::Result<Recording> {
    let content = std::fs::read(path)
        .with_context(|| format!("cannot read the recording {}", path.display()))?;
    let recording = dated(lines(&content, limit), probe, now);
    recording.with_context(|| format!("the recording {} is empty", path.display()))
}

/// The one document that the content is, else its lines.
fn lines(content: &[u8], limit: usize) -> Vec<Option<Bytes>> {
    if serde_json::from_slice::<serde::de::IgnoredAny>(content).is_ok() {
        return vec![(content.len() <= limit).then(|| Bytes::copy_from_slice(content))];
    }
    let mut splitter = Splitter::new(limit);
    let mut all = Vec::new();
    let mut take = |line| match line {
        Line::Whole(bytes) => all.push(Some(bytes)),
        Line::Oversized => all.push(None),
    };
    splitter.feed(content, &mut take);
    splitter.finish(&mut take);
    all
}

fn dated(lines: Vec<Option<Bytes>>, mut probe: Reader, now: Timestamp) -> Option<Recording> {
    let parsed: Vec<Option<Value>> = lines
        .iter()
        .map(|line| line.as_ref().and_then(|line| envelope::parse(line).ok()))
        .collect();
    // Against the end of all times no frame is in the future, so its time is told whatever it is.
    let mut own = |line: &Option<Value>| {
        let line = line.clone()?;
        let decoded = probe.read_line(line, &Meta::default(), Timestamp::MAX);
        decoded.messages.first().map(|message| message.at)
    };
    let own: Vec<Option<Timestamp>> = parsed.iter().map(&mut own).collect();
    let has_header = parsed
        .first()
        .is_some_and(|line| line.as_ref().is_some_and(|l| l.get("recording").is_some()));
    let start = own.iter().flatten().next().copied().unwrap_or(now);
    let mut last: Option<Timestamp> = None;
    let mut entries = Vec::new();
    for (index, ((bytes, line), own)) in lines.into_iter().zip(&parsed).zip(&own).enumerate() {
        let recorded = line.as_ref().and_then(envelope::recorded_at);
        let received = match (has_header, recorded) {
            (true, _) => own.or(last).unwrap_or(start),
            (false, Some(recorded)) => recorded,
            (false, None) => {
                let nth = i64::try_from(index).unwrap_or(i64::MAX);
                let after = SignedDuration::from_nanos(
                    nth.saturating_mul(1_000_000_000 / LINES_PER_SECOND),
                );
                let by_place = start.checked_add(after).unwrap_or(start);
                own.map_or(by_place, |own| own.max(by_place))
            }
        };
        let received = last.map_or(received, |last| last.max(received));
        last = Some(received);
        entries.push(Entry { received, bytes });
    }
    let first = own.iter().flatten().next().copied();
    let first = first.or_else(|| entries.first().map(|entry| entry.received))?;
    Some(Recording { entries, first })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{self, Rules};

    const NOW: &str = "2026-12-01T00:00:00Z";

    #[test]
    fn with_a_header_a_line_is_received_at_its_frame_time() {
        let content = "{\"recording\": {}}\n\
            {\"timestamp\": \"2026-09-16T10:00:00Z\", \"detections\": []}\n\
            garbage\n\
            {\"timestamp\": \"2026-09-16T10:00:00.5Z\", \"detections\": []}\n";
        let expected = ["10:00:00Z", "10:00:00Z", "10:00:00Z", "10:00:00.5Z"];
        assert_eq!(times(content), expected);
    }

    #[test]
    fn recv_is_the_receive_time_and_time_never_goes_back() {
        let line = |recv: &str| {
            format!(r#"{{"recv": "2026-09-16T{recv}", "topic": "t", "payload": {{"label": "a"}}}}"#)
        };
        let content = [line("10:00:01Z"), line("10:00:02Z"), line("10:00:01.5Z")].join("\n");
        assert_eq!(times(&content), ["10:00:01Z", "10:00:02Z", "10:00:02Z"]);
    }

    #[test]
    fn without_both_it_is_a_fifteenth_of_a_second_a_line_but_never_before_its_own_time() {
        let frame =
            |time: &str| format!(r#"{{"timestamp": "2026-09-16T{time}", "detections": []}}"#);
        let content = [frame("10:00:00Z"), frame("10:00:00.01Z"), frame("10:00:07Z")].join("\n");
        assert_eq!(times(&content), ["10:00:00Z", "10:00:00.066666666Z", "10:00:07Z"]);
    }

    #[test]
    fn a_file_that_is_one_document_is_one_message() {
        let content = "{\n  \"timestamp\": \"2026-09-16T10:00:00Z\",\n  \"detections\": []\n}\n";
        assert_eq!(times(content), ["10:00:00Z"]);
    }

    #[test]
    fn a_line_over_the_limit_keeps_its_place() {
        let recording = dated(lines(b"{\"a\": 1}\nxxxxxxxxxxxxxxx\n[]\n", 10), reader(), now());
        let there: Vec<bool> =
            recording.unwrap().entries.iter().map(|entry| entry.bytes.is_some()).collect();
        assert_eq!(there, [true, false, true]);
    }

    #[test]
    fn an_empty_file_is_no_recording() {
        assert_eq!(dated(lines(b"\n", 10), reader(), now()), None);
    }

    fn times(content: &str) -> Vec<String> {
        let recording = dated(lines(content.as_bytes(), 1000), reader(), now()).unwrap();
        recording
            .entries
            .iter()
            .map(|entry| entry.received.to_string().replace("2026-09-16T", ""))
            .collect()
    }

    fn reader() -> Reader {
        Reader::new(Rules::default(), decode::preset("native").unwrap())
    }

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }
}
