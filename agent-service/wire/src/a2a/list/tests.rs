use proptest::prelude::*;

use super::*;
use crate::a2a::error::Reason;

fn parse(query: &str) -> ListTasks {
    ListTasks::parse(query).unwrap_or_else(|error| panic!("{query}: {error:?}"))
}

#[test]
fn an_empty_value_is_unset_and_an_unknown_parameter_ignored() {
    let all = "contextId=&status=&pageSize=&pageToken=&historyLength=&includeArtifacts=\
               &statusTimestampAfter=";
    for query in ["", "&&", "tenant=x&lastUpdatedAfter=nonsense&%ff=1", all, "contextId"] {
        assert_eq!(parse(query), ListTasks::default(), "{query}");
    }
}

#[test]
fn reads_every_parameter_under_both_names() {
    let expected = ListTasks {
        context_id: Some("a b&c/é+".to_owned()),
        status: Some(TaskState::Working),
        status_after: Some("2026-05-01T12:00:00Z".parse().unwrap()),
        page_size: 7,
        after: None,
        history_length: Some(0),
        include_artifacts: true,
    };
    let camel = "contextId=a+b%26c%2F%C3%A9%2b&status=TASK_STATE_WORKING&pageSize=7\
                 &historyLength=0&includeArtifacts=true\
                 &statusTimestampAfter=2026-05-01T14:00:00.0000000%2B02:00";
    let snake = "context_id=a%20b%26c%2f%c3%a9%2B&status=2&page_size=7&history_length=0\
                 &include_artifacts=true&status_timestamp_after=2026-05-01T12:00:00Z";
    assert_eq!(parse(camel), expected);
    assert_eq!(parse(snake), expected);
    assert_eq!(parse("status=TASK_STATE_UNSPECIFIED"), ListTasks::default());
}

#[test]
fn every_fault_names_its_parameter() {
    let cases = [
        ("status=WORKING", "status", "must be one of TASK_STATE_SUBMITTED, "),
        ("status=9", "status", "must be one of"),
        ("pageSize=0", "pageSize", "must be from 1 to 100"),
        ("pageSize=101", "pageSize", "must be from 1 to 100"),
        ("pageSize=-1", "pageSize", "must be a whole number"),
        ("pageSize=%2B5", "pageSize", "must be a whole number"),
        ("pageSize=5.0", "pageSize", "must be a whole number"),
        ("historyLength=-1", "historyLength", "must be a whole number of 0 or more"),
        ("historyLength=2147483648", "historyLength", "must be a whole number"),
        ("includeArtifacts=1", "includeArtifacts", "must be true or false"),
        ("includeArtifacts=True", "includeArtifacts", "must be true or false"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter", "must be an RFC 3339"),
        ("pageToken=x", "pageToken", "must be the nextPageToken"),
        ("contextId=a&contextId=b", "contextId", "must be given once"),
        ("contextId=a&context_id=a", "contextId", "must be given once"),
        ("contextId=%ff", "contextId", "must be percent-encoded UTF-8"),
        ("contextId=%4", "contextId", "must be percent-encoded UTF-8"),
    ];
    for (query, name, description) in cases {
        let error = ListTasks::parse(query).unwrap_err();
        assert_eq!((error.reason, error.status), (Reason::InvalidParams, 400), "{query}");
        assert_eq!(error.violations[0].field, name, "{query}");
        assert!(error.violations[0].description.starts_with(description), "{error:?}");
    }
}

#[test]
fn a_token_goes_on_with_the_same_filters_only() {
    let cursor = Cursor { change: 42 };
    let filters = "contextId=c&status=TASK_STATE_FAILED&statusTimestampAfter=2026-05-01T12:00:00Z";
    let token = parse(filters).token_after(cursor);
    let again = parse(&format!("{filters}&pageSize=3&pageToken={}", token.as_str()));
    assert_eq!(again.after, Some(cursor));
    for other in ["", "contextId=d&status=TASK_STATE_FAILED", "status=TASK_STATE_FAILED"] {
        let query = format!("{other}&pageToken={}", token.as_str());
        assert!(ListTasks::parse(&query).is_err(), "{query}");
    }
}

#[test]
fn a_token_of_an_earlier_service_is_still_read() {
    let cursor = Cursor { change: 42 };
    let token = "01000000000000002ab4301e01d74cfb81";
    assert_eq!(parse("contextId=c").token_after(cursor).as_str(), token);
    assert_eq!(parse(&format!("contextId=c&pageToken={token}")).after, Some(cursor));
}

#[test]
fn a_token_of_another_version_or_length_is_malformed() {
    let token = parse("").token_after(Cursor { change: 2 }).into_string();
    assert!(ListTasks::parse(&format!("pageToken={token}")).is_ok());
    let bad = [
        format!("02{}", token.trim_start_matches("01")),
        format!("{token}00"),
        token.chars().take(32).collect(),
        token.replace('0', "g"),
        format!("{token}0"),
        "é".to_owned(),
    ];
    for token in bad {
        assert!(ListTasks::parse(&format!("pageToken={token}")).is_err(), "{token}");
    }
}

#[test]
fn the_time_filter_is_inclusive_at_the_millisecond() {
    let millis =
        |after: &str| parse(&format!("statusTimestampAfter={after}")).status_after_millis();
    assert_eq!(millis("1970-01-01T00:00:00.005Z"), Some(5));
    assert_eq!(millis("1970-01-01T00:00:00.0050Z"), Some(5));
    assert_eq!(millis("1970-01-01T00:00:00.0050001Z"), Some(6));
    assert_eq!(parse("").status_after_millis(), None);
}

#[test]
fn a_parameter_can_stand_for_a_header() {
    assert_eq!(parameter("a=1&A2A-Version=1.0", "A2A-Version").as_deref(), Some("1.0"));
    assert_eq!(parameter("A2A%2DVersion=1%2e0&x", "A2A-Version").as_deref(), Some("1.0"));
    assert_eq!(parameter("A2A-Version=", "A2A-Version").as_deref(), Some(""));
    assert_eq!(parameter("a2a-version=1.0", "A2A-Version"), None);
}

proptest! {
    #[test]
    fn any_query_is_a_listing_or_an_error(query in "\\PC{0,40}") {
        if let Ok(list) = ListTasks::parse(&query) {
            prop_assert!((1..=100).contains(&list.page_size));
        }
    }

    #[test]
    fn any_known_parameter_with_any_value_is_read_or_refused(
        name in prop::sample::select(&NAMES[..]),
        value in "[0-9a-zA-Z%+:.-]{0,20}",
    ) {
        let result = ListTasks::parse(&format!("{name}={value}"));
        if let Err(error) = result {
            prop_assert_eq!(&error.violations[0].field, name);
        }
    }

    #[test]
    fn every_cursor_comes_back(change: i64) {
        let cursor = Cursor { change };
        let list = ListTasks::default();
        let token = list.token_after(cursor);
        let query = format!("pageToken={}", token.as_str());
        prop_assert_eq!(parse(&query).after, Some(cursor));
    }
}
