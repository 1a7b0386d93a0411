//! Workers that push: `POST /<source>` with a bearer token.
//!
//! The body is one JSON document, or JSON lines. It is answered 202 as soon
//! as its messages are in the lane, which never waits; that says nothing on
//! what they prove. Otherwise: 400 (no JSON; nothing of the body is taken),
//! 401, 404, 405, 408, 413, or 503 with `Retry-After` from the soft stop on. Sources with the same address share a listener,
//! each with its own token; an unknown path is only told to who has a token.
//!
//! A body over the limit is read past without being kept, up to a bound, so
//! that its sender gets the answer instead of a broken connection.
//!
//! The paths are axum's (`router`), the answers `refused`'s, the
//! connections and their limits `server`'s.

mod body;
mod refused;
mod router;
mod server;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use subtle::ConstantTimeEq;

use self::refused::Refused;
pub use self::server::{Bound, bind};
use super::Port;

/// One source that is posted to, and who may.
pub struct Endpoint {
    port: Port,
    token: Arc<str>,
}

/// All sources of one address.
#[derive(Debug)]
pub struct Endpoints {
    by_name: BTreeMap<String, Arc<Endpoint>>,
    limit: usize,
}

impl Endpoint {
    /// The source behind `port`, for senders with `token`.
    pub const fn new(port: Port, token: Arc<str>) -> Self {
        Self { port, token }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Endpoints {
    /// Serves these sources; bodies are at most `limit` bytes.
    pub fn new(endpoints: Vec<Endpoint>, limit: usize) -> Self {
        let by_name = endpoints
            .into_iter()
            .map(|endpoint| (endpoint.port.name().to_owned(), Arc::new(endpoint)))
            .collect();
        Self { by_name, limit }
    }

    /// The sources that are served.
    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.by_name.values().map(|endpoint| &endpoint.port)
    }

    /// The source of this name, for who has its token.
    fn admit(&self, name: &str, token: Option<&[u8]>) -> Result<Arc<Endpoint>, Refused> {
        let token = token.ok_or(Refused::Unauthenticated)?;
        match self.by_name.get(name) {
            Some(endpoint) if same(token, &endpoint.token) => Ok(Arc::clone(endpoint)),
            None if self.by_name.values().any(|known| same(token, &known.token)) => {
                Err(Refused::NoSuchSource)
            }
            Some(_) | None => Err(Refused::Unauthenticated),
        }
    }
}

/// Compares in a time that does not tell how much of it was right.
fn same(given: &[u8], token: &str) -> bool {
    bool::from(given.ct_eq(token.as_bytes()))
}
