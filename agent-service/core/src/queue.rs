//! Who may come in, and who has to go for it.

/// How many tasks may be submitted or working at once. Source: CONTRACT, section 2.
pub const MAX_PENDING: u32 = 64;

/// When somebody who was refused may come again, in seconds.
///
/// A place is free when a task ends, which takes seconds at least; a shorter wait would only load
/// the service that is full already.
pub const RETRY_AFTER_SECONDS: u32 = 5;

/// What the service holds at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Tasks that are submitted or working.
    pub pending: u32,
    /// All tasks that are retained, those that are pending among them.
    pub retained: u32,
    /// Whether there is a terminal task that no worker holds any more.
    pub evictable: bool,
}

/// What a submission may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Come in.
    Admit,
    /// Come in once the oldest terminal task that no worker holds has gone.
    Evict,
    /// Stay out.
    Full(Full),
}

/// Why a submission has to stay out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// [`MAX_PENDING`] tasks are pending.
    Pending,
    /// `max_tasks` tasks are retained, and none of them may go.
    Retained,
}

impl Full {
    /// The refusal in words.
    pub fn message(self, max_tasks: u32) -> String {
        match self {
            Self::Pending => format!("the queue is full: {MAX_PENDING} tasks are pending"),
            Self::Retained => {
                format!(
                    "all {max_tasks} retained tasks (max_tasks) are pending or still held by a worker"
                )
            }
        }
    }
}

/// Decides on one submission. `max_tasks` bounds what is retained, 1 to 1000.
pub fn admit(load: Load, max_tasks: u32) -> Admission {
    if load.pending >= MAX_PENDING {
        Admission::Full(Full::Pending)
    } else if load.retained < max_tasks {
        Admission::Admit
    } else if load.evictable {
        Admission::Evict
    } else {
        Admission::Full(Full::Retained)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_submission_comes_in_evicts_or_stays_out() {
        let load = |pending, retained, evictable| Load { pending, retained, evictable };
        let cases = [
            ("empty", load(0, 0, false), 200, Admission::Admit),
            ("the 64th", load(63, 63, false), 200, Admission::Admit),
            ("the 65th", load(64, 64, false), 200, Admission::Full(Full::Pending)),
            (
                "the 65th, with room made by nobody",
                load(64, 200, true),
                200,
                Admission::Full(Full::Pending),
            ),
            ("the last place", load(0, 199, true), 200, Admission::Admit),
            ("over max_tasks", load(0, 200, true), 200, Admission::Evict),
            ("nobody may go", load(5, 200, false), 200, Admission::Full(Full::Retained)),
            ("max_tasks below 64", load(1, 1, false), 1, Admission::Full(Full::Retained)),
        ];
        for (name, load, max_tasks, expected) in cases {
            assert_eq!(admit(load, max_tasks), expected, "{name}");
        }
    }

    #[test]
    fn a_refusal_names_the_limit() {
        assert!(Full::Pending.message(200).contains("64 tasks are pending"));
        assert!(Full::Retained.message(7).contains("all 7 retained tasks"));
    }

    proptest! {
        /// Whatever comes and ends, in any order: the bounds hold, and an empty service lets anybody in.
        #[test]
        fn no_stream_of_submissions_and_ends_breaks_a_bound(
            max_tasks in 1_u32..=100,
            steps in prop::collection::vec(0_u8..4, 1..400),
        ) {
            let (mut pending, mut retained, mut held) = (0_u32, 0_u32, 0_u32);
            for step in steps {
                match step {
                    // The running task ends, and its worker may still hold it.
                    0 if pending > 0 => (pending, held) = (pending - 1, 1),
                    1 => held = 0,
                    _ => {
                        let ended = retained - pending;
                        let load = Load { pending, retained, evictable: ended > held.min(ended) };
                        match admit(load, max_tasks) {
                            Admission::Admit => (pending, retained) = (pending + 1, retained + 1),
                            Admission::Evict => pending += 1,
                            Admission::Full(_) => {
                                prop_assert!(pending == MAX_PENDING || retained == max_tasks);
                                prop_assert!(pending > 0 || held > 0);
                            }
                        }
                    }
                }
                prop_assert!(pending <= MAX_PENDING && pending <= retained && retained <= max_tasks);
            }
        }
    }
}
