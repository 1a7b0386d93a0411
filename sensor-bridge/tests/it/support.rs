//! What the tests share: waiting for events, and a client.

use std::time::Duration;

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
