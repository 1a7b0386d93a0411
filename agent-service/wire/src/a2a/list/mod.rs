//! The query of `GET /tasks` and its page token.
//!
//! Empty values are unset and unknown parameters are ignored; a parameter that is known and stands
//! twice is an error. A token is opaque to clients: it holds a version, where the page before ended,
//! and a mark of the filters, so that it cannot go on with other ones.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use super::error::ApiError;
use super::task::TaskState;
use crate::canonical::{Digest, hex_decode, hex_encode};
use crate::time;

/// The page size when none is asked for. Source: CONTRACT, section 3.
pub const DEFAULT_PAGE_SIZE: u32 = 50;

/// The largest page size. Source: CONTRACT, section 3.
pub const MAX_PAGE_SIZE: u32 = 100;

/// The first byte of a token. A service that reads another one refuses the token.
const TOKEN_VERSION: u8 = 1;

/// What `GET /tasks` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTasks {
    /// Tasks of this context only.
    pub context_id: Option<String>,
    /// Tasks in this state only.
    pub status: Option<TaskState>,
    /// Tasks whose status is of this time or later.
    pub status_after: Option<Timestamp>,
    /// 1 to 100.
    pub page_size: u32,
    /// Where the page before ended; none for the first page.
    pub after: Option<Cursor>,
    /// How many messages of each history; none is all.
    pub history_length: Option<u32>,
    /// Whether the tasks come with their artifacts.
    pub include_artifacts: bool,
}

impl Default for ListTasks {
    fn default() -> Self {
        Self {
            context_id: None,
            status: None,
            status_after: None,
            page_size: DEFAULT_PAGE_SIZE,
            after: None,
            history_length: None,
            include_artifacts: false,
        }
    }
}

/// The place of a task in the order of a listing: newest status first. A page goes on strictly after it.
///
/// It is no time: a task whose status changes while the clock is set back would come a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The place of the task's status among all changes of status, from 1; the newest has the largest.
    pub change: i64,
}

/// What a client sends back to get the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(String);

impl PageToken {
    /// The text for `nextPageToken`: hex digits, so that it needs no encoding in a query.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, without a copy.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl ListTasks {
    /// Reads a query string (what stands after `?`, still encoded).
    ///
    /// # Errors
    /// `INVALID_PARAMS` that names the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let mut values = Parameters::parse(query)?;
        let mut list = Self {
            context_id: values.take("contextId"),
            status: values.take("status").map(|text| status(&text)).transpose()?.flatten(),
            page_size: values.number("pageSize")?.unwrap_or(DEFAULT_PAGE_SIZE),
            history_length: values.number("historyLength")?,
            include_artifacts: values.boolean("includeArtifacts")?.unwrap_or(false),
            status_after: values
                .take("statusTimestampAfter")
                .map(|text| time::parse(&text))
                .transpose()
                .map_err(|error| ApiError::invalid("statusTimestampAfter", error.to_string()))?,
            after: None,
        };
        if !(1..=MAX_PAGE_SIZE).contains(&list.page_size) {
            return Err(ApiError::invalid(
                "pageSize",
                format!("must be from 1 to {MAX_PAGE_SIZE}"),
            ));
        }
        if let Some(token) = values.take("pageToken") {
            list.after = Some(list.read_token(&token)?);
        }
        Ok(list)
    }

    /// Makes the token with which this listing, with these filters, goes on after a task.
    pub fn token_after(&self, cursor: Cursor) -> PageToken {
        let mut bytes = vec![TOKEN_VERSION];
        bytes.extend(cursor.change.to_be_bytes());
        bytes.extend(self.filter_mark());
        PageToken(hex_encode(&bytes))
    }

    /// The least status timestamp, in milliseconds since 1970, that `statusTimestampAfter` lets in.
    pub fn status_after_millis(&self) -> Option<i64> {
        let nanos = self.status_after?.as_nanosecond();
        // Round up: a task of this millisecond was before the asked nanosecond.
        let floor = nanos.div_euclid(1_000_000);
        let ceil = if nanos.rem_euclid(1_000_000) == 0 { floor } else { floor.saturating_add(1) };
        i64::try_from(ceil).ok()
    }

    fn read_token(&self, token: &str) -> Result<Cursor, ApiError> {
        let malformed = || {
            ApiError::invalid(
                "pageToken",
                "must be the nextPageToken of an answer to the same filters",
            )
        };
        let bytes = hex_decode(token).ok_or_else(malformed)?;
        let rest = bytes.strip_prefix(&[TOKEN_VERSION]).ok_or_else(malformed)?;
        let (change, mark) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
        if mark != self.filter_mark() {
            return Err(malformed());
        }
        Ok(Cursor { change: i64::from_be_bytes(*change) })
    }

    fn filter_mark(&self) -> [u8; 8] {
        let filters = json!([
            self.context_id,
            self.status.map(TaskState::as_str),
            self.status_after.map(|at| at.to_string()),
        ]);
        let digest = Digest::of(&filters);
        let mut mark = [0; 8];
        for (to, from) in mark.iter_mut().zip(digest.as_bytes()) {
            *to = *from;
        }
        mark
    }
}

