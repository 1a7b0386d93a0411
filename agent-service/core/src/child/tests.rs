//! Transcripts of the protocol, and what no stream of bytes can do.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const READY: &str = "{\"v\":1,\"kind\":\"ready\"}\n";

fn answer(id: Option<&str>, output: &str) -> Effect {
    Effect::Answered(Response {
        id: id.map(str::to_owned),
        ok: true,
        output: Some(output.to_owned()),
        error: None,
        exit_code: None,
    })
}

fn idle() -> Machine {
    let mut machine = Machine::new(1000);
    assert_eq!(machine.on_bytes(READY.as_bytes()), [Effect::Live]);
    machine
}

#[test]
fn only_ready_completes_the_handshake() {
    let refused = |text: &str| vec![Effect::Refused(Some(text.to_owned()))];
    let cases = [
        ("plain", "{\"kind\":\"ready\",\"ok\":true}\n", vec![Effect::Live]),
        ("ok is true when absent", READY, vec![Effect::Live]),
        ("carriage return and padding", "  {\"kind\":\"ready\"} \r\n", vec![Effect::Live]),
        (
            "a refusal",
            "{\"kind\":\"ready\",\"ok\":false,\"error\":\"no key\"}\n",
            refused("no key"),
        ),
        ("without a reason", "{\"kind\":\"ready\",\"ok\":false}\n", vec![Effect::Refused(None)]),
        ("an answer is none", "{\"id\":\"1\",\"output\":\"x\"}\n", vec![]),
        ("an echo is none", "{\"v\":1,\"kind\":\"hello\",\"agent\":\"a\",\"key\":\"k\"}\n", vec![]),
        (
            "a banner, then ready",
            "Welcome!\n\n[1]\nnull\n\0\n{\"kind\":\"ready\"}\n",
            vec![Effect::Live],
        ),
        ("bad UTF-8, then ready", "", vec![]),
        ("no newline yet", "{\"kind\":\"ready\"}", vec![]),
    ];
    for (name, text, expected) in cases {
        assert_eq!(Machine::new(1000).on_bytes(text.as_bytes()), expected, "{name}");
    }
    let mut machine = Machine::new(1000);
    assert_eq!(machine.on_bytes(b"\xff\xfe\n{\"kind\":\"ready\"}\n"), [Effect::Live]);
    assert_eq!(machine.dropped().unreadable, 1);
}

#[test]
fn an_answer_is_the_frame_that_belongs_to_the_request_in_flight() {
    let cases = [
        (
            "with its id",
            "{\"kind\":\"response\",\"id\":\"7\",\"output\":\"a\"}\n",
            vec![answer(Some("7"), "a")],
        ),
        ("the minimum", "{\"output\":\"a\"}\n", vec![answer(None, "a")]),
        ("null id", "{\"id\":null,\"output\":\"a\"}\n", vec![answer(None, "a")]),
        (
            "stale, then right, in one write",
            "{\"id\":\"6\",\"output\":\"old\"}\n{\"id\":\"7\",\"output\":\"a\"}\n",
            vec![answer(Some("7"), "a")],
        ),
        ("numeric id", "{\"id\":7,\"output\":\"a\"}\n", vec![]),
        (
            "progress, then response",
            "{\"kind\":\"progress\",\"id\":\"7\",\"output\":\"50 %\"}\n{\"output\":\"a\"}\n",
            vec![answer(None, "a")],
        ),
        ("empty object, then response", "{}\n{\"output\":\"a\"}\n", vec![answer(None, "a")]),
        ("a second ready", "{\"kind\":\"ready\",\"id\":\"7\",\"output\":\"a\"}\n", vec![]),
        ("output of a wrong type", "{\"id\":\"7\",\"output\":{}}\n", vec![]),
        ("exit code of a wrong type", "{\"id\":\"7\",\"exit_code\":\"0\"}\n", vec![]),
        (
            "twice: the second is dropped",
            "{\"output\":\"a\"}\n{\"output\":\"a\"}\n",
            vec![answer(None, "a")],
        ),
        ("pretty-printed", "{\n\"output\":\n\"a\"\n}\n", vec![]),
    ];
    for (name, text, expected) in cases {
        let mut machine = idle();
        machine.ask("7").unwrap();
        assert_eq!(machine.on_bytes(text.as_bytes()), expected, "{name}");
    }
}

#[test]
fn a_frame_from_before_the_request_never_answers_it() {
    let mut machine = idle();
    assert!(machine.on_bytes(b"{\"output\":\"chatter\"}\n{\"output\":\"more\"}\n").is_empty());
    assert_eq!(machine.dropped().unasked, 2);
    machine.ask("1").unwrap();
    assert_eq!(machine.on_bytes(b"{\"output\":\"mine\"}\n"), [answer(None, "mine")]);
    // The answer of question 1 comes again, without an id, and must not answer question 2.
    assert!(machine.on_bytes(b"{\"output\":\"mine\"}\n").is_empty());
    machine.ask("2").unwrap();
    assert_eq!(machine.on_bytes(b"{\"id\":\"1\",\"output\":\"mine\"}\n"), []);
    assert_eq!(machine.dropped().foreign, 1);
}

