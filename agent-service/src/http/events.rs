//! `POST /events`.

use agent_wire::a2a::error::{ApiError, Violation};
use agent_wire::event::Event;
use agent_wire::value::TraceParent;

use super::backend::Backend;
use super::error::Error;
use super::reply::{Reply, success};

/// Reads the event (step 1 of CONTRACT section 4) and hands it to the core.
pub(super) async fn post<B: Backend>(
    backend: &B,
    body: &[u8],
    trace: Option<TraceParent>,
) -> Result<Reply, Error> {
    let event = Event::parse(body).map_err(|error| {
        let description = error.to_string();
        let mut api = ApiError::invalid("", description.clone());
        api.violations = vec![Violation { field: error.field().to_owned(), description }];
        api
    })?;
    success(&backend.event(event.with_trace(trace)).await?)
}
