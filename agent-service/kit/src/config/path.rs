//! Where a field stands: `triggers[0].prompt`, `peers.robot-1.url`, `peers["robot.1"].url`.

use std::fmt;

use serde_json::Value;

/// The way from the top of a configuration to one of its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<Step>);

/// One step of a [`FieldPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A field of an object, or a name in a map of names.
    Key(String),
    /// An element of a list, from 0.
    Index(usize),
}

impl FieldPath {
    /// The configuration itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A field, or a name, below this one.
    #[must_use]
    pub fn key(&self, name: &str) -> Self {
        self.then(Step::Key(name.to_owned()))
    }

    /// An element of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// The steps from the top.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether this is the configuration itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// What holds this field; the top holds itself.
    #[must_use]
    pub fn parent(&self) -> Self {
        let mut steps = self.0.clone();
        steps.pop();
        Self(steps)
    }

    /// Reads bare names as figment reports them: a number is an index where `value` has a list.
    pub(super) fn in_value(value: &Value, names: &[String]) -> Self {
        let mut at = Some(value);
        let mut steps = Vec::new();
        for name in names {
            let list = at.and_then(Value::as_array);
            if let (Some(list), Ok(index)) = (list, name.parse()) {
                at = list.get(index);
                steps.push(Step::Index(index));
            } else {
                at = at.and_then(|value| value.get(name));
                steps.push(Step::Key(name.clone()));
            }
        }
        Self(steps)
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

/// A field of the top: `"workspace"`.
impl From<&str> for FieldPath {
    fn from(name: &str) -> Self {
        Self::root().key(name)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(name) if !is_plain(name) => write!(f, "[{name:?}]")?,
                Step::Key(name) if number == 0 => f.write_str(name)?,
                Step::Key(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_reads_as_people_write_it() {
        let root = FieldPath::root();
        assert_eq!(root.to_string(), "");
        assert_eq!(root.key("triggers").index(2).key("prompt").to_string(), "triggers[2].prompt");
        assert_eq!(
            root.key("peers").key("robot.1").key("url").to_string(),
            "peers[\"robot.1\"].url"
        );
        assert_eq!(FieldPath::from("a").key("b-c").to_string(), "a.b-c");
    }

    #[test]
    fn a_number_is_an_index_only_in_a_list() {
        let value = json!({"list": [{}, {}], "labels": {"0": "person"}});
        let path = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            FieldPath::in_value(&value, &names).to_string()
        };
        assert_eq!(path(&["list", "1", "x"]), "list[1].x");
        assert_eq!(path(&["labels", "0"]), "labels.0");
    }
}
