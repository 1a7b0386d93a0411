//! What the tests share: waiting for events, and a client.

use std::{sync::Arc, time::Duration};

use sensor_bridge::{
    metrics::SourceCounters,
    source::{
        Port,
        inbox::Inbox,
        listen::{self, Endpoint, Endpoints},
    },
};
use service_kit::{Clock, tls::ServerCertificate};

/// How long anything may take before a test gives up; not a statement about speed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `event`, or fails with its name.
pub(crate) async fn soon<F: Future>(event: &str, future: F) -> F::Output {
    let output = tokio::time::timeout(PATIENCE, future).await.ok();
    output.unwrap_or_else(|| panic!("waited {PATIENCE:?}, but not: {event}"))
}

/// Looks until `condition` holds, or fails with the name of the event.
pub(crate) async fn until(event: &str, mut condition: impl FnMut() -> bool) {
    soon(event, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// A plain HTTP client.
pub(crate) fn client() -> reqwest::Client {
    service_kit::tls::install_provider();
    reqwest::Client::new()
}

/// A listener of the bridge on a free port, with one source `cam` that nobody reads.
pub(crate) async fn listener(certificate: Option<Arc<ServerCertificate>>) -> listen::Bound {
    let (_inbox, mut lanes) = Inbox::new(1);
    let counters = Arc::new(SourceCounters::default());
    let port = Port::new("cam".into(), lanes.remove(0), counters, Clock::system());
    let endpoint = Endpoint::new(port, "a-token-of-a-test".into());
    let endpoints = Endpoints::new(vec![endpoint], 1024);
    listen::bind("127.0.0.1:0".parse().unwrap(), certificate, endpoints).await.unwrap()
}
