//! The layer of environment variables: `PREFIX__MODEL__BASE_URL` sets `model.base_url`.
//!
//! The double underscore after the prefix keeps clear of variables that others make of the same
//! name (`AGENT_SERVICE_PORT`, by Kubernetes). A value that is a JSON number, `true`, `false`, list or
//! object is that; any other is text. Names are those of fields, in small letters: names that are
//! chosen freely (of peers, of sources) are set by an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fault::Origin;
use super::path::{FieldPath, Step};
use crate::vars::Vars;

/// What the variables set.
#[derive(Debug, Default)]
pub(super) struct Environment {
    fields: Map<String, Value>,
    /// Which variable stands behind which field, with its text.
    variables: BTreeMap<Vec<String>, (String, String)>,
}

impl Environment {
    /// Reads the variables that begin with `prefix` and two underscores; the faults are sentences.
    pub(super) fn read(prefix: &str, vars: &Vars) -> (Self, Vec<String>) {
        let mut environment = Self::default();
        let mut faults = Vec::new();
        let start = format!("{prefix}__");
        for (name, value) in vars.iter() {
            let Some(name) = name.to_str() else { continue };
            let Some(rest) = name.strip_prefix(&start) else { continue };
            let path: Vec<_> = rest.split("__").map(str::to_lowercase).collect();
            if path.iter().any(String::is_empty) {
                faults.push(format!("the environment variable {name} names no field"));
                continue;
            }
            let Some(text) = value.to_str() else {
                faults.push(format!("the value of the environment variable {name} is not UTF-8"));
                continue;
            };
            if !insert(&mut environment.fields, &path, interpret(text)) {
                faults.push(format!(
                    "the environment variable {name} sets a part of what another variable sets as a whole"
                ));
            }
            environment.variables.insert(path, (name.to_owned(), text.to_owned()));
        }
        (environment, faults)
    }

    pub(super) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The variable behind a field.
    pub(super) fn origin(&self, path: &FieldPath) -> Origin {
        let mut names = names(path);
        loop {
            if let Some((variable, _)) = self.variables.get(&names) {
                return Origin::Variable(variable.clone());
            }
            // The field may be an object that deeper variables fill.
            let below = self.variables.iter().find(|(path, _)| path.starts_with(&names));
            if let (Some((_, (variable, _))), false) = (below, names.is_empty()) {
                return Origin::Variable(variable.clone());
            }
            if names.pop().is_none() {
                return Origin::Environment;
            }
        }
    }

    /// Takes a variable's value as text, where a number or the like was read into it and text is
    /// wanted. `None` when the field is not a variable's or is text already.
    pub(super) fn take_as_text(&mut self, path: &FieldPath) -> Option<&str> {
        let names = names(path);
        let (_, text) = self.variables.get(&names)?;
        let value = find(&mut self.fields, &names).filter(|value| !value.is_string())?;
        *value = Value::from(text.as_str());
        Some(text)
    }
}

fn names(path: &FieldPath) -> Vec<String> {
    path.steps()
        .iter()
        .map(|step| match step {
            Step::Key(name) => name.clone(),
            Step::Index(index) => index.to_string(),
        })
        .collect()
}

fn interpret(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            value
        }
        Ok(Value::Null | Value::String(_)) | Err(_) => Value::from(text),
    }
}

fn find<'a>(fields: &'a mut Map<String, Value>, path: &[String]) -> Option<&'a mut Value> {
    let (name, rest) = path.split_first()?;
    let value = fields.get_mut(name)?;
    if rest.is_empty() { Some(value) } else { find(value.as_object_mut()?, rest) }
}

/// Sets a field; false when a part of its path is set to something that has no fields.
fn insert(fields: &mut Map<String, Value>, path: &[String], value: Value) -> bool {
    match path {
        [] => false,
        [name] => {
            fields.insert(name.clone(), value);
            true
        }
        [name, rest @ ..] => {
            let below = fields.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            below.as_object_mut().is_some_and(|below| insert(below, rest, value))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read<const N: usize>(vars: [(&str, &str); N]) -> (Environment, Vec<String>) {
        Environment::read("APP", &Vars::from_iter(vars))
    }

    #[test]
    fn variables_with_the_prefix_are_fields_and_others_are_not() {
        let (environment, faults) = read([
            ("APP__NAME", "x"),
            ("APP__MODEL__BASE_URL", "http://a"),
            ("APP__LIST", "[\"a\"]"),
            ("APP__COUNT", "3"),
            ("APP__ON", "true"),
            ("APP__NOTHING", "null"),
            ("APP_PORT", "tcp://1.2.3.4:80"),
            ("OTHER__NAME", "y"),
        ]);
        assert!(faults.is_empty());
        assert_eq!(
            Value::Object(environment.fields),
            json!({"name": "x", "model": {"base_url": "http://a"}, "list": ["a"], "count": 3,
                "on": true, "nothing": "null"})
        );
    }

    #[test]
    fn a_field_has_the_variable_that_sets_it() {
        let (environment, _) = read([("APP__A__B", "1"), ("APP__C", "{\"d\": [1]}")]);
        let a = FieldPath::from("a");
        let c = FieldPath::from("c");
        let variable = |name: &str| Origin::Variable(name.to_owned());
        assert_eq!(environment.origin(&a.key("b")), variable("APP__A__B"));
        assert_eq!(environment.origin(&a), variable("APP__A__B"));
        assert_eq!(environment.origin(&c.key("d").index(0)), variable("APP__C"));
        assert_eq!(environment.origin(&FieldPath::from("e")), Origin::Environment);
    }

    #[test]
    fn a_variable_that_names_no_field_or_half_a_field_is_a_fault() {
        let (_, faults) = read([("APP____A", "1")]);
        assert_eq!(faults, ["the environment variable APP____A names no field"]);
        let (_, faults) = read([("APP__A", "1"), ("APP__A__B", "1")]);
        assert_eq!(
            faults,
            [
                "the environment variable APP__A__B sets a part of what another variable sets as a whole"
            ]
        );
    }

    #[test]
    fn what_looks_like_a_number_can_be_taken_as_text() {
        let (mut environment, _) = read([("APP__A__B", "1e3"), ("APP__T", "x")]);
        let path = FieldPath::from("a").key("b");
        assert_eq!(environment.take_as_text(&path), Some("1e3"));
        assert_eq!(environment.fields["a"], json!({"b": "1e3"}));
        for other in [path, FieldPath::from("t"), FieldPath::from("none")] {
            assert_eq!(environment.take_as_text(&other), None);
        }
    }
}
