//! What each client command asks, and what it prints.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use service_kit::output::Output;
use service_kit::pace::Backoff;

use super::error::Error;
use super::remote::{Answer, Remote, segment};
use super::show;

/// What A2A bodies are sent as.
const A2A_JSON: &str = "application/a2a+json";

/// The longest event file, in bytes: the service takes no longer body. Source: CONTRACT, section 3.
const MAX_EVENT_BYTES: u64 = 65_536;

/// The most tasks of one page. Source: CONTRACT, section 3.
const MAX_PAGE: u32 = 100;

/// How long between two looks at a task: soon at first, then no more often than a person would mind.
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LAST_LOOK: Duration = Duration::from_secs(2);

/// How many looks in a row may fail before `--wait` gives up: a restart of the service takes less.
const MAX_FAILED_LOOKS: u32 = 20;

/// A client command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Submits a task.
    Send {
        /// What to do.
        prompt: String,
        /// The message's identifier.
        request_id: String,
        /// The group of tasks.
        context: Option<String>,
        /// Whether to wait for the end.
        wait: Wait,
    },
    /// Reads a task.
    Get {
        /// Its identifier.
        task: String,
    },
    /// Lists tasks.
    Tasks {
        /// Only of this group.
        context: Option<String>,
        /// Only in this state.
        status: Option<String>,
        /// At most so many.
        limit: Option<u32>,
    },
    /// Cancels a task.
    Cancel {
        /// Its identifier.
        task: String,
    },
    /// Posts an event.
    Event {
        /// A file, or `-` for stdin.
        file: PathBuf,
    },
    /// Asks whether the service is ready.
    Healthcheck,
}

/// Whether to wait for a task's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The task as it was queued is enough.
    No,
    /// Until it has ended.
    UntilTheEnd,
}

/// What goes to stdout, and how the command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Text with a newline at its end.
    pub text: String,
    /// Whether what was asked for came about: exit 0, else 1.
    pub success: bool,
}

/// Runs a command.
pub async fn run(command: Command, remote: &Remote, output: Output) -> Result<Printed, Error> {
    match command {
        Command::Send { prompt, request_id, context, wait } => {
            let queued = send(remote, &prompt, &request_id, context).await?;
            match wait {
                Wait::No => Ok(printed(output, &queued, |body| {
                    show::task(body.get("task").unwrap_or(&Value::Null))
                })),
                Wait::UntilTheEnd => {
                    let ended = wait_for(remote, &queued).await?;
                    let success = show::state(&ended.value) == "COMPLETED";
                    Ok(Printed { success, ..printed(output, &ended, show::task) })
                }
            }
        }
        Command::Get { task } => {
            let answer = remote.get(&format!("/tasks/{}", segment(&task)), &[]).await?;
            Ok(printed(output, &answer, show::task))
        }
        Command::Tasks { context, status, limit } => {
            tasks(remote, output, context, status, limit).await
        }
        Command::Cancel { task } => {
            let answer = remote.post(&format!("/tasks/{}:cancel", segment(&task)), None).await?;
            Ok(printed(output, &answer, show::task))
        }
        Command::Event { file } => {
            let body = read_event(&file)?;
            let answer = remote.post("/events", Some(("application/json", body))).await?;
            Ok(printed(output, &answer, show::event))
        }
        Command::Healthcheck => {
            let text = remote.ready().await?;
            Ok(Printed { text: format!("{text}\n"), success: true })
        }
    }
}

async fn send(
    remote: &Remote,
    prompt: &str,
    request_id: &str,
    context: Option<String>,
) -> Result<Answer, Error> {
    let mut message =
        json!({"messageId": request_id, "role": "ROLE_USER", "parts": [{"text": prompt}]});
    if let (Some(context), Some(message)) = (context, message.as_object_mut()) {
        message.insert("contextId".to_owned(), context.into());
    }
    let body = json!({"message": message, "configuration": {"returnImmediately": true}});
    remote.post("/message:send", Some((A2A_JSON, body.to_string().into_bytes()))).await
}

