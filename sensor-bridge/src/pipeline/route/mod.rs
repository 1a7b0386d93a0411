//! What an operator wants of one kind of observation, checked once and trusted from then on.
//!
//! A route takes labels of one configured source, gives them an event type, and says in the service's
//! own words which trigger they are for. Without that (`expect`), the threshold is unknown and the
//! sampling holds for every threshold at once; the service's defaults stand for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent_wire::value::{EventType, SourceName, ValueError};

#[cfg(test)]
mod tests;

/// The widest running median, in frames; more would hide a presence of seconds.
pub const MAX_SMOOTH: usize = 31;

const MIN_SPACING: Duration = Duration::from_millis(100);
const MAX_SPACING: Duration = Duration::from_secs(5);
const MAX_REST: Duration = Duration::from_secs(10);

/// What the trigger at the service waits for. Source: CONTRACT, section 5, `triggers`.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// `min_confidence`; unknown when `None`.
    pub min_confidence: Option<f64>,
    /// `consecutive`, 1 to 1000.
    pub consecutive: u32,
    /// `max_gap_seconds`, 1 to 3600 s.
    pub max_gap: Duration,
    /// `cooldown_seconds`, 0 to 86,400 s.
    pub cooldown: Duration,
    /// `max_age_seconds`, 1 to 3600 s.
    pub max_age: Duration,
}

impl Default for Expect {
    /// The service's own defaults, with the threshold unknown.
    fn default() -> Self {
        Self {
            min_confidence: None,
            consecutive: 1,
            max_gap: Duration::from_secs(10),
            cooldown: Duration::ZERO,
            max_age: Duration::from_secs(30),
        }
    }
}

impl Expect {
    /// The spacing of re-samples that is used when a route does not say: an eighth of the gap,
    /// 0.1 to 5 s, and at most half of the gap.
    pub fn default_spacing(&self) -> Duration {
        (self.max_gap / 8).clamp(MIN_SPACING, MAX_SPACING).min(self.max_gap / 2)
    }
}

/// A route as configured, unchecked. [`Route::new`] checks it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RouteSpec {
    /// The configured source (`sources.<name>`) that it takes from.
    pub from: String,
    /// The labels that it watches; any of them counts, the best one of a frame speaks for it.
    pub labels: Vec<String>,
    /// The event type.
    pub kind: String,
    /// A fixed event source instead of the one that the message names.
    pub source: Option<String>,
    /// The trigger that it is for.
    pub expect: Option<Expect>,
    /// How often a standing high is sent again; see [`Expect::default_spacing`].
    pub spacing: Option<Duration>,
    /// A running median over so many frames, 1 to 31; off when `None`.
    pub smooth: Option<usize>,
    /// The fields of `data` to carry; all that are not redacted when `None`.
    pub data: Option<Vec<String>>,
    /// Fields of `data` to drop, at every depth, beside the personal ones.
    pub redact: Vec<String>,
    /// Whether `data.window` tells what was left out.
    pub window: bool,
    /// The confidence to use where a payload has none. The decoder applies it; nothing here does.
    pub confidence: Option<f64>,
}

/// Why a route, or a set of routes, is refused. Each names the field and what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum RouteError {
    #[error("`from` is empty; name one of `sources`")]
    NoSource,
    #[error("`label` must name at least one label, none of them empty")]
    NoLabel,
    #[error("`type`: {0}")]
    Kind(#[source] ValueError),
    #[error("`source`: {0}")]
    Source(#[source] ValueError),
    #[error("`{field}` must be a number from 0 to 1; it is {given}")]
    Confidence { field: &'static str, given: f64 },
    #[error("`expect.consecutive` must be 1 to 1000; it is {0}")]
    Consecutive(u32),
    #[error("`expect.{field}` must be {low} to {high} s; it is {given:?}")]
    Range { field: &'static str, low: u64, high: u64, given: Duration },
    #[error("`spacing` must be 0.1 to 5 s and at most half of `max_gap_seconds`; it is {0:?}")]
    Spacing(Duration),
    #[error("`smooth` must be 1 to {MAX_SMOOTH} frames; it is {0}")]
    Smooth(usize),
    #[error(
        "routes {first} and {second} would mix in one sequence of the service: both are type {kind:?} \
         for the same event source; put their labels in one route, or give each its own type or source"
    )]
    SameSequence { first: usize, second: usize, kind: String },
}

/// A checked route.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    from: String,
    labels: BTreeSet<String>,
    kind: EventType,
    source: Option<SourceName>,
    expect: Expect,
    spacing: Duration,
    smooth: usize,
    data: Option<BTreeSet<String>>,
    redact: BTreeSet<String>,
    window: bool,
    confidence: Option<f64>,
}

impl Route {
    /// Checks a route.
    ///
    /// # Errors
    /// The first field that is out of its limits.
    pub fn new(spec: RouteSpec) -> Result<Self, RouteError> {
        if spec.from.is_empty() {
            return Err(RouteError::NoSource);
        }
        if spec.labels.is_empty() || spec.labels.iter().any(String::is_empty) {
            return Err(RouteError::NoLabel);
        }
        let kind = EventType::new(spec.kind).map_err(RouteError::Kind)?;
        let source = spec.source.map(SourceName::new).transpose().map_err(RouteError::Source)?;
        check_confidence("confidence", spec.confidence)?;
        let expect = spec.expect.unwrap_or_default();
        check_expect(&expect)?;
        let spacing = spec.spacing.unwrap_or_else(|| expect.default_spacing());
        if spacing < MIN_SPACING || spacing > MAX_SPACING || spacing > expect.max_gap / 2 {
            return Err(RouteError::Spacing(spacing));
        }
        let smooth = spec.smooth.unwrap_or(1);
        if !(1..=MAX_SMOOTH).contains(&smooth) {
            return Err(RouteError::Smooth(smooth));
        }
        Ok(Self {
            from: spec.from,
            labels: spec.labels.into_iter().collect(),
            kind,
            source,
            expect,
            spacing,
            smooth,
            data: spec.data.map(|fields| fields.into_iter().collect()),
            redact: spec.redact.into_iter().map(|field| field.to_lowercase()).collect(),
            window: spec.window,
            confidence: spec.confidence,
        })
    }

