//! Configuration in layers: defaults, files in order, environment variables, flags; the later wins.
//!
//! Objects are merged field by field; everything else (lists too) is replaced. Each layer is first
//! extracted alone into the raw type, so that an error names the file or variable it came from; then
//! the merged whole is. [`Loaded::origin`] tells afterwards who set a field, which is also what
//! relative paths are relative to. Rules about values are the programs' own: see [`Findings`].
//!
//! The raw type has `Option`s only, denies unknown fields, and has no `flatten`, no `untagged` and no
//! enums (figment takes a number for the position of a variant): names are texts and are checked later.

mod environment;
mod fault;
mod file;
mod json;
mod path;

use std::path::{Path, PathBuf};

use figment::Figment;
use figment::error::{Actual, Error as FigmentError, Kind};
use figment::providers::Serialized;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::environment::Environment;
pub use self::fault::{Faults, Findings, Origin, nearest};
pub use self::path::{FieldPath, Step};
use crate::vars::Vars;

/// Collects the layers.
#[derive(Debug)]
pub struct Loader<'a> {
    prefix: &'a str,
    defaults: Map<String, Value>,
    files: Vec<File>,
    vars: Option<&'a Vars>,
    flags: Map<String, Value>,
}

#[derive(Debug)]
enum File {
    Unread(PathBuf),
    Read(PathBuf, Map<String, Value>),
}

/// A configuration and where its fields came from.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The merged whole. Its shape is right; whether its values are is not known yet.
    pub value: T,
    /// Who set which field.
    pub origins: Origins,
}

/// Who set which field of a configuration.
#[derive(Debug)]
pub struct Origins(Vec<Layer>);

#[derive(Debug)]
struct Layer {
    fields: Value,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Fixed(Origin),
    Environment(Environment),
}

/// Reads one file into its fields, as [`Loader::file`] does.
///
/// # Errors
/// One sentence with the file in it.
pub fn read_file(path: &Path) -> Result<Map<String, Value>, String> {
    file::read(path)
}

impl<'a> Loader<'a> {
    /// No layers yet; `prefix` is that of the environment variables, without its underscores.
    pub fn new(prefix: &'a str) -> Self {
        Self { prefix, defaults: Map::new(), files: Vec::new(), vars: None, flags: Map::new() }
    }

    /// The lowest layer. Fields that are null or absent are not set.
    #[must_use]
    pub fn defaults(mut self, defaults: &impl Serialize) -> Self {
        self.defaults = fields_of(defaults);
        self
    }

    /// A file over the layers before it; the end of its name says which format it has.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(File::Unread(path.into()));
        self
    }

    /// Fields of a file that the caller has read (see [`read_file`]) and thinned out.
    #[must_use]
    pub fn file_fields(mut self, path: impl Into<PathBuf>, fields: Map<String, Value>) -> Self {
        self.files.push(File::Read(path.into(), fields));
        self
    }

    /// The environment variables with the prefix, over all files.
    #[must_use]
    pub fn environment(mut self, vars: &'a Vars) -> Self {
        self.vars = Some(vars);
        self
    }

    /// The uppermost layer. Fields that are null or absent are not set.
    #[must_use]
    pub fn flags(mut self, flags: &impl Serialize) -> Self {
        self.flags = fields_of(flags);
        self
    }

    /// Reads and merges the layers.
    ///
    /// # Errors
    /// Of each layer, why it cannot be read, or all that does not fit.
    pub fn load<T: DeserializeOwned>(self) -> Result<Loaded<T>, Faults> {
        let mut findings = Findings::new();
        let mut layers = Vec::new();
        layers.push(Layer::fixed(Origin::Defaults, self.defaults));
        for file in self.files {
            let (path, fields) = match file {
                File::Read(path, fields) => (path, Ok(fields)),
                File::Unread(path) => {
                    let fields = file::read(&path);
                    (path, fields)
                }
            };
            if let Some(fields) = findings.take(fields) {
                layers.push(Layer::fixed(Origin::File(path), fields));
            }
        }
        if let Some(vars) = self.vars {
            let (environment, faults) = Environment::read(self.prefix, vars);
            for fault in faults {
                findings.add(fault);
            }
            layers.push(Layer::environment(environment));
        }
        layers.push(Layer::fixed(Origin::Flags, self.flags));

        for layer in &mut layers {
            for fault in layer.check::<T>() {
                findings.add(fault);
            }
        }
        if !findings.is_empty() {
            return Err(findings.into());
        }
        let merged = layers.iter().fold(Figment::new(), |merged, layer| {
            merged.merge(Serialized::defaults(&layer.fields))
        });
        // Each layer fits, so this is about their combination only.
        let value = merged
            .extract()
            .map_err(|error| Faults::from(format!("the configuration: {error}")))?;
        Ok(Loaded { value, origins: Origins(layers) })
    }
}

impl<T> Loaded<T> {
    /// Who set a field: [`Origins::origin`].
    pub fn origin(&self, path: &FieldPath) -> Origin {
        self.origins.origin(path)
    }

    /// What a relative path is relative to: [`Origins::base`].
    pub fn base(&self, path: &FieldPath) -> PathBuf {
        self.origins.base(path)
    }

