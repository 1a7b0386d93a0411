//! The configuration: read in layers, checked once, trusted from then on.
//!
//! Checking collects all faults; each names the field, the file or variable
//! that set it, and what would be right. What may come later is a warning,
//! not a fault: a file that is not there yet, a worker that is not up.
//! Secrets are never in it; it names variables.

mod agent;
mod raw;
mod route;
mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use service_kit::{
    Vars,
    client::Origin,
    config::{Faults, FieldPath, Findings, Loaded, Loader},
};

use self::raw::Raw;
pub use self::source::{SourceConfig, TlsFiles, Transport};
use crate::{
    decode::Rules,
    pipeline::{
        route::{Route, Routes},
        schedule::bucket::Budget,
    },
};

/// The prefix of the variables that set fields: `SENSOR_BRIDGE__SERVICE__URL`.
pub const PREFIX: &str = "SENSOR_BRIDGE";

/// Where the service is by default, and the variable with its token (CONTRACT.md section 5).
const SERVICE_URL: &str = "http://127.0.0.1:8787";
const SERVICE_TOKEN: &str = "WENDY_AGENT_TOKEN";

/// Where the status page will be by default (BRIDGE.md section 5).
const STATUS_LISTEN: &str = "127.0.0.1:8788";

/// A message of more bytes is skipped (BRIDGE.md section 2).
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// Milliseconds after which a frame in parts is closed (BRIDGE.md section 2).
const FRAME_CLOSE_MS: u64 = 50;

/// The checked configuration.
#[derive(Debug)]
pub struct Config {
    /// Where observations go.
    pub service: ServiceConfig,
    /// The sources, ordered by name.
    pub sources: Vec<SourceConfig>,
    /// The routes, in their order.
    pub routes: Routes,
    /// Where the status page will listen.
    pub status_listen: SocketAddr,
    /// A message of more bytes is skipped, 1 KiB to 16 MiB.
    pub max_message_bytes: usize,
    /// How long a frame in parts waits for its next part.
    pub frame_close: Duration,
    /// What all routes may send together.
    pub budget: Budget,
    /// What an operator should know and may want.
    pub warnings: Vec<String>,
}

/// Where observations go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Its origin: https, or http on loopback.
    pub url: Origin,
    /// The variable with the bearer token.
    pub token_env: String,
    /// A certificate authority to trust beside the system's.
    pub ca_cert: Option<PathBuf>,
}

/// Reads the layers, the later over the earlier: files in their order, then variables.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(files: &[PathBuf], vars: &Vars) -> Result<Config, Faults> {
    let loader = files.iter().fold(Loader::new(PREFIX), Loader::file);
    check(&loader.environment(vars).load()?)
}

fn check(loaded: &Loaded<Raw>) -> Result<Config, Faults> {
    let mut checker = Checker { loaded, findings: Findings::new(), warnings: Vec::new() };
    let raw = &loaded.value;
    let service = checker.service();
    let status_listen = checker.status_listen();
    let max_message_bytes = checker.max_message_bytes();
    let frame_close = checker.frame_close();
    let budget = checker.budget();
    let sources: Vec<SourceConfig> =
        raw.sources.iter().filter_map(|(name, source)| checker.source(name, source)).collect();
    checker.shared_addresses(&sources);
    if raw.sources.is_empty() {
        checker
            .findings
            .add("`sources` is empty; name at least one, with a transport and a preset");
    }
    if raw.routes.is_empty() {
        checker.findings.add("`routes` is empty; name at least one, with from, label and type");
    }
    let routes: Vec<Option<Route>> =
        raw.routes.iter().enumerate().map(|(index, route)| checker.route(index, route)).collect();
    let whole = routes.iter().all(Option::is_some);
    let routes: Vec<Route> = routes.into_iter().flatten().collect();
    checker.constants(&routes);
    checker.idle_sources(&routes);
    let Checker { mut findings, warnings, .. } = checker;
    // Faults that name routes by number would be off while some are left out.
    let routes = if whole { findings.take(Routes::new(routes)) } else { None };
    match (service, status_listen, max_message_bytes, frame_close, budget, routes) {
        (
            Some(service),
            Some(status_listen),
            Some(max_message_bytes),
            Some(frame_close),
            Some(budget),
            Some(routes),
        ) if findings.is_empty() => Ok(Config {
            service,
            sources,
            routes,
            status_listen,
            max_message_bytes,
            frame_close,
            budget,
            warnings,
        }),
        _ => Err(findings.into()),
    }
}

/// The configuration while its faults are collected.
struct Checker<'a> {
    loaded: &'a Loaded<Raw>,
    findings: Findings,
    warnings: Vec<String>,
}

