//! What a replay that posted came to.

use std::collections::BTreeMap;

use serde::Serialize;
use service_kit::output::table;

use crate::{
    pipeline::sampler::{Outcome, Snapshot},
    poster::client::{Answer, Says},
};

/// The counts of one replay. Names of reasons are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    /// Observations that the frames gave.
    observations: u64,
    /// Events that the service took.
    posted: u64,
    /// The tasks that they made.
    task_ids: Vec<String>,
    /// Events that made none, by the service's reason.
    not_accepted: BTreeMap<String, u64>,
    /// Events that the service turned down for good, by status.
    rejected: BTreeMap<u16, u64>,
    /// Observations that were given up, by reason.
    dropped: BTreeMap<&'static str, u64>,
    /// Messages and detections that were not used, by reason.
    refused: BTreeMap<&'static str, u64>,
    /// It was stopped before its end.
    interrupted: bool,
}

impl Summary {
    pub(super) fn refused(&mut self, reason: &'static str) {
        *self.refused.entry(reason).or_default() += 1;
    }

    pub(super) fn answered(&mut self, answer: &Answer, outcome: Outcome) {
        match &answer.says {
            Says::Accepted { task_id } => {
                self.posted += 1;
                self.task_ids.push(task_id.clone());
            }
            Says::NotAccepted { reason } => {
                self.posted += 1;
                *self.not_accepted.entry(reason.clone()).or_default() += 1;
            }
            Says::Refused { status, .. } if outcome.dropped.is_some() => {
                *self.rejected.entry(*status).or_default() += 1;
            }
            Says::Refused { .. } | Says::Nothing { .. } => {}
        }
    }

    pub(super) fn finish(mut self, snapshot: &Snapshot, interrupted: bool) -> Self {
        for counters in &snapshot.routes {
            self.observations += counters.observations;
            for (reason, count) in &counters.dropped {
                *self.dropped.entry(reason.as_str()).or_default() += count;
            }
        }
        self.interrupted = interrupted;
        self
    }

    /// Whether it did what it was for: it came to its end, and the service took events if there were any.
    pub(crate) fn succeeded(&self) -> bool {
        let given_up = !self.dropped.is_empty() || !self.rejected.is_empty();
        !self.interrupted && (self.posted > 0 || !given_up)
    }

    /// For a person.
    pub(crate) fn table(&self) -> String {
        let mut rows =
            vec![row("observations", "", self.observations), row("posted", "", self.posted)];
        rows.extend(self.task_ids.iter().map(|id| ["task".to_owned(), id.clone(), "1".to_owned()]));
        rows.extend(self.not_accepted.iter().map(|(reason, n)| row("not accepted", reason, *n)));
        rows.extend(
            self.rejected.iter().map(|(status, n)| row("rejected", &status.to_string(), *n)),
        );
        rows.extend(self.dropped.iter().map(|(reason, n)| row("dropped", reason, *n)));
        rows.extend(self.refused.iter().map(|(reason, n)| row("refused", reason, *n)));
        table(["WHAT", "WHICH", "COUNT"], &rows)
    }
}

fn row(what: &str, which: &str, count: u64) -> [String; 3] {
    [what.to_owned(), which.to_owned(), count.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_succeeded_when_it_came_to_its_end_and_the_service_took_something() {
        let posted = Summary { posted: 3, ..Summary::default() };
        let with_drops = Summary { dropped: [("stale", 1)].into(), ..posted.clone() };
        let nothing_to_post = Summary::default();
        assert!(posted.succeeded() && with_drops.succeeded() && nothing_to_post.succeeded());
        let interrupted = Summary { interrupted: true, ..posted };
        let unreachable = Summary { dropped: [("stale", 1)].into(), ..Summary::default() };
        let refused = Summary { rejected: [(400, 1)].into(), ..Summary::default() };
        assert!(!interrupted.succeeded() && !unreachable.succeeded() && !refused.succeeded());
    }
}
