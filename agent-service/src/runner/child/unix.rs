//! Spawning on Unix. The only unsafe code of the service is here.
//!
//! Every child leads a process group of its own, so that what it starts can be ended with it. On Linux
//! it also dies with the service: the kernel sends that signal when the *thread* that spawned it ends,
//! so all children are spawned from one thread that lives as long as the service.

use std::io;
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
