//! The configuration of a tested agent, built from what a test cares about.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::process::binary;

/// A configuration as its JSON.
#[derive(Debug, Clone)]
pub struct Config(Value);

impl Config {
    /// An agent that is the persistent `scripted-agent` of `agent_dir`.
    pub fn new(agent_dir: &Path) -> Self {
        Self(json!({
            "name": "tested",
            "runner": {
                "type": "process",
                "command": [binary("scripted-agent"), agent_dir],
                "lifecycle": {
                    "mode": "persistent", "grace_seconds": 1, "startup_timeout_seconds": 10
                },
            },
            "triggers": [],
        }))
    }

    /// Sets the field at a path such as `runner.lifecycle.mode`.
    #[must_use]
    pub fn with(mut self, path: &str, value: impl Into<Value>) -> Self {
        let mut place = &mut self.0;
        for name in path.split('.') {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[name];
        }
        *place = value.into();
        self
    }

    /// Takes a top-level field out.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        if let Some(fields) = self.0.as_object_mut() {
            fields.remove(field);
        }
        self
    }

    /// Adds a trigger.
    #[must_use]
    pub fn trigger(mut self, trigger: Value) -> Self {
        if let Some(triggers) = self.0["triggers"].as_array_mut() {
            triggers.push(trigger);
        }
        self
    }

    /// A new process for each task.
    #[must_use]
    pub fn one_shot(self) -> Self {
        self.with("runner.lifecycle", json!({"mode": "oneshot", "grace_seconds": 1}))
    }

    /// An agent that does not end on SIGTERM, and has `grace_seconds` until it is killed.
    #[must_use]
    pub fn stubborn(self, grace_seconds: u64) -> Self {
        let mut command = vec![json!("sh"), json!("-c"), json!("trap '' TERM; exec \"$0\" \"$@\"")];
        command.extend(self.0["runner"]["command"].as_array().into_iter().flatten().cloned());
        self.with("runner.command", command).with("runner.lifecycle.grace_seconds", grace_seconds)
    }

    /// The JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }
}
