//! The agent card: exactly what the service supports, and nothing that old clients would misread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::VERSION;

/// What a card says of an agent. Built by [`AgentCard::new`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// The agent's name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The service's version.
    pub version: String,
    /// Where it is served; the first is preferred.
    pub supported_interfaces: Vec<Interface>,
    /// What it can do beside the basics.
    pub capabilities: Capabilities,
    /// Media types that it takes.
    pub default_input_modes: Vec<String>,
    /// Media types that it gives.
    pub default_output_modes: Vec<String>,
    /// How to authenticate, by name.
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// Which of the schemes are needed.
    pub security_requirements: Vec<SecurityRequirement>,
    /// What it is good at.
    pub skills: Vec<Skill>,
}

/// An address and how to speak there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// The root of all operations, without a slash at its end.
    pub url: String,
    /// `HTTP+JSON`.
    pub protocol_binding: String,
    /// `1.0`.
    pub protocol_version: String,
}

/// What is offered beside the basics: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Streams.
    #[serde(default)]
    pub streaming: bool,
    /// Webhooks.
    #[serde(default)]
    pub push_notifications: bool,
}

/// One way to authenticate, in the one-member form of A2A 1.0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityScheme {
    /// By the `Authorization` header.
    pub http_auth_security_scheme: HttpAuth,
}

/// The scheme of the `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAuth {
    /// `Bearer`.
    pub scheme: String,
}

/// Schemes that are needed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityRequirement {
    /// The scheme's name, and the scopes that it needs.
    pub schemes: BTreeMap<String, Scopes>,
}

/// A list of scopes, which a bearer token does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scopes {
    /// The scopes.
    #[serde(default)]
    pub list: Vec<String>,
}

/// One thing that the agent is good at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// The identifier.
    pub id: String,
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Words to find it by; at least one.
    pub tags: Vec<String>,
}

impl AgentCard {
    /// The card of an agent that is served at `public_url` (an origin, without a slash at its end).
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        version: impl Into<String>,
        public_url: &str,
        skill: Skill,
    ) -> Self {
        let text = || vec!["text/plain".to_owned()];
        let bearer = || "bearer".to_owned();
        Self {
            name: name.into(),
            description: description.into(),
            version: version.into(),
            supported_interfaces: vec![Interface {
                url: public_url.trim_end_matches('/').to_owned(),
                protocol_binding: "HTTP+JSON".to_owned(),
                protocol_version: VERSION.to_owned(),
            }],
            capabilities: Capabilities { streaming: false, push_notifications: false },
            default_input_modes: text(),
            default_output_modes: text(),
            security_schemes: BTreeMap::from([(
                bearer(),
                SecurityScheme {
                    http_auth_security_scheme: HttpAuth { scheme: "Bearer".to_owned() },
                },
            )]),
            security_requirements: vec![SecurityRequirement {
                schemes: BTreeMap::from([(bearer(), Scopes::default())]),
            }],
            skills: vec![skill],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_is_the_golden_one() {
        let skill = Skill {
            id: "general".to_owned(),
            name: "general".to_owned(),
            description: "Answers questions.".to_owned(),
            tags: vec!["general".to_owned()],
        };
        let card =
            AgentCard::new("brain", "An agent.", "0.1.0", "https://brain.example:8787/", skill);
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../fixtures/card.json")).unwrap();
        assert_eq!(serde_json::to_value(&card).unwrap(), golden);
        assert_eq!(serde_json::from_value::<AgentCard>(golden).unwrap(), card);
    }
}