impl Checker<'_> {
    /// Notes a fault of a field; the sentence goes on after the field and who set it.
    fn fault(&mut self, path: &FieldPath, fault: impl std::fmt::Display) {
        self.findings.add(self.loaded.fault(path, fault));
    }

    fn warn(&mut self, path: &FieldPath, warning: impl std::fmt::Display) {
        self.warnings.push(self.loaded.fault(path, warning));
    }

    /// A path as the field means it: relative to the file that sets it.
    fn resolve(&self, field: &FieldPath, path: &Path) -> PathBuf {
        self.loaded.base(field).join(path)
    }

    fn service(&mut self) -> Option<ServiceConfig> {
        let raw = &self.loaded.value.service;
        let at = FieldPath::from("service");
        let url = match Origin::parse(raw.url.as_deref().unwrap_or(SERVICE_URL)) {
            Ok(url) => Some(url),
            Err(fault) => {
                self.fault(&at.key("url"), fault);
                None
            }
        };
        let token_env = raw.token_env.clone().unwrap_or_else(|| SERVICE_TOKEN.to_owned());
        self.variable_name(&at.key("token_env"), &token_env)?;
        let ca_cert = raw.ca_cert.as_deref().map(|path| self.resolve(&at.key("ca_cert"), path));
        Some(ServiceConfig { url: url?, token_env, ca_cert })
    }

    fn status_listen(&mut self) -> Option<SocketAddr> {
        let listen = self.loaded.value.status.listen.as_deref().unwrap_or(STATUS_LISTEN);
        self.address(&FieldPath::from("status").key("listen"), listen)
    }

    fn max_message_bytes(&mut self) -> Option<usize> {
        let given = self.loaded.value.max_message_bytes;
        let bytes = given.map_or(Some(MAX_MESSAGE_BYTES), |bytes| usize::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| (1024..=16 * MAX_MESSAGE_BYTES).contains(bytes));
        if bytes.is_none() {
            let at = FieldPath::from("max_message_bytes");
            self.fault(&at, "must be 1,024 to 16,777,216 bytes");
        }
        bytes
    }

    fn frame_close(&mut self) -> Option<Duration> {
        let given = self.loaded.value.frame_close_ms.unwrap_or(FRAME_CLOSE_MS);
        if !(1..=5_000).contains(&given) {
            self.fault(&FieldPath::from("frame_close_ms"), "must be 1 to 5000 milliseconds");
            return None;
        }
        Some(Duration::from_millis(given))
    }

    fn budget(&mut self) -> Option<Budget> {
        let raw = &self.loaded.value.budget;
        let at = FieldPath::from("budget");
        let default = Budget::default();
        let per_second = raw.per_second.unwrap_or(default.per_second);
        let burst = raw.burst.unwrap_or(default.burst);
        let mut right = true;
        if !(0.5..=1000.0).contains(&per_second) {
            self.fault(&at.key("per_second"), "must be 0.5 to 1000 observations a second");
            right = false;
        }
        if !(1..=1000).contains(&burst) {
            self.fault(&at.key("burst"), "must be 1 to 1000 observations");
            right = false;
        }
        if per_second > 10.0 {
            let warning = "is over the 10 events a second that the service admits from everyone";
            self.warn(&at.key("per_second"), warning);
        }
        right.then_some(Budget { per_second, burst })
    }

    /// `host:port`, where `localhost` is pinned to 127.0.0.1.
    fn address(&mut self, at: &FieldPath, text: &str) -> Option<SocketAddr> {
        let pinned = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let address = pinned.as_deref().unwrap_or(text).parse().ok();
        if address.is_none() {
            self.fault(
                at,
                format!("must be an IP address and a port (127.0.0.1:8790), but is {text:?}"),
            );
        }
        address
    }

    fn variable_name(&mut self, at: &FieldPath, name: &str) -> Option<()> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || !name.chars().all(fits)
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            // The value is not shown: it may be the secret itself.
            self.fault(at, "must be the name of an environment variable, not the token itself");
            return None;
        }
        Some(())
    }

    /// One score per label and source stands for what the payload lacks.
    fn constants(&mut self, routes: &[Route]) {
        let mut known: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for (index, route) in routes.iter().enumerate() {
            let Some(constant) = route.confidence() else { continue };
            for label in route.labels() {
                let first = *known.entry((route.from(), label)).or_insert(constant);
                if (first - constant).abs() > 0.0 {
                    let at = FieldPath::from("routes").index(index).key("confidence").key("const");
                    let fault = format!(
                        "must be {first}, as on another route for {label:?} of this source"
                    );
                    self.fault(&at, fault);
                }
            }
        }
    }

    fn idle_sources(&mut self, routes: &[Route]) {
        let used: BTreeSet<&str> = routes.iter().map(Route::from).collect();
        for name in self.loaded.value.sources.keys() {
            if !used.contains(name.as_str()) {
                let at = FieldPath::from("sources").key(name);
                self.warn(&at, "is used by no route; nothing of it is sent");
            }
        }
    }
}

impl Config {
    /// The place of a source among `sources`, by its name.
    pub fn source(&self, name: &str) -> Option<&SourceConfig> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// What the decoder of a source is told.
    pub fn rules(&self, source: &SourceConfig) -> Rules {
        let routes = || self.routes.of(&source.name).iter().filter_map(|id| self.routes.get(*id));
        let watched = routes().map(|route| route.labels().clone()).collect();
        let constants = routes()
            .filter_map(|route| Some((route, route.confidence()?)))
            .flat_map(|(route, constant)| {
                route.labels().iter().map(move |label| (label.clone(), constant))
            })
            .collect();
        Rules {
            name: source.name.clone(),
            fixed_source: source.fixed_source.clone(),
            labels: source.labels.clone(),
            watched,
            constants,
        }
    }
}

#[cfg(test)]
mod tests;
