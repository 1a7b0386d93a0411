//! Answers as a person reads them: tables, and a task's text below its facts.

use agent_wire::a2a::task::TaskState;
use serde_json::Value;
use service_kit::output::table;

use super::remote::plain;

/// How many characters of a task's text a list shows.
const SAID_CHARS: usize = 60;

/// Tasks, one a line.
pub(super) fn tasks(tasks: &[Value]) -> String {
    let rows: Vec<_> = tasks
        .iter()
        .map(|task| {
            let said = said(task);
            let line: String =
                said.lines().next().unwrap_or_default().chars().take(SAID_CHARS).collect();
            [text(task, "/id"), state(task), text(task, "/status/timestamp"), line]
        })
        .collect();
    table(["TASK", "STATE", "SINCE", "SAID"], &rows)
}

/// One task, and what came of it.
pub(super) fn task(task: &Value) -> String {
    let facts =
        [text(task, "/id"), state(task), text(task, "/status/timestamp"), text(task, "/contextId")];
    let mut shown = table(["TASK", "STATE", "SINCE", "CONTEXT"], &[facts]);
    let said = said(task);
    if !said.is_empty() {
        shown.push('\n');
        shown.push_str(&said);
        shown.push('\n');
    }
    shown
}

/// The answer to an event.
pub(super) fn event(answer: &Value) -> String {
    let accepted = if answer.get("accepted") == Some(&Value::Bool(true)) { "yes" } else { "no" };
    let row = [accepted.to_owned(), text(answer, "/reason"), text(answer, "/task_id")];
    table(["ACCEPTED", "REASON", "TASK"], &[row])
}

/// A state without the prefix that all have: `WORKING` for `TASK_STATE_WORKING`.
pub(super) fn state(task: &Value) -> String {
    text(task, "/status/state").trim_start_matches("TASK_STATE_").to_owned()
}

/// Whether a task has ended.
pub(super) fn has_ended(task: &Value) -> bool {
    TaskState::from_wire(&text(task, "/status/state")).is_some_and(TaskState::is_terminal)
}

/// The artifact's text, else the message of the status.
fn said(task: &Value) -> String {
    let artifacts = task.get("artifacts").and_then(Value::as_array);
    let artifacts = artifacts.into_iter().flatten().filter_map(|artifact| artifact.get("parts"));
    let status = task.pointer("/status/message/parts");
    let parts = artifacts.chain(status).filter_map(Value::as_array).flatten();
    let texts = parts.filter_map(|part| part.get("text").and_then(Value::as_str)).map(plain);
    texts.collect::<Vec<_>>().join("\n")
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_a_line_and_its_text() {
        let completed = json!({"id": "t1", "contextId": "c",
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00.000Z"},
            "artifacts": [{"parts": [{"text": "one\ntwo\u{1b}[2J"}]}]});
        assert_eq!(
            task(&completed),
            "TASK  STATE      SINCE                     CONTEXT\n\
             t1    COMPLETED  2026-01-01T00:00:00.000Z  c\n\none\ntwo [2J\n"
        );
        let failed = json!({"id": "t1", "status": {"state": "TASK_STATE_FAILED",
            "message": {"parts": [{"text": "why"}]}}});
        assert!(task(&failed).ends_with("\n\nwhy\n"));
    }

    #[test]
    fn a_list_shows_the_first_line_of_what_a_task_said() {
        let failed = json!({"id": "t1", "status": {"state": "TASK_STATE_FAILED",
            "message": {"parts": [{"text": "why\nand how"}]}}});
        assert_eq!(tasks(&[failed]), "TASK  STATE   SINCE  SAID\nt1    FAILED         why\n");
    }

    #[test]
    fn a_state_is_terminal_or_not() {
        let cases = [
            ("TASK_STATE_SUBMITTED", "SUBMITTED", false),
            ("TASK_STATE_WORKING", "WORKING", false),
            ("TASK_STATE_COMPLETED", "COMPLETED", true),
            ("TASK_STATE_FAILED", "FAILED", true),
            ("TASK_STATE_CANCELED", "CANCELED", true),
            ("TASK_STATE_REJECTED", "REJECTED", true),
            ("TASK_STATE_INPUT_REQUIRED", "INPUT_REQUIRED", false),
        ];
        for (wire, shown, ended) in cases {
            let task = json!({"status": {"state": wire}});
            assert_eq!((state(&task).as_str(), has_ended(&task)), (shown, ended));
        }
    }

    #[test]
    fn an_event_says_what_came_of_it() {
        assert_eq!(
            event(&json!({"accepted": false, "reason": "cooldown"})),
            "ACCEPTED  REASON    TASK\nno        cooldown\n"
        );
    }
}
