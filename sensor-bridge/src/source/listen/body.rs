//! Reads one request body within its limits and cuts it into messages.

use std::time::Duration;

use axum::body::HttpBody;
use bytes::Bytes;
use http_body_util::BodyExt;

use super::Refused;
use crate::decode::Refusal;

/// How long a body may take; the service allows the same (CONTRACT.md section 3).
const WITHIN: Duration = Duration::from_secs(30);

/// Up to how many bytes over the limit are read past, so that the sender reads the answer.
const READ_PAST: usize = 16 * 1024 * 1024;

/// The whole body, if it has at most `limit` bytes and comes in time.
pub(super) async fn read<B>(body: B, limit: usize) -> Result<Bytes, Refused>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    match tokio::time::timeout(WITHIN, collect(body, limit)).await {
        Ok(result) => result,
        Err(_elapsed) => Err(Refused::TooSlow),
    }
}

async fn collect<B>(mut body: B, limit: usize) -> Result<Bytes, Refused>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut kept = Vec::new();
    let mut seen = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(Refused::Broken) };
        let Ok(data) = frame.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= limit {
            kept.extend_from_slice(&data);
        } else {
            kept = Vec::new();
            if seen > limit.saturating_add(READ_PAST) {
                break;
            }
        }
    }
    if seen > limit { Err(Refused::TooLarge(limit)) } else { Ok(Bytes::from(kept)) }
}

/// The messages of a body: the one document that it is, else one a line.
///
/// All or nothing: a body with a line that is no JSON is refused whole, with
/// the number of the line, since its sender can mend and repeat it.
pub(super) fn messages(body: &Bytes) -> Result<Vec<Bytes>, (usize, Refusal)> {
    let text = std::str::from_utf8(body).map_err(|fault| {
        let before = body.get(..fault.valid_up_to()).unwrap_or_default();
        let line = before.split(|byte| *byte == b'\n').count();
        (line, Refusal::InvalidUtf8)
    })?;
    let Err(fault) = serde_json::from_str::<serde::de::IgnoredAny>(text) else {
        return Ok(vec![body.clone()]);
    };
    if text.trim().is_empty() {
        return Err((1, Refusal::InvalidJson { line: 1, column: 0 }));
    }
    let mut messages = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if let Err(of_line) = serde_json::from_str::<serde::de::IgnoredAny>(line) {
            let (line, column) = if messages.is_empty() {
                (fault.line(), fault.column())
            } else {
                (index + 1, of_line.column())
            };
            return Err((line, Refusal::InvalidJson { line, column }));
        }
        messages.push(body.slice_ref(line.as_bytes()));
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn a_body_is_one_document_or_one_a_line() {
        let cases: [(&str, &[&str]); 4] = [
            ("{\"a\": 1}", &["{\"a\": 1}"]),
            ("{\n \"a\": 1\n}\n", &["{\n \"a\": 1\n}\n"]),
            ("{\"a\": 1}\r\n\n[]\n", &["{\"a\": 1}", "[]"]),
            ("[]\n[]", &["[]", "[]"]),
        ];
        for (body, expected) in cases {
            let messages = messages(&Bytes::from_static(body.as_bytes())).unwrap();
            assert_eq!(messages, expected, "{body:?}");
        }
    }

    #[test]
    fn a_body_with_a_line_that_is_no_json_is_refused_whole_and_the_line_named() {
        let cases: [(&[u8], usize, &str); 5] = [
            (b"{}\n{}\nnot json\n", 3, "invalid_json"),
            (b"not json\n{}", 1, "invalid_json"),
            (b"{\n\"a\": 1,\n}", 3, "invalid_json"),
            (b"{}\n{\"a\": \"\xff\"}", 2, "invalid_utf8"),
            (b" \n", 1, "invalid_json"),
        ];
        for (body, line, reason) in cases {
            let (at, refusal) = messages(&Bytes::from_static(body)).unwrap_err();
            assert_eq!((at, refusal.reason().as_str()), (line, reason), "{body:?}");
        }
    }

    #[tokio::test]
    async fn a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() {
        let body = || Full::new(Bytes::from_static(b"12345"));
        assert_eq!(read(body(), 5).await, Ok(Bytes::from_static(b"12345")));
        assert_eq!(read(body(), 4).await, Err(Refused::TooLarge(4)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_given_up() {
        let (_sender, body) = http_body_util::Channel::<Bytes>::new(1);
        assert_eq!(read(body, 5).await, Err(Refused::TooSlow));
    }
}
