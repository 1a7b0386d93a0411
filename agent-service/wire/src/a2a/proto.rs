//! A ProtoJSON reader over a parsed value, which remembers where each fault is.
//!
//! A field may have its camelCase or its `snake_case` name (camelCase wins when both are there);
//! `null` is unset; a number may be text, and a whole number may be spelled with a fraction of zero. Faults
//! are collected, so that a client learns of all of them at once.

use serde_json::{Map, Value};

use super::error::Violation;

/// The faults found so far.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) violations: Vec<Violation>,
}

impl Faults {
    /// Notes a fault.
    pub(crate) fn add(&mut self, field: &str, description: impl Into<String>) {
        self.violations
            .push(Violation { field: field.to_owned(), description: description.into() });
    }
}

/// An object and its path.
pub(crate) struct Object<'a> {
    members: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    /// The whole body.
    pub(crate) fn root(members: &'a Map<String, Value>) -> Self {
        Self { members, path: String::new() }
    }

    /// A value that must be an object.
    pub(crate) fn new(value: &'a Value, path: String, faults: &mut Faults) -> Option<Self> {
        let members = value.as_object();
        if members.is_none() {
            faults.add(&path, format!("must be an object; it is {}", kind(value)));
        }
        members.map(|members| Self { members, path })
    }

    /// The path of a field in this object.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The members as they are.
    pub(crate) fn members(&self) -> &'a Map<String, Value> {
        self.members
    }

    /// A field under either of its names, null included: only for fields of any JSON value.
    pub(crate) fn any(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).or_else(|| self.members.get(&snake(name)))
    }

    /// A field under either of its names; null is unset.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        let set = |name: &str| self.members.get(name).filter(|value| !value.is_null());
        set(name).or_else(|| set(&snake(name)))
    }

    /// A string field.
    pub(crate) fn string(&self, name: &str, faults: &mut Faults) -> Option<&'a str> {
        let value = self.get(name)?;
        let text = value.as_str();
        if text.is_none() {
            faults.add(&self.path(name), format!("must be a string; it is {}", kind(value)));
        }
        text
    }

    /// A boolean field: `true` or `false` and nothing like them.
    pub(crate) fn boolean(&self, name: &str, faults: &mut Faults) -> Option<bool> {
        let value = self.get(name)?;
        let boolean = value.as_bool();
        if boolean.is_none() {
            faults.add(&self.path(name), format!("must be true or false; it is {}", kind(value)));
        }
        boolean
    }

    /// An object field.
    pub(crate) fn object(&self, name: &str, faults: &mut Faults) -> Option<Object<'a>> {
        Object::new(self.get(name)?, self.path(name), faults)
    }

    /// A list field; its items may be anything.
    pub(crate) fn list(&self, name: &str, faults: &mut Faults) -> Option<&'a [Value]> {
        let value = self.get(name)?;
        let items = value.as_array();
        if items.is_none() {
            faults.add(&self.path(name), format!("must be a list; it is {}", kind(value)));
        }
        items.map(Vec::as_slice)
    }

    /// An int32 field.
    pub(crate) fn int32(&self, name: &str, faults: &mut Faults) -> Option<i32> {
        let value = self.get(name)?;
        let number = whole(value).and_then(|number| i32::try_from(number).ok());
        if number.is_none() {
            faults.add(&self.path(name), "must be a whole number of 32 bits");
        }
        number
    }
}

/// A whole number, also as text (`"5"`) or with a fraction of zero (`5.0`).
pub(crate) fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| float_whole(number.as_f64()?)),
        Value::String(text) => {
            // What is a JSON number, and no more: no white space, no plus sign.
            let first = text.bytes().next()?;
            let last = text.bytes().last()?;
            if !(first == b'-' || first.is_ascii_digit()) || !last.is_ascii_digit() {
                return None;
            }
            let number: serde_json::Number = serde_json::from_str(text).ok()?;
            number.as_i64().or_else(|| float_whole(number.as_f64()?))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What a value is, in a word for a message.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn float_whole(float: f64) -> Option<i64> {
    // Only what 32 bits hold is of use to any caller, and there a float is exact.
    if float.fract() != 0.0 || float.abs() > f64::from(u32::MAX) {
        return None;
    }
    // A whole float of that size prints as a plain integer.
    let text = float.to_string();
    if text == "-0" { Some(0) } else { text.parse().ok() }
}

fn snake(camel: &str) -> String {
    let mut out = String::with_capacity(camel.len() + 4);
    for c in camel.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_have_several_spellings() {
        let cases = [
            (json!(5), Some(5)),
            (json!("5"), Some(5)),
            (json!(5.0), Some(5)),
            (json!("5.0"), Some(5)),
            (json!("5e0"), Some(5)),
            (json!(-0.0), Some(0)),
            (json!(-1), Some(-1)),
            (json!(1.5), None),
            (json!(" 5"), None),
            (json!("5 "), None),
            (json!("+5"), None),
            (json!(""), None),
            (json!("five"), None),
            (json!(1e300), None),
            (json!(true), None),
            (json!([5]), None),
        ];
        for (value, expected) in cases {
            assert_eq!(whole(&value), expected, "{value}");
        }
    }

    #[test]
    fn either_name_is_read_and_null_is_unset() {
        let body = json!({"message_id": "snake", "contextId": null, "context_id": "x"});
        let object = Object::root(body.as_object().unwrap());
        let mut faults = Faults::default();
        assert_eq!(object.string("messageId", &mut faults), Some("snake"));
        assert_eq!(object.string("contextId", &mut faults), Some("x"));
        assert_eq!(object.string("taskId", &mut faults), None);
        assert!(faults.violations.is_empty());
    }
}
