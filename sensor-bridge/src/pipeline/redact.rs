//! Which of a worker's fields go into an event's `data`.
//!
//! Personal fields and images stay behind unless the route names them: an event ends in a prompt, in
//! logs and in a database. Values nested deeper than [`MAX_DEPTH`] are left out, so that whatever a
//! worker sends still makes an event that the service can read.

use serde_json::{Map, Value};

use super::route::Route;

/// Deepest nesting that is carried. The service's JSON reader stops at 127.
const MAX_DEPTH: usize = 32;

/// Fields that are dropped at every depth unless `data` names them.
const PERSONAL: [&str; 3] = ["name", "plate", "email"];

/// How JPEG, PNG, GIF, WebP and BMP begin in base64.
const IMAGE_STARTS: [&str; 5] = ["/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "Qk0"];

/// From this length on, base64 is taken for an image or another blob, however it begins.
const BLOB_CHARS: usize = 512;

/// The fields of `data` that this route carries.
pub(crate) fn carried(route: &Route, data: &Map<String, Value>) -> Map<String, Value> {
    let wanted = |key: &String| route.data().is_none_or(|fields| fields.contains(key.as_str()));
    let mut kept = Map::new();
    for (key, value) in data.iter().filter(|(key, _)| wanted(key)) {
        if let Some(value) = field(route, key, value, 1) {
            kept.insert(key.clone(), value);
        }
    }
    kept
}

/// A field after redaction; `None` when it stays behind.
fn field(route: &Route, key: &str, value: &Value, depth: usize) -> Option<Value> {
    let named = route.data().is_some_and(|fields| fields.contains(key));
    let lower = key.to_lowercase();
    if route.redact().contains(&lower) || (!named && is_personal(&lower)) {
        return None;
    }
    // A named image is carried whole; what is inside a named object is still checked.
    if named && value.is_string() {
        return Some(value.clone());
    }
    clean(route, value, depth)
}

fn clean(route: &Route, value: &Value, depth: usize) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(value.clone()),
        Value::String(text) => (!is_image(text)).then(|| value.clone()),
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => None,
        Value::Array(items) => {
            Some(items.iter().filter_map(|item| clean(route, item, depth + 1)).collect())
        }
        Value::Object(members) => Some(
            members
                .iter()
                .filter_map(|(key, value)| {
                    Some((key.clone(), field(route, key, value, depth + 1)?))
                })
                .collect(),
        ),
    }
}

/// `name`, `plate` and `email`, and what ends in `_plate` or `_email` (`license_plate`).
fn is_personal(lower: &str) -> bool {
    PERSONAL.contains(&lower) || lower.ends_with("_plate") || lower.ends_with("_email")
}

fn is_image(text: &str) -> bool {
    if text.starts_with("data:image/") {
        return true;
    }
    let starts = IMAGE_STARTS.iter().any(|start| text.starts_with(start));
    if !starts && text.len() < BLOB_CHARS {
        return false;
    }
    text.len() >= 12
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pipeline::route::RouteSpec;

    fn route(data: Option<&[&str]>, redact: &[&str]) -> Route {
        Route::new(RouteSpec {
            from: "house".to_owned(),
            labels: vec!["person".to_owned()],
            kind: "person.detected".to_owned(),
            data: data.map(|fields| fields.iter().map(|&f| f.to_owned()).collect()),
            redact: redact.iter().map(|&f| f.to_owned()).collect(),
            ..RouteSpec::default()
        })
        .unwrap()
    }

    #[test]
    fn personal_fields_and_images_stay_behind_unless_named() {
        let jpeg = "/9j/4AAQSkZJRgABAQ==";
        let blob = "A".repeat(600);
        let given = json!({
            "track_id": "7", "name": "Ada", "Plate": "B 1", "recognized_license_plate": "B 2",
            "face": { "name": "Ada", "score": 0.9, "box": [1, 2] },
            "thumbnail": jpeg, "images": [jpeg, "a.jpg"], "raw": blob,
            "uri": "data:image/png;base64,AAAA", "class_name": "person",
        });
        let cases = [
            (
                route(None, &[]),
                json!({"track_id": "7", "face": {"score": 0.9, "box": [1, 2]},
                    "images": ["a.jpg"], "class_name": "person"}),
            ),
            (
                route(Some(&["name", "thumbnail", "track_id"]), &[]),
                json!({"name": "Ada", "track_id": "7", "thumbnail": jpeg}),
            ),
            (route(Some(&["face"]), &[]), json!({"face": {"score": 0.9, "box": [1, 2]}})),
            (
                route(None, &["BOX", "images", "class_name"]),
                json!({"track_id": "7", "face": {"score": 0.9}}),
            ),
            (route(Some(&["track_id"]), &["track_id"]), json!({})),
        ];
        for (route, expected) in cases {
            let kept = carried(&route, given.as_object().unwrap());
            assert_eq!(Value::Object(kept), expected, "{:?} {:?}", route.data(), route.redact());
        }
    }

    #[test]
    fn what_is_nested_too_deeply_is_left_out() {
        let mut deep = json!(1);
        for _ in 0..120 {
            deep = json!([deep]);
        }
        let given = json!({ "deep": deep, "flat": 1 });
        let kept = Value::Object(carried(&route(None, &[]), given.as_object().unwrap()));
        assert_eq!(kept["flat"], 1);
        assert!(kept.to_string().matches('[').count() < MAX_DEPTH);
    }
}
