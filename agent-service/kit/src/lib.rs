//! Process scaffolding that agent-service and sensor-bridge share.
//!
//! A module is here only when both programs use it; nothing here knows what either program is for.
//!
//! | module | what |
//! |---|---|
//! | [`client`] | HTTP towards one service, and its URL |
//! | [`clock`] | the time, from one place |
//! | [`config`] | layers of files, variables and flags, and errors that name them |
//! | [`lifecycle`] | tracked tasks, soft and hard stop, signals |
//! | [`output`] | tables and JSON on stdout |
//! | [`pace`] | token bucket and backoff, pure |
//! | [`secret`] | secrets from variables and files, never shown |
//! | [`telemetry`] | logs to stderr |
//! | [`tls`] | certificates for servers and clients |
//! | [`vars`] | environment variables as a value |

pub mod client;
pub mod clock;
pub mod config;
pub mod lifecycle;
pub mod output;
pub mod pace;
pub mod secret;
pub mod telemetry;
pub mod tls;
pub mod vars;

pub use clock::{Clock, ManualClock};
pub use lifecycle::Tasks;
pub use secret::{Secret, Token};
pub use vars::Vars;
