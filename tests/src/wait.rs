//! Waiting for an event, with a deadline that fails the test.

use std::thread::sleep;
use std::time::Duration;

use service_kit::Clock;

/// How long a test waits for something that should happen at once, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(4);

/// Returns what `look` finds; fails the test when it found nothing within [`PATIENCE`].
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look)
}

/// Returns what `look` finds; fails the test when it found nothing within `limit`.
#[track_caller]
pub fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::system();
    loop {
        // Taken before the look, so that a machine that stood still gives one more look.
        let passed = clock.uptime();
        if let Some(found) = look() {
            return found;
        }
        assert!(passed < limit, "waited {limit:?} in vain: {what}");
        sleep(LOOK_EVERY);
    }
}
