//! From bytes to messages: one small decoder per worker family.
//!
//! A decoder says what a message proves and nothing else; absence of watched
//! labels, merging and sampling are the pipeline's. What cannot be used is
//! refused with a [`Refusal`] from a closed list and never repaired: a guess
//! here would become a trigger there. One unusable detection costs its label
//! in its frame, not the frame.
//!
//! A new preset is one file with its samples as tests and one line in
//! [`PRESETS`].

pub mod confidence;
pub mod envelope;
mod fields;
mod frigate;
mod native;
mod refusal;
pub mod time;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

pub use self::{
    envelope::Meta,
    refusal::{Reason, Refusal},
};
use crate::pipeline::frame::Message;

/// The presets that this version serves, by their names in the configuration.
pub const PRESETS: &[(&str, fn() -> Box<dyn Decode>)] = &[
    ("native", || Box::new(native::Native)),
    ("frigate", || Box::new(frigate::Frigate::default())),
];

/// Presets that come with a later version: known names that are not served yet.
pub const LATER_PRESETS: &[&str] = &[
    "axis",
    "deepstream",
    "dlstreamer",
    "home-assistant",
    "roboflow",
    "rosbridge",
    "scrypted",
    "ultralytics",
];

/// What one message came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// What it proves, in the order of the worker.
    pub messages: Vec<Message>,
    /// What of it could not be used.
    pub refused: Vec<Refusal>,
}

impl From<Refusal> for Decoded {
    fn from(refusal: Refusal) -> Self {
        Self { messages: Vec::new(), refused: vec![refusal] }
    }
}

/// What a decoder knows beside the document.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The topic, where the transport has topics.
    pub topic: Option<&'a str>,
    /// When the message was received: the clock that its time is checked against.
    pub received: Timestamp,
    /// What is configured for its source.
    pub rules: &'a Rules,
}

/// What the configuration says about one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The name under `sources`: the event source of messages that name none.
    pub name: String,
    /// `source`: the event source whatever the message says.
    pub fixed_source: Option<String>,
    /// `labels`: the worker's label (or class number) to ours.
    pub labels: BTreeMap<String, String>,
    /// The labels that each route of this source watches.
    pub watched: Vec<BTreeSet<String>>,
    /// `routes[].confidence.const`, by label.
    pub constants: BTreeMap<String, f64>,
}

impl Rules {
    /// The event source of a message that names `own`.
    fn source(&self, own: Option<&str>) -> String {
        self.fixed_source.as_deref().or(own).unwrap_or(&self.name).to_owned()
    }

    /// The watched labels that are surely absent from a frame, given what is in it and what of it
    /// is unknown.
    ///
    /// A route takes the best of its labels for the frame, so one unknown label makes them all
    /// unknown.
    fn absent(&self, seen: impl Fn(&str) -> bool, unknown: &BTreeSet<String>) -> BTreeSet<String> {
        let (clouded, clear): (Vec<_>, Vec<_>) =
            self.watched.iter().partition(|labels| !labels.is_disjoint(unknown));
        let clouded: BTreeSet<&String> = clouded.into_iter().flatten().collect();
        clear
            .into_iter()
            .flatten()
            .filter(|label| !clouded.contains(label) && !seen(label))
            .cloned()
            .collect()
    }

    /// The label that a worker's label stands for.
    fn label(&self, own: &str) -> String {
        self.labels.get(own).map_or(own, String::as_str).to_owned()
    }
}

/// One worker family's way to speak.
pub trait Decode: Send {
    /// Decodes one JSON document, already free of its envelope.
    ///
    /// It may remember what it needs of earlier messages, in bounded memory.
    fn decode(&mut self, document: &Value, context: &Context<'_>) -> Decoded;

    /// Messages were lost before the next one: what is remembered may no longer be so.
    fn lost(&mut self) {}
}

/// The decoder of a preset, if this version serves it.
pub fn preset(name: &str) -> Option<Box<dyn Decode>> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
}

/// Everything between the bytes of one source and its messages.
pub struct Reader {
    rules: Rules,
    decoder: Box<dyn Decode>,
}

impl Reader {
    /// Reads what `decoder`'s worker sends, under the rules of its source.
    pub fn new(rules: Rules, decoder: Box<dyn Decode>) -> Self {
        Self { rules, decoder }
    }

    /// What the configuration says about the source.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Messages were lost before the next one.
    pub fn lost(&mut self) {
        self.decoder.lost();
    }

    /// Reads one message as a transport delivered it.
    pub fn read(&mut self, bytes: &[u8], meta: &Meta, received: Timestamp) -> Decoded {
        match envelope::parse(bytes) {
            Ok(line) => self.read_line(line, meta, received),
            Err(refusal) => refusal.into(),
        }
    }

    /// Reads one parsed message, with or without an envelope around it.
    pub fn read_line(&mut self, line: Value, meta: &Meta, received: Timestamp) -> Decoded {
        if meta.retain {
            return Refusal::Retained.into();
        }
        match envelope::open(line, meta) {
            Ok((document, meta)) => {
                let topic = meta.topic.as_deref();
                let context = Context { topic, received, rules: &self.rules };
                self.decoder.decode(&document, &context)
            }
            Err(refusal) => refusal.into(),
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("rules", &self.rules).finish_non_exhaustive()
    }
}