/// Reads `historyLength` alone, as `GET /tasks/{id}` takes it.
///
/// # Errors
/// `INVALID_PARAMS` when it is no number of 0 or more.
pub fn history_length(query: &str) -> Result<Option<u32>, ApiError> {
    Parameters::parse(query)?.number("historyLength")
}

/// The first value of a parameter of any name, decoded; for parameters that stand for a header.
pub fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key)? == name).then(|| decode(value)).flatten()
    })
}

const NAMES: [&str; 7] = [
    "contextId",
    "status",
    "pageSize",
    "pageToken",
    "historyLength",
    "includeArtifacts",
    "statusTimestampAfter",
];

/// The known parameters with a value that is not empty.
struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    fn parse(query: &str) -> Result<Self, ApiError> {
        let mut values = BTreeMap::new();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(key) = decode(key) else { continue };
            let Some(name) = NAMES.into_iter().find(|name| same_name(name, &key)) else { continue };
            let value = decode(value)
                .ok_or_else(|| ApiError::invalid(name, "must be percent-encoded UTF-8"))?;
            if !value.is_empty() && values.insert(name, value).is_some() {
                return Err(ApiError::invalid(name, "must be given once"));
            }
        }
        Ok(Self(values))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn number(&mut self, name: &'static str) -> Result<Option<u32>, ApiError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        // Digits only: `parse` would take a plus sign. The bound is that of the proto's int32.
        let number = text
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse::<i32>().ok())
            .flatten()
            .and_then(|number| u32::try_from(number).ok());
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::invalid(name, "must be a whole number of 0 or more")),
        }
    }

    fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        match self.take(name).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(ApiError::invalid(name, "must be true or false")),
        }
    }
}

/// The proto's zero means no filter, as an unset field does.
fn status(text: &str) -> Result<Option<TaskState>, ApiError> {
    match TaskState::from_wire(text) {
        Some(TaskState::Unspecified) => Ok(None),
        Some(state) => Ok(Some(state)),
        None => {
            let names: Vec<_> = TaskState::ALL.iter().skip(1).map(|s| s.as_str()).collect();
            Err(ApiError::invalid("status", format!("must be one of {}", names.join(", "))))
        }
    }
}

/// `pageSize` and `page_size` are one name.
fn same_name(name: &str, given: &str) -> bool {
    name == given
        || (given.contains('_') && {
            let mut camel = String::with_capacity(given.len());
            let mut upper = false;
            for c in given.chars() {
                if c == '_' {
                    upper = true;
                } else if std::mem::take(&mut upper) {
                    camel.push(c.to_ascii_uppercase());
                } else {
                    camel.push(c);
                }
            }
            camel == name
        })
}

/// Decodes `application/x-www-form-urlencoded`: a plus is a space. None when it is no UTF-8 then.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
                let high = digit(rest.next()?)?;
                bytes.push((high << 4) | digit(rest.next()?)?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
