//! What agent-service, its clients and its agents say to each other: pure JSON shapes and their limits.
//!
//! Nothing here reads a clock, does I/O or decides what is right to do: a value is checked when it is
//! built, and trusted from then on. The same types serve both sides, so that sensor-bridge and the
//! command line cannot drift away from the service.
//!
//! | module | what |
//! |---|---|
//! | [`value`] | identifiers and numbers with their limits |
//! | [`time`] | RFC 3339 in, UTC milliseconds out |
//! | [`canonical`] | JSON compared as values, and its SHA-256 |
//! | [`event`] | `POST /events` |
//! | [`a2a`] | the A2A 1.0 subset that the service speaks |
//! | [`child`] | the JSON lines between the service and an agent process |

pub mod a2a;
pub mod canonical;
pub mod child;
pub mod event;
pub mod time;
pub mod value;
