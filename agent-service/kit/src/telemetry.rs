//! Logs: to stderr, as JSON lines when a program reads them and as text when a person does.
//!
//! [`init`] returns a guard that `main` holds to its end on every path; what is exported in the
//! background is flushed when it is dropped.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::vars::Vars;

/// What is logged when nobody asks for more or less.
const DEFAULT_FILTER: &str = "info";

/// The variable that asks for more or less.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// [`Text`](Self::Text) when stderr is a terminal, else [`Json`](Self::Json).
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// For a person.
    Text,
}

/// What to log, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Directives as `RUST_LOG` has them (`debug`, `info,agent_service=trace`); `None`: the variable,
    /// else `info`.
    pub filter: Option<String>,
    /// How lines look.
    pub format: Format,
}

/// Holds what has to be flushed when the program ends; drop it last.
///
/// Logs are written at once, so today it holds nothing. Exporters of traces and metrics come here.
#[derive(Debug)]
#[must_use = "telemetry ends when the guard is dropped"]
pub struct Guard {
    _private: (),
}

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directives cannot be read.
    #[error(
        "the log filter {filter:?} of {origin} is not understood; try `info` or `warn,NAME=debug`"
    )]
    Filter {
        /// What was given.
        filter: String,
        /// The variable, or the flag.
        origin: &'static str,
        /// Why.
        source: tracing_subscriber::filter::ParseError,
    },
    /// It was called before in this process.
    #[error("logging is set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends the log lines of this process to stderr. Call it once.
pub fn init(settings: &Settings, vars: &Vars) -> Result<Guard, Error> {
    let filter = filter(settings.filter.as_deref(), vars)?;
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match settings.format {
        Format::Auto if std::io::stderr().is_terminal() => text(),
        Format::Text => text(),
        Format::Auto | Format::Json => json(std::io::stderr),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(Error::Twice)?;
    Ok(Guard { _private: () })
}

fn filter(flag: Option<&str>, vars: &Vars) -> Result<EnvFilter, Error> {
    let variable = vars.get(FILTER_VARIABLE).and_then(std::ffi::OsStr::to_str);
    let (given, origin) = match (flag, variable) {
        (Some(given), _) => (given, "the configuration"),
        (None, Some(given)) if !given.is_empty() => (given, FILTER_VARIABLE),
        (None, Some(_) | None) => (DEFAULT_FILTER, "the defaults"),
    };
    EnvFilter::builder().parse(given).map_err(|source| Error::Filter {
        filter: given.to_owned(),
        origin,
        source,
    })
}

fn text() -> Box<dyn Layer<Registry> + Send + Sync> {
    Box::new(tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false))
}

fn json<W>(writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    Box::new(
        tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_writer(writer),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: EnvFilter, log: impl FnOnce()) -> Vec<serde_json::Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = json(move || writer.clone()).with_filter(filter);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        let bytes = lines.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_is_one_json_object_with_its_fields() {
        let logged = logged(filter(None, &Vars::default()).unwrap(), || {
            tracing::info!(task.id = "t1", duration_ms = 5, "task ended");
            tracing::debug!("not asked for");
        });
        assert_eq!(logged.len(), 1);
        assert_eq!(logged[0]["level"], "INFO");
        assert_eq!(logged[0]["message"], "task ended");
        assert_eq!(logged[0]["task.id"], "t1");
        assert_eq!(logged[0]["duration_ms"], 5);
    }

    #[test]
    fn the_flag_goes_before_the_variable_and_the_variable_before_the_default() {
        let set = Vars::from_iter([("RUST_LOG", "warn")]);
        let empty = Vars::from_iter([("RUST_LOG", "")]);
        let cases = [
            (Some("debug"), &set, "debug"),
            (None, &set, "warn"),
            (None, &empty, "info"),
            (None, &Vars::default(), "info"),
        ];
        for (flag, vars, expected) in cases {
            assert_eq!(filter(flag, vars).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn a_filter_that_is_not_understood_says_where_it_came_from() {
        let vars = Vars::from_iter([("RUST_LOG", "a=b=c")]);
        assert_eq!(
            filter(None, &vars).unwrap_err().to_string(),
            "the log filter \"a=b=c\" of RUST_LOG is not understood; try `info` or `warn,NAME=debug`"
        );
    }

    #[test]
    fn logging_is_set_up_once() {
        let _guard = init(&Settings::default(), &Vars::default()).unwrap();
        assert_eq!(
            init(&Settings::default(), &Vars::default()).unwrap_err().to_string(),
            "logging is set up already"
        );
    }
}
