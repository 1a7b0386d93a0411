//! Why a client command failed, in the words of the service where it has some.

use service_kit::client::BodyError;

/// Why a client command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command cannot work as it was given: exit 2.
    #[error("{0}")]
    Usage(String),
    /// The service answered with an error.
    #[error("{}", said(*status, message, reason.as_deref(), violations))]
    Service {
        /// The status.
        status: u16,
        /// What the service says.
        message: String,
        /// Its reason, such as `TASK_NOT_FOUND`.
        reason: Option<String>,
        /// The fields that it finds fault with.
        violations: Vec<String>,
    },
    /// There was no answer.
    #[error("no answer from {url}")]
    NoAnswer {
        /// The service.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The answer could not be read.
    #[error("cannot read the answer")]
    Body(#[from] BodyError),
    /// The answer is not one of an agent service.
    #[error("the answer is not one of an agent service ({0}); check the URL")]
    Strange(&'static str),
    /// The program could not set itself up.
    #[error("cannot start")]
    Start(#[source] std::io::Error),
    /// A file, or stdin, could not be read: exit 2.
    #[error("cannot read {name}")]
    Input {
        /// The file, or "stdin".
        name: String,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the command cannot work as it was given, whatever the service says.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Usage(_) | Self::Input { .. } => true,
            Self::Service { .. }
            | Self::NoAnswer { .. }
            | Self::Body(_)
            | Self::Strange(_)
            | Self::Start(_) => false,
        }
    }

    /// Whether the same request may succeed later: the service is away for a moment, or stops.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Service { status, .. } => matches!(status, 429 | 500..=599),
            Self::NoAnswer { .. } | Self::Body(BodyError::Broken(_)) => true,
            Self::Usage(_)
            | Self::Body(BodyError::TooLong { .. })
            | Self::Strange(_)
            | Self::Start(_)
            | Self::Input { .. } => false,
        }
    }
}

/// `MESSAGE (REASON, HTTP STATUS)`, and the fields below it.
fn said(status: u16, message: &str, reason: Option<&str>, violations: &[String]) -> String {
    let mut text = match reason {
        Some(reason) => format!("{message} ({reason}, HTTP {status})"),
        None => format!("{message} (HTTP {status})"),
    };
    for violation in violations {
        text.push_str("\n  ");
        text.push_str(violation);
    }
    text
}
