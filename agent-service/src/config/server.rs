//! Where the service listens, what it calls itself, and where its state lies.
//!
//! None of it is part of what state belongs to: a service may move.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use service_kit::client::Origin;
use service_kit::config::FieldPath;

use super::check::Checker;
use super::raw::RawServer;

/// Where the service listens when nothing is said. Source of these: CONTRACT, sections 2 and 5.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8787";
/// The variable that holds the token when nothing is said.
pub const DEFAULT_TOKEN_ENV: &str = "WENDY_AGENT_TOKEN";
/// How long the running task may go on after a signal when nothing is said, in seconds.
const DEFAULT_SHUTDOWN_GRACE_SECONDS: u32 = 10;

/// The server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where it listens.
    pub listen: Listen,
    /// The origin under which others reach it; `None`: the address that it listens on.
    pub public_url: Option<Origin>,
    /// Certificate and key; always there off loopback.
    pub tls: Option<Tls>,
    /// Where the state lies; `serve` needs it.
    pub state: Option<State>,
    /// The variable that holds the token.
    pub token_env: String,
    /// How long the running task may go on after a signal, 0 to 25 s.
    pub shutdown_grace: Duration,
}

/// A host, which may have to be resolved, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address.
    Address(SocketAddr),
    /// A name; it resolves when the service starts.
    Name {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
}

/// PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificates.
    pub cert: PathBuf,
    /// The key of the first of them.
    pub key: PathBuf,
}

/// Where the state lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// In this directory.
    Directory(PathBuf),
    /// In a directory below, one for each configuration.
    Root(PathBuf),
}

impl Listen {
    /// Reads `HOST:PORT`; `localhost` is 127.0.0.1.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse() {
            return Some(Self::Address(address));
        }
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        if host.eq_ignore_ascii_case("localhost") {
            return Some(Self::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        let right = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
        let named = !host.is_empty() && host.chars().all(right);
        named.then(|| Self::Name { host: host.to_owned(), port })
    }

    fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address.ip()),
            Self::Name { .. } => None,
        }
    }

    fn is_loopback(&self) -> bool {
        self.ip().is_some_and(|ip| ip.to_canonical().is_loopback())
    }

    fn has_no_url_of_its_own(&self) -> bool {
        self.ip().is_none_or(|ip| ip.is_unspecified())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl Server {
    /// The URL for the card, without a slash at the end: the public one, else that of the address
    /// that was bound.
    pub fn url(&self, bound: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.public_url.as_ref().map_or_else(|| format!("{scheme}://{bound}"), Origin::to_string)
    }
}

/// Checks `server`; `None` when a fault says why.
pub(super) fn check(checker: &mut Checker<'_>, raw: RawServer) -> Option<Server> {
    let path = FieldPath::from("server");
    let listen_path = path.key("listen");
    let text = raw.listen.unwrap_or_else(|| DEFAULT_LISTEN.to_owned());
    let listen = Listen::parse(&text);
    if listen.is_none() {
        checker.fault(&listen_path, format_args!("must be HOST:PORT, but is {text:?}"));
    }
    let url_path = path.key("public_url");
    let public_url = raw
        .public_url
        .as_deref()
        .and_then(|url| Origin::parse(url).map_err(|fault| checker.fault(&url_path, fault)).ok());
    let tls = tls(checker, &path, raw.tls_cert, raw.tls_key);
    if let Some(listen) = &listen {
        if !listen.is_loopback() && matches!(tls, Ok(None)) {
            checker.fault(
                &listen_path,
                format_args!(
                    "is {listen}, which is not on loopback: `tls_cert` and `tls_key` are required"
                ),
            );
        }
        if listen.has_no_url_of_its_own() && raw.public_url.is_none() {
            checker.fault(
                &listen_path,
                format_args!("is {listen}, by which nobody can reach it: `public_url` is required"),
            );
        }
    }
    let token_env = raw.token_env.unwrap_or_else(|| DEFAULT_TOKEN_ENV.to_owned());
    let token_env = checker.variable(&path.key("token_env"), token_env);
    let grace = checker.whole(
        &path.key("shutdown_grace_seconds"),
        raw.shutdown_grace_seconds,
        DEFAULT_SHUTDOWN_GRACE_SECONDS,
        0..=25,
    );
    Some(Server {
        listen: listen?,
        public_url,
        tls: tls.ok().flatten(),
        state: state(checker, &path, raw.state_dir, raw.state_root),
        token_env: token_env?,
        shutdown_grace: Duration::from_secs(grace.into()),
    })
}

/// Both or none; an error when a fault says why there is none.
fn tls(
    checker: &mut Checker<'_>,
    path: &FieldPath,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<Tls>, ()> {
    let (cert_path, key_path) = (path.key("tls_cert"), path.key("tls_key"));
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => {
            let cert = checker.absolute(&cert_path, &cert);
            let key = checker.absolute(&key_path, &key);
            if let Err(fault) = service_kit::tls::ServerCertificate::load(&cert, &key) {
                checker.findings.add(fault);
                return Err(());
            }
            Ok(Some(Tls { cert, key }))
        }
        (Some(_), None) => {
            checker.fault(&cert_path, "needs `server.tls_key` as well");
            Err(())
        }
        (None, Some(_)) => {
            checker.fault(&key_path, "needs `server.tls_cert` as well");
            Err(())
        }
    }
}

fn state(
    checker: &mut Checker<'_>,
    path: &FieldPath,
    dir: Option<PathBuf>,
    root: Option<PathBuf>,
) -> Option<State> {
    let (dir_path, root_path) = (path.key("state_dir"), path.key("state_root"));
    match (dir, root) {
        (None, None) => None,
        (Some(dir), None) => Some(State::Directory(checker.absolute(&dir_path, &dir))),
        (None, Some(root)) => Some(State::Root(checker.absolute(&root_path, &root))),
        (Some(_), Some(_)) => {
            checker.fault(&root_path, "is an alternative to `server.state_dir`: set one of them");
            None
        }
    }
}
