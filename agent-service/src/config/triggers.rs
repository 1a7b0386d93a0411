//! Triggers: which events make a task.

use std::collections::BTreeSet;

use agent_core::trigger::{MAX_TRIGGERS, Spec};
use agent_wire::value::{Confidence, EventType, SourceName};
use jiff::SignedDuration;
use service_kit::config::FieldPath;

use super::check::Checker;
use super::raw::RawTrigger;

/// The longest prompt, in bytes. Source: CONTRACT, section 5.
const MAX_PROMPT_BYTES: usize = 16_000;

/// `consecutive` where nothing is said. Source of these four: CONTRACT, section 5.
pub(super) const DEFAULT_CONSECUTIVE: u32 = 1;
/// `max_gap_seconds` where nothing is said.
pub(super) const DEFAULT_MAX_GAP_SECONDS: u32 = 10;
/// `cooldown_seconds` where nothing is said.
pub(super) const DEFAULT_COOLDOWN_SECONDS: u32 = 0;
/// `max_age_seconds` where nothing is said.
pub(super) const DEFAULT_MAX_AGE_SECONDS: u32 = 30;

/// Checks `triggers`.
pub(super) fn check(checker: &mut Checker<'_>, raw: Vec<RawTrigger>) -> Vec<Spec> {
    let all = FieldPath::from("triggers");
    if raw.len() > MAX_TRIGGERS {
        let count = raw.len();
        checker.fault(&all, format_args!("may have {MAX_TRIGGERS} triggers, but has {count}"));
    }
    let mut seen = BTreeSet::new();
    let mut specs = Vec::new();
    for (index, raw) in raw.into_iter().enumerate() {
        let path = all.index(index);
        let Some(spec) = check_one(checker, &path, raw) else { continue };
        if seen.insert((spec.source.clone(), spec.kind.clone())) {
            specs.push(spec);
        } else {
            let (kind, source) = (spec.kind.as_str(), spec.source.as_str());
            checker.fault(
                &path,
                format_args!("must be the only trigger of type {kind:?} and source {source:?}"),
            );
        }
    }
    specs
}

fn check_one(checker: &mut Checker<'_>, path: &FieldPath, raw: RawTrigger) -> Option<Spec> {
    let kind = checker.required(&path.key("type"), raw.kind).and_then(|text| {
        EventType::new(text).map_err(|fault| checker.fault(&path.key("type"), fault)).ok()
    });
    let source = checker.required(&path.key("source"), raw.source).and_then(|text| {
        SourceName::new(text).map_err(|fault| checker.fault(&path.key("source"), fault)).ok()
    });
    let prompt = checker
        .required(&path.key("prompt"), raw.prompt)
        .and_then(|text| checker.text(&path.key("prompt"), text, MAX_PROMPT_BYTES));
    let min_confidence = raw.min_confidence.map_or(Some(Confidence::ZERO), |number| {
        Confidence::new(number)
            .map_err(|_fault| {
                let fault = format_args!("must be 0 to 1, but is {number}");
                checker.fault(&path.key("min_confidence"), fault);
            })
            .ok()
    });
    let consecutive =
        checker.whole(&path.key("consecutive"), raw.consecutive, DEFAULT_CONSECUTIVE, 1..=1000);
    let mut seconds = |field: &str, given, default, range| {
        SignedDuration::from_secs(checker.whole(&path.key(field), given, default, range).into())
    };
    let max_gap =
        seconds("max_gap_seconds", raw.max_gap_seconds, DEFAULT_MAX_GAP_SECONDS, 1..=3600);
    let cooldown =
        seconds("cooldown_seconds", raw.cooldown_seconds, DEFAULT_COOLDOWN_SECONDS, 0..=86_400);
    let max_age =
        seconds("max_age_seconds", raw.max_age_seconds, DEFAULT_MAX_AGE_SECONDS, 1..=3600);
    Some(Spec {
        kind: kind?,
        source: source?,
        prompt: prompt?,
        min_confidence: min_confidence?,
        consecutive,
        max_gap,
        cooldown,
        max_age,
    })
}
