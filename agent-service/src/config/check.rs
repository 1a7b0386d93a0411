//! What all checks share: where a field was set, and the sentences on what is wrong with it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use service_kit::config::{Faults, FieldPath, Findings, Origin, Origins, nearest};

/// Checks the fields of one configuration and collects all faults.
pub(super) struct Checker<'a> {
    /// Where fields were set.
    origins: &'a Origins,
    /// The working directory, absolute: what flags and variables are relative to.
    pub(super) current: &'a Path,
    pub(super) findings: Findings,
    pub(super) warnings: Vec<String>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(origins: &'a Origins, current: &'a Path) -> Self {
        Self { origins, current, findings: Findings::new(), warnings: Vec::new() }
    }

    /// Takes over the faults of another check.
    pub(super) fn absorb(&mut self, findings: Findings) {
        if !findings.is_empty() {
            self.findings.add(Faults::from(findings));
        }
    }

    /// Notes that a field is not right; `fault` is like "must be 1 to 9, but is 12".
    pub(super) fn fault(&mut self, path: &FieldPath, fault: impl Display) {
        self.findings.add(self.origins.fault(path, fault));
    }

    /// Whether any layer says what a field is.
    pub(super) fn is_set(&self, path: &FieldPath) -> bool {
        self.origins.origin(path) != Origin::Defaults
    }

    /// A field that has to be there.
    pub(super) fn required<T>(&mut self, path: &FieldPath, value: Option<T>) -> Option<T> {
        if value.is_none() {
            match path.parent() {
                parent if parent.is_root() => {
                    self.findings.add(format_args!("`{path}` is required and is set nowhere"));
                }
                parent => {
                    let origin = self.origins.origin(&parent);
                    self.findings.add(format_args!("`{path}` is required and {origin} has none"));
                }
            }
        }
        value
    }

    /// A whole number within a range, or its default.
    pub(super) fn whole(
        &mut self,
        path: &FieldPath,
        value: Option<u64>,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> u32 {
        let Some(given) = value else { return default };
        match u32::try_from(given) {
            Ok(number) if range.contains(&number) => number,
            Ok(_) | Err(_) => {
                let (least, most) = range.into_inner();
                self.fault(path, format_args!("must be {least} to {most}, but is {given}"));
                default
            }
        }
    }

    /// Text of 1 to `most` bytes that is not only white space.
    pub(super) fn text(&mut self, path: &FieldPath, value: String, most: usize) -> Option<String> {
        if value.trim().is_empty() {
            self.fault(path, "must not be blank");
        } else if value.len() > most {
            let length = value.len();
            self.fault(path, format_args!("must have at most {most} bytes, but has {length}"));
        } else {
            return Some(value);
        }
        None
    }

    /// One of a list of names.
    pub(super) fn one_of<T: Copy>(
        &mut self,
        path: &FieldPath,
        value: &str,
        known: &[(&'static str, T)],
    ) -> Option<T> {
        let found = known.iter().find(|(name, _)| *name == value);
        if found.is_none() {
            let names = known.iter().map(|(name, _)| *name);
            if let Some(near) = nearest(value, names.clone()) {
                self.fault(path, format_args!("is {value:?}: did you mean `{near}`?"));
            } else {
                let names = names.collect::<Vec<_>>().join("`, `");
                self.fault(path, format_args!("must be one of `{names}`, but is {value:?}"));
            }
        }
        found.map(|(_, value)| *value)
    }

    /// The name of an environment variable.
    pub(super) fn variable(&mut self, path: &FieldPath, value: String) -> Option<String> {
        let mut chars = value.chars();
        let right = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if right {
            return Some(value);
        }
        // The value is not shown: who writes the secret itself here must not find it in a log.
        self.fault(
            path,
            "must be the name of an environment variable: letters, digits and `_`, no digit first",
        );
        None
    }

    /// A path, absolute: relative to the file that sets the field, else to the working directory.
    pub(super) fn absolute(&self, field: &FieldPath, path: &Path) -> PathBuf {
        normal(&self.base(field).join(path))
    }

    /// What a relative path in a field is relative to, absolute.
    pub(super) fn base(&self, field: &FieldPath) -> PathBuf {
        normal(&self.current.join(self.origins.base(field)))
    }

    /// A folder that exists, absolute.
    pub(super) fn folder(&mut self, field: &FieldPath, path: &Path) -> PathBuf {
        let folder = self.absolute(field, path);
        if !folder.is_dir() {
            let shown = folder.display();
            self.fault(field, format_args!("must be an existing directory, but {shown} is none"));
        }
        folder
    }
}

/// Without `.` and, where that is safe to say without the disk, without doubled separators.
///
/// `..` stays: behind a symbolic link it means something else than the text says.
fn normal(path: &Path) -> PathBuf {
    path.components().collect()
}
