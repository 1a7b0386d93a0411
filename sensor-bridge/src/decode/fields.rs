//! Reads fields of a document, or says what would be right there.

use serde_json::{Map, Value};

use super::Refusal;

/// The document as an object.
pub(super) fn object<'a>(
    value: &'a Value,
    field: &'static str,
) -> Result<&'a Map<String, Value>, Refusal> {
    value.as_object().ok_or(Refusal::Shape { field, expected: "an object" })
}

/// A text that must be there and not be empty.
pub(super) fn text<'a>(
    object: &'a Map<String, Value>,
    key: &str,
    field: &'static str,
) -> Result<&'a str, Refusal> {
    optional_text(object, key, field)?
        .ok_or(Refusal::Shape { field, expected: "a text that is not empty" })
}

/// A text that may be absent or null, but not of another type and not empty.
pub(super) fn optional_text<'a>(
    object: &'a Map<String, Value>,
    key: &str,
    field: &'static str,
) -> Result<Option<&'a str>, Refusal> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(Refusal::Shape { field, expected: "a text that is not empty" }),
    }
}

/// A label: a text or a class number, which the source's `labels` may name.
pub(super) fn label(
    object: &Map<String, Value>,
    key: &str,
    field: &'static str,
) -> Result<String, Refusal> {
    match object.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        _ => Err(Refusal::Shape { field, expected: "a text or a class number" }),
    }
}
