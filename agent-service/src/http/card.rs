//! The agent card: printed once, cacheable, with a tag made of its content.

use agent_wire::a2a::card::AgentCard;
use agent_wire::canonical::Digest;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::reply::{Reply, reply, success_json};

/// How long a client may use the card without asking, in seconds. A card changes only with a restart.
const CACHE: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The card as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Card {
    body: Bytes,
    tag: HeaderValue,
}

impl Card {
    /// Prints a card.
    pub(super) fn new(card: &AgentCard) -> Self {
        // Strings and lists of them: nothing in a card can fail to print.
        let body = Bytes::from(serde_json::to_vec(card).unwrap_or_default());
        let hex: String = Digest::of_bytes(&body).to_hex().chars().take(32).collect();
        let tag = HeaderValue::try_from(format!("\"{hex}\""))
            .unwrap_or(HeaderValue::from_static("\"card\""));
        Self { body, tag }
    }

    /// The card, or 304 when the client has it.
    pub(super) fn get(&self, headers: &HeaderMap) -> Reply {
        let mut answer = if self.is_known(headers) {
            reply(StatusCode::NOT_MODIFIED, Bytes::new())
        } else {
            success_json(self.body.clone())
        };
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, CACHE);
        headers.insert(ETAG, self.tag.clone());
        if answer.status() == StatusCode::NOT_MODIFIED {
            answer.headers_mut().remove(CONTENT_TYPE);
        }
        answer
    }

    /// Compares weakly, as `If-None-Match` does.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|tag| tag.trim().trim_start_matches("W/"))
            .any(|tag| tag == "*" || tag.as_bytes() == self.tag.as_bytes())
    }
}
