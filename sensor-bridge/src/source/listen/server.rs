//! The listener of one address: connections, their bound and their end.
//!
//! `axum::serve` has no limit of connections and none of their silence, so the loop is ours.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use service_kit::{
    Tasks,
    tls::{ServerCertificate, server_config},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;

use super::{Endpoints, router::router};
use crate::metrics::Connection;

/// Connections at once; a further one waits in the system's queue.
///
/// Sixty-four cameras that do not keep their connection have room four times over.
const MAX_CONNECTIONS: usize = 256;

/// How long a connection may be silent, or take for its handshake or one request's head.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// How long accepting rests when the system has no descriptors left.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// A bound address whose sources are not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    endpoints: Arc<Endpoints>,
    certificate: Option<Arc<ServerCertificate>>,
}

/// Binds the address of `endpoints`; with a certificate it speaks TLS only.
///
/// # Errors
/// The address is taken or not of this machine.
pub async fn bind(
    address: SocketAddr,
    certificate: Option<Arc<ServerCertificate>>,
    endpoints: Endpoints,
) -> io::Result<Bound> {
    let listener = TcpListener::bind(address).await?;
    Ok(Bound { listener, endpoints: Arc::new(endpoints), certificate })
}

impl Bound {
    /// The address with its real port, where port 0 was asked for.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the soft stop; requests in flight are answered.
    pub async fn serve(self, tasks: Tasks) {
        let Self { listener, endpoints, certificate } = self;
        for port in endpoints.ports() {
            port.connection(Connection::Open);
        }
        let router = router(Arc::clone(&endpoints), tasks.soft_stop().clone());
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let stop = tasks.soft_stop().clone();
        let tls = certificate.map(|certificate| {
            drop(tasks.spawn(Arc::clone(&certificate).keep_fresh(stop.clone())));
            TlsAcceptor::from(server_config(certificate))
        });
        let accept = async {
            loop {
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, _peer)) => {
                        let connection = Connected {
                            stream,
                            tls: tls.clone(),
                            router: router.clone(),
                            tasks: tasks.clone(),
                            _permit: permit,
                        };
                        drop(tasks.spawn(connection.serve()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_REST).await;
                    }
                }
            }
        };
        let _stopped = stop.run_until_cancelled(accept).await;
        for port in endpoints.ports() {
            port.connection(Connection::Ended);
        }
    }
}

/// One connection; it has its permit until it ends.
struct Connected {
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    tasks: Tasks,
    _permit: OwnedSemaphorePermit,
}

impl Connected {
    async fn serve(self) {
        let Self { stream, tls, router, tasks, _permit } = self;
        let Some(tls) = tls else { return requests(stream, router, &tasks).await };
        match tokio::time::timeout(MAX_SILENCE, tls.accept(stream)).await {
            Ok(Ok(stream)) => requests(stream, router, &tasks).await,
            Ok(Err(error)) => tracing::debug!(%error, "a connection shook no hands"),
            Err(_elapsed) => tracing::debug!("a connection was too slow to shake hands"),
        }
    }
}

/// Answers the requests of one connection.
async fn requests<S>(stream: S, router: Router, tasks: &Tasks)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut http = auto::Builder::new(TokioExecutor::new()).http1_only();
    http.http1().timer(TokioTimer::new()).header_read_timeout(MAX_SILENCE).max_buf_size(64 * 1024);
    let service = TowerToHyperService::new(router);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = tasks.soft_stop().cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = tasks.hard_stop().cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
