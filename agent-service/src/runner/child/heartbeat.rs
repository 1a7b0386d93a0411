//! The heartbeat file: what last happened to requests of one source, for whoever watches the agent.
//!
//! It is a convenience, not state: a heartbeat that cannot be written is a warning.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agent_wire::child::TriggerSource;
use jiff::Timestamp;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::lifecycle::Tasks;
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
    tasks: Tasks,
}

impl Heartbeat {
    pub(super) fn new(spec: &Spec, source: TriggerSource, clock: Clock, tasks: Tasks) -> Self {
        let started = clock.now();
        Self {
            path: path(spec, source),
            name: spec.agent.clone(),
            slug: slug(source),
            started,
            clock,
            tasks,
        }
    }

    /// Written before the request.
    pub(super) async fn started(&self) {
        let beat = json!({
            "name": self.name,
            "slug": self.slug,
            "started": self.started.to_string(),
            "finished": null,
            "exit_code": null,
            "duration_seconds": null,
        });
        self.write(beat, None).await;
    }

    /// Written after the request.
    pub(super) async fn finished(&self, exit_code: i32) {
        let finished = self.clock.now();
        let beat = json!({
            "name": self.name,
            "slug": self.slug,
            "started": self.started.to_string(),
            "finished": finished.to_string(),
            "exit_code": exit_code,
            "duration_seconds": finished.duration_since(self.started).as_secs_f64().max(0.0),
        });
        self.write(beat, (exit_code == 0).then(|| finished.to_string())).await;
    }

    /// Writes it, with the last success that is known.
    async fn write(&self, mut beat: Value, success: Option<String>) {
        let path = self.path.clone();
        // One piece of blocking work: it is on the way of every task.
        let work = self.tasks.spawn_blocking(move || {
            let last_success = success.map_or_else(|| last_success(&path), Value::from);
            if let Some(members) = beat.as_object_mut() {
                members.insert("last_success".to_owned(), last_success);
            }
            if let Err(error) = replace(&path, beat.to_string().as_bytes()) {
                let path = path.display();
                warn!(%path, %error, "cannot write the heartbeat");
            }
        });
        if let Err(error) = work.await {
            warn!(%error, "the heartbeat broke off");
        }
    }
}

/// As an earlier heartbeat has it.
fn last_success(path: &Path) -> Value {
    let before = fs::read(path).unwrap_or_default();
    let before: Value = serde_json::from_slice(&before).unwrap_or_default();
    before.get("last_success").cloned().unwrap_or_default()
}

/// Replaces a file in one step: a reader sees the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    std::io::Write::write_all(&mut file, bytes)?;
    fs::rename(&new, path)
}
