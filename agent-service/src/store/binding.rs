//! Which configuration a state directory belongs to.
//!
//! What is stored is the effective agent configuration without the fields that equal their defaults,
//! so that a version that adds a field with a default opens older state.

use std::collections::BTreeSet;

use serde_json::Value;

/// The paths of the fields that differ between two configurations, such as `triggers[0].consecutive`.
///
/// Sorted; empty exactly when both are equal as JSON values.
pub(super) fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    compare("", old, new, &mut found);
    found.into_iter().collect()
}

fn compare(path: &str, old: &Value, new: &Value, found: &mut BTreeSet<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => compare(&path, old, new, found),
                    _ => {
                        found.insert(path);
                    }
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{index}]"), old, new, found);
            }
        }
        (old, new) => {
            if agent_wire::canonical::to_string(old) != agent_wire::canonical::to_string(new) {
                found.insert(if path.is_empty() {
                    "all of it".to_owned()
                } else {
                    path.to_owned()
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_that_differ_are_named_by_their_paths() {
        let old =
            json!({"name": "a", "triggers": [{"type": "t", "consecutive": 3}], "max_tasks": 10});
        let cases = [
            (
                "equal, in any order",
                json!({"max_tasks": 10.0, "triggers": [{"consecutive": 3, "type": "t"}], "name": "a"}),
                vec![],
            ),
            (
                "a value",
                json!({"name": "b", "triggers": [{"type": "t", "consecutive": 3}], "max_tasks": 10}),
                vec!["name"],
            ),
            (
                "inside a list",
                json!({"name": "a", "triggers": [{"type": "t", "consecutive": 4}], "max_tasks": 10}),
                vec!["triggers[0].consecutive"],
            ),
            (
                "a list's length",
                json!({"name": "a", "triggers": [], "max_tasks": 10}),
                vec!["triggers"],
            ),
            (
                "gone and new",
                json!({"name": "a", "triggers": [{"type": "t", "consecutive": 3}], "device": "d"}),
                vec!["device", "max_tasks"],
            ),
        ];
        for (name, new, expected) in cases {
            assert_eq!(differences(&old, &new), expected, "{name}");
        }
    }
}
