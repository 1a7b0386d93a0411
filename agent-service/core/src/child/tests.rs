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

/// A request that is written whole.
fn ask(machine: &mut Machine, id: &str) {
    machine.ask(id, 9).unwrap();
    machine.on_written(9);
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
        ("success of a wrong type", "{\"id\":\"7\",\"ok\":\"yes\",\"output\":\"a\"}\n", vec![]),
        ("an exit code over 31 bits", "{\"id\":\"7\",\"exit_code\":4294967296}\n", vec![]),
        ("an exit code with a point", "{\"id\":\"7\",\"exit_code\":0.0}\n", vec![]),
        ("two objects on a line", "{\"output\":\"a\"}{\"output\":\"b\"}\n", vec![]),
        ("carriage return", "{\"output\":\"a\"}\r\n", vec![answer(None, "a")]),
        (
            "a repeated name: the last one counts",
            "{\"id\":\"6\",\"id\":\"7\",\"output\":\"a\"}\n",
            vec![answer(Some("7"), "a")],
        ),
        (
            "an echo of the request",
            "{\"v\":1,\"kind\":\"request\",\"id\":\"7\",\"output\":\"a\"}\n",
            vec![],
        ),
    ];
    for (name, text, expected) in cases {
        let mut machine = idle();
        ask(&mut machine, "7");
        assert_eq!(machine.on_bytes(text.as_bytes()), expected, "{name}");
    }
}

#[test]
fn a_frame_from_before_the_request_never_answers_it() {
    let mut machine = idle();
    assert!(machine.on_bytes(b"{\"output\":\"chatter\"}\n{\"output\":\"more\"}\n").is_empty());
    assert_eq!(machine.dropped().unasked, 2);
    ask(&mut machine, "1");
    assert_eq!(machine.on_bytes(b"{\"output\":\"mine\"}\n"), [answer(None, "mine")]);
    // The answer of question 1 comes again, without an id, and must not answer question 2.
    assert!(machine.on_bytes(b"{\"output\":\"mine\"}\n").is_empty());
    ask(&mut machine, "2");
    assert_eq!(machine.on_bytes(b"{\"id\":\"1\",\"output\":\"mine\"}\n"), []);
    assert_eq!(machine.dropped().foreign, 1);
}

#[test]
fn what_comes_before_the_last_byte_of_a_request_is_no_answer_to_it() {
    let mut machine = idle();
    machine.ask("1", 9).unwrap();
    let frame = b"{\"id\":\"1\",\"output\":\"guessed\"}\n{\"output\":\"guessed\"}\n";
    assert_eq!(machine.on_bytes(frame), [], "nothing is written");
    machine.on_written(8);
    assert_eq!(machine.on_bytes(frame), [], "a byte is missing");
    assert_eq!(machine.dropped().unasked, 4);
    machine.on_written(1);
    assert_eq!(machine.on_bytes(b"{\"output\":\"a\"}\n"), [answer(None, "a")]);
}

#[test]
fn a_request_is_lost_from_the_first_byte_that_was_accepted() {
    let cases = [
        ("none", 0, Unanswered::NotAccepted),
        ("one", 1, Unanswered::Lost),
        ("all", 9, Unanswered::Lost),
    ];
    for (name, written, expected) in cases {
        for end in ["exit", "a line that is too long", "end of output"] {
            let mut machine = Machine { lines: Lines::new(20), ..idle() };
            machine.ask("1", 9).unwrap();
            machine.on_written(written);
            match end {
                "exit" => {}
                "end of output" => assert_eq!(machine.on_end(), []),
                _ => assert_eq!(machine.on_bytes(&[b'x'; 21]), [Effect::TooLong]),
            }
            assert_eq!(machine.on_over(), Some(expected), "{name} accepted, then {end}");
            assert_eq!(machine.on_over(), None, "told once");
        }
    }
    let mut machine = idle();
    ask(&mut machine, "1");
    machine.on_unread();
    assert_eq!(machine.on_over(), Some(Unanswered::NotAccepted), "written, and read by nobody");
    let mut machine = idle();
    ask(&mut machine, "1");
    assert_eq!(machine.on_bytes(b"{\"output\":\"a\"}\n"), [answer(None, "a")]);
    assert_eq!(machine.on_over(), None, "what is answered is not lost");
    assert_eq!(machine.ask("2", 9), Err(NotIdle));
}

#[test]
fn a_deeply_nested_line_costs_nothing_but_itself() {
    let mut machine = Machine { lines: Lines::new(1_000_000), ..idle() };
    ask(&mut machine, "1");
    let deep = format!("{{\"output\":{}{}}}\n", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(machine.on_bytes(deep.as_bytes()), []);
    assert_eq!(machine.dropped().unreadable, 1);
    assert_eq!(machine.on_bytes(b"{\"output\":\"a\"}\n"), [answer(None, "a")]);
}

#[test]
fn a_request_needs_an_idle_instance() {
    assert_eq!(Machine::new(10).ask("1", 9), Err(NotIdle), "before ready");
    let mut machine = idle();
    ask(&mut machine, "1");
    assert_eq!(machine.ask("2", 9), Err(NotIdle), "one at a time");
    assert_eq!(machine.on_end(), []);
    assert_eq!(machine.ask("3", 9), Err(NotIdle), "after the end");
}

#[test]
fn a_last_line_without_a_newline_counts_at_the_end() {
    let mut machine = idle();
    ask(&mut machine, "1");
    assert!(machine.on_bytes(b"{\"output\":\"a\"}").is_empty());
    assert_eq!(machine.on_end(), [answer(None, "a")]);
    let mut machine = idle();
    ask(&mut machine, "1");
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
        ask(&mut machine, "1");
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
        ask(&mut machine, "1");
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

    /// Nothing that an agent writes answers a question that was not asked: there are never more answers
    /// than requests that were written to their end, whatever comes in between.
    #[test]
    fn no_bytes_answer_what_was_not_asked(steps in prop::collection::vec(step(), 0..60)) {
        let mut machine = Machine::new(1000);
        let (mut answers, mut begun, mut whole) = (0, 0_u32, 0);
        let mut left = 0;
        for step in steps {
            let open = answers < whole;
            let effects = match step {
                Step::Ask => {
                    if machine.ask(begun.to_string(), 3).is_ok() {
                        prop_assert_eq!(left, 0);
                        begun += 1;
                        left = 3;
                    }
                    vec![]
                }
                Step::Write => {
                    machine.on_written(1);
                    if left > 0 {
                        left -= 1;
                        whole += u32::from(left == 0);
                    }
                    vec![]
                }
                Step::Bytes(bytes) => machine.on_bytes(&bytes),
            };
            let answered = effects.iter().filter(|effect| matches!(effect, Effect::Answered(_)));
            let answered = u32::try_from(answered.count()).unwrap();
            prop_assert!(answered <= u32::from(open), "{effects:?}");
            answers += answered;
        }
        prop_assert!(answers <= whole);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Ask,
    Write,
    Bytes(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let frames = "(\\{\"(id|output)\":\"[0-9]\"\\}\n){1,3}";
    prop_oneof![
        2 => Just(Step::Ask),
        4 => Just(Step::Write),
        3 => frames.prop_map(|text| Step::Bytes(text.into_bytes())),
        1 => Just(Step::Bytes(READY.as_bytes().to_vec())),
        1 => prop::collection::vec(any::<u8>(), 0..30).prop_map(Step::Bytes),
    ]
}
