//! Why a message, or a detection in it, was not used: a closed list.
//!
//! The [`Reason`] is what is counted and shown; its names are stable, since
//! operators alert on them. The [`Refusal`] is the sentence for the log. It
//! never holds a value of the payload beyond times, scores and labels.

use super::{confidence::ConfidenceFault, time::TimeFault};

/// A refusal, with what an operator needs to mend the cause.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The transport skipped it without keeping it.
    #[error("the message is over {limit} bytes (max_message_bytes) and was skipped")]
    Oversized {
        /// The limit that it was over.
        limit: usize,
    },
    /// Bytes that are no text.
    #[error("the message is not UTF-8")]
    InvalidUtf8,
    /// Text that is no JSON.
    #[error("the message is not JSON (line {line}, column {column} of it)")]
    InvalidJson {
        /// Where the parser stopped.
        line: usize,
        /// Where in that line.
        column: usize,
    },
    /// JSON of another shape than the preset's.
    #[error("{field} must be {expected}")]
    Shape {
        /// Which field.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A retained message: old news, whatever it says.
    #[error("the message was retained by the broker, so it is old news")]
    Retained,
    /// A topic on which the preset expects no events.
    #[error("the topic carries no object events; subscribe only to what the preset reads")]
    OtherTopic,
    /// The worker itself takes it for a mistake.
    #[error("the worker says that the object is a false positive")]
    FalsePositive,
    /// The time cannot be used.
    #[error(transparent)]
    Time(#[from] TimeFault),
    /// The score cannot be used.
    #[error(transparent)]
    Confidence(#[from] ConfidenceFault),
}

/// What is counted: the refusal without its particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Over `max_message_bytes`.
    Oversized,
    /// Not UTF-8.
    InvalidUtf8,
    /// Not JSON.
    InvalidJson,
    /// JSON of another shape.
    Shape,
    /// Retained by a broker.
    Retained,
    /// On a topic that carries no events.
    OtherTopic,
    /// A false positive by the worker's own judgement.
    FalsePositive,
    /// No time.
    NoTime,
    /// A time of another form than the preset's.
    InvalidTime,
    /// A time before 2001.
    OldTime,
    /// A time more than 5 s ahead.
    FutureTime,
    /// No score.
    NoConfidence,
    /// A score that is no number or outside of its scale.
    InvalidConfidence,
}

impl Reason {
    /// All reasons, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Oversized,
        Self::InvalidUtf8,
        Self::InvalidJson,
        Self::Shape,
        Self::Retained,
        Self::OtherTopic,
        Self::FalsePositive,
        Self::NoTime,
        Self::InvalidTime,
        Self::OldTime,
        Self::FutureTime,
        Self::NoConfidence,
        Self::InvalidConfidence,
    ];

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oversized => "oversized",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::InvalidJson => "invalid_json",
            Self::Shape => "unexpected_shape",
            Self::Retained => "retained",
            Self::OtherTopic => "other_topic",
            Self::FalsePositive => "false_positive",
            Self::NoTime => "no_time",
            Self::InvalidTime => "invalid_time",
            Self::OldTime => "time_before_2001",
            Self::FutureTime => "time_in_future",
            Self::NoConfidence => "no_confidence",
            Self::InvalidConfidence => "invalid_confidence",
        }
    }
}

impl Refusal {
    /// What this refusal is counted as.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Oversized { .. } => Reason::Oversized,
            Self::InvalidUtf8 => Reason::InvalidUtf8,
            Self::InvalidJson { .. } => Reason::InvalidJson,
            Self::Shape { .. } => Reason::Shape,
            Self::Retained => Reason::Retained,
            Self::OtherTopic => Reason::OtherTopic,
            Self::FalsePositive => Reason::FalsePositive,
            Self::Time(TimeFault::Missing { .. }) => Reason::NoTime,
            Self::Time(TimeFault::Malformed { .. } | TimeFault::NotFinite) => Reason::InvalidTime,
            Self::Time(TimeFault::TooOld { .. }) => Reason::OldTime,
            Self::Time(TimeFault::TooNew { .. }) => Reason::FutureTime,
            Self::Confidence(ConfidenceFault::Missing { .. }) => Reason::NoConfidence,
            Self::Confidence(
                ConfidenceFault::NotANumber { .. } | ConfidenceFault::OutOfRange { .. },
            ) => Reason::InvalidConfidence,
        }
    }
}
