//! One page of `GET /tasks`, printed: what was not asked for is left out, and what fits is decided by
//! [`agent_core::page`].
//!
//! A page that stops early is an ordinary page: its token goes on after the last task that it has.

use agent_core::page::Budget;
use agent_wire::a2a::list::ListTasks;
use agent_wire::a2a::task::Task;
use serde_json::{Value, json};

use super::error::Error;
use crate::refusal::{Listed, Refusal, TaskPage};

/// Prints the page.
///
/// # Errors
/// When a task cannot be printed, which no task of ours does.
pub(super) fn print(query: &ListTasks, page: TaskPage) -> Result<String, Error> {
    let count = page.tasks.len();
    let mut tasks = String::new();
    let mut last = None;
    let mut budget = Budget::new(count);
    let mut printed = 0_usize;
    for Listed { task, cursor } in page.tasks {
        let task = print_task(query, task)?;
        if !budget.take(task.len()) {
            break;
        }
        if printed > 0 {
            tasks.push(',');
        }
        tasks.push_str(&task);
        printed = printed.saturating_add(1);
        last = Some(cursor);
    }
    let more = page.more || printed < count;
    let token = last.filter(|_| more).map(|cursor| query.token_after(cursor));
    let token = token.as_ref().map_or("", |token| token.as_str());
    Ok(format!(
        r#"{{"tasks":[{tasks}],"nextPageToken":"{token}","pageSize":{},"totalSize":{}}}"#,
        query.page_size, page.total
    ))
}

fn print_task(query: &ListTasks, mut task: Task) -> Result<String, Error> {
    task.cut_history(query.history_length);
    let none = task.artifacts.is_empty();
    if !query.include_artifacts {
        task.artifacts.clear();
    }
    let mut value = serde_json::to_value(task).map_err(|error| {
        tracing::error!(%error, "a task could not be printed");
        Refusal::Internal
    })?;
    // Whoever asks for artifacts gets the field, also when it is empty (specification, 3.1.4).
    if query.include_artifacts
        && none
        && let Some(members) = value.as_object_mut()
    {
        members.insert("artifacts".to_owned(), json!(Vec::<Value>::new()));
    }
    Ok(value.to_string())
}
