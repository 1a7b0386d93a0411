//! A configuration file: read whole within a bound, then parsed as its name says.
//!
//! Whatever the format, the result is one JSON object. Every error is one sentence with the file in it.

use std::io::Read as _;
use std::path::Path;

use figment::providers::{Format as _, Toml};
use serde_json::{Map, Value};

/// The longest configuration file, in bytes. Source: CONTRACT, section 5.
const MAX_BYTES: usize = 65_536;

/// Reads a file into an object.
pub(super) fn read(path: &Path) -> Result<Map<String, Value>, String> {
    let name = path.display();
    let parse: fn(&str) -> Result<Value, String> =
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => parse_json,
            Some("toml") => parse_toml,
            Some("yaml" | "yml") => parse_yaml,
            Some(_) | None => {
                return Err(format!(
                    "the configuration file {name} must end in .toml, .yaml, .yml or .json"
                ));
            }
        };
    let text = read_text(path)?;
    match parse(&text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => {
            let kind = kind(&other);
            Err(format!("the configuration file {name} must hold one object, but holds {kind}"))
        }
        Err(fault) => Err(format!("the configuration file {name} {fault}")),
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let name = path.display();
    let cannot =
        |error: std::io::Error| format!("cannot read the configuration file {name}: {error}");
    let file = std::fs::File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.is_dir() {
        return Err(format!("the configuration file {name} is a directory; name a file in it"));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("the configuration file {name} is over 64 KiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("the configuration file {name} is not UTF-8 (byte {at})")
    })
}

fn parse_json(text: &str) -> Result<Value, String> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<super::json::Strict>();
    let first = match documents.next() {
        None => return Err("is empty; it needs at least {}".to_owned()),
        Some(Err(error)) => return Err(format!("is no JSON: {error}")),
        Some(Ok(document)) => document.0,
    };
    match documents.next() {
        None => Ok(first),
        Some(Ok(_)) => Err("holds more than one document; put one in each file".to_owned()),
        Some(Err(error)) => Err(format!("has something after its end, at line {}", error.line())),
    }
}

fn parse_toml(text: &str) -> Result<Value, String> {
    Toml::from_str(text).map_err(|error| {
        let line = error.span().and_then(|span| text.get(..span.start)).map(line_at_end);
        let message = one_line(error.message());
        match line {
            Some(line) => format!("is no TOML: {message} at line {line}"),
            None => format!("is no TOML: {message}"),
        }
    })
}

fn parse_yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    let mut documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| format!("is no YAML: {}", one_line(&error.to_string())))?;
    match (documents.pop(), documents.len()) {
        (None, _) => Err("is empty; it needs at least {}".to_owned()),
        (Some(document), 0) => Ok(document),
        (Some(_), _) => Err("holds more than one document; put one in each file".to_owned()),
    }
}

fn line_at_end(text: &str) -> usize {
    text.matches('\n').count().saturating_add(1)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn load(name: &str, content: impl AsRef<[u8]>) -> Result<Value, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = dir.path().join(name);
        std::fs::write(&path, content).map_err(|error| error.to_string())?;
        let folder = format!("{}/", dir.path().display());
        read(&path).map(Value::Object).map_err(|fault| fault.replace(&folder, ""))
    }

    #[test]
    fn the_three_formats_say_the_same() {
        let expected = json!({
            "name": "a", "on": true, "count": 3, "share": 0.5, "list": [1, 2], "code": "0123",
            "time": "12:30", "answer": "no", "deep": {"er": "x"}
        });
        let json = expected.to_string();
        let toml = "name = 'a'\non = true\ncount = 3\nshare = 0.5\nlist = [1, 2]\ncode = '0123'\n\
                    time = '12:30'\nanswer = 'no'\n[deep]\ner = 'x'\n";
        let yaml = "name: a\non: true\ncount: 3\nshare: 0.5\nlist: [1, 2]\ncode: '0123'\n\
                    time: 12:30\nanswer: 'no'\ndeep: {er: x}\n";
        for (name, text) in
            [("c.json", json.as_str()), ("c.toml", toml), ("c.yaml", yaml), ("c.yml", yaml)]
        {
            assert_eq!(load(name, text), Ok(expected.clone()), "{name}");
        }
    }

    #[test]
    fn a_file_of_no_use_is_one_sentence_with_its_name() {
        let long = "x".repeat(65_537);
        let cases = [
            ("c.json", "", "is empty; it needs at least {}"),
            ("c.yaml", "# nothing\n", "is empty; it needs at least {}"),
            ("c.json", "{} {}", "holds more than one document; put one in each file"),
            ("c.yaml", "a: 1\n---\na: 2\n", "holds more than one document; put one in each file"),
            ("c.json", "{} x", "has something after its end, at line 1"),
            ("c.json", "[]", "must hold one object, but holds a list"),
            ("c.yaml", "- a\n", "must hold one object, but holds a list"),
            ("c.json", "3", "must hold one object, but holds a number"),
            ("c.yaml", "text\n", "must hold one object, but holds text"),
            ("c.toml", &long, "is over 64 KiB"),
            ("c.json", "{\"a\":\n1 \"b\"}", "is no JSON: expected `,` or `}` at line 2 column 3"),
            (
                "c.json",
                r#"{"a": {"b": 1, "b": 2}}"#,
                "is no JSON: the field `b` is there twice at line 1 column 18",
            ),
            (
                "c.toml",
                "a = 1\na = 2\n",
                "is no TOML: duplicate key `a` in document root at line 2",
            ),
            ("c.toml", "a = \n", "is no TOML: invalid string expected `\"`, `'` at line 1"),
            ("c.ini", "a = 1", "must end in .toml, .yaml, .yml or .json"),
            ("config", "a = 1", "must end in .toml, .yaml, .yml or .json"),
        ];
        for (name, content, expected) in cases {
            let fault = load(name, content).unwrap_err();
            assert_eq!(fault, format!("the configuration file {name} {expected}"));
        }
    }

    #[test]
    fn yaml_faults_have_one_line_and_a_place() {
        for text in ["a: 1\na: 2\n", "a: [1\n", "a: *none\n"] {
            let fault = load("c.yaml", text).unwrap_err();
            assert!(fault.starts_with("the configuration file c.yaml is no YAML: "), "{fault}");
            assert!(fault.contains("line ") && !fault.contains('\n'), "{fault}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        assert_eq!(
            load("c.toml", b"a = '\xff'"),
            Err("the configuration file c.toml is not UTF-8 (byte 5)".to_owned())
        );
    }

    #[test]
    fn a_file_of_exactly_the_limit_is_read() {
        let text = format!("{{}}{}", " ".repeat(65_534));
        assert_eq!(load("c.json", text), Ok(json!({})));
    }

    #[test]
    fn a_missing_file_and_a_directory_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none.json");
        assert_eq!(
            read(&missing),
            Err(format!(
                "cannot read the configuration file {}: No such file or directory (os error 2)",
                missing.display()
            ))
        );
        let folder = dir.path().join("folder.json");
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(
            read(&folder),
            Err(format!(
                "the configuration file {} is a directory; name a file in it",
                folder.display()
            ))
        );
    }
}
