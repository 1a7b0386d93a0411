//! Secrets: where they come from, and that they are never shown.
//!
//! A configuration names an environment variable. Its value is the secret, or `<NAME>_FILE` is set
//! instead and is the path of a file that holds it (container secrets). No error text has a value.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::vars::Vars;

/// The longest secret that is read from a file, in bytes. Ours; far over any key or token.
const MAX_BYTES: u64 = 65_536;

/// The shortest token that is taken, in characters. Source: CONTRACT, section 5.
const MIN_TOKEN_CHARS: usize = 16;

/// A text that `Debug` does not show; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be sent to whom it is meant for and nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A bearer token: at least 16 characters, without CR and LF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token(Secret);

/// Why there is no usable secret. The texts name the variable and never the value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither the variable nor its `_FILE` twin is set.
    #[error(
        "the environment variable {name} is not set; set it, or set {name}_FILE to the path of a file with its value"
    )]
    Missing {
        /// The variable.
        name: String,
    },
    /// Both are set, and it is not clear which one is meant.
    #[error("the environment variables {name} and {name}_FILE are both set; unset one of them")]
    Both {
        /// The variable.
        name: String,
    },
    /// The variable is set to nothing.
    #[error("the environment variable {name} is empty")]
    Empty {
        /// The variable.
        name: String,
    },
    /// The variable has bytes that are no text.
    #[error("the value of the environment variable {name} is not UTF-8")]
    NotText {
        /// The variable.
        name: String,
    },
    /// The file could not be read.
    #[error("cannot read {}, which the environment variable {name} names", file.display())]
    Unreadable {
        /// The variable, with `_FILE`.
        name: String,
        /// Its value.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file was read and is of no use.
    #[error("{}, which the environment variable {name} names, {fault}", file.display())]
    BadFile {
        /// The variable, with `_FILE`.
        name: String,
        /// Its value.
        file: PathBuf,
        /// What is wrong, after "the file".
        fault: &'static str,
    },
    /// A token that is too short to be one.
    #[error(
        "the token in the environment variable {name} has {length} characters; it needs at least 16"
    )]
    ShortToken {
        /// The variable.
        name: String,
        /// How many it has.
        length: usize,
    },
    /// A token that would break a header.
    #[error("the token in the environment variable {name} has a line break; a token is one line")]
    TokenLines {
        /// The variable.
        name: String,
    },
}

impl Token {
    /// Reads a token as [`read_secret`] does, and checks it.
    pub fn read(vars: &Vars, name: &str) -> Result<Self, Error> {
        Self::check(read_secret(vars, name)?, name)
    }

    /// Checks a secret; `name` is the variable that it came from, for the error.
    pub fn check(secret: Secret, name: &str) -> Result<Self, Error> {
        let name = name.to_owned();
        if secret.expose().contains(['\r', '\n']) {
            return Err(Error::TokenLines { name });
        }
        let length = secret.expose().chars().count();
        if length < MIN_TOKEN_CHARS {
            return Err(Error::ShortToken { name, length });
        }
        Ok(Self(secret))
    }

    /// The token itself.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// Reads the secret that the variable `name` holds, or the file that `<name>_FILE` names.
///
/// One newline at the end of a file is not part of the value; everything else is.
pub fn read_secret(vars: &Vars, name: &str) -> Result<Secret, Error> {
    let file_name = file_variable(name);
    match (vars.get(name), vars.get(&file_name)) {
        (None, None) => Err(Error::Missing { name: name.to_owned() }),
        (Some(_), Some(_)) => Err(Error::Both { name: name.to_owned() }),
        (Some(value), None) => match value.to_str() {
            None => Err(Error::NotText { name: name.to_owned() }),
            Some("") => Err(Error::Empty { name: name.to_owned() }),
            Some(text) => Ok(Secret::new(text)),
        },
        (None, Some(path)) if path.is_empty() => Err(Error::Empty { name: file_name }),
        (None, Some(path)) => read_file(file_name, Path::new(path)),
    }
}

/// Whether the variable or its `_FILE` twin is set, to whatever.
pub fn is_set(vars: &Vars, name: &str) -> bool {
    vars.get(name).is_some() || vars.get(&file_variable(name)).is_some()
}

/// The variables that no child may inherit: each given one, and its `_FILE` twin.
pub fn withheld<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().flat_map(|name| [name.to_owned(), file_variable(name)]).collect()
}

fn file_variable(name: &str) -> String {
    format!("{name}_FILE")
}

