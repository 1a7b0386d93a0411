//! The environment variables of the process as a value.
//!
//! Programs take a snapshot at start and pass it down, so that what reads variables can be tested
//! without changing those of the test process (which would race with other threads).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// A snapshot of environment variables. `Debug` shows the names only: values may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Vars(BTreeMap<OsString, OsString>);

impl Vars {
    /// The variables that this process has now.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of a variable, if it is set (an empty value is set).
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// All variables, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Vars {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl std::fmt::Debug for Vars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_names_and_no_values() {
        let vars = Vars::from_iter([("TOKEN", "very-secret")]);
        assert_eq!(format!("{vars:?}"), r#"{"TOKEN"}"#);
        assert_eq!(vars.get("TOKEN"), Some(OsStr::new("very-secret")));
    }
}
