//! What the tests of this crate share.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON value of a few levels, with names that our shapes know among the keys.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-2_i64..6).prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(f)),
        "\\PC{0,8}".prop_map(Value::from),
        "ROLE_USER|1|text/plain|2026-05-01T12:00:00Z".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any_name(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "message|messageId|message_id|role|parts|text|data|raw|url|contextId|context_id|taskId\
              |configuration|acceptedOutputModes|historyLength|returnImmediately|metadata\
              |wendy.delegation_depth|taskPushNotificationConfig|id|type|source|timestamp|confidence\
              |status|state|artifacts|history|kind|ok|output|error|exit_code",
        1 => "\\PC{0,6}",
    ]
}
