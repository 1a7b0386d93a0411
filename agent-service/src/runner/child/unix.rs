//! Spawning on Unix. The only unsafe code of the service is here.
//!
//! Every child leads a process group of its own, so that what it starts can be ended with it. On Linux
//! it also dies with the service: the kernel sends that signal when the *thread* that spawned it ends,
//! so all children are spawned from one thread that lives as long as the service.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc;

#[cfg(target_os = "linux")]
use nix::{errno::Errno, sys::signal::Signal};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use super::group::Group;

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
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Group> {
        command.process_group(0).kill_on_drop(true);
        die_with_parent(&mut command);
        let (reply, child) = oneshot::channel();
        let gone = || io::Error::other("the spawning thread has ended");
        // Held for the length of a spawn by one of few callers; the channel is never full.
        self.orders.try_send((command, reply)).map_err(|_full| gone())?;
        Group::of(child.await.map_err(|_closed| gone())??)
    }
}

/// Whether nobody can read the last `count` bytes that were written to this pipe: they are in it still,
/// and it has no reader left. False where that cannot be known.
#[cfg(target_os = "linux")]
pub(super) fn are_unread(pipe: impl AsFd, count: usize) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut looked = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    let polled = poll(&mut looked, PollTimeout::ZERO).is_ok();
    let [looked] = looked;
    // What Linux says of the writing end when the reading end is closed.
    let no_reader = looked.revents().is_some_and(|events| events.contains(PollFlags::POLLERR));
    polled && no_reader && bytes_in(&pipe).is_some_and(|held| held >= count)
}

/// See above.
#[cfg(not(target_os = "linux"))]
pub(super) fn are_unread(_pipe: impl AsFd, _count: usize) -> bool {
    false
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "`ioctl` has no safe form")]
fn bytes_in(pipe: &impl AsFd) -> Option<usize> {
    use std::os::fd::AsRawFd;
    let mut held: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as it is borrowed, and FIONREAD writes one `int` to where
    // the pointer points, which is one that lives longer than the call.
    let done = unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut held) };
    (done == 0).then(|| usize::try_from(held).ok())?
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn bytes_are_unread_for_good_when_all_are_there_and_no_reader_is() {
        use std::io::{Read, Write};
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"hello").unwrap();
        assert!(!are_unread(&writer, 5), "somebody may read them");
        let mut one = [0_u8];
        reader.read_exact(&mut one).unwrap();
        let other = reader.try_clone().unwrap();
        drop(reader);
        assert!(!are_unread(&writer, 4), "somebody else may read them");
        drop(other);
        assert!(are_unread(&writer, 4));
        assert!(!are_unread(&writer, 5), "one was read");
    }

    #[tokio::test]
    async fn a_child_dies_with_the_thread_that_lives_as_long_as_the_service() {
        let spawner = Spawner::start().unwrap();
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        let mut group = spawner.spawn(command).await.unwrap();
        // Its input stays open, so nothing else ends it.
        let held = group.child().stdin.take();
        drop(spawner);
        assert_eq!(group.exit().await.unwrap().signal(), Some(9));
        drop(held);
    }
}
