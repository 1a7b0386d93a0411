//! What it means that a submission ID was seen before.
//!
//! A receipt is kept for every message that made a task and for every event that passed the limiter,
//! whatever its answer. It is looked up before every limit: a retry costs nothing.

use agent_wire::canonical::Digest;
use agent_wire::event::Reason;
use agent_wire::value::{EventId, MessageId, SourceName, TaskId};
use serde_json::json;

/// How many receipts are kept, of messages and events together. Source: CONTRACT, section 2.
pub const WINDOW: usize = 4096;

/// What a receipt is filed under.
///
/// Messages and events have names of their own, and an event's ID counts within its source only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl Key {
    /// The key of a message.
    pub fn message(id: &MessageId) -> Self {
        Self(format!("m:{id}"))
    }

    /// The key of an event: a digest, since two IDs of 256 bytes would bloat the index.
    pub fn event(source: &SourceName, id: &EventId) -> Self {
        Self(format!("e:{}", Digest::of(&json!([source.as_str(), id.as_str()])).to_hex()))
    }

    /// Takes a key as it was stored.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// The text to store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a submission was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It made this task.
    Task(TaskId),
    /// It was an event that made none.
    Refused(Reason),
}

/// What was filed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The content that came with the ID.
    pub content: Digest,
    /// The answer that it got.
    pub answer: Answer,
}

/// What a submission with this ID is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// New.
    Never,
    /// The same again: the same answer.
    Before(Answer),
    /// The ID is spent: other content, or its task is no longer retained.
    Conflict(Conflict),
}

/// Why an ID cannot be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// It came with other content.
    OtherContent,
    /// The task that it made has been removed.
    TaskGone,
}

/// Decides by the receipt that is filed under a submission's key.
///
/// `retained` says whether a task is still there.
pub fn judge(
    filed: Option<&Receipt>,
    content: Digest,
    retained: impl FnOnce(&TaskId) -> bool,
) -> Seen {
    let Some(receipt) = filed else { return Seen::Never };
    if receipt.content != content {
        return Seen::Conflict(Conflict::OtherContent);
    }
    match &receipt.answer {
        Answer::Task(task) if !retained(task) => Seen::Conflict(Conflict::TaskGone),
        answer @ (Answer::Task(_) | Answer::Refused(_)) => Seen::Before(answer.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_messages_from_events_and_sources_from_each_other() {
        let message = Key::message(&MessageId::new("1").unwrap());
        let event =
            |source, id| Key::event(&SourceName::new(source).unwrap(), &EventId::new(id).unwrap());
        assert_ne!(message, event("a", "1"));
        assert_ne!(event("a", "1"), event("b", "1"));
        assert_ne!(event("a", "b1"), event("ab", "1"));
        assert_eq!(event("a", "1"), event("a", "1"));
        assert_eq!(Key::from_stored(message.as_str().to_owned()), message);
    }

    #[test]
    fn a_second_submission_is_the_same_or_a_conflict() {
        let (this, other) = (Digest::of(&json!("this")), Digest::of(&json!("other")));
        let task = TaskId::new("t1").unwrap();
        let made = Receipt { content: this, answer: Answer::Task(task.clone()) };
        let waited = Receipt { content: this, answer: Answer::Refused(Reason::Cooldown) };
        let cases = [
            ("new", None, this, true, Seen::Never),
            ("same", Some(&made), this, true, Seen::Before(Answer::Task(task))),
            ("other content", Some(&made), other, true, Seen::Conflict(Conflict::OtherContent)),
            ("evicted", Some(&made), this, false, Seen::Conflict(Conflict::TaskGone)),
            (
                "evicted and other",
                Some(&made),
                other,
                false,
                Seen::Conflict(Conflict::OtherContent),
            ),
            (
                "an event's reason repeats",
                Some(&waited),
                this,
                false,
                Seen::Before(Answer::Refused(Reason::Cooldown)),
            ),
            ("and conflicts", Some(&waited), other, false, Seen::Conflict(Conflict::OtherContent)),
        ];
        for (name, filed, content, retained, expected) in cases {
            assert_eq!(judge(filed, content, |_| retained), expected, "{name}");
        }
    }
}
