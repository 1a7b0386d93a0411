//! Identifiers and numbers that are checked when they are built.
//!
//! Lengths are bytes of UTF-8, never characters. An error says which value it was, the limit, and what
//! was given, so that it can be shown to the sender as it is.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most bytes that any identifier here may have. Source: CONTRACT, sections 3 and 4.
pub const MAX_ID_BYTES: usize = 256;

/// The deepest delegation that is still served. Source: CONTRACT, section 3.
pub const MAX_DELEGATION_DEPTH: u8 = 4;

/// Why a value was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// An identifier that must not be empty was.
    #[error("{what} must be 1 to {MAX_ID_BYTES} bytes long; it is empty")]
    Empty {
        /// The identifier's name on the wire.
        what: &'static str,
    },
    /// An identifier over [`MAX_ID_BYTES`].
    #[error("{what} must be at most {MAX_ID_BYTES} bytes long; it has {bytes}")]
    TooLong {
        /// The identifier's name on the wire.
        what: &'static str,
        /// How long it was.
        bytes: usize,
    },
    /// An identifier of white space only.
    #[error("{what} must not be blank")]
    Blank {
        /// The identifier's name on the wire.
        what: &'static str,
    },
    /// A confidence outside 0 to 1, or no number at all.
    #[error("confidence must be a number from 0 to 1; it is {given}")]
    Confidence {
        /// What was given.
        given: f64,
    },
    /// A delegation depth outside 0 to 4.
    #[error(
        "wendy.delegation_depth must be an integer from 0 to {MAX_DELEGATION_DEPTH}; it is {given}"
    )]
    DelegationDepth {
        /// What was given.
        given: u64,
    },
}

/// Whether an identifier may be of white space only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blank {
    Allowed,
    Refused,
}

fn check(what: &'static str, text: &str, blank: Blank) -> Result<(), ValueError> {
    if text.is_empty() {
        return Err(ValueError::Empty { what });
    }
    if text.len() > MAX_ID_BYTES {
        return Err(ValueError::TooLong { what, bytes: text.len() });
    }
    if blank == Blank::Refused && text.trim().is_empty() {
        return Err(ValueError::Blank { what });
    }
    Ok(())
}

/// Declares an identifier: a string whose length was checked.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal, $blank:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks a text.
            ///
            /// # Errors
            /// When it is empty, longer than 256 bytes, or blank where that is refused.
            pub fn new(text: impl Into<String>) -> Result<Self, ValueError> {
                let text = text.into();
                check($what, &text, $blank)?;
                Ok(Self(text))
            }

            /// The text as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text, without a copy.
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, ValueError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

identifier!(
    /// An event's `id`: 1 to 256 bytes, unique within its source.
    EventId, "id", Blank::Allowed
);
identifier!(
    /// An event's `type`, such as `person.detected`: 1 to 256 bytes.
    EventType, "type", Blank::Allowed
);
identifier!(
    /// An event's `source`, such as `front-camera`: 1 to 256 bytes.
    SourceName, "source", Blank::Allowed
);
identifier!(
    /// A message's `messageId`: 1 to 256 bytes, not blank.
    MessageId, "messageId", Blank::Refused
);
identifier!(
    /// A `contextId`: 1 to 256 bytes. It groups tasks and does nothing else.
    ContextId, "contextId", Blank::Allowed
);
identifier!(
    /// A task's `id`: 1 to 256 bytes. The service makes them; from a client any text may come.
    TaskId, "task id", Blank::Allowed
);

/// How sure a detector is: a number from 0 to 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
pub struct Confidence(f64);

impl Confidence {
    /// The lowest: surely not.
    pub const ZERO: Self = Self(0.0);

    /// Checks a number. Negative zero becomes zero.
    ///
    /// # Errors
    /// When it is outside 0 to 1 or not a number.
    pub fn new(number: f64) -> Result<Self, ValueError> {
        if (0.0..=1.0).contains(&number) {
            Ok(Self(number.abs()))
        } else {
            Err(ValueError::Confidence { given: number })
        }
    }

    /// The number, 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Confidence {}

#[expect(clippy::derive_ord_xor_partial_ord, reason = "both orders agree: no NaN gets in")]
impl Ord for Confidence {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// How many agents stand between a person and this task: 0 to 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct DelegationDepth(u8);

impl DelegationDepth {
    /// Nobody delegated.
    pub const ZERO: Self = Self(0);

