//! What is counted: each observation ends in exactly one place.
//!
//! `observations = silent + superseded + delivered + dropped + pending`, where `pending` are at most
//! two slots and one post a stream. A refusal comes before an observation exists and is counted apart.

use std::collections::BTreeMap;

/// Why something was refused or dropped. The names are stable: metrics and `/status` carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A part of a frame that was closed before.
    Late,
    /// Not after the stream's newest observation.
    OutOfOrder,
    /// At the time of the stream's newest observation, which already says as much.
    Duplicate,
    /// Over the bound of streams.
    TooManyStreams,
    /// Another route already feeds the service's sequence of this type and event source.
    OtherRoute,
    /// The event source is empty or over 256 bytes.
    BadSource,
    /// Older than 0.8 of `max_age`.
    Stale,
    /// A high that was withheld, because a low before it was lost.
    Broken,
    /// The service refused it for good (409 and other 4xx).
    Rejected,
    /// It does not make an event: `data` is nested too deeply.
    Unencodable,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Late,
        Self::OutOfOrder,
        Self::Duplicate,
        Self::TooManyStreams,
        Self::OtherRoute,
        Self::BadSource,
        Self::Stale,
        Self::Broken,
        Self::Rejected,
        Self::Unencodable,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::OutOfOrder => "out_of_order",
            Self::Duplicate => "duplicate",
            Self::TooManyStreams => "too_many_streams",
            Self::OtherRoute => "other_route",
            Self::BadSource => "bad_source",
            Self::Stale => "stale",
            Self::Broken => "broken",
            Self::Rejected => "rejected",
            Self::Unencodable => "unencodable",
        }
    }
}

/// Counts by reason.
pub type ByReason = BTreeMap<Reason, u64>;

/// The counters of one route, since the start of the process.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Observations that entered sampling.
    pub observations: u64,
    /// Those at or over the threshold; over 0 where it is unknown.
    pub highs: u64,
    /// Those below it; 0 where it is unknown.
    pub lows: u64,
    /// Lows after lows: not sent, by rule.
    pub silent: u64,
    /// Left out because a newer or lower one says as much.
    pub superseded: u64,
    /// Posts, repetitions included.
    pub attempts: u64,
    /// Posts that were answered with a success.
    pub delivered: u64,
    /// Those of the delivered that left the trigger untouched (stale, future or out of order there).
    pub untouched: u64,
    /// Observations whose `data` was cut to the limit.
    pub trimmed: u64,
    /// Observations that were dropped, by reason.
    pub dropped: ByReason,
    /// What never became an observation, by reason.
    pub refused: ByReason,
}

impl Counters {
    /// Counts one drop.
    pub(crate) fn drop_one(&mut self, reason: Reason) {
        bump(&mut self.dropped, reason);
    }

    /// Counts one refusal.
    pub(crate) fn refuse_one(&mut self, reason: Reason) {
        bump(&mut self.refused, reason);
    }
}

/// Adds one to a reason.
pub(crate) fn bump(counts: &mut ByReason, reason: Reason) {
    let count = counts.entry(reason).or_default();
    *count = count.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_reasons_are_snake_case_and_differ() {
        let names: BTreeSet<_> = Reason::ALL.into_iter().map(Reason::as_str).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for name in names {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        }
    }
}
