//! CONTRACT section 3 over HTTP/1.1.
//!
//! A request goes through checks in a fixed order: token, `Origin`, route, A2A version, body. The paths
//! are axum's (`router`), the connections hyper's: `listen` accepts them and holds their limits, and
//! who has to leave for a newcomer is decided in `slots`, without I/O.
//!
//! The core is seen through [`Backend`] only. Every answer is built here: `error` is the only place
//! that knows how an error looks.

mod a2a;
mod auth;
mod backend;
mod card;
mod conn;
mod error;
mod events;
mod extract;
mod health;
mod listen;
mod page;
mod reply;
mod router;
mod slots;
mod stream;

use std::marker::PhantomData;
use std::sync::Arc;

use ::http::Request;
use agent_wire::a2a::card::AgentCard;
use axum::{BoxError, Router};
use bytes::Bytes;
use hyper::body::Body;
use tower::ServiceExt as _;

pub use auth::Token;
pub use backend::Backend;
pub use listen::serve;
pub use slots::Limits;

use card::Card;
use reply::Reply;
use router::Core;

/// The most bytes of a body. Source: CONTRACT, section 3.
const BODY_LIMIT: usize = 64 * 1024;

/// How long a body may take, in seconds from the end of the headers. Source: CONTRACT, section 3.
const BODY_SECONDS: u64 = 30;

/// The most bytes of a request's headers, its first line included. Source: CONTRACT, section 3.
const HEAD_LIMIT: usize = 16 * 1024;

/// How long headers may take, in seconds from the first byte. Source: CONTRACT, section 3.
const HEAD_SECONDS: u64 = 5;

/// All operations, over one core.
pub struct App<B> {
    router: Router,
    core: PhantomData<fn() -> B>,
}

impl<B: Backend> App<B> {
    /// Puts the operations together.
    pub fn new(backend: Arc<B>, token: Token, card: &AgentCard) -> Self {
        let core = Arc::new(Core { backend, token, card: Card::new(card) });
        Self { router: router::router(core), core: PhantomData }
    }

    /// Answers one request. Never fails: an error is an answer.
    ///
    /// May be dropped at any point, as happens when a client hangs up.
    async fn answer<Q>(&self, request: Request<Q>) -> Reply
    where
        Q: Body<Data = Bytes> + Send + 'static,
        Q::Error: Into<BoxError>,
    {
        let mut request = request.map(axum::body::Body::new);
        if let Some(uri) = router::plain_colons(request.uri()) {
            *request.uri_mut() = uri;
        }
        let method = request.method().clone();
        // The path has ids at most; the query may have anything.
        let path = request.uri().path().to_owned();
        let reply =
            self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        tracing::debug!(%method, path, status = reply.status().as_u16(), "answered");
        reply
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