    /// Checks a depth.
    ///
    /// # Errors
    /// When it is over 4.
    pub fn new(depth: u64) -> Result<Self, ValueError> {
        u8::try_from(depth)
            .ok()
            .filter(|depth| *depth <= MAX_DELEGATION_DEPTH)
            .map(Self)
            .ok_or(ValueError::DelegationDepth { given: depth })
    }

    /// The depth, 0 to 4.
    pub fn get(self) -> u8 {
        self.0
    }

    /// The depth that a further delegation carries; `None` at the limit, where none may follow.
    pub fn next(self) -> Option<Self> {
        (self.0 < MAX_DELEGATION_DEPTH).then(|| Self(self.0.saturating_add(1)))
    }
}

impl<'de> Deserialize<'de> for DelegationDepth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A W3C `traceparent` as a caller sent it, kept so that a task can be linked to the call that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceParent(String);

impl TraceParent {
    /// Takes a header value, or nothing: a malformed one is dropped, as the recommendation says, and
    /// never a reason to refuse a call.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let version = fields.next()?;
        let trace = fields.next()?;
        let span = fields.next()?;
        let flags = fields.next()?;
        let hex = |field: &str, length: usize| {
            field.len() == length
                && field.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let zero = |field: &str| field.bytes().all(|b| b == b'0');
        let well_formed = hex(version, 2)
            && version != "ff"
            && hex(trace, 32)
            && !zero(trace)
            && hex(span, 16)
            && !zero(span)
            && hex(flags, 2)
            // Only a later version may add fields.
            && (version != "00" || fields.next().is_none())
            && text.len() <= MAX_ID_BYTES;
        well_formed.then(|| Self(text.to_owned()))
    }

    /// The header value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a traceparent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_has_1_to_256_bytes_of_utf8() {
        let e_acute = "é".repeat(128);
        let cases = [
            ("empty", String::new(), Err(ValueError::Empty { what: "id" })),
            ("one byte", "a".to_owned(), Ok(())),
            ("256 bytes", "a".repeat(256), Ok(())),
            ("257 bytes", "a".repeat(257), Err(ValueError::TooLong { what: "id", bytes: 257 })),
            ("256 bytes in 128 characters", e_acute.clone(), Ok(())),
            (
                "258 bytes in 129 characters",
                e_acute + "é",
                Err(ValueError::TooLong { what: "id", bytes: 258 }),
            ),
            ("blank is an event's own business", " ".to_owned(), Ok(())),
        ];
        for (name, text, expected) in cases {
            assert_eq!(EventId::new(text).map(|_| ()), expected, "{name}");
        }
    }

    #[test]
    fn a_message_id_is_not_blank() {
        for blank in [" ", "\t\n", "\u{2003}"] {
            let refused = MessageId::new(blank);
            assert_eq!(refused, Err(ValueError::Blank { what: "messageId" }), "{blank:?}");
        }
        assert!(MessageId::new(" a ").is_ok());
    }

    #[test]
    fn a_confidence_is_a_number_from_0_to_1() {
        for good in [0.0, 0.5, 1.0, f64::MIN_POSITIVE] {
            assert_eq!(Confidence::new(good).map(Confidence::get), Ok(good));
        }
        assert_eq!(Confidence::new(-0.0).map(|c| c.get().is_sign_positive()), Ok(true));
        for bad in [-0.000_001, 1.000_001, f64::NAN, f64::INFINITY] {
            let message = Confidence::new(bad).unwrap_err().to_string();
            assert!(message.starts_with("confidence must be a number from 0 to 1"), "{message}");
        }
    }

    #[test]
    fn a_delegation_goes_at_most_four_deep() {
        let depths: Vec<_> =
            std::iter::successors(Some(DelegationDepth::ZERO), |d| d.next()).collect();
        assert_eq!(depths.iter().map(|d| d.get()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(DelegationDepth::new(5), Err(ValueError::DelegationDepth { given: 5 }));
        assert!(DelegationDepth::new(u64::MAX).is_err());
    }

    #[test]
    fn a_malformed_traceparent_is_dropped() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(TraceParent::parse(good).as_ref().map(TraceParent::as_str), Some(good));
        assert!(TraceParent::parse(&format!("01{}-more", good.trim_start_matches("00"))).is_some());
        let bad = [
            "",
            "00",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ];
        for text in bad {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}
