//! Spawning and killing on Unix. The only unsafe code of the service is here.
//!
//! Every child leads a process group of its own, so that what it starts can be ended with it. On Linux
//! it also dies with the service: the kernel sends that signal when the *thread* that spawned it ends,
//! so all children are spawned from one thread that lives as long as the service.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tracing::warn;

/// How often a group that was asked to go is looked at.
const POLL: Duration = Duration::from_millis(10);

type Order = (Command, oneshot::Sender<io::Result<Child>>);

/// The thread that spawns.
#[derive(Debug, Clone)]
pub(super) struct Spawner {
    orders: mpsc::SyncSender<Order>,
}

impl Spawner {
    /// Starts the thread; it ends with the last handle.
    pub(super) fn start() -> io::Result<Self> {
        let (orders, waiting) = mpsc::sync_channel::<Order>(16);
        let runtime = tokio::runtime::Handle::current();
        std::thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            let _inside = runtime.enter();
            for (mut command, reply) in waiting {
                // A caller that has gone away: dropping the child kills it.
                drop(reply.send(command.spawn()));
            }
        })?;
        Ok(Self { orders })
    }

    /// Spawns a child that leads its own group and dies with the service.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(0).kill_on_drop(true);
        die_with_parent(&mut command);
        let (reply, child) = oneshot::channel();
        let gone = || io::Error::other("the spawning thread has ended");
        // Held for the length of a spawn by one of few callers; the channel is never full.
        self.orders.try_send((command, reply)).map_err(|_full| gone())?;
        child.await.map_err(|_closed| gone())?
    }
}

/// Keeps children of the same user from reading the service's memory and environment in /proc.
pub(super) fn forbid_dumps() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "`pre_exec` has no safe form")]
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The service may have died before the line above.
        if u32::try_from(nix::unistd::getppid().as_raw()) == Ok(parent) {
            Ok(())
        } else {
            Err(io::Error::from(Errno::ESRCH))
        }
    };
    // SAFETY: the closure runs between fork and exec, and makes two system calls: it allocates
    // nothing, takes no lock, and touches no memory that another thread may hold.
    unsafe {
        command.pre_exec(prepare);
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}

/// A child's process group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group(Pid);

impl Group {
    /// The group that this child leads; none when it was reaped already.
    pub(super) fn of(child: &Child) -> Option<Self> {
        child.id().and_then(|id| i32::try_from(id).ok()).map(|id| Self(Pid::from_raw(id)))
    }

    /// The leader's process number.
    pub(super) fn pid(self) -> i32 {
        self.0.as_raw()
    }

    /// Asks the group to go: SIGTERM.
    pub(super) fn terminate(self) {
        self.signal(Signal::SIGTERM);
    }

    /// Ends the group: SIGKILL.
    pub(super) fn kill(self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(self, signal: Signal) {
        // No such group is what is wanted; it may be gone at any time.
        if let Err(error) = killpg(self.0, signal)
            && error != Errno::ESRCH
        {
            warn!(pid = self.pid(), %error, "cannot signal the agent's group");
        }
    }

    /// Waits until nothing of the group runs any more, or until the deadline; true when it is gone.
    pub(super) async fn gone_by(self, deadline: Instant) -> bool {
        loop {
            if !self.runs() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(POLL).await;
        }
    }

    /// Asks the group to go, and kills what is left after the grace. Returns when it is gone.
    pub(super) async fn end(self, grace: Duration) {
        self.terminate();
        if !self.gone_by(Instant::now() + grace).await {
            self.kill();
            // SIGKILL cannot be refused; only a process in an uninterruptible call is late.
            self.gone_by(Instant::now() + Duration::from_secs(2)).await;
        }
    }

    /// Whether a process of the group runs. A zombie does not: who reaps it may be slow, or nobody.
    fn runs(self) -> bool {
        match killpg(self.0, None) {
            Err(Errno::ESRCH) => false,
            Ok(()) | Err(_) => self.has_living_member(),
        }
    }

    #[cfg(target_os = "linux")]
    fn has_living_member(self) -> bool {
        let Ok(entries) = std::fs::read_dir("/proc") else { return true };
        entries
            .flatten()
            .filter(|entry| {
                entry
                    .file_name()
                    .to_str()
                    .is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
            })
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
            .any(|stat| self.lives(&stat))
    }

    #[cfg(not(target_os = "linux"))]
    fn has_living_member(self) -> bool {
        true
    }

    /// Reads a line of /proc/PID/stat: `pid (name) state ppid pgrp ...`; the name may hold anything.
    #[cfg(target_os = "linux")]
    fn lives(self, stat: &str) -> bool {
        let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
        let mut fields = fields.split(' ');
        let state = fields.next().unwrap_or_default();
        let group = fields.nth(1).and_then(|field| field.parse().ok());
        group == Some(self.0.as_raw()) && !matches!(state, "Z" | "X")
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_does_not_count_as_alive() {
        let group = Group(Pid::from_raw(42));
        let cases = [
            ("42 (sh) S 1 42 42 0", true),
            ("43 (a) b) Z) R 42 42 42 0", true),
            ("43 (sh) Z 42 42 42 0", false),
            ("43 (sh) X 42 42 42 0", false),
            ("43 (sh) S 42 41 42 0", false),
            ("nonsense", false),
        ];
        for (stat, expected) in cases {
            assert_eq!(group.lives(stat), expected, "{stat}");
        }
    }
}
