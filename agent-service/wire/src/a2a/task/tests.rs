use proptest::prelude::*;
use serde_json::json;

use super::*;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../fixtures/task.json")).unwrap()
}

fn task() -> Task {
    Task {
        id: TaskId::new("task-1").unwrap(),
        context_id: "ctx-1".to_owned(),
        status: TaskStatus {
            state: TaskState::Completed,
            message: None,
            timestamp: Some("2026-05-01T12:00:00.1239Z".parse().unwrap()),
        },
        artifacts: vec![Artifact {
            artifact_id: "a-1".to_owned(),
            name: Some("result".to_owned()),
            description: None,
            parts: vec![Part::from_text("a person at the door")],
            metadata: None,
        }],
        history: vec![Message {
            message_id: "m-1".to_owned(),
            context_id: Some("ctx-1".to_owned()),
            task_id: Some("task-1".to_owned()),
            role: Role::User,
            parts: vec![Part::from_text("what do you see?")],
            metadata: None,
        }],
        metadata: None,
    }
}

#[test]
fn a_task_is_written_as_the_golden_one_without_null_or_empty_lists() {
    assert_eq!(serde_json::to_value(task()).unwrap(), golden());
    let mut bare = task();
    bare.artifacts.clear();
    bare.cut_history(Some(0));
    let text = serde_json::to_string(&bare).unwrap();
    assert!(!text.contains("null") && !text.contains("[]"), "{text}");
    assert_eq!(
        text,
        concat!(
            r#"{"id":"task-1","contextId":"ctx-1","status":"#,
            r#"{"state":"TASK_STATE_COMPLETED","timestamp":"2026-05-01T12:00:00.123Z"}}"#
        )
    );
}

#[test]
fn a_client_reads_null_unknown_fields_numbers_and_snake_case() {
    let lenient = json!({
        "id": "task-1", "context_id": "ctx-1", "kind": "task", "metadata": null,
        "status": {"state": 3, "message": null, "timestamp": "2026-05-01T14:00:00.123+02:00"},
        "artifacts": [{
            "artifact_id": "a-1", "name": "result", "extensions": [],
            "parts": [{"text": "a person at the door", "raw": null}]
        }],
        "history": [{
            "message_id": "m-1", "context_id": "ctx-1", "task_id": "task-1", "role": 1,
            "parts": [{"text": "what do you see?"}], "reference_task_ids": ["x"]
        }],
    });
    let read: Task = serde_json::from_value(lenient).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), golden());
    let sparse = json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "history": null});
    let read: Task = serde_json::from_value(sparse).unwrap();
    assert_eq!((read.status.state, read.history.len()), (TaskState::Working, 0));
}

#[test]
fn states_have_the_names_and_numbers_of_the_proto() {
    for (number, state) in (0..).zip(TaskState::ALL) {
        assert_eq!(state.number(), number);
        assert_eq!(TaskState::from_wire(state.as_str()), Some(*state));
        assert_eq!(TaskState::from_wire(&number.to_string()), Some(*state));
        assert_eq!(serde_json::from_value::<TaskState>(json!(number)).unwrap(), *state);
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    let terminal: Vec<_> =
        TaskState::ALL.iter().filter(|s| s.is_terminal()).map(|s| s.as_str()).collect();
    let expected = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"];
    assert_eq!(terminal, expected.map(|name| format!("TASK_STATE_{name}")));
    for wrong in [json!("completed"), json!(9), json!(-1), json!(true), json!("TASK_STATE_DONE")] {
        assert!(serde_json::from_value::<TaskState>(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn the_history_keeps_its_latest_messages() {
    let ids = |length| {
        let mut task = task();
        let message = task.history[0].clone();
        task.history =
            (1..=3).map(|n| Message { message_id: format!("m-{n}"), ..message.clone() }).collect();
        task.cut_history(length);
        task.history.into_iter().map(|m| m.message_id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(None), "m-1 m-2 m-3");
    assert_eq!(ids(Some(9)), "m-1 m-2 m-3");
    assert_eq!(ids(Some(2)), "m-2 m-3");
    assert_eq!(ids(Some(0)), "");
}

#[test]
fn the_text_of_a_task_is_its_artifact_else_its_status_message() {
    let mut task = task();
    assert_eq!(task.text(), "a person at the door");
    let said = Message { role: Role::Agent, ..task.history[0].clone() };
    task.artifacts.clear();
    assert_eq!(task.text(), "");
    task.status.message = Some(said);
    assert_eq!(task.text(), "what do you see?");
}

#[test]
fn a_listing_always_has_its_four_fields() {
    let empty = ListResponse {
        tasks: vec![],
        next_page_token: String::new(),
        page_size: 50,
        total_size: 0,
    };
    let text = r#"{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}"#;
    assert_eq!(serde_json::to_string(&empty).unwrap(), text);
    assert_eq!(serde_json::from_str::<ListResponse>(text).unwrap(), empty);
    let sparse: ListResponse = serde_json::from_str(r#"{"pageSize":50}"#).unwrap();
    assert_eq!(sparse, empty);
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(
        text in "\\PC{0,30}",
        state in prop::sample::select(TaskState::ALL),
        millis in 0_i64..4_000_000_000_000,
        messages in 0_usize..4,
    ) {
        let mut original = task();
        original.status.state = state;
        original.status.timestamp = Some(Timestamp::from_millisecond(millis).unwrap());
        original.artifacts[0].parts = vec![Part::from_text(text)];
        original.history = vec![original.history[0].clone(); messages];
        let text = serde_json::to_string(&original).unwrap();
        prop_assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), original);
    }

    #[test]
    fn any_json_is_a_task_or_an_error(value in crate::a2a::testing::any_json()) {
        if let Ok(task) = serde_json::from_value::<Task>(value) {
            let again = serde_json::to_string(&task).unwrap();
            prop_assert!(serde_json::from_str::<Task>(&again).is_ok());
        }
    }
}
