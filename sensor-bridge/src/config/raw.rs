//! The configuration as it is written: shapes only, no limits.
//!
//! Every key of BRIDGE.md is known here, those of later versions too: using
//! one is answered with one sentence, not with "unknown field".

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, IgnoredAny, SeqAccess, Visitor},
};

/// All of it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub service: Service,
    pub sources: BTreeMap<String, Source>,
    pub routes: Vec<Route>,
    pub status: Status,
    pub max_message_bytes: Option<u64>,
    pub frame_close_ms: Option<u64>,
    pub budget: Budget,
}

/// Where observations go.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Service {
    pub url: Option<String>,
    pub token_env: Option<String>,
    pub ca_cert: Option<PathBuf>,
}

/// Where the status page will listen.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Status {
    pub listen: Option<String>,
}

/// How many observations all routes may send together.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Budget {
    pub per_second: Option<f64>,
    pub burst: Option<u32>,
}

/// One source; the keys of transports and forms that come later are only noticed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Source {
    pub file: Option<String>,
    pub listen: Option<String>,
    pub token_env: Option<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub preset: Option<String>,
    #[serde(rename = "source")]
    pub fixed: Option<String>,
    pub labels: BTreeMap<String, String>,

    pub mqtt: Option<IgnoredAny>,
    pub websocket: Option<IgnoredAny>,
    pub sse: Option<IgnoredAny>,
    pub ndjson: Option<IgnoredAny>,
    pub unix: Option<IgnoredAny>,
    pub udp: Option<IgnoredAny>,
    pub map: Option<IgnoredAny>,
    pub status: Option<IgnoredAny>,
    pub topics: Option<IgnoredAny>,
    pub qos: Option<IgnoredAny>,
    pub username_env: Option<IgnoredAny>,
    pub password_env: Option<IgnoredAny>,
    pub ca_cert: Option<IgnoredAny>,
    pub client_cert: Option<IgnoredAny>,
    pub client_key: Option<IgnoredAny>,
    pub client_id: Option<IgnoredAny>,
    pub subscribe: Option<IgnoredAny>,
}

impl Source {
    /// The keys of later versions that are used, by name.
    pub(super) fn later_keys(&self) -> Vec<&'static str> {
        [
            ("mqtt", self.mqtt.is_some()),
            ("websocket", self.websocket.is_some()),
            ("sse", self.sse.is_some()),
            ("ndjson", self.ndjson.is_some()),
            ("unix", self.unix.is_some()),
            ("udp", self.udp.is_some()),
            ("map", self.map.is_some()),
            ("status", self.status.is_some()),
            ("topics", self.topics.is_some()),
            ("qos", self.qos.is_some()),
            ("username_env", self.username_env.is_some()),
            ("password_env", self.password_env.is_some()),
            ("ca_cert", self.ca_cert.is_some()),
            ("client_cert", self.client_cert.is_some()),
            ("client_key", self.client_key.is_some()),
            ("client_id", self.client_id.is_some()),
            ("subscribe", self.subscribe.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, used)| used.then_some(key))
        .collect()
    }
}

/// One route.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Route {
    pub from: Option<String>,
    #[serde(deserialize_with = "one_or_many")]
    pub label: Vec<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub source: Option<String>,
    pub expect: Option<Expect>,
    pub spacing: Option<f64>,
    pub smooth: Option<usize>,
    pub data: Option<Vec<String>>,
    pub redact: Vec<String>,
    pub window: bool,
    pub confidence: Option<Confidence>,
}

/// The trigger's numbers, or the file that has them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expect {
    pub agent_config: Option<PathBuf>,
    pub min_confidence: Option<f64>,
    pub consecutive: Option<u32>,
    pub max_gap_seconds: Option<f64>,
    pub cooldown_seconds: Option<f64>,
    pub max_age_seconds: Option<f64>,
}

/// What stands for a score that the payload does not have.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Confidence {
    #[serde(rename = "const")]
    pub constant: f64,
}

/// `person` or `[person, car]`.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Labels;

    impl<'de> Visitor<'de> for Labels {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a label or a list of labels")
        }

        fn visit_str<E: de::Error>(self, label: &str) -> Result<Self::Value, E> {
            Ok(vec![label.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut labels: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(label) = labels.next_element()? {
                all.push(label);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(Labels)
}
