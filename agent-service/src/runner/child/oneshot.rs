//! One process a task: stdout is the answer, the exit code the verdict.

use std::process::{ExitStatus, Stdio};

use agent_wire::child::Trigger;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::env::{self, For};
use super::group::Group;
use super::instance::{DRAIN, read_to_nobody};
use super::stderr::{self, Stderr};
use super::tmp::Tmp;
use super::{ChildRunner, Verdict, spawn_error};

/// Runs one task. Unless the agent ended by itself in time, it returns when nothing of its process
/// group runs any more; else what it has left behind is ended beside the next task.
pub(super) async fn run(
    runner: &ChildRunner,
    trigger: &Trigger,
    deadline: Instant,
    stop: CancellationToken,
) -> Verdict {
    let ChildRunner { spec, vars, clock, .. } = runner;
    let tmp = match Tmp::create(&spec.state_dir).await {
        Ok(tmp) => tmp,
        Err(why) => return Verdict::NotStarted(why),
    };
    let mut command = env::command(spec, vars, clock, tmp.path(), For::Oneshot(trigger));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = match runner.spawner.spawn(command).await {
        Ok(group) => group,
        Err(error) => {
            tmp.remove().await;
            return Verdict::NotStarted(spawn_error(spec, &error));
        }
    };
    let started = Instant::now();
    let pid = group.pid();
    info!(agent = spec.agent, pid, "one-shot agent started");
    let source = stderr::Source { agent: spec.agent.clone(), key: "oneshot".to_owned(), pid };
    let stderr = group.child().stderr.take();
    let stderr = stderr.map(|from| Stderr::read(from, source, &runner.tasks));
    let mut output = Output::new(group.child().stdout.take(), spec.max_line_bytes);
    let end = tokio::select! {
        biased;
        () = stop.cancelled() => Err(Verdict::stopped(deadline)),
        end = output.read_until_exit(&mut group) => end,
        () = sleep_until(deadline) => Err(Verdict::TimedOut),
    };
    // Its end in time is what counts; what it has said may still be on the way.
    let verdict = match end {
        Ok(status) => verdict(status, &mut output, stderr.as_ref()).await,
        Err(verdict) => verdict,
    };
    let grace = spec.grace;
    let at_once = runner.tasks.hard_stop().clone();
    let (agent, exit_code) = (spec.agent.clone(), verdict.exit_code());
    let retire = async move {
        tokio::select! {
            _status = group.end(grace, &at_once) => {}
            () = output.read_to_nobody() => {}
        }
        tmp.remove().await;
        let age_seconds = started.elapsed().as_secs_f64();
        info!(agent, pid, exit_code, age_seconds, "one-shot agent ended");
        if let Some(stderr) = stderr {
            stderr.settle(Instant::now() + DRAIN).await;
        }
    };
    let retired = runner.tasks.spawn(runner.retiring.track_future(retire));
    if !matches!(verdict, Verdict::Answered { .. }) {
        // An error is a panic, which is reported where it happens.
        drop(retired.await);
    }
    verdict
}

/// What an agent that ended by itself has answered.
async fn verdict(status: ExitStatus, output: &mut Output, stderr: Option<&Stderr>) -> Verdict {
    let until = Instant::now() + DRAIN;
    if let Err(too_long) = output.read_rest(until).await {
        return too_long;
    }
    let Some(exit_code) = status.code() else {
        // One that a signal ended has no exit code of its own.
        return Verdict::Lost(format!("the agent ended ({status})"));
    };
    let mut text = output.text();
    if exit_code != 0
        && text.trim().is_empty()
        && let Some(stderr) = stderr
    {
        // A failure with something to say beats silence.
        stderr.settle(until).await;
        text = stderr.last().map_or(text, |last| format!("exit code {exit_code}: {last}"));
    }
    Verdict::Answered { exit_code, text }
}

/// The bytes of stdout, bounded.
struct Output {
    pipe: Option<ChildStdout>,
    bytes: Vec<u8>,
    limit: usize,
}

impl Output {
    fn new(pipe: Option<ChildStdout>, limit: usize) -> Self {
        Self { pipe, bytes: Vec::new(), limit }
    }

    /// Reads while the agent runs. A grandchild that holds the pipe delays nothing.
    async fn read_until_exit(&mut self, group: &mut Group) -> Result<ExitStatus, Verdict> {
        loop {
            let status = tokio::select! {
                biased;
                status = group.exit() => status,
                more = self.read() => match more {
                    Ok(true) => continue,
                    Ok(false) => group.exit().await,
                    Err(too_long) => return Err(too_long),
                },
            };
            return status
                .map_err(|error| Verdict::Lost(format!("cannot wait for the agent: {error}")));
        }
    }

    /// Reads what is left after the end of the agent.
    async fn read_rest(&mut self, until: Instant) -> Result<(), Verdict> {
        while let Ok(more) = timeout_at(until, self.read()).await {
            if !more? {
                break;
            }
        }
        Ok(())
    }

    /// Reads a piece; false at the end.
    async fn read(&mut self) -> Result<bool, Verdict> {
        let Some(pipe) = &mut self.pipe else { return Ok(false) };
        let mut buffer = [0_u8; 8192];
        let count = pipe.read(&mut buffer).await.unwrap_or_default();
        let piece = buffer.get(..count).unwrap_or_default();
        if self.bytes.len().saturating_add(piece.len()) > self.limit {
            let limit = self.limit;
            return Err(Verdict::Lost(format!("the agent wrote more than {limit} bytes")));
        }
        self.bytes.extend_from_slice(piece);
        Ok(count > 0)
    }

    /// What is still said reaches nobody, and blocks nobody. Never returns.
    async fn read_to_nobody(&mut self) {
        match &mut self.pipe {
            Some(pipe) => read_to_nobody(pipe).await,
            None => std::future::pending::<()>().await,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim_end_matches(['\r', '\n']).to_owned()
    }
}
