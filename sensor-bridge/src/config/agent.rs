//! Reads a trigger's numbers from the configuration of the agent that has it.
//!
//! Only the triggers are read, and leniently: everything else in that file is
//! for the service to judge, and a version of it that knows more fields is no
//! fault here. Absent numbers are the service's defaults.

use std::{path::Path, time::Duration};

use serde::Deserialize;
use service_kit::config::Loader;

use crate::pipeline::route::Expect;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Agent {
    triggers: Vec<Trigger>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Trigger {
    #[serde(rename = "type")]
    kind: String,
    source: String,
    min_confidence: Option<f64>,
    consecutive: Option<u32>,
    max_gap_seconds: Option<f64>,
    cooldown_seconds: Option<f64>,
    max_age_seconds: Option<f64>,
}

/// What the trigger for `kind` waits for.
///
/// The trigger of the event source `source` is taken; where there is none,
/// since the worker's messages name their cameras, all triggers of the type
/// must wait for the same.
///
/// # Errors
/// A sentence that goes on after the name of the field.
pub(super) fn expect(path: &Path, kind: &str, source: &str) -> Result<Expect, String> {
    let agent: Agent = Loader::new("")
        .file(path)
        .load()
        .map_err(|faults| format!("cannot be used: {}", faults.sentences().join("; ")))?
        .value;
    let of_type: Vec<&Trigger> =
        agent.triggers.iter().filter(|trigger| trigger.kind == kind).collect();
    if let Some(trigger) = of_type.iter().find(|trigger| trigger.source == source) {
        return trigger.expect();
    }
    let Some((first, others)) = of_type.split_first() else {
        let known: Vec<&str> = agent.triggers.iter().map(|trigger| trigger.kind.as_str()).collect();
        return Err(format!(
            "names {}, which has no trigger of type {kind:?}; its triggers have the types {known:?}",
            path.display()
        ));
    };
    let expect = first.expect()?;
    for other in others {
        if other.expect()? != expect {
            let sources: Vec<&str> =
                of_type.iter().map(|trigger| trigger.source.as_str()).collect();
            return Err(format!(
                "names {}, where the triggers of type {kind:?} for {sources:?} wait for different \
                 numbers; write the numbers of this route instead of `agent_config`",
                path.display()
            ));
        }
    }
    Ok(expect)
}

impl Trigger {
    fn expect(&self) -> Result<Expect, String> {
        let default = Expect::default();
        let seconds = |field: &str, given: Option<f64>, default: Duration| match given {
            None => Ok(default),
            Some(given) => Duration::try_from_secs_f64(given).map_err(|_no_duration| {
                format!(
                    "has a trigger of type {:?} whose {field} is no number of seconds",
                    self.kind
                )
            }),
        };
        Ok(Expect {
            // The trigger is known, so is its threshold: absent means 0.
            min_confidence: Some(self.min_confidence.unwrap_or(0.0)),
            consecutive: self.consecutive.unwrap_or(default.consecutive),
            max_gap: seconds("max_gap_seconds", self.max_gap_seconds, default.max_gap)?,
            cooldown: seconds("cooldown_seconds", self.cooldown_seconds, default.cooldown)?,
            max_age: seconds("max_age_seconds", self.max_age_seconds, default.max_age)?,
        })
    }
}
