//! What is wrong with a configuration, in sentences for the person who wrote it.

use std::fmt;
use std::path::{Path, PathBuf};

use figment::error::{Actual, Error as FigmentError, Kind};
use serde_json::Value;

use super::path::FieldPath;

/// How many characters of a wrong value an error shows.
const SHOWN_CHARS: usize = 40;

/// How many edits a name may be away from a known one to be taken for it.
const NEAR_EDITS: usize = 3;

/// Who set a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody: the program's own value.
    Defaults,
    /// A file, as it was named on the command line.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// Some environment variables together, where it is not one of them.
    Environment,
    /// A flag.
    Flags,
}

impl Origin {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Defaults | Self::Variable(_) | Self::Environment | Self::Flags => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => f.write_str("the defaults"),
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) => write!(f, "the environment variable {name}"),
            Self::Environment => f.write_str("the environment"),
            Self::Flags => f.write_str("the command line"),
        }
    }
}

/// All that is wrong with a configuration, one sentence each; at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(Vec<String>);

impl Faults {
    /// The sentences, in the order in which they were found.
    pub fn sentences(&self) -> &[String] {
        &self.0
    }
}

/// Collects faults, so that a person sees all of them at once.
#[derive(Debug, Default)]
pub struct Findings(Vec<String>);

impl Findings {
    /// Nothing found yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a fault, as a sentence without a full stop.
    pub fn add(&mut self, fault: impl fmt::Display) {
        self.0.push(fault.to_string());
    }

    /// Notes the error, if there is one, and goes on with the value otherwise.
    pub fn take<T, E: fmt::Display>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|fault| self.add(fault)).ok()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, when nothing was found; `None` counts as found only if a fault says why.
    ///
    /// # Errors
    /// All that was found.
    pub fn finish<T>(self, value: T) -> Result<T, Faults> {
        if self.0.is_empty() { Ok(value) } else { Err(Faults(self.0)) }
    }
}

impl From<Findings> for Faults {
    fn from(findings: Findings) -> Self {
        Self(findings.0)
    }
}

impl From<String> for Faults {
    fn from(fault: String) -> Self {
        Self(vec![fault])
    }
}

/// Says what a layer has that does not fit: the field, where it is set, and what would fit.
///
/// `origin` tells who set a field of the layer.
pub(super) fn explain(
    error: &FigmentError,
    layer: &Value,
    origin: impl Fn(&FieldPath) -> Origin,
) -> String {
    let path = FieldPath::in_value(layer, &error.path);
    let from = origin(&path);
    match &error.kind {
        Kind::UnknownField(name, known) => {
            let parent = path.parent();
            let at = if parent.is_root() { String::new() } else { format!(" (at {parent})") };
            format!("unknown field `{name}` in {from}{at}: {}", instead(name, known))
        }
        Kind::UnknownVariant(name, known) => {
            format!("`{path}` in {from} is `{name}`: {}", instead(name, known))
        }
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            let (expected, found) = (expectation(expected), finding(found));
            if path.is_root() {
                return format!("{from} must be {expected}, but is {found}");
            }
            format!("`{path}` in {from} must be {expected}, but is {found}")
        }
        Kind::MissingField(name) if path.is_root() => format!("{from} lacks the field `{name}`"),
        Kind::MissingField(name) => format!("`{path}` in {from} lacks the field `{name}`"),
        Kind::Message(_)
        | Kind::InvalidLength(..)
        | Kind::DuplicateField(_)
        | Kind::ISizeOutOfRange(_)
        | Kind::USizeOutOfRange(_)
        | Kind::Unsupported(_)
        | Kind::UnsupportedKey(..) => format!("`{path}` in {from}: {}", error.kind),
    }
}

/// The known name that someone may have meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = NEAR_EDITS.min(name.chars().count().div_ceil(2));
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

fn instead(name: &str, known: &[&'static str]) -> String {
    if let Some(near) = nearest(name, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    if known.is_empty() {
        return "nothing can be set here".to_owned();
    }
    format!("known are `{}`", known.join("`, `"))
}

fn expectation(expected: &str) -> String {
    match expected {
        "a string" => "text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        other if other.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    }
}

fn finding(found: &Actual) -> String {
    match found {
        Actual::Str(text) => format!("the text {:?}", shortened(text)),
        Actual::Char(c) => format!("the text \"{c}\""),
        Actual::Bool(value) => value.to_string(),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => format!("{number:?}"),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "an object".to_owned(),
        Actual::Unit | Actual::Option => "null".to_owned(),
        Actual::Bytes(_)
        | Actual::NewtypeStruct
        | Actual::Enum
        | Actual::UnitVariant
        | Actual::NewtypeVariant
        | Actual::TupleVariant
        | Actual::StructVariant
        | Actual::Other(_) => found.to_string(),
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_a_likely_one() {
        let known = ["model", "name", "no_memory", "max_tasks"];
        let cases = [
            ("modle", Some("model")),
            ("Name", Some("name")),
            ("max_task", Some("max_tasks")),
            ("nomemory", Some("no_memory")),
            ("x", None),
            ("telemetry", None),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }

    #[test]
    fn all_findings_are_shown_a_line_each() {
        let mut findings = Findings::new();
        findings.add("one");
        assert_eq!(findings.take(Err::<(), _>("two")), None);
        assert_eq!(findings.take(Ok::<_, String>(3)), Some(3));
        assert_eq!(findings.finish(()).unwrap_err().to_string(), "one\ntwo");
        assert_eq!(Findings::new().finish(3), Ok(3));
    }

    #[test]
    fn a_long_value_is_shown_in_part() {
        assert_eq!(shortened(&"ä".repeat(41)), format!("{}…", "ä".repeat(40)));
        assert_eq!(shortened("short"), "short");
    }
}
