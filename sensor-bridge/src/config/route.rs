//! Checks one route; its numbers are the pipeline's to judge.

use std::{path::Path, time::Duration};

use service_kit::config::{FieldPath, nearest};

use super::{Checker, agent, raw};
use crate::pipeline::route::{Expect, Route, RouteSpec};

impl Checker<'_> {
    pub(super) fn route(&mut self, index: usize, raw: &raw::Route) -> Option<Route> {
        let at = FieldPath::from("routes").index(index);
        let from = self.from(&at, raw.from.as_deref());
        let kind = raw.kind.clone().unwrap_or_default();
        if raw.kind.is_none() {
            self.fault(&at, "needs `type`, the event type that the service's trigger names");
        }
        if raw.label.is_empty() {
            self.fault(&at, "needs `label`, a label of the worker or a list of them");
        }
        let expect = match &raw.expect {
            None => Some(None),
            Some(expect) => self.expect(&at.key("expect"), expect, raw).map(Some),
        };
        let spacing = match raw.spacing {
            None => Some(None),
            Some(spacing) => self.seconds(&at.key("spacing"), spacing).map(Some),
        };
        let complete = raw.kind.is_some() && !raw.label.is_empty();
        let (from, expect, spacing) = (from?, expect?, spacing?);
        if !complete {
            return None;
        }
        let spec = RouteSpec {
            from,
            labels: raw.label.clone(),
            kind,
            source: raw.source.clone(),
            expect,
            spacing,
            smooth: raw.smooth,
            data: raw.data.clone(),
            redact: raw.redact.clone(),
            window: raw.window,
            confidence: raw.confidence.as_ref().map(|confidence| confidence.constant),
        };
        match Route::new(spec) {
            Ok(route) => {
                for doubt in route.doubts() {
                    self.warn(&at, format!("may never fire its trigger: {doubt}"));
                }
                Some(route)
            }
            Err(fault) => {
                self.fault(&at, format!("is not right: {fault}"));
                None
            }
        }
    }

    fn from(&mut self, at: &FieldPath, from: Option<&str>) -> Option<String> {
        let Some(from) = from else {
            self.fault(at, "needs `from`, the name of one of `sources`");
            return None;
        };
        let sources = &self.loaded.value.sources;
        if sources.contains_key(from) {
            return Some(from.to_owned());
        }
        let known = || sources.keys().map(String::as_str);
        let fault = match nearest(from, known()) {
            Some(near) => format!("names no source: {from:?}; did you mean `{near}`?"),
            None => {
                format!("names no source: {from:?}; known are {:?}", known().collect::<Vec<_>>())
            }
        };
        self.fault(&at.key("from"), fault);
        None
    }

    fn expect(&mut self, at: &FieldPath, raw: &raw::Expect, route: &raw::Route) -> Option<Expect> {
        let numbers = [
            ("min_confidence", raw.min_confidence.is_some()),
            ("consecutive", raw.consecutive.is_some()),
            ("max_gap_seconds", raw.max_gap_seconds.is_some()),
            ("cooldown_seconds", raw.cooldown_seconds.is_some()),
            ("max_age_seconds", raw.max_age_seconds.is_some()),
        ];
        if let Some(file) = &raw.agent_config {
            for (key, _) in numbers.into_iter().filter(|(_, given)| *given) {
                self.fault(&at.key(key), "is read from `agent_config`; leave one of the two out");
            }
            return self.expect_of_agent(&at.key("agent_config"), file, route);
        }
        let default = Expect::default();
        let mut seconds = |key: &str, given: Option<f64>, default: Duration| match given {
            None => Some(default),
            Some(given) => self.seconds(&at.key(key), given),
        };
        let max_gap = seconds("max_gap_seconds", raw.max_gap_seconds, default.max_gap);
        let cooldown = seconds("cooldown_seconds", raw.cooldown_seconds, default.cooldown);
        let max_age = seconds("max_age_seconds", raw.max_age_seconds, default.max_age);
        Some(Expect {
            min_confidence: raw.min_confidence,
            consecutive: raw.consecutive.unwrap_or(default.consecutive),
            max_gap: max_gap?,
            cooldown: cooldown?,
            max_age: max_age?,
        })
    }

    fn expect_of_agent(
        &mut self,
        at: &FieldPath,
        file: &Path,
        route: &raw::Route,
    ) -> Option<Expect> {
        let path = self.resolve(at, file);
        let kind = route.kind.as_deref()?;
        let source = route.from.as_ref().and_then(|from| {
            let fixed = self.loaded.value.sources.get(from)?.fixed.as_ref();
            Some(route.source.as_ref().or(fixed).unwrap_or(from).as_str())
        })?;
        match agent::expect(&path, kind, source) {
            Ok(expect) => Some(expect),
            Err(fault) => {
                self.fault(at, fault);
                None
            }
        }
    }

    fn seconds(&mut self, at: &FieldPath, given: f64) -> Option<Duration> {
        let seconds = Duration::try_from_secs_f64(given).ok();
        if seconds.is_none() {
            self.fault(at, "must be a number of seconds, 0 or more");
        }
        seconds
    }
}