/// Looks at a task until it has ended. The service may be away for a while: it keeps the task.
async fn wait_for(remote: &Remote, queued: &Answer) -> Result<Answer, Error> {
    let task = queued.value.get("task");
    let id = task.and_then(|task| task.get("id")).and_then(Value::as_str);
    let id = id.ok_or(Error::Strange("it has no task"))?;
    let path = format!("/tasks/{}", segment(id));
    let progress = progress(id);
    let looks = Backoff::new(FIRST_LOOK, LAST_LOOK).map_err(|bad| Error::Usage(bad.to_string()))?;
    let (mut look, mut failed) = (0_u32, 0_u32);
    loop {
        let wait = match remote.get(&path, &[]).await {
            Ok(answer) if show::has_ended(&answer.value) => {
                progress.finish_and_clear();
                return Ok(answer);
            }
            Ok(answer) => {
                progress.set_message(show::state(&answer.value));
                failed = 0;
                look = look.saturating_add(1);
                looks.delay(look, 0.0)
            }
            Err(error) if error.may_pass() && failed < MAX_FAILED_LOOKS => {
                progress.set_message("no answer, asking again");
                failed = failed.saturating_add(1);
                looks.delay(failed, 0.0)
            }
            Err(error) => return Err(error),
        };
        tokio::time::sleep(wait).await;
    }
}

/// A line on stderr that says what the task does; nothing where stderr is no terminal.
fn progress(id: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_prefix(id.to_owned());
    // A wrong template would only change how the line looks.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// One page of tasks, each as it came.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tasks: Vec<Box<RawValue>>,
    #[serde(default)]
    next_page_token: String,
}

async fn tasks(
    remote: &Remote,
    output: Output,
    context: Option<String>,
    status: Option<String>,
    limit: Option<u32>,
) -> Result<Printed, Error> {
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let page_size = u32::try_from(limit).map_or(MAX_PAGE, |limit| limit.min(MAX_PAGE));
    let mut all: Vec<Box<RawValue>> = Vec::new();
    let mut token = String::new();
    loop {
        let mut query =
            vec![("pageSize", page_size.to_string()), ("includeArtifacts", "true".to_owned())];
        query.extend(context.clone().map(|context| ("contextId", context)));
        query.extend(status.as_deref().map(|status| ("status", wire_state(status))));
        if !token.is_empty() {
            query.push(("pageToken", token.clone()));
        }
        let answer = remote.get("/tasks", &query).await?;
        let page: Page = serde_json::from_str(&answer.text)
            .ok()
            .ok_or(Error::Strange("it has no list of tasks"))?;
        all.extend(page.tasks);
        if page.next_page_token == token && !token.is_empty() {
            return Err(Error::Strange("it names the same page again"));
        }
        token = page.next_page_token;
        if token.is_empty() || all.len() >= limit {
            break;
        }
    }
    all.truncate(limit);
    let text = match output {
        Output::Json => {
            let tasks: Vec<_> = all.iter().map(|task| task.get()).collect();
            format!("{{\"tasks\":[{}]}}\n", tasks.join(","))
        }
        Output::Table => {
            let tasks = all.iter().map(|task| serde_json::from_str(task.get()).unwrap_or_default());
            show::tasks(&tasks.collect::<Vec<_>>())
        }
    };
    Ok(Printed { text, success: true })
}

/// `working` is as good as `TASK_STATE_WORKING`; whether there is such a state the service knows.
fn wire_state(name: &str) -> String {
    let name = name.to_uppercase().replace('-', "_");
    if name.starts_with("TASK_STATE_") { name } else { format!("TASK_STATE_{name}") }
}

fn read_event(file: &Path) -> Result<Vec<u8>, Error> {
    let stdin = file == Path::new("-");
    let name = if stdin { "stdin".to_owned() } else { file.display().to_string() };
    let mut body = Vec::new();
    let limit = MAX_EVENT_BYTES.saturating_add(1);
    let read = if stdin {
        std::io::stdin().take(limit).read_to_end(&mut body)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut body))
    };
    match read {
        Err(source) => Err(Error::Input { name, source }),
        Ok(length) if u64::try_from(length).is_ok_and(|length| length >= limit) => {
            Err(Error::Usage(format!("{name} is over 64 KiB, more than the service takes")))
        }
        Ok(_) => Ok(body),
    }
}

fn printed(output: Output, answer: &Answer, show: impl FnOnce(&Value) -> String) -> Printed {
    let text = match output {
        Output::Json => format!("{}\n", answer.text.trim_end()),
        Output::Table => show(&answer.value),
    };
    Printed { text, success: true }
}
