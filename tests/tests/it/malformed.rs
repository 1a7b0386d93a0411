//! Malformed bodies of every kind, with the same healthy service after: CONTRACT section 3, bodies.

use serde_json::{Value, json};
use system_tests::client::{fresh_id, message, state_of};
use system_tests::events::{event, now, trigger};
use system_tests::home::Home;
use system_tests::process::Service;

/// Bodies that are no single JSON object in UTF-8.
fn no_objects() -> Vec<(&'static str, Vec<u8>)> {
    let mut deep = "[".repeat(30_000).into_bytes();
    deep.extend("]".repeat(30_000).bytes());
    let mut deep_object = br#"{"message":"#.to_vec();
    deep_object.extend(br#"{"a":"#.repeat(10_000));
    vec![
        ("empty", vec![]),
        ("blank", b" \n ".to_vec()),
        ("an open brace", b"{".to_vec()),
        ("two objects", b"{} {}".to_vec()),
        ("something after the object", b"{}x".to_vec()),
        ("an array", b"[]".to_vec()),
        ("an array of objects", b"[{}]".to_vec()),
        ("a string", b"\"x\"".to_vec()),
        ("a number", b"1".to_vec()),
        ("null", b"null".to_vec()),
        ("a trailing comma", br#"{"a":1,}"#.to_vec()),
        ("a comment", b"{/* */}".to_vec()),
        ("single quotes", b"{'a':1}".to_vec()),
        ("no number", br#"{"a":NaN}"#.to_vec()),
        ("a leading zero", br#"{"a":01}"#.to_vec()),
        ("a control character", b"{\"a\":\"\x01\"}".to_vec()),
        ("half a surrogate", br#"{"a":"\ud800"}"#.to_vec()),
        ("a bad escape", br#"{"a":"\x"}"#.to_vec()),
        ("no UTF-8", b"{\"a\":\"\xff\"}".to_vec()),
        ("UTF-16", "{}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("a byte order mark", b"\xef\xbb\xbf{}".to_vec()),
        ("a form", b"a=1&b=2".to_vec()),
        ("XML", b"<a/>".to_vec()),
        ("zeros", vec![0; 100]),
        ("brackets without end", deep),
        ("objects without end", deep_object),
    ]
}

#[test]
fn a_body_that_is_not_one_json_object_is_400_and_the_service_is_as_healthy_as_before() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    for path in ["/message:send", "/events", "/message:stream"] {
        for (name, body) in no_objects() {
            let call = service.call("POST", path).set("Content-Type", "application/json");
            let reply = call.body(body).send();
            assert_eq!(reply.status, 400, "{path}, {name}: {}", reply.text());
            let expected =
                if path == "/message:stream" { "UNSUPPORTED_OPERATION" } else { "INVALID_PARAMS" };
            reply.error(400, expected);
        }
    }
    healthy(&service);
}

#[test]
fn objects_of_wrong_shapes_are_400_and_the_service_is_as_healthy_as_before() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let wrong = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!([[{}]]),
    ];
    let send = json!({"message": message("m", "x")});
    let event = event("e", now());
    let mut tried = 0;
    for (path, good) in [("/message:send", &send), ("/events", &event)] {
        for field in leaves(good) {
            for value in &wrong {
                let mut bad = good.clone();
                *bad.pointer_mut(&field).unwrap() = value.clone();
                let reply = service.post(path, &bad).send();
                let free = ["/text", "/id", "/messageId", "/type", "/source"];
                let fine = *value == "x" && free.iter().any(|end| field.ends_with(end));
                if fine {
                    continue;
                }
                assert_eq!(reply.status, 400, "{path} {field} = {value}: {}", reply.text());
                tried += 1;
            }
        }
    }
    assert!(tried > 50, "{tried}");
    // Two messages that differ in their ID, and an event with another ID.
    assert_eq!(service.list("").len(), 3);
    healthy(&service);
}

#[test]
fn the_same_field_twice_is_no_way_past_a_check() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let bodies = [
        r#"{"message":{"messageId":"a","messageId":"b","role":"ROLE_USER","parts":[{"text":"x"}]}}"#,
        r#"{"message":{"messageId":"a","role":"ROLE_USER","parts":[{"text":"x","text":"y"}]}}"#,
    ];
    for body in bodies {
        let reply = service.call("POST", "/message:send").body(body).send();
        assert!(matches!(reply.status, 200 | 400), "{}", reply.text());
    }
    let time = now();
    let body = format!(
        r#"{{"id":"a","id":"b","type":"person.detected","source":"front-camera","timestamp":"{time}"}}"#
    );
    service.call("POST", "/events").body(body).send().error(400, "INVALID_PARAMS");
    healthy(&service);
}

#[test]
fn names_and_texts_of_any_characters_are_kept_as_they_are() {
    let home = Home::new();
    let service = home.start();
    for text in
        ["é ✓ 🦀", "a\u{0}b", "\u{202e}x", "'; DROP TABLE tasks; --", "</script>", "\u{feff}x"]
    {
        let id = fresh_id();
        let task = service.send_message(&message(&id, text), &json!({})).success()["task"].clone();
        assert_eq!(task["history"][0]["parts"][0]["text"], text);
        assert_eq!(state_of(&task), "COMPLETED", "{text:?}");
    }
}

#[test]
fn random_changes_of_good_bodies_never_end_in_500() {
    let home = Home::with(|config| config.trigger(trigger()));
    let service = home.start();
    let send = json!({"message": message("m", "x"), "configuration": {"returnImmediately": true}});
    let event = event("e", now());
    let mut random = fastrand::Rng::with_seed(5);
    for (path, good) in [("/message:send", &send), ("/events", &event)] {
        for _ in 0..150 {
            let mut body = good.to_string().into_bytes();
            for _ in 0..random.usize(1..4) {
                let place = random.usize(0..body.len());
                match random.u8(0..3) {
                    0 => body[place] = random.u8(..),
                    1 => drop(body.remove(place)),
                    _ => body.insert(place, random.u8(..)),
                }
            }
            let reply = service.call("POST", path).body(body.clone()).send();
            assert!(
                matches!(reply.status, 200 | 400 | 404 | 409 | 429),
                "{} for {}",
                reply.status,
                String::from_utf8_lossy(&body)
            );
        }
    }
    assert_eq!(service.get("/readyz").send().status, 200);
}

#[track_caller]
fn healthy(service: &Service) {
    let reply = service.send_message(&message(&fresh_id(), "healthy"), &json!({}));
    assert_eq!(state_of(&reply.success()["task"]), "COMPLETED");
}

/// The pointers of all values inside of an object.
fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, inner)| {
                std::iter::once(format!("/{name}"))
                    .chain(leaves(inner).into_iter().map(move |rest| format!("/{name}{rest}")))
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(index, inner)| {
                leaves(inner).into_iter().map(move |rest| format!("/{index}{rest}"))
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}
