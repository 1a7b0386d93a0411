//! Bytes on a socket: hand-written requests, and the replies to them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;

use crate::wait::PATIENCE;

/// One reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers, in order, their names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {} {}", self.status, self.text()))
    }
}

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// A connection to the program under test.
pub struct Wire {
    stream: Box<dyn Duplex>,
    socket: TcpStream,
    unread: Vec<u8>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Wire {
    /// Connects in plain.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let stream = Box::new(socket.try_clone()?);
        Ok(Self { stream, socket, unread: Vec::new() })
    }

    /// Connects with TLS, as `localhost`'s client.
    ///
    /// # Errors
    /// When nobody listens there, or the handshake fails.
    pub fn connect_tls(address: &str, config: Arc<ClientConfig>) -> io::Result<Self> {
        let Self { socket, .. } = Self::connect(address)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, socket.try_clone()?);
        // The handshake now, so that its failure is told apart from a request's.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self { stream: Box::new(stream), socket, unread: Vec::new() })
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// When the other side has closed.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Says that nothing more will be written.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn finish(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// How long a read may take; [`PATIENCE`] unless told.
    pub fn set_patience(&self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).expect("set a read timeout");
    }

    /// Reads one reply.
    ///
    /// # Errors
    /// When the connection ends before one is complete, or what comes is no HTTP.
    pub fn reply(&mut self) -> io::Result<Reply> {
        self.reply_to("GET")
    }

    /// Reads one reply to a request of this method.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub fn reply_to(&mut self, method: &str) -> io::Result<Reply> {
        loop {
            let (status, headers) = self.head()?;
            if status == 100 {
                continue;
            }
            let mut reply = Reply { status, headers, body: Vec::new() };
            let bodiless = method == "HEAD" || status == 204 || status == 304;
            if !bodiless {
                reply.body = self.body(&reply)?;
            }
            return Ok(reply);
        }
    }

    /// Reads `100 Continue`: the other side has begun to read the body of a call that asked for it.
    ///
    /// # Errors
    /// When something else comes, or nothing.
    pub fn go_on(&mut self) -> io::Result<()> {
        match self.head()? {
            (100, _) => Ok(()),
            _ => Err(bad("100 Continue")),
        }
    }

    fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let end = loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                break end;
            }
            self.more()?;
        };
        let rest = self.unread.split_off(end + 4);
        parse_head(&std::mem::replace(&mut self.unread, rest))
    }

    /// Reads to the end of the connection; what came until then.
    ///
    /// # Errors
    /// When the connection is still open after the patience. A reset counts as an end.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.more() {
                Ok(()) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::UnexpectedEof
                            | io::ErrorKind::ConnectionReset
                            | io::ErrorKind::BrokenPipe
                            | io::ErrorKind::ConnectionAborted
                    ) =>
                {
                    return Ok(std::mem::take(&mut self.unread));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn body(&mut self, reply: &Reply) -> io::Result<Vec<u8>> {
        if let Some(length) = reply.header("content-length") {
            let length: usize = length.parse().map_err(|_error| bad("a content length"))?;
            return self.take(length);
        }
        if reply.header("transfer-encoding") != Some("chunked") {
            return self.rest();
        }
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = find(&self.unread, b"\r\n") {
                    break end;
                }
                self.more()?;
            };
            let line = self.take(end + 2)?;
            let size = std::str::from_utf8(&line).map_err(|_error| bad("a chunk size"))?.trim();
            let size = usize::from_str_radix(size, 16).map_err(|_error| bad("a chunk size"))?;
            let mut chunk = self.take(size + 2)?;
            chunk.truncate(size);
            if size == 0 {
                return Ok(body);
            }
            body.append(&mut chunk);
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            self.more()?;
        }
        let rest = self.unread.split_off(length);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    fn more(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
}

fn parse_head(head: &[u8]) -> io::Result<(u16, Vec<(String, String)>)> {
    let head = std::str::from_utf8(head).map_err(|_error| bad("a head in UTF-8"))?;
    let mut lines = head.split("\r\n").filter(|line| !line.is_empty());
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    let status = status.and_then(|line| line.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| bad("a status line of HTTP/1.1"))?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.map(header).collect::<Option<_>>().ok_or_else(|| bad("headers"))?;
    Ok((status, headers))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn bad(wanted: &str) -> io::Error {
    io::Error::other(format!("{wanted} was expected"))
}
