//! Logs: what is logged and how. Traces and metrics have their place here later.

use service_kit::config::FieldPath;
use service_kit::telemetry::{Format, Settings};

use super::check::Checker;
use super::raw::RawTelemetry;

const FORMATS: [(&str, Format); 3] =
    [("auto", Format::Auto), ("json", Format::Json), ("text", Format::Text)];

/// Checks `telemetry`.
pub(super) fn check(checker: &mut Checker<'_>, raw: RawTelemetry) -> Settings {
    let path = FieldPath::from("telemetry").key("log_format");
    let format = raw.log_format.and_then(|name| checker.one_of(&path, &name, &FORMATS));
    Settings { filter: raw.log, format: format.unwrap_or_default() }
}
