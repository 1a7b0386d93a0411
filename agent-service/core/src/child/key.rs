//! Which instance answers for a task.

use agent_wire::canonical::Digest;
use agent_wire::child::TriggerSource;
use serde_json::{Map, Value};

/// The longest key that is used as it is, in bytes. Source: the process protocol, rule 10.
const MAX_PLAIN: usize = 64;

/// Tasks of clients and of sensors never share an instance, whatever their keys.
pub type Scope = TriggerSource;

/// A key as the payload has it, and the label that stands for it outside.
///
/// Two values never share an instance, even if somebody sends the label of another value: the pool
/// goes by the value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    value: Option<String>,
}

impl Key {
    /// The key of a task: the payload's top-level field of this name.
    ///
    /// Without a name, without that field, or with one that is neither string nor number, it is the
    /// default one. A number and its digits as a string are one key.
    pub fn of(payload: &Map<String, Value>, field: Option<&str>) -> Self {
        let value = field.and_then(|field| payload.get(field)).and_then(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        });
        Self { value }
    }

    /// What agents and logs see: a plain value as it is, any other as `k` and 32 hex of its SHA-256.
    pub fn label(&self) -> String {
        let Some(value) = &self.value else { return "default".to_owned() };
        let plain = !value.is_empty()
            && value.len() <= MAX_PLAIN
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if plain {
            return value.clone();
        }
        let digest = Digest::of_bytes(value.as_bytes()).to_hex();
        format!("k{}", digest.get(..32).unwrap_or(&digest))
    }
}
