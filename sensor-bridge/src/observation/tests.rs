use super::*;
use crate::pipeline::route::RouteSpec;
use crate::pipeline::window::Side;

fn route(smooth: Option<usize>) -> Route {
    Route::new(RouteSpec {
        from: "house".to_owned(),
        labels: vec!["person".to_owned()],
        kind: "person.detected".to_owned(),
        smooth,
        ..RouteSpec::default()
    })
    .unwrap()
}

fn seen() -> Observation {
    Observation {
        at: "2026-09-16T10:00:00.418712Z".parse().unwrap(),
        confidence: 0.789_062_5,
        data: json!({"track_id": "7"}).as_object().unwrap().clone(),
        message_id: Some("m-1".to_owned()),
    }
}

fn source() -> SourceName {
    SourceName::new("front_door").unwrap()
}

fn made(observation: &Observation) -> Encoded {
    encode(&route(None), &source(), observation, None).unwrap()
}

#[test]
fn the_bytes_are_an_event_with_all_digits_of_its_time() {
    let encoded = made(&seen());
    let expected = format!(
        r#"{{"id":"{}","type":"person.detected","source":"front_door","timestamp":"2026-09-16T10:00:00.418712Z","confidence":0.7890625,"data":{{"track_id":"7"}}}}"#,
        encoded.id
    );
    assert_eq!(std::str::from_utf8(&encoded.body).unwrap(), expected);
    assert_eq!(encoded.id.as_str().len(), 64);
    assert!(Event::parse(&encoded.body).is_ok());
}

#[test]
fn the_same_message_makes_the_same_bytes_for_ever() {
    // Another bridge and a later version must make the same id, or a redelivery counts twice.
    assert_eq!(
        made(&seen()).id.as_str(),
        "52df5eb07efcfe7a925367926d0bdcc13ba00d592b59baa2902447a7f685a70a"
    );
    assert_eq!(made(&seen()).body, made(&seen()).body);
}

#[test]
fn the_id_covers_route_source_time_message_and_what_sampling_adds() {
    let plain = made(&seen()).id;
    let change = |change: fn(&mut Observation)| {
        let mut observation = seen();
        change(&mut observation);
        observation
    };
    let id = |route: &Route, observation: &Observation, window: Option<&Window>| {
        encode(route, &source(), observation, window).unwrap().id
    };
    let window = Window::default().with(0.5, Side::Low);
    let lower = change(|o| o.confidence = 0.1);
    let different = [
        ("time", made(&change(|o| o.at = "2026-09-16T10:00:00.418713Z".parse().unwrap())).id),
        ("message", made(&change(|o| o.message_id = Some("m-2".to_owned()))).id),
        ("no message", made(&change(|o| o.message_id = None)).id),
        ("source", encode(&route(None), &SourceName::new("x").unwrap(), &seen(), None).unwrap().id),
        ("window", id(&route(None), &seen(), Some(&window))),
        ("smoothing", id(&route(Some(3)), &seen(), None)),
        ("a smoothed value", id(&route(Some(3)), &lower, None)),
    ];
    let distinct: std::collections::BTreeSet<_> = different.iter().map(|(_, id)| id).collect();
    assert_eq!(distinct.len(), different.len());
    for (name, id) in &different {
        assert_ne!(*id, plain, "{name}");
    }
    assert_eq!(made(&lower).id, plain, "a redelivery is known by its message");
}

#[test]
fn a_window_is_part_of_the_bytes() {
    let window = Window::default().with(0.5, Side::Low);
    let encoded = encode(&route(None), &source(), &seen(), Some(&window)).unwrap();
    let event = Event::parse(&encoded.body).unwrap();
    assert_eq!(
        event.data().unwrap().get(),
        r#"{"track_id":"7","window":{"below":1,"frames":1,"max":0.5,"min":0.5}}"#
    );
}

#[test]
fn too_large_data_loses_its_largest_fields_first() {
    let long = |bytes: usize| Value::from("x".repeat(bytes));
    let given = json!({
        "track_id": long(3_000), "absent": true, "a": long(8_000), "b": long(8_000), "c": 1,
        "d": long(7_000),
    });
    let mut data = given.as_object().unwrap().clone();
    assert!(fit(&mut data));
    let left: Vec<&str> = data.keys().map(String::as_str).collect();
    assert_eq!(left, ["absent", "c", "d", "track_id", "trimmed"]);
    assert_eq!(data["trimmed"], true);

    let mut huge = json!({ "track_id": long(20_000), "label": "person", "x": 1 });
    assert!(fit(huge.as_object_mut().unwrap()));
    assert_eq!(huge, json!({ "label": "person", "trimmed": true }));
}

#[test]
fn data_up_to_the_limit_is_left_alone() {
    // `{"x":"…"}` is eight bytes beside the text.
    let room = MAX_DATA_BYTES - WINDOW_BYTES - 8;
    for (bytes, cut) in [(10, false), (3_000, false), (room, false), (room + 1, true)] {
        let mut data = Map::new();
        data.insert("x".to_owned(), Value::from("x".repeat(bytes)));
        assert_eq!(fit(&mut data), cut, "{bytes}");
    }
    let escapes = json!({ "x": "\u{1}".repeat(3_000) });
    assert!(fit(&mut escapes.as_object().unwrap().clone()), "18,000 bytes when escaped");
}
