//! The life of a task: what may follow what, and the words that a task ends with.
//!
//! ```text
//! SUBMITTED ──claim──▶ WORKING ──▶ COMPLETED | FAILED
//!     │  │                │  └────── restart, stop ──▶ FAILED ("inspect before retrying")
//!     │  └──expired──▶ REJECTED
//!     └──────cancel───────┴──▶ CANCELED
//! ```
//!
//! An ending never changes. A task that was working when the service died may have acted, so it is
//! never run again.

use agent_wire::a2a::task::TaskState;

/// The longest result that is kept, in bytes. Source: CONTRACT, section 2.
pub const MAX_RESULT_BYTES: usize = 32_000;

/// What stands at the end of a result that was cut.
pub const CUT_MARK: &str = "\n[cut at 32,000 bytes]";

/// What a task that was cut off by a crash or by a stop says.
pub const INSPECT: &str = "the service stopped while this task was working: effects may have completed; \
                           inspect before retrying";

/// What a cancelled task says.
pub const CANCELED: &str = "canceled on request; completed effects are not undone";

/// What an event task that waited too long says.
pub const EXPIRED: &str = "the observation became stale while the task was queued; it never ran";

/// How a task ended: a terminal state and the text that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It has a result, which becomes its artifact.
    Completed(String),
    /// It has a reason.
    Failed(String),
    /// Somebody stopped it.
    Canceled,
    /// It expired in the queue.
    Rejected,
}

impl Ending {
    /// The ending of a task that outlived its timeout.
    pub fn timed_out(seconds: u64) -> Self {
        Self::Failed(format!(
            "the task timed out after {seconds} s: effects may have completed; inspect before retrying"
        ))
    }

    /// The ending of a task that worked when the service stopped or died.
    pub fn interrupted() -> Self {
        Self::Failed(INSPECT.to_owned())
    }

    /// The ending of a task whose runner broke off without an answer, which is a fault of this program.
    pub fn broken_off() -> Self {
        Self::Failed(
            "the runner broke off because of a fault in the service: effects may have completed; \
             inspect before retrying"
                .to_owned(),
        )
    }

    /// The state on the wire.
    pub fn state(&self) -> TaskState {
        match self {
            Self::Completed(_) => TaskState::Completed,
            Self::Failed(_) => TaskState::Failed,
            Self::Canceled => TaskState::Canceled,
            Self::Rejected => TaskState::Rejected,
        }
    }

    /// The text of the artifact or of the status message, at most [`MAX_RESULT_BYTES`] long.
    pub fn text(&self) -> String {
        match self {
            Self::Completed(text) | Self::Failed(text) => cut(text),
            Self::Canceled => CANCELED.to_owned(),
            Self::Rejected => EXPIRED.to_owned(),
        }
    }
}

/// Cuts a result to [`MAX_RESULT_BYTES`], on a character boundary and with [`CUT_MARK`] at its end.
fn cut(text: &str) -> String {
    if text.len() <= MAX_RESULT_BYTES {
        return text.to_owned();
    }
    let keep = text.floor_char_boundary(MAX_RESULT_BYTES.saturating_sub(CUT_MARK.len()));
    let (kept, _) = text.split_at(keep);
    format!("{kept}{CUT_MARK}")
}

/// What a request to cancel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// The task becomes CANCELED now; a worker that holds it is told to stop.
    Now,
    /// It already is: the answer is the task, as after a lost answer.
    Already,
    /// It ended in another way, and that stays.
    TooLate,
}

/// Decides a request to cancel a task in this state.
pub fn cancel(state: TaskState) -> Cancel {
    match state {
        TaskState::Canceled => Cancel::Already,
        TaskState::Completed | TaskState::Failed | TaskState::Rejected => Cancel::TooLate,
        TaskState::Submitted
        | TaskState::Working
        | TaskState::InputRequired
        | TaskState::AuthRequired
        | TaskState::Unspecified => Cancel::Now,
    }
}

/// What a restart makes of a task: `None` leaves it as it is.
pub fn after_restart(state: TaskState) -> Option<Ending> {
    match state {
        TaskState::Working => Some(Ending::interrupted()),
        TaskState::Submitted
        | TaskState::Completed
        | TaskState::Failed
        | TaskState::Canceled
        | TaskState::Rejected
        | TaskState::InputRequired
        | TaskState::AuthRequired
        | TaskState::Unspecified => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_cut_at_32000_bytes_on_a_character_boundary_with_a_mark() {
        let whole = "a".repeat(MAX_RESULT_BYTES);
        assert_eq!(Ending::Completed(whole.clone()).text(), whole);
        let cut = Ending::Completed("a".repeat(MAX_RESULT_BYTES + 1)).text();
        assert_eq!(cut.len(), MAX_RESULT_BYTES);
        assert!(cut.ends_with(CUT_MARK));
        let wide = Ending::Failed("€".repeat(MAX_RESULT_BYTES)).text();
        assert!(wide.len() <= MAX_RESULT_BYTES && wide.len() > MAX_RESULT_BYTES - 3);
        assert!(wide.strip_suffix(CUT_MARK).unwrap().chars().all(|c| c == '€'));
    }

    #[test]
    fn only_a_task_that_has_not_ended_is_cancelled() {
        for state in TaskState::ALL {
            let expected = if *state == TaskState::Canceled {
                Cancel::Already
            } else if state.is_terminal() {
                Cancel::TooLate
            } else {
                Cancel::Now
            };
            assert_eq!(cancel(*state), expected, "{state}");
        }
    }

    #[test]
    fn a_restart_ends_what_worked_and_keeps_all_else() {
        for state in TaskState::ALL {
            let ending = after_restart(*state);
            assert_eq!(ending.is_some(), *state == TaskState::Working, "{state}");
            if let Some(ending) = ending {
                assert_eq!(ending.state(), TaskState::Failed);
                assert!(
                    ending.text().contains("effects may have completed; inspect before retrying")
                );
            }
        }
    }

    #[test]
    fn each_ending_has_its_state_and_its_words() {
        let cases = [
            (Ending::Completed("done".to_owned()), TaskState::Completed, "done"),
            (Ending::Failed("no".to_owned()), TaskState::Failed, "no"),
            (Ending::Canceled, TaskState::Canceled, "completed effects are not undone"),
            (Ending::Rejected, TaskState::Rejected, "never ran"),
            (Ending::timed_out(600), TaskState::Failed, "timed out after 600 s"),
        ];
        for (ending, state, words) in cases {
            assert_eq!(ending.state(), state);
            assert!(ending.text().contains(words), "{ending:?}");
        }
    }
}
