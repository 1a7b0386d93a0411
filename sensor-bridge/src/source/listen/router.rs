//! The paths of a listener. Every one asks for a token first, also those that are of nobody.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Endpoint, Endpoints, Refused, body};
use crate::decode::{Meta, Refusal};

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    endpoints: Arc<Endpoints>,
    stop: CancellationToken,
}

/// The operations over these sources; from `stop` on nothing is taken.
pub(super) fn router(endpoints: Arc<Endpoints>, stop: CancellationToken) -> Router {
    Router::new()
        .route("/{source}", post(take).fallback(other_method))
        .fallback(other_path)
        .with_state(Shared { endpoints, stop })
}

/// The source that the path names, for who has its token.
struct Admitted(Arc<Endpoint>);

impl FromRequestParts<Shared> for Admitted {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refused> {
        // A path that names nothing is one of nobody.
        let name = Path::<String>::from_request_parts(parts, shared).await;
        let name = name.map(|Path(name)| name).unwrap_or_default();
        shared.endpoints.admit(&name, bearer(&parts.headers)).map(Self)
    }
}

/// `POST /<source>`: the messages of a body.
async fn take(
    State(shared): State<Shared>,
    Admitted(endpoint): Admitted,
    body: Body,
) -> Result<Response, Refused> {
    let port = &endpoint.port;
    let body = body::read(body, shared.endpoints.limit).await.inspect_err(|refused| {
        if let Refused::TooLarge(limit) = refused {
            port.refuse(&Refusal::Oversized { limit: *limit });
        }
    })?;
    let messages = body::messages(&body).map_err(|(line, refusal)| {
        port.refuse(&refusal);
        Refused::NotJson { line }
    })?;
    let count = messages.len();
    // The lane says for sure whether the poster will see them; the token says it sooner.
    if shared.stop.is_cancelled() || !port.deliver_all(messages, &Meta::default()) {
        return Err(Refused::Stopping);
    }
    Ok((StatusCode::ACCEPTED, Json(json!({ "messages": count }))).into_response())
}

async fn other_method(_admitted: Admitted) -> Refused {
    Refused::Method
}

async fn other_path(_admitted: Admitted) -> Refused {
    Refused::NoSuchSource
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}
