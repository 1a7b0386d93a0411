//! One connection: hyper's HTTP/1.1 between the stream that reports and the operations, ended by whoever
//! comes first: the client, a limit, a newcomer that needs the place, or the end of the service.
//!
//! hyper's own header timeout is off: it starts when hyper begins to *wait* for a head, so that it would
//! close idle connections, too.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::backend::Backend;
use super::error::Error;
use super::listen::Seat;
use super::slots::Expired;
use super::stream::Watched;
use super::{App, HEAD_LIMIT};
use crate::refusal::Refusal;

/// The most header lines. hyper's own limit of 100 would refuse heads that are within 16 KiB; beyond
/// some hundred lines nobody means well.
const MAX_HEADERS: usize = 256;

/// How a connection ended, as far as there is something left to say.
enum End {
    /// hyper is done: the last answer is written.
    Said,
    /// The headers did not come in time.
    Slow,
    /// Nothing can be said, or nobody listens.
    Silent,
}

/// Serves a connection until it ends.
///
/// Dropping it closes the connection; what the core has taken on goes on.
pub(super) async fn serve<B, S>(
    stream: S,
    app: Arc<App<B>>,
    seat: Arc<Seat>,
    stop: CancellationToken,
) where
    B: Backend,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handed_over = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Watched::new(stream, Arc::clone(&seat), Arc::clone(&handed_over)));
    let calls = Calls { app, seat: Arc::clone(&seat), handed_over };
    let mut conn = http1::Builder::new()
        .max_header_size(HEAD_LIMIT)
        .max_headers(MAX_HEADERS)
        .header_read_timeout(None)
        // `stream` counts on a head being written in one piece.
        .writev(false)
        .serve_connection(io, calls);
    let end = {
        let mut expired = pin!(seat.expired());
        let mut stopping = false;
        loop {
            tokio::select! {
                // An answer that is ready goes out before a limit that is over is looked at.
                biased;
                result = poll_fn(|cx| conn.poll_without_shutdown(cx)) => {
                    if let Err(error) = result {
                        tracing::debug!(%error, "connection ended");
                    }
                    break End::Said;
                }
                why = &mut expired => break match why {
                    Expired::Head => End::Slow,
                    Expired::Idle | Expired::Stall | Expired::Closing => End::Silent,
                },
                () = seat.told_to_leave() => break End::Silent,
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    Pin::new(&mut conn).graceful_shutdown();
                }
            }
        }
    };
    let stream = conn.into_parts().io.into_inner().into_inner();
    match end {
        End::Said => last_words(stream, &seat, None).await,
        End::Slow => last_words(stream, &seat, Some(Error::HeadSlow)).await,
        End::Silent => {}
    }
}

/// Says what is left to say, and listens until the client hangs up: closing a socket that has unread
/// bytes resets it, and the reset can overtake the answer.
async fn last_words<S>(mut stream: S, seat: &Seat, error: Option<Error>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    seat.closing();
    let talk = async {
        if let Some(error) = error {
            stream.write_all(&error.to_bytes(None)).await?;
        }
        stream.shutdown().await?;
        let mut ignored = [0; 4096];
        while stream.read(&mut ignored).await? > 0 {}
        std::io::Result::Ok(())
    };
    tokio::select! {
        result = talk => {
            if let Err(error) = result {
                tracing::debug!(%error, "connection ended");
            }
        }
        _over = seat.expired() => {}
        () = seat.told_to_leave() => {}
    }
}

/// The operations as hyper calls them, noting in the table when a request is in flight.
struct Calls<B> {
    app: Arc<App<B>>,
    seat: Arc<Seat>,
    handed_over: Arc<AtomicBool>,
}

impl<B: Backend> Service<Request<Incoming>> for Calls<B> {
    type Response = Response<Noted>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let stays = self.seat.begin();
        let app = Arc::clone(&self.app);
        let handed_over = Arc::clone(&self.handed_over);
        Box::pin(async move {
            if !stays {
                // The connection is about to be dropped, and this with it.
                return pending().await;
            }
            let reply = Caught(Box::pin(app.answer(request))).await;
            let reply = reply.unwrap_or_else(|| Error::from(Refusal::Internal).to_reply());
            Ok(reply.map(|body| Noted { body, handed_over }))
        })
    }
}

/// A future whose panic is an answer like any other fault of ours: the client learns that it failed, and
/// the connection goes on. The panic itself is told by the process's hook.
struct Caught<F>(F);

impl<F: Future + Unpin> Future for Caught<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = Pin::new(&mut self.get_mut().0);
        // The future is not touched again after a panic.
        match catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(poll) => poll.map(Some),
            Err(_told_by_the_hook) => Poll::Ready(None),
        }
    }
}

/// A body that says when hyper has taken the last of it.
struct Noted {
    body: axum::body::Body,
    handed_over: Arc<AtomicBool>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.handed_over.store(true, Ordering::Relaxed);
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
