//! The subset of A2A 1.0 (HTTP+JSON) that the service speaks.
//!
//! What is written is exact (camelCase, no null, no field that the proto lacks); what is read follows
//! ProtoJSON: `null` is unset, `snake_case` names and integer enums are understood, unknown fields
//! are ignored.

pub mod card;
pub mod error;
pub mod list;
pub(crate) mod proto;
pub mod request;
pub mod task;
#[cfg(test)]
pub(crate) mod testing;

/// The version that is served, as `A2A-Version` and in the card.
pub const VERSION: &str = "1.0";

/// The media type of a success.
pub const MEDIA_TYPE: &str = "application/a2a+json";
