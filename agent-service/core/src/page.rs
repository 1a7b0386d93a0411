//! What fits on a page of tasks, and where the next one begins.
//!
//! Tasks are listed with the newest status first. A page ends early to stay within [`MAX_BYTES`]; the
//! next one begins strictly after the last task that was shown. A task that changes during a walk moves
//! to the front, and so is never shown twice.

/// The largest body of a page, in bytes. Source: CONTRACT, section 3, "tasks".
pub const MAX_BYTES: usize = 1024 * 1024;

/// What the braces, names, numbers and the token around the tasks may take.
const FRAME_BYTES: usize = 4096;

/// What is left of a page.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    bytes: usize,
    tasks: usize,
    empty: bool,
}

impl Budget {
    /// A new page of at most this many tasks.
    pub fn new(tasks: usize) -> Self {
        Self { bytes: MAX_BYTES.saturating_sub(FRAME_BYTES), tasks, empty: true }
    }

    /// Takes a task of this many bytes of JSON; false ends the page before it.
    ///
    /// The first task always fits: a page that shows nothing would never end.
    pub fn take(&mut self, bytes: usize) -> bool {
        // One more for the comma.
        let size = bytes.saturating_add(1);
        let fits = self.tasks > 0 && (size <= self.bytes || self.empty);
        if fits {
            self.bytes = self.bytes.saturating_sub(size);
            self.tasks = self.tasks.saturating_sub(1);
            self.empty = false;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_number_of_tasks_or_at_one_mebibyte() {
        let mut page = Budget::new(2);
        assert_eq!([page.take(10), page.take(10), page.take(10)], [true, true, false]);

        let mut page = Budget::new(100);
        let rest = MAX_BYTES - FRAME_BYTES - 1_000_001;
        assert!(page.take(1_000_000));
        assert!(!page.take(rest), "with its comma it is one byte too many");
        assert!(page.take(rest - 1));
        assert!(!page.take(0));
    }

    #[test]
    fn the_first_task_always_fits() {
        let mut page = Budget::new(1);
        assert!(page.take(MAX_BYTES * 2));
        assert!(!page.take(1));
    }
}
