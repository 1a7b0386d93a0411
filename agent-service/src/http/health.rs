//! `/healthz` and `/readyz`: plain text for those who restart and route, without data of any task.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::backend::Backend;
use super::reply::{Reply, reply};

/// Whether the process does its work at all; a supervisor restarts one that does not.
pub(super) fn live<B: Backend>(backend: &B) -> Reply {
    if backend.failed() {
        text(StatusCode::SERVICE_UNAVAILABLE, "storage failed")
    } else {
        text(StatusCode::OK, "ok")
    }
}

/// Whether new work is taken.
pub(super) fn ready<B: Backend>(backend: &B) -> Reply {
    match backend.ready() {
        Ok(()) => text(StatusCode::OK, "ready"),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

fn text(status: StatusCode, line: &'static str) -> Reply {
    let mut reply = reply(status, Bytes::from(format!("{line}\n")));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}
