//! One process a task: stdout is the answer, the exit code the verdict.

use std::process::Stdio;
use std::time::Duration;

use agent_wire::child::Trigger;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::env::{self, For};
use super::stderr::{self, Tail};
use super::unix::Group;
use super::{ChildRunner, Spec, Verdict, pool};

/// How long the output of a process that has exited is still read; a grandchild may hold the pipe.
const DRAIN: Duration = Duration::from_millis(200);

/// Runs one task. Returns when nothing of the process group runs any more.
pub(super) async fn run(
    runner: &ChildRunner,
    trigger: &Trigger,
    deadline: Instant,
    stop: CancellationToken,
) -> Verdict {
    let ChildRunner { spec, spawner, vars, clock, pool: _ } = runner;
    let tmp = match pool::tmp_folder(spec).await {
        Ok(tmp) => tmp,
        Err(why) => return Verdict::NotStarted(why),
    };
    let mut command = env::command(spec, vars, clock, &tmp, For::Oneshot(trigger));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let verdict = match spawner.spawn(command).await {
        Ok(child) => Box::pin(answer(spec, child, deadline, stop)).await,
        Err(error) => {
            let program = spec.command.first().map_or("", String::as_str);
            Verdict::NotStarted(format!("{program}: {error}"))
        }
    };
    if let Err(error) = tokio::fs::remove_dir_all(&tmp).await {
        warn!(path = %tmp.display(), %error, "cannot remove the agent's temporary folder");
    }
    verdict
}

async fn answer(
    spec: &Spec,
    mut child: Child,
    deadline: Instant,
    stop: CancellationToken,
) -> Verdict {
    let started = Instant::now();
    let Some(group) = Group::of(&child) else {
        return Verdict::Lost("the agent ended at once".to_owned());
    };
    let pid = group.pid();
    info!(agent = spec.agent, pid, "one-shot agent started");
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let tail = Tail::default();
    let drain = async {
        if let Some(from) = stderr {
            stderr::drain(from, tail.clone(), spec.agent.clone(), "oneshot".to_owned(), pid).await;
        }
        // Only the exit or the deadline ends the run.
        std::future::pending::<()>().await;
    };
    let mut output = Output::new(spec.max_line_bytes);
    let work = async {
        let mut stdout = stdout;
        let status = loop {
            let Some(pipe) = stdout.as_mut() else { break child.wait().await };
            tokio::select! {
                biased;
                more = output.read(pipe) => match more {
                    Ok(true) => {}
                    Ok(false) => stdout = None,
                    Err(TooLong) => return Err(TooLong),
                },
                status = child.wait() => break status,
            }
        };
        if let Some(pipe) = stdout.as_mut() {
            let until = Instant::now() + DRAIN;
            loop {
                match timeout_at(until, output.read(pipe)).await {
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) | Err(_) => break,
                    Ok(Err(TooLong)) => return Err(TooLong),
                }
            }
        }
        Ok(status)
    };
    let verdict = tokio::select! {
        biased;
        () = stop.cancelled() => Verdict::Stopped,
        done = work => match done {
            Err(TooLong) => {
                let limit = spec.max_line_bytes;
                Verdict::Lost(format!("the agent wrote more than {limit} bytes"))
            }
            Ok(Err(error)) => Verdict::Lost(format!("cannot wait for the agent: {error}")),
            // One that a signal ended has no exit code of its own.
            Ok(Ok(status)) => match status.code() {
                Some(exit_code) => Verdict::Answered { exit_code, text: String::new() },
                None => Verdict::Lost(format!("the agent ended ({status})")),
            },
        },
        () = sleep_until(deadline) => Verdict::TimedOut,
        () = drain => Verdict::Lost("the agent closed its output".to_owned()),
    };
    group.end(spec.grace).await;
    drop(child.wait().await);
    info!(
        agent = spec.agent,
        pid,
        exit_code = verdict.exit_code(),
        duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "one-shot agent ended"
    );
    match verdict {
        Verdict::Answered { exit_code, .. } => {
            let mut text = output.text();
            if exit_code != 0 && text.trim().is_empty() {
                // A failure with something to say beats silence.
                text = tail.last().map_or(text, |last| format!("exit code {exit_code}: {last}"));
            }
            Verdict::Answered { exit_code, text }
        }
        other @ (Verdict::NotStarted(_)
        | Verdict::Lost(_)
        | Verdict::TimedOut
        | Verdict::Stopped) => other,
    }
}

/// More came than may be held.
struct TooLong;

/// The bytes of stdout, bounded.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
}

impl Output {
    fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// Reads a piece; false at the end.
    async fn read(&mut self, pipe: &mut (impl AsyncReadExt + Unpin)) -> Result<bool, TooLong> {
        let mut buffer = [0_u8; 8192];
        let count = pipe.read(&mut buffer).await.unwrap_or_default();
        let piece = buffer.get(..count).unwrap_or_default();
        if self.bytes.len().saturating_add(piece.len()) > self.limit {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(piece);
        Ok(count > 0)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim_end_matches(['\r', '\n']).to_owned()
    }
}
