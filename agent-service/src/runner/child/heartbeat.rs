//! The heartbeat file: what last happened to requests of one source, for whoever watches the agent.
//!
//! It is a convenience, not state: a heartbeat that cannot be written is a warning.

use std::path::{Path, PathBuf};

use agent_wire::child::TriggerSource;
use jiff::Timestamp;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use tokio::fs;
use tracing::warn;

use super::{Spec, slug};

/// Where the heartbeat of a source is.
pub(super) fn path(spec: &Spec, source: TriggerSource) -> PathBuf {
    spec.state_dir.join("heartbeat").join(format!("{}.json", slug(source)))
}

/// One request's heartbeat.
#[derive(Debug)]
pub(super) struct Heartbeat {
    path: PathBuf,
    name: String,
    slug: String,
    started: Timestamp,
    clock: Clock,
}

impl Heartbeat {
    pub(super) fn new(spec: &Spec, source: TriggerSource, clock: Clock) -> Self {
        let started = clock.now();
        Self {
            path: path(spec, source),
            name: spec.agent.clone(),
            slug: slug(source),
            started,
            clock,
        }
    }

    /// Written before the request.
    pub(super) async fn started(&self) {
        let last_success = self.last_success().await;
        self.write(&json!({
            "name": self.name,
            "slug": self.slug,
            "started": self.started.to_string(),
            "finished": null,
            "exit_code": null,
            "duration_seconds": null,
            "last_success": last_success,
        }))
        .await;
    }

    /// Written after the request.
    pub(super) async fn finished(&self, exit_code: i32) {
        let finished = self.clock.now();
        let last_success =
            if exit_code == 0 { json!(finished.to_string()) } else { self.last_success().await };
        self.write(&json!({
            "name": self.name,
            "slug": self.slug,
            "started": self.started.to_string(),
            "finished": finished.to_string(),
            "exit_code": exit_code,
            "duration_seconds": finished.duration_since(self.started).as_secs_f64().max(0.0),
            "last_success": last_success,
        }))
        .await;
    }

    async fn last_success(&self) -> Value {
        let before = fs::read(&self.path).await.unwrap_or_default();
        let before: Value = serde_json::from_slice(&before).unwrap_or_default();
        before.get("last_success").cloned().unwrap_or_default()
    }

    async fn write(&self, beat: &Value) {
        if let Err(error) = replace(&self.path, beat.to_string().as_bytes()).await {
            let path = self.path.display();
            warn!(%path, %error, "cannot write the heartbeat");
        }
    }
}

/// Replaces a file in one step: a reader sees the old one or the new one.
async fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).await?;
        fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).await?;
    }
    let new = path.with_extension("new");
    fs::write(&new, bytes).await?;
    fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).await?;
    fs::rename(&new, path).await
}
