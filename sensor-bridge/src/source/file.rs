//! JSON lines from a file that grows, a FIFO, or standard input.
//!
//! A regular file is followed like `tail -F`: what is in it when the bridge
//! starts is old news; a file that appears later, or takes the place of a
//! rotated one, is read from its start. The old one is read to its end first,
//! and a last line without newline counts then. A file that became shorter
//! was truncated and is read from its start.
//!
//! A FIFO without a writer is open and silent; when its last writer leaves, a
//! line without newline is over. Standard input ends once and for all.
//!
//! There is no watching API in it: they differ per system and miss network
//! file systems. Looking every 50 ms costs two system calls.

use std::{
    io::{self, SeekFrom},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt, AsyncSeekExt},
    net::unix::pipe,
};
use tokio_util::sync::CancellationToken;

use super::{
    Port, Retry,
    lines::{Line, Splitter},
};
use crate::{
    decode::{Meta, Refusal},
    metrics::Connection,
};

/// How long a quiet file or FIFO is left alone between two looks.
const POLL: Duration = Duration::from_millis(50);

/// Bytes taken in one read.
const READ: usize = 64 * 1024;

/// Where the lines come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input, written `-`.
    Stdin,
    /// A regular file or a FIFO; which of them is seen when it is opened.
    Path(PathBuf),
}

/// A source that reads lines.
#[derive(Debug)]
pub struct Lines {
    port: Port,
    splitter: Splitter,
    limit: usize,
    stop: CancellationToken,
}

/// What is at the path.
enum Opened {
    Regular(File, Identity),
    Fifo(pipe::Receiver),
}

/// Which file it is, whatever it is called now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Where to begin in a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// What is in it is old news.
    AtEnd,
    AtStart,
}

impl Lines {
    /// Reads lines of at most `limit` bytes until `stop`.
    pub fn new(port: Port, limit: usize, stop: CancellationToken) -> Self {
        Self { port, splitter: Splitter::new(limit), limit, stop }
    }

    /// Runs until the stop, or until standard input ends.
    pub async fn run(mut self, input: Input) {
        let stop = self.stop.clone();
        let _stopped_or_ended = stop
            .run_until_cancelled(async {
                match input {
                    Input::Stdin => self.drain(tokio::io::stdin()).await,
                    Input::Path(path) => self.follow_path(&path).await,
                }
            })
            .await;
    }

    /// Reads one stream to its end, or until the stop.
    pub async fn run_stream(mut self, stream: impl AsyncRead + Unpin) {
        let stop = self.stop.clone();
        let _stopped_or_ended = stop.run_until_cancelled(self.drain(stream)).await;
    }

    async fn drain(&mut self, mut stream: impl AsyncRead + Unpin) {
        self.port.connection(Connection::Open);
        let mut buffer = buffer();
        loop {
            match self.read(&mut stream, &mut buffer).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(source = self.port.name(), %error, "the stream broke off");
                    break;
                }
            }
        }
        self.finish();
        self.port.connection(Connection::Ended);
    }

    /// Opens the path again and again; what is behind it may change each time.
    async fn follow_path(&mut self, path: &Path) {
        let mut retry = Retry::default();
        let mut begin = Begin::AtEnd;
        loop {
            let ended = match open(path).await {
                Ok(Opened::Regular(file, identity)) => {
                    retry = Retry::default();
                    self.follow_file(file, identity, path, begin).await
                }
                Ok(Opened::Fifo(fifo)) => {
                    retry = Retry::default();
                    self.port.connection(Connection::Open);
                    self.follow_fifo(fifo).await
                }
                Err(error) => Err(error),
            };
            // Whatever comes next was not there before us.
            begin = Begin::AtStart;
            self.finish();
            if let Err(error) = ended {
                self.port.retrying();
                let wait = retry.next_wait();
                tracing::debug!(source = self.port.name(), path = %path.display(), %error,
                    wait_ms = wait.as_millis(), "the file cannot be read; it is tried again");
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Reads one regular file until another takes its place.
    async fn follow_file(
        &mut self,
        mut file: File,
        identity: Identity,
        path: &Path,
        begin: Begin,
    ) -> io::Result<()> {
        let mut position = match begin {
            Begin::AtStart => 0,
            Begin::AtEnd => self.seek_end(&mut file).await?,
        };
        // Said only now: who sees it and then writes is heard.
        self.port.connection(Connection::Open);
        let mut buffer = buffer();
        loop {
            // Looked at before reading to the end: a writer that moved on wrote nothing after it.
            let moved_on = matches!(identity_at(path).await, Ok(now) if now != identity);
            loop {
                let count = self.read(&mut file, &mut buffer).await?;
                if count == 0 {
                    break;
                }
                position += u64::try_from(count).unwrap_or(u64::MAX);
            }
            if moved_on {
                return Ok(());
            }
            if file.metadata().await?.len() < position {
                file.seek(SeekFrom::Start(0)).await?;
                position = 0;
                self.splitter.reset();
                continue;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Goes to the end; when that is inside of a line, its rest is no message.
    async fn seek_end(&mut self, file: &mut File) -> io::Result<u64> {
        let end = file.seek(SeekFrom::End(0)).await?;
        if end > 0 {
            file.seek(SeekFrom::Start(end - 1)).await?;
            if file.read_u8().await? != b'\n' {
                self.splitter.skip_to_next_line();
            }
        }
        Ok(end)
    }

    async fn follow_fifo(&mut self, mut fifo: pipe::Receiver) -> io::Result<()> {
        let mut buffer = buffer();
        loop {
            if self.read(&mut fifo, &mut buffer).await? == 0 {
                self.finish();
                tokio::time::sleep(POLL).await;
            }
        }
    }

    async fn read(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let count = from.read(buffer).await?;
        let Self { port, splitter, limit, .. } = self;
        splitter.feed(buffer.get(..count).unwrap_or_default(), |line| give(port, *limit, line));
        Ok(count)
    }

    fn finish(&mut self) {
        let Self { port, splitter, limit, .. } = self;
        splitter.finish(|line| give(port, *limit, line));
    }
}

fn give(port: &Port, limit: usize, line: Line) {
    match line {
        Line::Whole(bytes) => port.deliver(bytes, &Meta::default()),
        Line::Oversized => port.refuse(&Refusal::Oversized { limit }),
    }
}

async fn open(path: &Path) -> io::Result<Opened> {
    let kind = tokio::fs::metadata(path).await?.file_type();
    if kind.is_fifo() {
        return Ok(Opened::Fifo(pipe::OpenOptions::new().open_receiver(path)?));
    }
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    let file = File::open(path).await?;
    let identity = Identity::of(&file.metadata().await?);
    Ok(Opened::Regular(file, identity))
}

async fn identity_at(path: &Path) -> io::Result<Identity> {
    tokio::fs::metadata(path).await.map(|metadata| Identity::of(&metadata))
}

impl Identity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

fn buffer() -> Vec<u8> {
    vec![0; READ]
}