    /// The configured source that it takes from.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// The labels that it watches, sorted.
    pub fn labels(&self) -> &BTreeSet<String> {
        &self.labels
    }

    /// The event type.
    pub fn kind(&self) -> &EventType {
        &self.kind
    }

    /// The fixed event source, if there is one.
    pub fn source(&self) -> Option<&SourceName> {
        self.source.as_ref()
    }

    /// What the trigger waits for; the service's defaults where the route did not say.
    pub fn expect(&self) -> &Expect {
        &self.expect
    }

    /// How often a standing high is sent again.
    pub fn spacing(&self) -> Duration {
        self.spacing
    }

    /// Frames of the running median; 1 is off.
    pub fn smooth(&self) -> usize {
        self.smooth
    }

    /// The fields of `data` to carry; all when `None`.
    pub fn data(&self) -> Option<&BTreeSet<String>> {
        self.data.as_ref()
    }

    /// The fields of `data` to drop, in lower case, beside the personal ones.
    pub fn redact(&self) -> &BTreeSet<String> {
        &self.redact
    }

    /// Whether `data.window` tells what was left out.
    pub fn window(&self) -> bool {
        self.window
    }

    /// The confidence that the decoder uses where a payload has none.
    pub fn confidence(&self) -> Option<f64> {
        self.confidence
    }

    /// The age from which an observation is not sent any more: 0.8 of `max_age`.
    pub fn stale_after(&self) -> Duration {
        self.expect.max_age * 4 / 5
    }

    /// How long a stream that had its turn sends no highs: a third of the cooldown, at most 10 s.
    pub fn rest(&self) -> Duration {
        (self.expect.cooldown / 3).min(MAX_REST)
    }

    /// Numbers that are allowed, but with which the trigger may never fire.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let run = self.spacing * (self.expect.consecutive - 1);
        if run > self.expect.max_age / 2 {
            doubts.push(format!(
                "{} observations that are {:?} apart take {run:?}, over half of max_age {:?}; \
                 use a smaller spacing, fewer in a row, or a larger max_age_seconds",
                self.expect.consecutive, self.spacing, self.expect.max_age
            ));
        }
        doubts
    }
}

fn check_confidence(field: &'static str, value: Option<f64>) -> Result<(), RouteError> {
    match value {
        Some(given) if !(0.0..=1.0).contains(&given) => {
            Err(RouteError::Confidence { field, given })
        }
        Some(_) | None => Ok(()),
    }
}

fn check_expect(expect: &Expect) -> Result<(), RouteError> {
    check_confidence("expect.min_confidence", expect.min_confidence)?;
    if !(1..=1000).contains(&expect.consecutive) {
        return Err(RouteError::Consecutive(expect.consecutive));
    }
    let ranges = [
        ("max_gap_seconds", 1, 3_600, expect.max_gap),
        ("cooldown_seconds", 0, 86_400, expect.cooldown),
        ("max_age_seconds", 1, 3_600, expect.max_age),
    ];
    for (field, low, high, given) in ranges {
        if given < Duration::from_secs(low) || given > Duration::from_secs(high) {
            return Err(RouteError::Range { field, low, high, given });
        }
    }
    Ok(())
}

/// Where the events of a route come from, as far as the configuration tells.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SourceKey {
    Fixed(SourceName),
    From(String),
}

/// The place of a route in the configuration, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteId(pub usize);

/// All routes, by their place.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Routes {
    routes: Vec<Route>,
    by_source: BTreeMap<String, Vec<RouteId>>,
}

impl Routes {
    /// Puts routes together.
    ///
    /// # Errors
    /// When two of them surely feed one sequence of the service: it keeps one per type and event
    /// source, and two routes in it would break each other's runs. Two configured sources that name
    /// the same camera show only at run time; then the first route keeps the sequence.
    pub fn new(routes: Vec<Route>) -> Result<Self, RouteError> {
        let mut by_source: BTreeMap<String, Vec<RouteId>> = BTreeMap::new();
        let mut seen: BTreeMap<(EventType, SourceKey), usize> = BTreeMap::new();
        for (index, route) in routes.iter().enumerate() {
            let source = match route.source() {
                Some(fixed) => SourceKey::Fixed(fixed.clone()),
                None => SourceKey::From(route.from.clone()),
            };
            if let Some(first) = seen.insert((route.kind.clone(), source), index) {
                let kind = route.kind.as_str().to_owned();
                return Err(RouteError::SameSequence { first, second: index, kind });
            }
            by_source.entry(route.from.clone()).or_default().push(RouteId(index));
        }
        Ok(Self { routes, by_source })
    }

    /// The route at a place.
    pub fn get(&self, id: RouteId) -> Option<&Route> {
        self.routes.get(id.0)
    }

    /// The routes that take from a configured source, in the order of the configuration.
    pub fn of(&self, source_name: &str) -> &[RouteId] {
        self.by_source.get(source_name).map_or(&[], Vec::as_slice)
    }

    /// All of them, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (RouteId, &Route)> {
        self.routes.iter().enumerate().map(|(index, route)| (RouteId(index), route))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}
