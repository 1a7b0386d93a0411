use proptest::prelude::*;
use serde_json::json;

use super::*;

fn answer(line: &str) -> Option<Response> {
    match Incoming::parse(line.as_bytes()) {
        Some(Incoming::Response(response)) => Some(response),
        Some(Incoming::Ready(_)) | None => None,
    }
}

#[test]
fn frames_of_the_service_are_the_golden_lines() {
    let hello = Hello { agent: "brain".to_owned(), key: "default".to_owned() };
    let trigger = Trigger {
        source: TriggerSource::A2a,
        session_id: "ctx-1".to_owned(),
        actor: None,
        reply_to: "task-1".to_owned(),
        payload: json!({"text": "two\nlines", "task_id": "task-1"}).as_object().unwrap().clone(),
    };
    let request =
        Request { id: "1".to_owned(), agent: "brain".to_owned(), deadline_seconds: 600, trigger };
    let mut event = request.clone();
    event.trigger.source = TriggerSource::Event;
    let ours = [hello.to_line(), request.to_line(), event.to_line()];
    let golden: Vec<_> = include_str!("../../fixtures/child-written.jsonl").lines().collect();
    assert_eq!(ours.iter().map(String::as_str).collect::<Vec<_>>(), golden);
    assert!(ours.iter().all(|line| !line.contains('\n')));
}

#[test]
fn what_means_nothing_is_nothing() {
    let lines = [
        "",
        "hello",
        "{}",
        "[]",
        "null",
        "\"ready\"",
        r#"{"progress":50}"#,
        r#"{"kind":"progress","id":"1","output":"x"}"#,
        r#"{"kind":"hello","output":"x"}"#,
        r#"{"kind":7,"output":"x"}"#,
        r#"{"id":1,"output":"x"}"#,
        r#"{"output":"x","ok":null}"#,
        r#"{"output":"x","ok":"true"}"#,
        r#"{"output":["x"]}"#,
        r#"{"error":{}}"#,
        r#"{"exit_code":"0"}"#,
        r#"{"exit_code":0.5}"#,
        r#"{"exit_code":2147483648}"#,
        r#"{"output":"x","v":-1}"#,
        r#"{"output":"x","v":"1"}"#,
        r#"{"output":"\ud800"}"#,
        "{\"output\":\"a\tb\"}",
        "\u{feff}{\"output\":\"x\"}",
        r#"{"output":NaN}"#,
        r#"{"output":"x"}{"output":"y"}"#,
        r#"{"kind":"ready","error":7}"#,
        r#"{"kind":"ready","id":7}"#,
        r#"{"id":null}"#,
    ];
    for line in lines {
        assert_eq!(Incoming::parse(line.as_bytes()), None, "{line}");
    }
    assert_eq!(Incoming::parse(b"{\"output\":\"\xff\"}"), None);
}

#[test]
fn the_verdict_is_the_exit_code_else_ok_and_the_text_output_else_error() {
    let cases = [
        (r#"{"output":"done"}"#, true, "done"),
        (r#"{"error":"why"}"#, true, "why"),
        (r#"{"kind":"response"}"#, true, ""),
        (r#"{"kind":null,"output":"x"}"#, true, "x"),
        (r#"{"ok":false,"output":"out","error":"err"}"#, false, "out"),
        (r#"{"ok":false,"exit_code":0}"#, true, ""),
        (r#"{"ok":true,"exit_code":3,"error":"e"}"#, false, "e"),
        (r#"{"exit_code":-1}"#, false, ""),
        (r#"{"exit_code":null,"id":"1"}"#, true, ""),
        ("  {\"output\":\"crlf\"}\r\n", true, "crlf"),
    ];
    for (line, success, text) in cases {
        let response = answer(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!((response.is_success(), response.text()), (success, text), "{line}");
    }
}

#[test]
fn an_absent_or_null_id_means_the_request_in_flight() {
    assert_eq!(answer(r#"{"id":"7","output":""}"#).unwrap().id.as_deref(), Some("7"));
    assert_eq!(answer(r#"{"id":null,"output":""}"#).unwrap().id, None);
    assert_eq!(answer(r#"{"output":""}"#).unwrap().id, None);
}

#[test]
fn only_ready_completes_the_handshake_and_may_refuse() {
    let ready = |line: &str| match Incoming::parse(line.as_bytes()) {
        Some(Incoming::Ready(ready)) => Some((ready.ok, ready.error)),
        Some(Incoming::Response(_)) | None => None,
    };
    assert_eq!(ready(r#"{"kind":"ready"}"#), Some((true, None)));
    assert_eq!(
        ready(r#"{"v":1,"kind":"ready","ok":false,"error":"no key"}"#),
        Some((false, Some("no key".to_owned())))
    );
    assert_eq!(ready(r#"{"ok":true,"output":"x"}"#), None);
}

proptest! {
    #[test]
    fn any_line_is_a_frame_or_nothing(value in crate::a2a::testing::any_json()) {
        let line = value.to_string();
        if Incoming::parse(line.as_bytes()).is_some() {
            prop_assert!(value.is_object());
        }
    }
}