fn read_file(name: String, file: &Path) -> Result<Secret, Error> {
    let file = file.to_owned();
    let mut bytes = Vec::new();
    let read = std::fs::File::open(&file)
        .and_then(|open| open.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if let Err(source) = read {
        return Err(Error::Unreadable { name, file, source });
    }
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(Error::BadFile { name, file, fault: "is over 64 KiB" });
    }
    // Not `map_err`: the error of the conversion holds the bytes.
    let Ok(mut text) = String::from_utf8(bytes) else {
        return Err(Error::BadFile { name, file, fault: "is not UTF-8" });
    };
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() {
        return Err(Error::BadFile { name, file, fault: "is empty" });
    }
    Ok(Secret(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(content: &[u8]) -> (tempfile::TempDir, Vars, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, content).unwrap();
        let vars = Vars::from_iter([("KEY_FILE", file.as_os_str())]);
        (dir, vars, file)
    }

    fn fault(vars: &Vars) -> String {
        read_secret(vars, "KEY").unwrap_err().to_string()
    }

    #[test]
    fn a_secret_is_the_value_of_its_variable() {
        let vars = Vars::from_iter([("KEY", " with spaces \n")]);
        assert_eq!(read_secret(&vars, "KEY").unwrap().expose(), " with spaces \n");
    }

    #[test]
    fn one_newline_at_the_end_of_a_file_is_no_part_of_the_secret() {
        for (content, expected) in [
            ("abc", "abc"),
            ("abc\n", "abc"),
            ("abc\r\n", "abc"),
            ("abc\n\n", "abc\n"),
            (" a ", " a "),
        ] {
            let (_dir, vars, _) = with_file(content.as_bytes());
            assert_eq!(read_secret(&vars, "KEY").unwrap().expose(), expected, "{content:?}");
        }
    }

    #[test]
    fn a_missing_or_double_secret_is_an_error_that_names_the_variables() {
        assert_eq!(
            fault(&Vars::default()),
            "the environment variable KEY is not set; set it, or set KEY_FILE to the path of a file with its value"
        );
        let both = Vars::from_iter([("KEY", "value"), ("KEY_FILE", "file")]);
        assert_eq!(
            fault(&both),
            "the environment variables KEY and KEY_FILE are both set; unset one of them"
        );
        assert_eq!(fault(&Vars::from_iter([("KEY", "")])), "the environment variable KEY is empty");
        assert_eq!(
            fault(&Vars::from_iter([("KEY_FILE", "")])),
            "the environment variable KEY_FILE is empty"
        );
    }

    #[test]
    fn a_file_of_no_use_is_an_error_that_names_variable_and_file() {
        let long = vec![b'a'; 65_537];
        let cases: [(&[u8], &str); 4] = [
            (b"", "is empty"),
            (b"\n", "is empty"),
            (b"\xff\xfe", "is not UTF-8"),
            (&long, "is over 64 KiB"),
        ];
        for (content, expected) in cases {
            let (_dir, vars, file) = with_file(content);
            let name = file.display();
            assert_eq!(
                fault(&vars),
                format!("{name}, which the environment variable KEY_FILE names, {expected}")
            );
        }
    }

    #[test]
    fn an_unreadable_file_is_an_error_that_names_variable_and_file() {
        let dir = tempfile::tempdir().unwrap();
        for file in [dir.path().join("none"), dir.path().to_owned()] {
            let vars = Vars::from_iter([("KEY_FILE", file.as_os_str())]);
            assert_eq!(
                fault(&vars),
                format!(
                    "cannot read {}, which the environment variable KEY_FILE names",
                    file.display()
                )
            );
        }
    }

    #[test]
    fn a_token_has_16_characters_and_one_line() {
        let token = |value: &str| Token::read(&Vars::from_iter([("KEY", value)]), "KEY");
        assert_eq!(token("0123456789abcdef").unwrap().expose(), "0123456789abcdef");
        assert_eq!(token("äöüäöüäöüäöüäöüß").unwrap().expose().chars().count(), 16);
        assert_eq!(
            token("0123456789abcde").unwrap_err().to_string(),
            "the token in the environment variable KEY has 15 characters; it needs at least 16"
        );
        for broken in ["0123456789abcdef\n", "01234567\r89abcdef"] {
            assert_eq!(
                token(broken).unwrap_err().to_string(),
                "the token in the environment variable KEY has a line break; a token is one line"
            );
        }
    }

    #[test]
    fn no_debug_text_shows_a_secret() {
        let token = Token::check(Secret::new("0123456789abcdef"), "KEY").unwrap();
        assert_eq!(format!("{token:?}"), "Token(Secret(..))");
    }

    #[test]
    fn children_get_neither_the_variable_nor_its_file() {
        let names: Vec<_> = withheld(["A", "B"]).into_iter().collect();
        assert_eq!(names, ["A", "A_FILE", "B", "B_FILE"]);
    }
}
