//! The temporary folder of one instance: `<state>/run/<instance>`, gone with it.

use std::path::{Path, PathBuf};

use tracing::warn;
use uuid::Uuid;

/// A folder that its owner has to remove.
#[derive(Debug)]
pub(super) struct Tmp(PathBuf);

impl Tmp {
    /// Makes a new one, for the service's user only.
    ///
    /// # Errors
    /// Says which folder cannot be made, and why.
    pub(super) async fn create(state_dir: &Path) -> Result<Self, String> {
        let path = all(state_dir).join(Uuid::new_v4().simple().to_string());
        let mut builder = tokio::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(&path)
            .await
            .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it with all that is in it; what cannot be removed is a warning.
    pub(super) async fn remove(self) {
        if let Err(error) = tokio::fs::remove_dir_all(&self.0).await {
            let path = self.0.display();
            warn!(%path, %error, "cannot remove the agent's temporary folder");
        }
    }
}

/// Removes what a service that was killed has left; nothing else owns this state directory now.
pub(super) fn clear(state_dir: &Path) {
    let all = all(state_dir);
    if let Err(error) = std::fs::remove_dir_all(&all)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        let path = all.display();
        warn!(%path, %error, "cannot remove temporary folders of agents that are gone");
    }
}

fn all(state_dir: &Path) -> PathBuf {
    state_dir.join("run")
}
