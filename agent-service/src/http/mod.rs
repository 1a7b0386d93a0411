//! CONTRACT section 3 over HTTP/1.1.
//!
//! A request goes through checks in a fixed order: token, `Origin`, route, A2A version, body. Routing
//! is a pure function (`route`) instead of a framework's router, because the token comes before the
//! route and a colon splits a segment (see the ADR on routes). `listen` accepts connections and holds
//! their limits; who has to leave for a newcomer is decided in `slots`, without I/O.
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
mod route;
mod slots;
mod stream;

use std::sync::Arc;

use ::http::Request;
use agent_wire::a2a::card::AgentCard;
use bytes::Bytes;
use hyper::body::Body;

pub use auth::Token;
pub use backend::Backend;
pub use listen::serve;
pub use slots::Limits;

use card::Card;
use error::Error;
use reply::Reply;
use route::{NoRoute, Route};

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
    backend: Arc<B>,
    token: Token,
    card: Card,
}

impl<B: Backend> App<B> {
    /// Puts the operations together.
    pub fn new(backend: Arc<B>, token: Token, card: &AgentCard) -> Self {
        Self { backend, token, card: Card::new(card) }
    }

    /// Answers one request. Never fails: an error is an answer.
    ///
    /// May be dropped at any point, as happens when a client hangs up.
    async fn answer<Q>(&self, request: Request<Q>) -> Reply
    where
        Q: Body<Data = Bytes>,
    {
        let method = request.method().clone();
        // The path has ids at most; the query may have anything.
        let path = request.uri().path().to_owned();
        let reply = self.try_answer(request).await.unwrap_or_else(|error| error.to_reply());
        tracing::debug!(%method, path, status = reply.status().as_u16(), "answered");
        reply
    }

    async fn try_answer<Q>(&self, request: Request<Q>) -> Result<Reply, Error>
    where
        Q: Body<Data = Bytes>,
    {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let public = route::is_public(path);
        if !public {
            auth::authenticate(&parts.headers, &self.token)?;
        }
        auth::refuse_origin(&parts.headers)?;
        let backend = &*self.backend;
        if !public && backend.failed() {
            return Err(crate::refusal::Refusal::Internal.into());
        }
        let route = route::find(&parts.method, path).map_err(|none| match none {
            NoRoute::Path => Error::NoRoute,
            NoRoute::Method { allow } => Error::Method { allow },
        })?;
        if route.is_a2a() {
            extract::need_version(&parts)?;
        }
        let query = parts.uri.query().unwrap_or_default();
        match route {
            Route::Card => Ok(self.card.get(&parts.headers)),
            Route::Health => Ok(health::live(backend)),
            Route::Ready => Ok(health::ready(backend)),
            Route::List => a2a::list(backend, query).await,
            Route::Get(id) => a2a::get(backend, &id, query).await,
            Route::Send => {
                let body = extract::body(&parts.headers, body).await?;
                a2a::send(backend, &body, extract::trace(&parts.headers)).await
            }
            Route::Cancel(id) => {
                let body = extract::body(&parts.headers, body).await?;
                a2a::cancel(backend, &id, &body).await
            }
            Route::Event => {
                extract::allow_version(&parts)?;
                let body = extract::body(&parts.headers, body).await?;
                events::post(backend, &body, extract::trace(&parts.headers)).await
            }
            Route::Unsupported(what) => Err(Error::Unsupported(what)),
            Route::Push => Err(Error::Push),
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
