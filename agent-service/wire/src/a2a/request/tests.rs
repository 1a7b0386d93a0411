use proptest::prelude::*;

use super::*;
use crate::a2a::error::Violation;

fn message(extra: &str) -> String {
    with_parts(r#"[{"text":"hi"}]"#, extra)
}

fn with_parts(parts: &str, extra: &str) -> String {
    format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":{parts}{extra}}}}}"#)
}

fn configured(configuration: &str) -> String {
    let body = message("");
    format!("{},\"configuration\":{configuration}}}", body.strip_suffix('}').unwrap())
}

fn parse(body: &str) -> Submission {
    Submission::parse(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

fn refuse(body: &str) -> ApiError {
    match Submission::parse(body.as_bytes()) {
        Ok(_) => panic!("accepted: {body}"),
        Err(error) => error,
    }
}

/// Each body has one fault in the field, and the error says so.
fn assert_faults(cases: &[(String, &str, &str)]) {
    for (body, field, description) in cases {
        let error = refuse(body);
        assert_eq!((error.reason, error.status), (Reason::InvalidParams, 400), "{body}");
        let expected =
            Violation { field: (*field).to_owned(), description: (*description).to_owned() };
        assert_eq!(error.violations.first(), Some(&expected), "{body}");
        assert_eq!(error.message, format!("{field} {description}"));
    }
}

#[test]
fn reads_the_golden_message() {
    let read = parse(include_str!("../../../fixtures/send.json"));
    assert_eq!(read.message_id.as_str(), "m-1");
    assert_eq!(read.context_id.as_ref().map(ContextId::as_str), Some("ctx-1"));
    assert_eq!(read.task_id, None);
    assert_eq!(read.prompt, "first\nsecond");
    assert_eq!(read.parts[1].media_type.as_deref(), Some("text/markdown"));
    assert_eq!(read.depth.get(), 2);
    assert!(read.return_immediately);
    assert_eq!(read.history_length, Some(5));
}

#[test]
fn the_digest_is_the_one_that_receipts_of_earlier_versions_hold() {
    let digest = parse(include_str!("../../../fixtures/send.json")).digest();
    assert_eq!(digest.to_hex(), "5310b150586fe17992b6106794cadd0fb22d055c2b8b675d365a6f11ff4e8415");
}

#[test]
fn proto_json_forms_mean_the_same_message() {
    let plain = parse(include_str!("../../../fixtures/send.json"));
    let other = parse(include_str!("../../../fixtures/send-protojson.json"));
    assert_eq!(other.digest(), plain.digest());
    // The metadata is kept as sent, and there 2.0 is equal to 2 as a JSON value only.
    assert_eq!(Submission { metadata: plain.metadata.clone(), ..other }, plain);
}

#[test]
fn every_fault_of_the_message_names_its_field() {
    let long = "x".repeat(257);
    let many = format!("[{}]", vec![r#"{"text":"x"}"#; 33].join(","));
    let cases = [
        ("{}".to_owned(), "message", "must be given"),
        (r#"{"message":null}"#.to_owned(), "message", "must be given"),
        (r#"{"message":[]}"#.to_owned(), "message", "must be an object; it is a list"),
        (message(r#","messageId":7"#), "message.messageId", "must be a string; it is a number"),
        (message(r#","messageId":null"#), "message.messageId", "must be given"),
        (
            message(r#","messageId":"""#),
            "message.messageId",
            "must be 1 to 256 bytes long; it is empty",
        ),
        (message(r#","messageId":" ""#), "message.messageId", "must not be blank"),
        (
            message(&format!(r#","messageId":"{long}""#)),
            "message.messageId",
            "must be at most 256 bytes long; it has 257",
        ),
        (
            message(&format!(r#","contextId":"{long}""#)),
            "message.contextId",
            "must be at most 256 bytes; it has 257",
        ),
        (message(r#","contextId":1"#), "message.contextId", "must be a string; it is a number"),
        (message(r#","taskId":{}"#), "message.taskId", "must be a string; it is an object"),
        (message(r#","role":null"#), "message.role", "must be ROLE_USER; it is not given"),
        (message(r#","role":"ROLE_AGENT""#), "message.role", "must be ROLE_USER"),
        (message(r#","role":"user""#), "message.role", "must be ROLE_USER"),
        (message(r#","role":2"#), "message.role", "must be ROLE_USER"),
        (message(r#","role":true"#), "message.role", "must be ROLE_USER"),
        (with_parts("null", ""), "message.parts", "must be given: 1 to 32 parts"),
        (with_parts("{}", ""), "message.parts", "must be a list; it is an object"),
        (with_parts("[]", ""), "message.parts", "must be 1 to 32 parts; there are 0"),
        (with_parts(&many, ""), "message.parts", "must be 1 to 32 parts; there are 33"),
        (with_parts("[null]", ""), "message.parts[0]", "must be an object; it is null"),
        (
            with_parts(r#"[{"text":"a"},{"text":1}]"#, ""),
            "message.parts[1].text",
            "must be a string; it is a number",
        ),
        (with_parts(r#"[{"text":""}]"#, ""), "message.parts[0].text", "must not be empty"),
        (with_parts(r#"[{"text":" \n"}]"#, ""), "message.parts", "must not be blank"),
        (
            with_parts(r#"[{"text":"a","url":"b"}]"#, ""),
            "message.parts[0]",
            "must be one of text, url, not several",
        ),
        (
            with_parts(r#"[{"text":"a","data":null}]"#, ""),
            "message.parts[0]",
            "must be one of text, data, not several",
        ),
        (
            with_parts(r#"[{"text":"a","mediaType":1}]"#, ""),
            "message.parts[0].mediaType",
            "must be a string; it is a number",
        ),
        (message(r#","metadata":[]"#), "message.metadata", "must be an object; it is a list"),
    ];
    assert_faults(&cases);
}

#[test]
fn every_fault_of_the_configuration_names_its_field() {
    let cases = [
        (configured("7"), "configuration", "must be an object; it is a number"),
        (
            configured(r#"{"returnImmediately":"true"}"#),
            "configuration.returnImmediately",
            "must be true or false; it is a string",
        ),
        (
            configured(r#"{"returnImmediately":1}"#),
            "configuration.returnImmediately",
            "must be true or false; it is a number",
        ),
        (
            configured(r#"{"historyLength":-1}"#),
            "configuration.historyLength",
            "must be 0 or more; it is -1",
        ),
        (
            configured(r#"{"historyLength":1.5}"#),
            "configuration.historyLength",
            "must be a whole number of 32 bits",
        ),
        (
            configured(r#"{"historyLength":2147483648}"#),
            "configuration.historyLength",
            "must be a whole number of 32 bits",
        ),
        (
            configured(r#"{"acceptedOutputModes":"text/plain"}"#),
            "configuration.acceptedOutputModes",
            "must be a list; it is a string",
        ),
        (
            configured(r#"{"acceptedOutputModes":["text/plain",null]}"#),
            "configuration.acceptedOutputModes[1]",
            "must be a string; it is null",
        ),
    ];
    assert_faults(&cases);
}

#[test]
fn all_faults_are_told_at_once() {
    let error = refuse(r#"{"message":{"role":"ROLE_AGENT","parts":[{"text":""},{"text":7}]}}"#);
    let fields: Vec<_> = error.violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(
        fields,
        ["message.messageId", "message.role", "message.parts[0].text", "message.parts[1].text"]
    );
    let parts = vec![r#"{"text":""}"#; 32].join(",");
    let many = refuse(&with_parts(&format!("[{parts}]"), ""));
    assert_eq!(many.violations.len(), MAX_VIOLATIONS);
}

#[test]
fn a_part_without_text_is_another_content_type() {
    for part in [
        "{}",
        r#"{"text":null}"#,
        r#"{"url":"https://example.com"}"#,
        r#"{"raw":"aGk="}"#,
        r#"{"data":{}}"#,
        r#"{"data":null}"#,
        r#"{"mediaType":"text/plain"}"#,
    ] {
        let error = refuse(&with_parts(&format!("[{{\"text\":\"x\"}},{part}]"), ""));
        assert_eq!(error.reason, Reason::ContentTypeNotSupported, "{part}");
        assert!(error.message.starts_with("message.parts[1].text "), "{}", error.message);
    }
    parse(&with_parts(r#"[{"text":"a","url":null,"raw":null,"mediaType":"text/x"}]"#, ""));
}

#[test]
fn the_output_modes_must_allow_plain_text() {
    for modes in [
        "[]",
        "null",
        r#"["text/plain"]"#,
        r#"["image/png","TEXT/Plain; charset=utf-8"]"#,
        r#"["text/*"]"#,
        r#"["*/*"]"#,
    ] {
        parse(&configured(&format!(r#"{{"acceptedOutputModes":{modes}}}"#)));
    }
    for modes in [r#"["image/png"]"#, r#"["text/markdown"]"#, r#"["text"]"#, r#"[""]"#] {
        let error = refuse(&configured(&format!(r#"{{"acceptedOutputModes":{modes}}}"#)));
        assert_eq!(error.reason, Reason::ContentTypeNotSupported, "{modes}");
    }
}

#[test]
fn a_push_configuration_that_is_not_null_is_refused() {
    parse(&configured(r#"{"taskPushNotificationConfig":null}"#));
    for name in ["taskPushNotificationConfig", "task_push_notification_config"] {
        let error = refuse(&configured(&format!(r#"{{"{name}":{{}}}}"#)));
        assert_eq!(error.reason, Reason::PushNotificationNotSupported);
    }
}

#[test]
fn the_prompt_has_at_most_16000_bytes_with_its_newlines() {
    let two = |second: usize| {
        let (a, b) = ("a".repeat(8_000), "b".repeat(second));
        with_parts(&format!(r#"[{{"text":"{a}"}},{{"text":"{b}"}}]"#), "")
    };
    assert_eq!(parse(&two(7_999)).prompt.len(), 16_000);
    assert!(refuse(&two(8_000)).message.ends_with("it is 16001"));
    let parts = vec![r#"{"text":"x"}"#; 32].join(",");
    assert_eq!(parse(&with_parts(&format!("[{parts}]"), "")).parts.len(), 32);
}

#[test]
fn the_delegation_depth_is_an_integer_from_0_to_4() {
    let body =
        |depth: &str| message(&format!(r#","metadata":{{"wendy.delegation_depth":{depth}}}"#));
    for (depth, expected) in [("0", 0), ("4", 4), ("3.0", 3)] {
        assert_eq!(parse(&body(depth)).depth.get(), expected);
    }
    for depth in ["5", "-1", "1.5", "\"1\"", "null", "true", "[]", "1e9", "-0.5"] {
        let error = refuse(&body(depth));
        assert_eq!(
            error.message, "message.metadata.wendy.delegation_depth must be an integer from 0 to 4",
            "{depth}"
        );
    }
    assert_eq!(parse(&message("")).depth, DelegationDepth::ZERO);
    let request = message("").replacen('{', r#"{"metadata":{"wendy.delegation_depth":4},"#, 1);
    assert_eq!(parse(&request).depth.get(), 4);
}

#[test]
fn the_digest_is_over_the_content_and_nothing_else() {
    let plain = parse(&message("")).digest();
    let same = [
        configured(r#"{"returnImmediately":true,"historyLength":0}"#),
        message(r#","unknown":[1]"#),
        message(r#","contextId":"""#),
        message(r#","contextId":null,"metadata":null"#),
        message(r#","messageId":"other""#),
        with_parts(r#"[{"text":"\u0068i","unknown":1}]"#, ""),
    ];
    for body in same {
        assert_eq!(parse(&body).digest(), plain, "{body}");
    }
    let different = [
        message(r#","contextId":"c""#),
        message(r#","metadata":{"a":1}"#),
        message(r#","metadata":{"wendy.delegation_depth":1}"#),
        with_parts(r#"[{"text":"h"},{"text":"i"}]"#, ""),
        with_parts(r#"[{"text":"hi","filename":"f"}]"#, ""),
        with_parts(r#"[{"text":"hi "}]"#, ""),
    ];
    for body in different {
        assert_ne!(parse(&body).digest(), plain, "{body}");
    }
}

#[test]
fn a_task_to_continue_is_left_to_the_caller() {
    assert_eq!(parse(&message(r#","taskId":"""#)).task_id, None);
    let read = parse(&message(r#","task_id":"t-1""#));
    assert_eq!(read.task_id.as_ref().map(TaskId::as_str), Some("t-1"));
}

#[test]
fn the_body_is_exactly_one_object() {
    for body in ["", "null", "[]", "1", "{} {}", "{", "{\"message\":\"\\ud800\"}"] {
        let error = refuse(body);
        assert_eq!(error.reason, Reason::InvalidParams);
        assert!(
            error.message.starts_with("the body must be exactly one JSON object"),
            "{}",
            error.message
        );
    }
    assert!(Submission::parse(b"{\"message\":\"\xff\"}").is_err());
}

proptest! {
    #[test]
    fn any_json_is_a_submission_or_an_error(value in crate::a2a::testing::any_json()) {
        if let Err(error) = Submission::parse(value.to_string().as_bytes()) {
            prop_assert!((400..500).contains(&error.status));
            prop_assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn any_message_is_a_submission_or_an_error(
        message in crate::a2a::testing::any_json(),
        parts in crate::a2a::testing::any_json(),
        configuration in crate::a2a::testing::any_json(),
    ) {
        let mut message = message;
        if let Some(members) = message.as_object_mut() {
            members.insert("messageId".to_owned(), "m".into());
            members.insert("role".to_owned(), 1.into());
            members.insert("parts".to_owned(), Value::Array(vec![parts]));
        }
        let body = json!({"message": message, "configuration": configuration}).to_string();
        if let Ok(read) = Submission::parse(body.as_bytes()) {
            prop_assert!(!read.prompt.trim().is_empty());
            prop_assert!(read.depth.get() <= 4);
        }
    }
}
