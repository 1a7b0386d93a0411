//! The HTTP client of the command line, of peers and of the bridge.
//!
//! It talks to one service, whose URL is an [`Origin`]: no redirects are followed, `localhost` is
//! 127.0.0.1 whatever the resolver says, and a body is read up to a cap. With a private CA only that
//! one is trusted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Certificate, Client, Response, Url, redirect};

use crate::tls;

/// The longest answer that is read, in bytes. Source: CONTRACT, section 7.
pub const MAX_ANSWER_BYTES: usize = 1_048_576;

/// How long one request may take in all. Source: CONTRACT, section 7.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// How long connecting may take. Ours: a host that is up answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a service is: scheme, host and port; https, or http on loopback.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(Url);

/// Why a URL is no origin of a service. The text does not repeat the URL, which may have a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadOrigin {
    /// It is no URL.
    #[error("must be a URL like https://host:8787")]
    NoUrl,
    /// It is neither https nor http.
    #[error("must begin with https:// (or http:// on loopback)")]
    Scheme,
    /// It is http, and the host is not this one.
    #[error("must begin with https://; http is for loopback only")]
    PlainHttp,
    /// It has a user name or a password.
    #[error("must have no user name and no password; a token is given by the name of its variable")]
    Credentials,
    /// It has a path.
    #[error("must have no path")]
    Path,
    /// It has a query or a fragment.
    #[error("must have no query and no fragment")]
    Query,
}

impl Origin {
    /// Reads a service's URL.
    pub fn parse(text: &str) -> Result<Self, BadOrigin> {
        let url = Url::parse(text).ok().filter(Url::has_host).ok_or(BadOrigin::NoUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadOrigin::Scheme);
        }
        // `http://@host` has an empty user name, which the parser drops.
        if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
            return Err(BadOrigin::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BadOrigin::Query);
        }
        if url.path() != "/" {
            return Err(BadOrigin::Path);
        }
        let origin = Self(url);
        if origin.0.scheme() == "http" && !origin.is_loopback() {
            return Err(BadOrigin::PlainHttp);
        }
        Ok(origin)
    }

    /// Whether the host is an address of loopback, or `localhost`.
    pub fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }

    /// The URL of a path at this origin.
    ///
    /// `path` begins with `/` and is already encoded; it may have a query.
    pub fn at(&self, path: &str) -> String {
        format!("{self}{path}")
    }
}

/// Without the slash at the end: `https://host:8787`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

impl std::str::FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        Self::parse(text)
    }
}

/// How to talk to one service.
#[derive(Debug, Clone)]
pub struct Settings<'a> {
    /// Who asks, as `NAME/VERSION`.
    pub user_agent: &'a str,
    /// A PEM file: if given, only certificates that it signs are trusted.
    pub ca_cert: Option<PathBuf>,
    /// How long one request may take in all; `None`: as long as it takes.
    pub timeout: Option<Duration>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The CA file is of no use.
    #[error(transparent)]
    Ca(#[from] tls::Error),
    /// The client cannot be set up, for example since the machine has no trusted certificates.
    #[error(
        "cannot set up the HTTP client; if this machine has no CA certificates, name a CA file"
    )]
    Client(#[source] reqwest::Error),
}

/// Makes a client for one service.
pub fn build(origin: &Origin, settings: &Settings<'_>) -> Result<Client, Error> {
    tls::install_provider();
    let mut builder = Client::builder()
        .user_agent(settings.user_agent)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .resolve("localhost", SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    if let Some(timeout) = settings.timeout {
        builder = builder.timeout(timeout);
    }
    if origin.is_loopback() {
        // A proxy could not reach it, and must not see its token.
        builder = builder.no_proxy();
    }
    if let Some(file) = &settings.ca_cert {
        let mut trusted = Vec::new();
        for certificate in tls::read_certificates(file)? {
            trusted.push(Certificate::from_der(&certificate).map_err(Error::Client)?);
        }
        builder = builder.tls_certs_only(trusted);
    } else if origin.0.scheme() == "http" {
        // Without this it would fail where the machine has no CA certificates, as in small containers.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(Error::Client)
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is longer than the caller takes.
    #[error("the answer is over {cap} bytes")]
    TooLong {
        /// The cap.
        cap: usize,
    },
    /// The connection failed on the way.
    #[error("the answer broke off")]
    Broken(#[source] reqwest::Error),
}

/// Reads a body of at most `cap` bytes; one that is longer is not read to its end.
pub async fn read_body(mut response: Response, cap: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Broken)? {
        if body.len().saturating_add(chunk.len()) > cap {
            return Err(BodyError::TooLong { cap });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests;
