//! The accept loop: takes a connection, finds it a place, serves it in a task of its own.
//!
//! Who has to leave is decided in [`slots`](super::slots); here are the sockets, the clock and the lock
//! around the table. The lock is held for one step of the table and never across an await.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::App;
use super::backend::Backend;
use super::conn;
use super::slots::{Admission, Expired, Id, Limits, Slots};

/// How long to wait after an accept that failed, as it does without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a listener until `stop`, which means the end of the grace period: until then requests are
/// answered as usual (submissions with 503 when the core refuses them).
///
/// `tls` is `service_kit::tls::server_config`, whose certificate may be exchanged while this runs.
///
/// After `stop` no connection is accepted, idle ones are closed, and answers on their way have
/// [`Limits::drain`] to get out. Returns when all connections are gone. Dropping it stops accepting at
/// once and leaves the connections to the end of the runtime.
pub async fn serve<B: Backend>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    app: Arc<App<B>>,
    limits: Limits,
    stop: CancellationToken,
) {
    let table = Arc::new(Table::new(limits));
    let tasks = TaskTracker::new();
    loop {
        let next = async {
            let stream = accept(&listener).await;
            let seat = Table::seat(&table).await;
            (stream, seat)
        };
        let (stream, seat) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        tasks.spawn(connection(stream, tls.clone(), Arc::clone(&app), seat, stop.clone()));
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.drain, tasks.wait()).await.is_err() {
        table.tell_all_to_leave();
        tasks.wait().await;
    }
}

/// Accepts a connection. Errors are the machine's (no descriptors) or the client's (gone already), and
/// neither ends the service.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection<B: Backend>(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    app: Arc<App<B>>,
    seat: Arc<Seat>,
    stop: CancellationToken,
) {
    // Answers are written whole; waiting for more to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection ended");
        return;
    }
    let Some(tls) = tls else {
        return conn::serve(stream, app, seat, stop).await;
    };
    let handshake = async {
        // Not `readable`, which may be ready for nothing.
        stream.peek(&mut [0]).await?;
        seat.bytes();
        TlsAcceptor::from(tls).accept(stream).await
    };
    let secured = tokio::select! {
        secured = handshake => secured,
        _over = seat.expired() => return,
        () = seat.told_to_leave() => return,
        () = stop.cancelled() => return,
    };
    match secured {
        Ok(stream) => {
            seat.secured();
            conn::serve(Box::new(stream), app, seat, stop).await;
        }
        Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
    }
}

/// The table of connections with its lock.
pub(super) struct Table {
    inner: Mutex<Inner>,
    /// Something changed that a waiting newcomer may have waited for.
    changed: Notify,
}

struct Inner {
    slots: Slots,
    leave: BTreeMap<Id, CancellationToken>,
}

impl Table {
    pub(super) fn new(limits: Limits) -> Self {
        let inner = Inner { slots: Slots::new(limits), leave: BTreeMap::new() };
        Self { inner: Mutex::new(inner), changed: Notify::new() }
    }

    /// Finds a place, waiting for one if need be. Dropping it takes none.
    pub(super) async fn seat(table: &Arc<Self>) -> Arc<Seat> {
        loop {
            let admission = table.lock().slots.admit(Instant::now());
            match admission {
                Admission::Seat(id) => {
                    let leave = CancellationToken::new();
                    table.lock().leave.insert(id, leave.clone());
                    let table = Arc::clone(table);
                    return Arc::new(Seat { id, table, leave, rearm: Notify::new() });
                }
                Admission::After(id) => {
                    tracing::debug!(connection = id, "a connection makes room for a new one");
                    if let Some(leave) = table.lock().leave.get(&id) {
                        leave.cancel();
                    }
                }
                // One permit is kept while nobody waits, so that no change is missed.
                Admission::Wait => table.changed.notified().await,
            }
        }
    }

    fn tell_all_to_leave(&self) {
        for leave in self.lock().leave.values() {
            leave.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A step of the table does not panic half-way; and a table that is slightly wrong is better
        // than a service that answers nobody.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the table; dropping the last of it makes the place free.
pub(super) struct Seat {
    id: Id,
    table: Arc<Table>,
    leave: CancellationToken,
    /// The deadline changed.
    rearm: Notify,
}

impl Seat {
    pub(super) fn bytes(&self) {
        self.step(Slots::bytes);
    }

    pub(super) fn secured(&self) {
        self.step(Slots::secured);
    }

    /// Whether the request may be served.
    pub(super) fn begin(&self) -> bool {
        self.step(Slots::begin)
    }

    pub(super) fn answered(&self) {
        self.step(Slots::answered);
    }

    pub(super) fn closing(&self) {
        self.step(Slots::closing);
    }

    /// Notes whether the client takes its answer.
    pub(super) fn stalled(&self, stalled: bool) {
        let at = stalled.then(Instant::now);
        if self.table.lock().slots.stalled(self.id, at) {
            self.rearm.notify_one();
        }
    }

    pub(super) async fn told_to_leave(&self) {
        self.leave.cancelled().await;
    }

    /// Waits until the connection's time is over. One at a time may wait.
    pub(super) async fn expired(&self) -> Expired {
        loop {
            let deadline = self.table.lock().slots.deadline(self.id);
            match deadline {
                None => self.rearm.notified().await,
                Some((at, why)) if at <= Instant::now() => return why,
                Some((at, _)) => {
                    tokio::select! {
                        () = self.rearm.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    fn step<T>(&self, step: impl FnOnce(&mut Slots, Id, Instant) -> T) -> T {
        let result = step(&mut self.table.lock().slots, self.id, Instant::now());
        self.rearm.notify_one();
        self.table.changed.notify_one();
        result
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.table.lock();
        inner.slots.gone(self.id);
        inner.leave.remove(&self.id);
        drop(inner);
        self.table.changed.notify_one();
    }
}