#[test]
fn a_request_needs_an_idle_instance() {
    assert_eq!(Machine::new(10).ask("1"), Err(NotIdle), "before ready");
    let mut machine = idle();
    machine.ask("1").unwrap();
    assert_eq!(machine.ask("2"), Err(NotIdle), "one at a time");
    assert_eq!(machine.on_end(), []);
    assert_eq!(machine.ask("3"), Err(NotIdle), "after the end");
}

#[test]
fn a_last_line_without_a_newline_counts_at_the_end() {
    let mut machine = idle();
    machine.ask("1").unwrap();
    assert!(machine.on_bytes(b"{\"output\":\"a\"}").is_empty());
    assert_eq!(machine.on_end(), [answer(None, "a")]);
    let mut machine = idle();
    machine.ask("1").unwrap();
    machine.on_bytes(b"{\"output\":\"a");
    assert_eq!(machine.on_end(), [], "half an object is no answer");
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let line = "{\"output\":\"aaaa\"}";
    for (limit, expected) in
        [(line.len(), vec![answer(None, "aaaa")]), (line.len() - 1, vec![Effect::TooLong])]
    {
        let mut machine = Machine { lines: Lines::new(limit), ..idle() };
        machine.ask("1").unwrap();
        let text = format!("{line}\n");
        assert_eq!(machine.on_bytes(text.as_bytes()), expected, "limit {limit}");
    }
    let mut machine = Machine { lines: Lines::new(5), ..idle() };
    assert_eq!(machine.on_bytes(b"123456"), [Effect::TooLong]);
    assert!(machine.on_bytes(b"\n{\"output\":\"a\"}\n").is_empty(), "nothing follows");
    assert_eq!(machine.lines.held.len(), 0);
}

#[test]
fn success_is_the_exit_code_and_else_ok() {
    let cases = [
        (r#"{"output":"a"}"#, true, "a"),
        (r#"{"ok":false,"output":"a","error":"e"}"#, false, "a"),
        (r#"{"ok":false,"error":"e"}"#, false, "e"),
        (r#"{"ok":true,"exit_code":42,"output":"a"}"#, false, "a"),
        (r#"{"ok":false,"exit_code":0,"output":"a"}"#, true, "a"),
        (r#"{"id":"1"}"#, true, ""),
    ];
    for (text, success, delivered) in cases {
        let mut machine = idle();
        machine.ask("1").unwrap();
        let effects = machine.on_bytes(format!("{text}\n").as_bytes());
        let [Effect::Answered(response)] = effects.as_slice() else {
            panic!("{text}: {effects:?}")
        };
        assert_eq!((response.is_success(), response.text()), (success, delivered), "{text}");
    }
}

#[test]
fn a_key_is_a_top_level_string_or_number_of_the_payload() {
    let payload = json!({
        "text": "room-1", "number": 12345, "digits": "12345", "path": "../x", "empty": "",
        "long": "a".repeat(65), "emoji": "🤖", "yes": true, "none": null, "object": {}, "list": []
    });
    let payload = payload.as_object().unwrap();
    let key = |field| Key::of(payload, Some(field));
    assert_eq!(key("text").label(), "room-1");
    assert_eq!(key("number"), key("digits"));
    for field in ["yes", "none", "object", "list", "absent"] {
        assert_eq!(key(field), Key::of(payload, None), "{field}");
        assert_eq!(key(field).label(), "default");
    }
    let mut labels = std::collections::BTreeSet::new();
    for field in ["path", "empty", "long", "emoji"] {
        let label = key(field).label();
        assert!(label.len() == 33 && label.starts_with('k'), "{label}");
        assert!(labels.insert(label));
    }
    // Somebody who sends the label of another value gets an instance of his own.
    let copied = json!({"path": key("path").label()});
    let copied = Key::of(copied.as_object().unwrap(), Some("path"));
    assert_eq!(copied.label(), key("path").label());
    assert_ne!(copied, key("path"));
}

proptest! {
    /// However the bytes are cut, the effects are the same, and nothing is held beyond the limit.
    #[test]
    fn pieces_do_not_matter(cuts in prop::collection::vec(1_usize..9, 1..40), noise in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut bytes = READY.as_bytes().to_vec();
        bytes.extend(noise);
        bytes.extend(b"\n{\"kind\":\"ready\"}\n");
        let whole = Machine::new(200).on_bytes(&bytes);
        let mut machine = Machine::new(200);
        let mut pieces = Vec::new();
        let mut rest = bytes.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            pieces.extend(machine.on_bytes(piece));
            prop_assert!(machine.lines.held.len() <= 200);
            rest = more;
        }
        prop_assert_eq!(pieces, whole);
    }

    /// Nothing that an agent writes answers a question that was not asked.
    #[test]
    fn no_bytes_answer_what_was_not_asked(bytes in prop::collection::vec(any::<u8>(), 0..300), frames in prop::collection::vec("\\{\"(id|output)\":\"[a-z0-9]{0,3}\"\\}\n", 0..20)) {
        let mut machine = Machine::new(1000);
        let mut effects = machine.on_bytes(&bytes);
        effects.extend(machine.on_bytes(frames.concat().as_bytes()));
        effects.extend(machine.on_end());
        let answers = effects.iter().filter(|effect| matches!(effect, Effect::Answered(_))).count();
        prop_assert_eq!(answers, 0);
    }
}
