//! A child's process group: asking it to go, killing it, and knowing when it is gone.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How often a group that was asked to go is looked at: at first, and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// How long a group may take to go after SIGKILL, which cannot be refused: only a process in an
/// uninterruptible call is late.
const KILLED: Duration = Duration::from_secs(2);

/// A child and the group that it leads.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    leader: Pid,
}

impl Group {
    /// The group of a child that was just spawned as its leader.
    ///
    /// # Errors
    /// When the child was waited for already.
    pub(super) fn of(child: Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = id.map(Pid::from_raw).ok_or_else(|| io::Error::other("it ended at once"))?;
        Ok(Self { child, leader })
    }

    /// The leader's process number.
    pub(super) fn pid(&self) -> i32 {
        self.leader.as_raw()
    }

    /// The leader, for its pipes.
    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the leader's end; the rest of the group may live on.
    pub(super) async fn exit(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks the group to go, and kills what is left of it after the grace, or as soon as `at_once` is
    /// cancelled. Returns when nothing of it runs any more, with the leader's status.
    pub(super) async fn end(
        &mut self,
        grace: Duration,
        at_once: &CancellationToken,
    ) -> Option<ExitStatus> {
        self.signal(Signal::SIGTERM);
        let went = tokio::select! {
            went = self.gone_within(grace) => went,
            () = at_once.cancelled() => false,
        };
        if !went {
            self.signal(Signal::SIGKILL);
            if !self.gone_within(KILLED).await {
                warn!(pid = self.pid(), "the agent's group does not end although it was killed");
            }
        }
        timeout(KILLED, self.child.wait()).await.ok()?.ok()
    }

    fn signal(&self, signal: Signal) {
        if self.is_foreign() {
            return;
        }
        // No such group is what is wanted; it may be gone at any time.
        if let Err(error) = killpg(self.leader, signal)
            && error != Errno::ESRCH
        {
            warn!(pid = self.pid(), %error, "cannot signal the agent's group");
        }
    }

    /// Waits until nothing of the group runs any more; false when it takes longer.
    async fn gone_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut pause = POLL.0;
        while self.runs() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(pause).await;
            pause = (pause * 2).min(POLL.1);
        }
        true
    }

    /// Whether a process of the group runs. A zombie does not: who reaps it may be slow, or nobody.
    fn runs(&self) -> bool {
        if self.is_foreign() {
            return false;
        }
        match killpg(self.leader, None) {
            Err(Errno::ESRCH) => false,
            Ok(()) | Err(_) => self.has_living_member(),
        }
    }

    /// Whether the number has gone to somebody else. It cannot while anything of the group is left,
    /// so a process of that number after the leader was reaped is not ours.
    fn is_foreign(&self) -> bool {
        self.child.id().is_none() && std::path::Path::new(&stat_of(self.leader)).exists()
    }

    #[cfg(target_os = "linux")]
    fn has_living_member(&self) -> bool {
        // While the leader lives there is no need to look at all processes.
        if std::fs::read_to_string(stat_of(self.leader)).is_ok_and(|stat| lives(self.leader, &stat))
        {
            return true;
        }
        let Ok(entries) = std::fs::read_dir("/proc") else { return true };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
            .filter_map(|pid| std::fs::read_to_string(stat_of(pid)).ok())
            .any(|stat| lives(self.leader, &stat))
    }

    #[cfg(not(target_os = "linux"))]
    fn has_living_member(&self) -> bool {
        true
    }
}

fn stat_of(pid: Pid) -> String {
    format!("/proc/{pid}/stat")
}

/// Reads a line of /proc/PID/stat: `pid (name) state ppid pgrp ...`; the name may hold anything.
#[cfg(target_os = "linux")]
fn lives(group: Pid, stat: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let state = fields.next().unwrap_or_default();
    let number = fields.nth(1).and_then(|field| field.parse().ok());
    number == Some(group.as_raw()) && !matches!(state, "Z" | "X")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_does_not_count_as_alive() {
        let cases = [
            ("42 (sh) S 1 42 42 0", true),
            ("43 (a) b) Z) R 42 42 42 0", true),
            ("43 (sh) Z 42 42 42 0", false),
            ("43 (sh) X 42 42 42 0", false),
            ("43 (sh) S 42 41 42 0", false),
            ("nonsense", false),
        ];
        for (stat, expected) in cases {
            assert_eq!(lives(Pid::from_raw(42), stat), expected, "{stat}");
        }
    }

    #[tokio::test]
    async fn a_number_that_went_to_somebody_else_is_never_signalled() {
        let mut command = tokio::process::Command::new("true");
        let mut child = command.process_group(0).kill_on_drop(true).spawn().unwrap();
        child.wait().await.unwrap();
        // As if the kernel had given the number of the child that is gone to a stranger.
        let mut stranger = tokio::process::Command::new("cat");
        stranger.process_group(0).kill_on_drop(true).stdin(std::process::Stdio::piped());
        let mut stranger = stranger.spawn().unwrap();
        let leader = Pid::from_raw(i32::try_from(stranger.id().unwrap()).unwrap());
        let mut group = Group { child, leader };
        group.end(Duration::from_secs(5), &CancellationToken::new()).await;
        // It ends by the end of its input, not by a signal.
        drop(stranger.stdin.take());
        assert_eq!(stranger.wait().await.unwrap().code(), Some(0));
    }
}