    /// A sentence on a field that is not right: [`Origins::fault`].
    pub fn fault(&self, path: &FieldPath, fault: impl std::fmt::Display) -> String {
        self.origins.fault(path, fault)
    }
}

impl Origins {
    /// Who set a field; the defaults if nobody did.
    pub fn origin(&self, path: &FieldPath) -> Origin {
        let setter = self.0.iter().rev().find(|layer| decides(&layer.fields, path));
        setter.map_or(Origin::Defaults, |layer| layer.origin(path))
    }

    /// What a relative path in a field is relative to: the folder of the file that sets it, else the
    /// working directory (the empty path).
    pub fn base(&self, path: &FieldPath) -> PathBuf {
        let origin = self.origin(path);
        origin.file().and_then(Path::parent).map(Path::to_owned).unwrap_or_default()
    }

    /// A sentence on a field that is not right: `` `PATH` in ORIGIN FAULT ``, with `fault` like
    /// "must be 1 to 9, but is 12".
    pub fn fault(&self, path: &FieldPath, fault: impl std::fmt::Display) -> String {
        format!("`{path}` in {} {fault}", self.origin(path))
    }
}

impl Layer {
    fn fixed(origin: Origin, fields: Map<String, Value>) -> Self {
        Self { fields: Value::Object(fields), source: Source::Fixed(origin) }
    }

    fn environment(environment: Environment) -> Self {
        let fields = Value::Object(environment.fields().clone());
        Self { fields, source: Source::Environment(environment) }
    }

    fn origin(&self, path: &FieldPath) -> Origin {
        match &self.source {
            Source::Fixed(origin) => origin.clone(),
            Source::Environment(environment) => environment.origin(path),
        }
    }

    /// Extracts the layer alone; the faults are sentences.
    ///
    /// Extraction stops at its first fault. A field that does not fit is noted and taken out, and the
    /// rest is tried again, so that a person sees all of them. A variable whose text looks like a
    /// number is one only where a number is wanted, and which fields are texts is known only to `T`:
    /// so such a refusal is mended instead.
    fn check<T: DeserializeOwned>(&mut self) -> Vec<String> {
        let mut rest = self.fields.clone();
        let mut faults = Vec::new();
        loop {
            let figment = Figment::from(Serialized::defaults(&rest));
            let Err(error) = figment.extract::<T>() else { return faults };
            let path = FieldPath::in_value(&rest, &error.path);
            if let Some(text) = self.mend(&error, &path) {
                // Both are the same but for what was taken out.
                set(&mut rest, &path, text);
                continue;
            }
            faults.push(fault::explain(&error, &rest, |path| self.origin(path)));
            if !remove(&mut rest, &path) {
                return faults;
            }
        }
    }

    /// The text of a variable that was read as a number and is wanted as text.
    fn mend(&mut self, error: &FigmentError, path: &FieldPath) -> Option<Value> {
        let Source::Environment(environment) = &mut self.source else { return None };
        let Kind::InvalidType(found, wanted) = &error.kind else { return None };
        let scalar = matches!(
            found,
            Actual::Bool(_) | Actual::Unsigned(_) | Actual::Signed(_) | Actual::Float(_)
        );
        if !scalar || wanted != "a string" {
            return None;
        }
        let text = Value::from(environment.take_as_text(path)?);
        self.fields = Value::Object(environment.fields().clone());
        Some(text)
    }
}

/// The value at a path, if each step of it is there.
fn at<'v>(value: &'v mut Value, steps: &[Step]) -> Option<&'v mut Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(name) => value.get_mut(name),
        Step::Index(index) => value.get_mut(index),
    })
}

fn set(value: &mut Value, path: &FieldPath, to: Value) {
    if let Some(place) = at(value, path.steps()) {
        *place = to;
    }
}

/// Takes a field out of its object; false when it is none. Elements of lists stay: the places of those
/// behind them would be told wrong.
fn remove(value: &mut Value, path: &FieldPath) -> bool {
    let Some((Step::Key(name), parent)) = path.steps().split_last() else { return false };
    let fields = at(value, parent).and_then(Value::as_object_mut);
    fields.is_some_and(|fields| fields.remove(name).is_some())
}

/// Whether a layer says what is at a path: it sets it, or something on the way there that is no object
/// (a list has all of its elements from one layer).
fn decides(fields: &Value, path: &FieldPath) -> bool {
    let mut at = fields;
    for step in path.steps() {
        let (Value::Object(fields), Step::Key(name)) = (at, step) else { return true };
        match fields.get(name) {
            None => return false,
            Some(below) => at = below,
        }
    }
    true
}

/// The set fields of a serialisable value: nulls are left out at every depth of objects.
fn fields_of(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(mut fields)) => {
            drop_nulls(&mut fields);
            fields
        }
        // Only a type that is no struct of texts, numbers, lists and maps of text gets here.
        Ok(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_),
        )
        | Err(_) => Map::new(),
    }
}

fn drop_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
    for value in fields.values_mut() {
        if let Value::Object(below) = value {
            drop_nulls(below);
        }
    }
    fields.retain(|_, value| value.as_object().is_none_or(|below| !below.is_empty()));
}

#[cfg(test)]
mod tests;
