//! A connection's byte stream that reports to the table of connections, and that puts our error in the
//! place of hyper's own.
//!
//! hyper answers a head that is no HTTP or too large by itself, with an empty 400 or 431, before any
//! service is called. Such an answer is known by what it lacks: each of ours names the A2A version. It
//! is always the last thing that hyper writes, and hyper writes each head in one piece (write buffers
//! are flattened, see `conn`), so the end of one write is enough to look at. None of our bodies can be
//! taken for it: they are JSON, where a line break is escaped, or one line of text.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::Error;
use super::listen::Seat;

/// The stream of one connection.
pub(super) struct Watched<S> {
    inner: S,
    seat: Arc<Seat>,
    /// Set when an answer was handed over; it is out after the next flush.
    handed_over: Arc<AtomicBool>,
    /// Our own answer in place of one of hyper's, and how much of it is written.
    instead: Vec<u8>,
    written: usize,
}

impl<S> Watched<S> {
    pub(super) fn new(inner: S, seat: Arc<Seat>, handed_over: Arc<AtomicBool>) -> Self {
        Self { inner, seat, handed_over, instead: Vec::new(), written: 0 }
    }

    /// The stream underneath.
    pub(super) fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    /// Writes what stands in place of hyper's answer.
    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        while let Some(rest) = self.instead.get(self.written..).filter(|rest| !rest.is_empty()) {
            let count = Pin::new(&mut self.inner).poll_write(cx, rest);
            self.seat.stalled(count.is_pending());
            let count = ready!(count)?;
            if count == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.written = self.written.saturating_add(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            this.seat.bytes();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_instead(cx))?;
        if let Some(answer) = in_place_of(buf) {
            this.instead = answer;
            this.written = 0;
            return Poll::Ready(Ok(buf.len()));
        }
        let write = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.seat.stalled(write.is_pending());
        write
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_instead(cx))?;
        let flush = Pin::new(&mut this.inner).poll_flush(cx);
        if flush.is_pending() {
            // A flush that is ready with nothing to write says nothing about the client.
            this.seat.stalled(true);
        }
        ready!(flush)?;
        if this.handed_over.swap(false, Ordering::Relaxed) {
            this.seat.answered();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_instead(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

/// What to write in place of a buffer that ends with an answer of hyper's own: what stands before that
/// answer, and ours.
fn in_place_of(buf: &[u8]) -> Option<Vec<u8>> {
    buf.strip_suffix(b"\r\n\r\n")?;
    let start = buf.windows(7).rposition(|window| window == b"HTTP/1.")?;
    let (before, head) = buf.split_at_checked(start)?;
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?;
    let mut date = None;
    for line in lines {
        let (name, _) = line.split_once(':').unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("a2a-version") {
            return None;
        }
        if name.eq_ignore_ascii_case("date") {
            date = Some(line);
        }
    }
    let error = match status {
        "400" => Error::Malformed,
        "414" | "431" => Error::HeadTooLarge,
        _ => return None,
    };
    let mut answer = before.to_vec();
    answer.extend(error.to_bytes(date));
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_hypers_own_is_replaced() {
        let own = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\
                   date: Fri, 01 May 2026 12:00:00 GMT\r\n\r\n";
        let text = String::from_utf8(in_place_of(own.as_bytes()).unwrap()).unwrap();
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        assert!(text.contains("\r\ndate: Fri, 01 May 2026 12:00:00 GMT\r\n"), "{text}");
        assert!(text.contains("\r\na2a-version: 1.0\r\n"), "{text}");
        assert!(text.contains("\"reason\":\"INVALID_PARAMS\""), "{text}");

        let before = "HTTP/1.1 304 Not Modified\r\na2a-version: 1.0\r\n\r\n";
        let both = in_place_of(format!("{before}{own}").as_bytes()).unwrap();
        assert_eq!(both, [before.as_bytes(), text.as_bytes()].concat());

        for other in [
            before,
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\na2a-version: 1.0\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "",
            "\r\n\r\n",
        ] {
            assert_eq!(in_place_of(other.as_bytes()), None, "{other}");
        }
    }
}
